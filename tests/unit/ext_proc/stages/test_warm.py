"""What is seen of calls to Backends that are kept warm."""

from __future__ import annotations

import pytest

from ext_proc.contract.snapshot import Backend, Warmup
from ext_proc.exchange import ResponseHead
from ext_proc.stages.warm import Warm
from tests.unit.ext_proc.exchanges import exchange


class Seen:
    """An observer that writes down."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float | None]] = []

    def sent(self, backend: Backend, warmup: Warmup) -> bool:
        """Say that it is a first call."""
        self.calls.append((backend.name, None))
        return True

    def answered(self, backend: Backend, first_byte_s: float, *, first: bool) -> None:
        """Write down how long it took."""
        assert first
        self.calls.append((backend.name, first_byte_s))


@pytest.mark.parametrize(("status", "calls"), [(200, [("b", None), ("b", 1.5)]), (500, [("b", None)])])
async def test_good_answers_are_timed(status: int, calls: list[tuple[str, float | None]]) -> None:
    """How long a refusal takes says nothing."""
    now, seen = 10.0, Seen()
    stage = Warm(seen, lambda: now)
    opened = exchange()
    opened.backend = Backend("b", "http://h/v1", warmup=Warmup())
    assert await stage.on_request(opened) is None
    assert opened.wants_head
    now = 11.5
    opened.response = ResponseHead(status, {})
    assert stage.on_response_head(opened) is None
    assert seen.calls == calls


async def test_other_backends_cost_nothing() -> None:
    """Nobody asks for their responses."""
    seen = Seen()
    opened = exchange()
    opened.backend = Backend("b", "http://h/v1")
    stage = Warm(seen, lambda: 0.0)
    await stage.on_request(opened)
    opened.response = ResponseHead(200, {})
    stage.on_response_head(opened)
    assert not opened.wants_head
    assert seen.calls == []
