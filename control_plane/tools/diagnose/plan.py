"""How many calls each probe may make (pure).

First every probe gets the least that says anything, those that most often find something before the others;
then what is left is shared out in proportion to what they usually take.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

SIZES: Final = (0.02, 0.08, 0.16, 0.25, 0.375, 0.5, 0.75, 1.0)  # of the longest prompt
TEMPERATURES: Final = (0.2, 1.0, 0.8, 0.5)
MOST: Final = 3.0  # times the usual: more calls than that add little
CALLS_OF_A_PAIR: Final = 2  # one on a new connection, one more on it
ENOUGH_FOR_THREE_PAIRS: Final = 16
BURSTS: Final = 4  # HTTP/1.1 and 2, each on new and on kept connections
TOKEN_SHARE: Final = 0.6  # of all tokens, what long prompts may take


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls by probe. `prompts` and `temperatures` have one entry a call, in the order of the calls.

    `at_once` is the size of a burst; `concurrency` is what was asked for.
    """

    pairs: int
    prompts: tuple[int, ...]
    temperatures: tuple[float, ...]
    streams: int
    http2: int
    at_once: int
    concurrency: int

    @property
    def calls(self) -> int:
        """How many calls it takes altogether, the first one included."""
        rest = len(self.prompts) + len(self.temperatures) + self.streams + self.http2
        return 1 + CALLS_OF_A_PAIR * self.pairs + rest + BURSTS * self.at_once


def plan(requests: int, tokens: int, concurrency: int, longest: int, randomness: random.Random) -> Plan:
    """Return a plan for at most `requests` calls and about `tokens` tokens.

    Args:
        requests: at least 1.
        tokens: of prompts and answers together.
        concurrency: how many calls the bursts make at once; they may get fewer by the budget.
        longest: tokens of the longest prompt.
        randomness: for the order of the sizes, so that a provider that slows down does not look like a slope.
    """
    pairs = 3 if requests >= ENOUGH_FOR_THREE_PAIRS else 1
    usual = {
        "pairs": (pairs * CALLS_OF_A_PAIR, 8 * CALLS_OF_A_PAIR),
        "prompts": (4, 24),
        "temperatures": (2, 16),
        "streams": (1, 5),
        "http2": (2, 7),
        "bursts": (2 * BURSTS, concurrency * BURSTS) if concurrency > 1 else (0, 0),
    }
    given = _shared(requests - 1, usual)
    return Plan(
        pairs=given["pairs"] // CALLS_OF_A_PAIR,
        prompts=_sizes(given["prompts"], longest, int(tokens * TOKEN_SHARE), randomness),
        temperatures=_temperatures(given["temperatures"]),
        streams=given["streams"],
        http2=given["http2"],
        at_once=min(concurrency, given["bursts"] // BURSTS) if concurrency > 1 else 0,
        concurrency=concurrency,
    )


def _shared(calls: int, usual: dict[str, tuple[int, int]]) -> dict[str, int]:
    given = dict.fromkeys(usual, 0)
    for name, (least, _) in usual.items():
        if calls >= least:
            given[name] = least
            calls -= least
    wanted = {name: usual[name][1] - least for name, least in given.items() if least}
    total = sum(wanted.values())
    factor = min(MOST, calls / total) if total else 0.0
    return {name: given[name] + int(wanted.get(name, 0) * factor) for name in usual}


def _sizes(calls: int, longest: int, tokens: int, randomness: random.Random) -> tuple[int, ...]:
    """Return the lengths of `calls` prompts; the longest one shrinks until all fit into `tokens`."""
    if not calls:
        return ()
    kinds = min(len(SIZES), max(4, calls // 2), calls)
    step = (len(SIZES) - 1) / max(1, kinds - 1)
    shares = [SIZES[round(step * number)] for number in range(kinds)]
    repeated = [shares[number % kinds] for number in range(calls)]
    top = min(float(longest), tokens / sum(repeated))
    sizes = [max(16, round(share * top)) for share in repeated]
    randomness.shuffle(sizes)
    return tuple(sizes)


def _temperatures(calls: int) -> tuple[float, ...]:
    """Return a temperature for each call; few calls are better spent on few of them."""
    kinds = min(len(TEMPERATURES), max(2, calls // 3))
    return tuple(TEMPERATURES[number % kinds] for number in range(calls))
