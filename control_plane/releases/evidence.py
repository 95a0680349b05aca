"""Whether the new version does worse: a test by betting that may be looked at after every interval (pure).

Under the null hypothesis both versions are alike within an interval: of the bad calls, each is on the new
version with a chance that is its part of all calls. Given how many are bad, their number on the new version
is then hypergeometric, and a bet that is fair for the binomial is fair or losing for it (Hoeffding 1963,
theorem 4): `q / p` for each bad call of the new version, `(1 - q) / (1 - p)` for each of the old one, where
`p` is the new version's part of the calls and `q` what it would be if its calls were bad `r` times as often.
The product over intervals is a supermartingale, a mixture over odds `r` too. By Ville's inequality it ever
reaches `1 / doubt` with a probability of `doubt` at most, however often one looks.

A version may break after hours in which it was good, and by then the bets of the first hour are lost. So the
capital is spread over beginnings: three quarters are laid in the first interval, and of the rest the part
`1 / (t (t - 1))` in interval t. That is one more mixture, so the bound stays; a break at interval t costs the
logarithm of about 4 t² more than one at the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Final

ODDS: Final = (1.5, 2.0, 3.0, 6.0, 20.0, 100.0)
WEIGHTS: Final = (0.12, 0.3, 0.3, 0.12, 0.08, 0.08)
"""How the capital is spread over them: most on a version that is worse, but not so much that it is plain."""
LATER: Final = 0.25
"""The part of the capital that is kept for later beginnings."""
RATES: Final = (0.5, 0.8, 0.95)
"""What the rate may be, when there is nothing to compare with."""


@dataclass(frozen=True, slots=True)
class Wealth:
    """What the bets have come to. `logs` has the natural logarithm of the capital in play, one a bet."""

    logs: tuple[float, ...]
    intervals: int = 0

    @property
    def log_evidence(self) -> float:
        """The logarithm of the evidence against "no worse": 0 is none, 3 is 20 to 1."""
        waiting = log(LATER / self.intervals) if self.intervals else 0.0
        return _log_sum([*self.logs, *[waiting] * len(self.logs)]) - log(len(self.logs))


_NONE: Final = -1e9  # as a logarithm; JSON has no infinity
AT_FIRST: Final = Wealth((_NONE,) * len(ODDS))
ALONE_AT_FIRST: Final = Wealth((_NONE,) * len(RATES))


def compared(wealth: Wealth, old: tuple[int, int], new: tuple[int, int]) -> Wealth:
    """Return `wealth` after an interval; `old` and `new` are (calls, bad calls among them)."""
    (old_calls, old_bad), (new_calls, new_bad) = old, new
    if not old_calls or not new_calls or not (old_bad or new_bad):
        return wealth
    part = new_calls / (old_calls + new_calls)
    gains = []
    for odds in ODDS:
        all_odds = odds * part + (1 - part)
        # q / p is odds / all_odds, and (1 - q) / (1 - p) is 1 / all_odds.
        gains.append(new_bad * log(odds) - (old_bad + new_bad) * log(all_odds))
    return _grown(wealth, gains, WEIGHTS)


def alone(wealth: Wealth, allowed: float, calls: int, bad: int) -> Wealth:
    """Return `wealth` after an interval that only the new version had calls in.

    The null hypothesis is that at most `allowed` of them, in (0, 1), are bad.
    """
    if not calls:
        return wealth
    gains = [
        bad * log(rate / allowed) + (calls - bad) * log((1 - rate) / (1 - allowed)) if rate > allowed else 0.0
        for rate in RATES
    ]
    return _grown(wealth, gains, [1 / len(RATES)] * len(RATES))


def _grown(wealth: Wealth, gains: Iterable[float], weights: Sequence[float]) -> Wealth:
    interval = wealth.intervals + 1
    fresh = LATER / (interval * (interval - 1)) if interval > 1 else 1 - LATER
    # Evidence is the mean of the bets: a weight is told by how much more than its part a bet is given.
    logs = tuple(
        max(_log_sum((before, log(fresh * weight * len(weights)))) + gain, _NONE)
        for before, gain, weight in zip(wealth.logs, gains, weights, strict=True)
    )
    return Wealth(logs, interval)


def _log_sum(logs: Sequence[float]) -> float:
    largest = max(logs)
    return largest + log(sum(exp(one - largest) for one in logs))
