"""Learning a provider's quota from its headers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext_proc.contract.policies import RetryPolicy
from ext_proc.contract.snapshot import Backend
from ext_proc.exchange import Exchange, ResponseHead
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.providers.hints import Hint
from ext_proc.stages.learn import ASK_AGAIN_S, Learn
from tests.unit.ext_proc.exchanges import exchange


class Observed:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.hints: list[tuple[str, RateLimitHint]] = []

    def observe(self, backend: str, hint: RateLimitHint) -> None:
        """Remember it."""
        self.hints.append((backend, hint))


class Watched:
    """Remembers which answers it was told of; every answer of the Backends in `matters` does."""

    def __init__(self) -> None:
        self.answers: list[tuple[str, int, bool]] = []
        self.matters: set[str] = set()

    def needs(self, backend: str, retry: RetryPolicy) -> bool:
        """Say whether it matters."""
        return backend in self.matters

    def observe(self, backend: str, status: int, hint: Hint, retry: RetryPolicy) -> None:
        """Remember it."""
        self.answers.append((backend, status, hint.cools))


class Provider:
    """A Backend behind the stage, on a clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.observed = Observed()
        self.watched = Watched()
        self.stage = Learn(self.observed, self.watched, lambda: self.now)

    async def call(self, headers: dict[str, str], status: int = 200) -> Exchange:
        """Make one call that is answered with `headers`."""
        opened = exchange()
        opened.backend = opened.loaded.default_backend
        assert await self.stage.on_request(opened) is None
        if opened.wants_head:
            opened.response = ResponseHead(status, headers)
            self.stage.on_response_head(opened)
        return opened


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
    provider = Provider()
    await provider.call(headers)
    assert [hint.remaining_requests for _, hint in provider.observed.hints] == remaining
    assert all(name == "b" for name, _ in provider.observed.hints)


async def test_a_provider_that_says_something_is_listened_to_each_time() -> None:
    """Every answer's headers are asked for."""
    provider = Provider()
    wanted = [(await provider.call({"x-ratelimit-limit-tokens": "1"})).wants_head for _ in range(3)]
    assert wanted == [True, True, True]


async def test_a_provider_that_says_nothing_is_asked_once_in_a_while() -> None:
    """So that most calls need no message about their answer."""
    provider = Provider()
    wanted = [(await provider.call({})).wants_head for _ in range(3)]
    provider.now += ASK_AGAIN_S
    wanted.append((await provider.call({})).wants_head)
    assert wanted == [True, False, False, True]


async def test_every_answer_of_a_provider_that_cools_matters() -> None:
    """Each is asked for, and told of."""
    provider = Provider()
    provider.watched.matters.add("b")
    for status in (503, 429, 200):
        assert (await provider.call({}, status)).wants_head
    assert provider.watched.answers == [("b", 503, True), ("b", 429, True), ("b", 200, False)]


@pytest.mark.parametrize(
    ("headers", "told"), [({}, []), ({"retry-after": "5"}, [("b", 429, True)])], ids=["no time", "a time"]
)
def test_an_empty_account_cools_no_provider(
    headers: dict[str, str], told: list[tuple[str, int, bool]]
) -> None:
    """Unless the answer says when to come back."""
    provider = Provider()
    opened = exchange()
    opened.backend, opened.used_up = opened.loaded.default_backend, True
    opened.response = ResponseHead(429, headers)
    assert provider.stage.on_response_head(opened) is None
    assert provider.watched.answers == told


def test_whose_key_was_refused_is_told() -> None:
    """The Backend has none of its own."""
    provider = Provider()
    opened = exchange()
    opened.backend, opened.tenant = opened.loaded.default_backend, f"key:{'0' * 64}"
    opened.response = ResponseHead(429, {})
    provider.stage.on_response_head(opened)
    assert provider.watched.answers == [(f"b#{'0' * 16}", 429, True)]


@pytest.mark.parametrize(
    ("status", "attempts", "learned"),
    [
        pytest.param(200, 3, True, id="answered without"),
        pytest.param(400, 3, False, id="refused without, too"),
        pytest.param(503, 3, False, id="nobody knows"),
        pytest.param(400, 1, True, id="no attempt is left"),
    ],
)
def test_who_does_not_know_how_a_usage_is_asked_for(status: int, attempts: int, learned: bool) -> None:
    """Learned where the answer to an attempt without shows that it was that, or there is none to show it."""
    noted: list[Backend] = []
    opened = exchange()
    opened.backend = opened.loaded.default_backend
    opened.policy = replace(opened.policy, retry=RetryPolicy(attempts=attempts))
    opened.hear_of_usage(0)
    opened.response = ResponseHead(status, {})
    stage = Learn(Observed(), Watched(), lambda: 0.0, noted.append)
    assert stage.on_response_head(opened) is None
    assert noted == ([opened.backend] if learned else [])


async def test_a_request_without_a_backend_asks_nobody() -> None:
    """It will not be answered by a provider."""
    opened = exchange()
    assert await Learn(Observed(), Watched(), lambda: 0.0).on_request(opened) is None
    assert not opened.wants_head
