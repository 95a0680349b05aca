"""How a budget is shared out."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.tools.diagnose.plan import Plan, plan


def planned(requests: int, *, tokens: int = 100_000, concurrency: int = 8, longest: int = 4000) -> Plan:
    """Return a plan with an order that is the same each time."""
    return plan(requests, tokens, concurrency, longest, random.Random(1))


@settings(max_examples=40, deadline=None)
@given(
    requests=st.integers(1, 400),
    tokens=st.integers(1, 200_000),
    concurrency=st.integers(1, 64),
    longest=st.integers(64, 20_000),
)
def test_never_more_than_the_budget(requests: int, tokens: int, concurrency: int, longest: int) -> None:
    """Calls stay within the requests, long prompts within a share of the tokens, bursts within the wish."""
    made = planned(requests, tokens=tokens, concurrency=concurrency, longest=longest)
    assert made.calls <= requests
    assert made.at_once <= concurrency
    assert sum(made.prompts) <= 0.6 * tokens + 17 * len(made.prompts)
    assert max(made.prompts, default=0) <= max(16, longest)


def test_the_default_measures_everything() -> None:
    """With the default budget each probe has enough calls, and bursts are as large as was asked."""
    made = planned(110)
    assert made.pairs >= 8
    assert len(made.prompts) >= 24
    assert len(set(made.prompts)) == 8
    assert max(made.prompts) == 4000
    assert len(made.temperatures) >= 16
    assert min(made.streams, made.http2) >= 5
    assert made.at_once == 8


def test_a_small_budget_drops_what_seldom_finds_something() -> None:
    """Twelve calls: connections, prompts, temperature and a stream; neither HTTP/2 nor bursts in full."""
    made = planned(12)
    assert made.pairs >= 1
    assert len(made.prompts) >= 4
    assert set(made.temperatures) == {0.2, 1.0}
    assert made.streams == 1
    assert made.at_once == 0


def test_few_calls_go_to_few_temperatures() -> None:
    """Two temperatures twice rather than four once; with more calls there are more of them."""
    assert sorted(planned(40).temperatures) == [0.2, 0.2, 1.0, 1.0]
    assert set(planned(110).temperatures) == {0.2, 0.5, 0.8, 1.0}


def test_one_call() -> None:
    """Just the first one."""
    made = planned(1)
    assert made.calls == 1
    assert made.prompts == ()


def test_no_bursts_of_one() -> None:
    """Concurrency 1 leaves the calls to the others."""
    assert planned(110, concurrency=1).at_once == 0
