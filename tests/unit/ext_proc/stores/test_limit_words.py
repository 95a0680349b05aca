"""What the scripts are told and tell."""

from __future__ import annotations

from ext_proc.contract.snapshot import Limits
from ext_proc.limits.claims import Account, Claim, Rate
from ext_proc.limits.priorities import shedding_of
from ext_proc.stores.limit_words import NOTHING, Amounts, Shape, corrections_of, read_verdict

PLAIN = Account("tier:a", "a", Limits(10, 100, 3))
DAYS = Account("model:m", "m", Limits(tokens_per_day=100, cost_per_day=0.5), shedding_of(0, (0, 1)))


def test_an_account_names_only_the_keys_that_it_needs() -> None:
    """Windows of a minute, of a day, places, and who asked when."""
    words, keys = Shape(PLAIN).reserved(Claim(PLAIN, 1, 7), NOTHING)
    assert words == "mp 3 3 0 2 0 1 10 10 0 1 7 100 100 0"
    assert list(keys) == ["outrigger:{limits}:tier:a", "outrigger:{limits}:places:tier:a"]
    words, keys = Shape(DAYS).reserved(Claim(DAYS, 1, 7, cost=9), Amounts(2, 3, 4))
    assert words == "da 0 0 1 2 2 7 95 80 3 3 9 475000 400000 4"
    assert list(keys) == ["outrigger:{limits}:day:model:m", "outrigger:{limits}:asked:model:m"]
    words, keys = Shape(PLAIN).reserved(Claim(PLAIN, slot=False), NOTHING)
    assert words.startswith("m 3 3")
    assert len(keys) == 1


def test_only_differences_are_corrected() -> None:
    """Given back or added; a request is never added."""
    claim = Claim(PLAIN, 1, 50)
    assert corrections_of(claim, Amounts(1, 50)) == []
    assert corrections_of(claim, Amounts(1, 20)) == [(1, 30, 0)]
    assert corrections_of(claim, Amounts(2, 70)) == [(1, 0, 20)]
    assert corrections_of(claim, NOTHING) == [(0, 1, 0), (1, 50, 0)]
    assert Shape(PLAIN).corrected([(1, 30, 0)], places=True)[0] == "mp 1 1 30 0"
    assert Shape(PLAIN).corrected([], places=True)[0] == "mp 0"


def test_a_verdict_is_read_for_all_accounts() -> None:
    """The reservation, or what is in the way for the longest time; how each one stands."""
    claims = [Claim(PLAIN, 1, 40), Claim(DAYS, 1, 40)]
    admitted, refusal, told = read_verdict(claims, b"1000000 1 0 2 5 3000000 0 50 2000000 0 1 0 10 0 0 9 0 0")
    assert refusal is None
    assert admitted is not None
    assert (admitted.at_us, admitted.tokens) == (1_000_000, 40)
    assert told[0].requests is not None
    assert (told[0].requests.used, told[0].requests.reset_s) == (5, 2.0)
    assert told[0].load == (2 / 3, 0.0)
    assert told[1].requests is None
    admitted, refusal, told = read_verdict(
        claims, b"1000000 0 0 3 10 0 3000000 90 0 2000000 1 0 50 0 9000000 9 0 0"
    )
    assert admitted is None
    assert refusal is not None
    assert (refusal.rate, refusal.wait_s, refusal.shed) == (Rate.DAY_TOKENS, 8.0, True)
