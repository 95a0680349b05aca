"""What calls draw from a provider's quota."""

from __future__ import annotations

import pytest

from ext_proc.contract.snapshot import Quota
from ext_proc.limits.claims import Rate
from ext_proc.providers.pacing import HELD_US
from ext_proc.providers.quota import Ask, Draft, MemoryQuotas, Wait, limits_anything


class Drawing:
    """A quota and a clock that stands until it is moved."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.now = 0
        self.quotas = MemoryQuotas(lambda: self.now)

    def draw(self, tokens: int = 0, *, most_us: int = 0, share: float = 1.0) -> Draft | Wait:
        """Draw for one call."""
        return self.quotas.decide(Ask("b", self.quota, tokens, most_us=most_us), share=share)

    def drawn(self, tokens: int = 0) -> Draft:
        """Draw what has to be there."""
        draft = self.draw(tokens)
        assert isinstance(draft, Draft)
        return draft


@pytest.mark.parametrize(
    ("quota", "limits"),
    [(Quota(), False), (Quota(1), True), (Quota(None, 1), True), (Quota(None, None, 1), True)],
)
def test_whether_it_is_known(quota: Quota, *, limits: bool) -> None:
    """Any of the three."""
    assert limits_anything(quota) is limits


async def test_so_many_requests_in_any_minute() -> None:
    """The next one waits until the oldest is a minute old."""
    drawing = Drawing(Quota(3))
    for _ in range(3):
        drawing.drawn()
    drawing.now = 10_000_000
    wait = await drawing.quotas.draw(Ask("b", drawing.quota))
    assert wait == Wait((HELD_US - 10_000_000) / 1e6, Rate.REQUESTS)
    drawing.now = HELD_US
    drawing.drawn()


def test_what_counts_at_the_moment() -> None:
    """Nothing, once it is over."""
    drawing = Drawing(Quota(3, 1000))
    drawing.drawn(400)
    assert drawing.quotas.used("b") == (1, 400)
    drawing.now = HELD_US
    assert drawing.quotas.used("b") == (0, 0)


def test_tokens_are_settled_once() -> None:
    """What was not used is there again; what was used above the estimate counts."""
    drawing = Drawing(Quota(None, 1000))
    first, second = drawing.drawn(400), drawing.drawn(400)
    assert isinstance(drawing.draw(400), Wait)
    drawing.quotas.settle(first, 100)
    drawing.quotas.settle(first, 0)
    third = drawing.drawn(400)
    drawing.quotas.settle(second, 500)
    drawing.quotas.settle(third, 400)
    assert isinstance(drawing.draw(1), Wait)


def test_what_was_never_sent_is_given_back() -> None:
    """Request, tokens and place."""
    drawing = Drawing(Quota(1, 100, 1))
    draft = drawing.drawn(100)
    drawing.quotas.give_back(draft)
    drawing.quotas.give_back(draft)
    drawing.quotas.release(draft)
    drawing.quotas.release(draft)
    drawing.drawn(100)
    assert isinstance(drawing.draw(), Wait)


def test_places_are_free_when_calls_end() -> None:
    """Not before, and each once."""
    drawing = Drawing(Quota(None, None, 2))
    first, _ = drawing.drawn(), drawing.drawn()
    wait = drawing.draw()
    assert isinstance(wait, Wait)
    assert wait.rate is Rate.CONCURRENCY
    drawing.quotas.settle(first, 0)
    assert isinstance(drawing.draw(), Wait)
    drawing.quotas.release(first)
    drawing.quotas.release(first)
    drawing.drawn()
    assert isinstance(drawing.draw(), Wait)


def test_a_pace_is_told_apart_from_a_quota_that_is_used_up() -> None:
    """It fits; it should not hurry."""
    drawing = Drawing(Quota(900))
    for _ in range(300):
        drawing.drawn()
    wait = drawing.draw(most_us=500_000)
    assert isinstance(wait, Wait)
    assert wait.paced
    assert 0 < wait.wait_s <= 0.11
    drawing.drawn()


def test_a_share_of_it() -> None:
    """For one of several who cannot ask each other."""
    drawing = Drawing(Quota(8, None, 8))
    for _ in range(2):
        assert isinstance(drawing.draw(share=0.25), Draft)
    assert isinstance(drawing.draw(share=0.25), Wait)
    assert isinstance(drawing.draw(share=0.5), Draft)


def test_what_went_without_asking_counts() -> None:
    """Beyond the quota, too; its tokens are settled as any, and it has no place."""
    now = 0
    quotas, quota = MemoryQuotas(lambda: now), Quota(2, 1000, 1)
    ask = Ask("b", quota, 600)
    draft = quotas.charge(ask)
    quotas.charge(ask)
    assert quotas.used("b") == (2, 1200)
    quotas.settle(draft, 100)
    quotas.release(draft)
    assert quotas.used("b") == (2, 700)
    assert isinstance(quotas.decide(Ask("b", quota, 0)), Wait)
    assert isinstance(quotas.decide(Ask("b", quota, 0, 0)), Draft)
