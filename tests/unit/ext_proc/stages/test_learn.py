"""Learning a provider's quota from its headers."""

from __future__ import annotations

import pytest

from ext_proc.exchange import ResponseHead
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.stages.learn import Learn
from tests.unit.ext_proc.exchanges import exchange


class Observed:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.hints: list[tuple[str, RateLimitHint]] = []

    def observe(self, backend: str, hint: RateLimitHint) -> None:
        """Remember it."""
        self.hints.append((backend, hint))


@pytest.mark.parametrize(
    ("headers", "remaining"),
    [
        ({"x-ratelimit-remaining-requests": "7"}, [7]),
        ({"x-ratelimit-remaining-requests": "junk"}, [None]),
        ({"content-type": "application/json"}, []),
    ],
)
async def test_quota_headers_are_passed_on(headers: dict[str, str], remaining: list[int | None]) -> None:
    """Only answers that carry any are told of."""
    observed = Observed()
    opened = exchange()
    opened.backend = opened.loaded.default_backend
    opened.response = ResponseHead(200, headers)
    Learn(observed, lambda: 0.0).on_response_head(opened)
    assert [hint.remaining_requests for _, hint in observed.hints] == remaining
    assert all(name == "b" for name, _ in observed.hints)
