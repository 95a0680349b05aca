"""What caches did and keep, as lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rich.console import Console

from control_plane.api.cache_wire import PURGED, READ, SHOWN
from control_plane.cli.cache_text import entry_lines, headline, purged_line, saved_line, statistics_lines


def printed(lines: Any) -> str:
    """Return what a terminal shows of `lines`."""
    console = Console(width=140, color_system=None)
    with console.capture() as captured:
        for line in lines:
            console.print(line, markup=False, highlight=False)
    return captured.get()


def test_statistics_begin_with_what_matters() -> None:
    """The ratio, what was saved, then tiers, ages and sidecars."""
    shown = printed(statistics_lines(SHOWN))
    first, second, *_ = shown.splitlines()
    assert first == "hit ratio 40.0%: 40 of 100 questions"
    assert second == "saved 11,000 tokens (2,000 in, 9,000 out), 0.0057 of cost, 61s of waiting"
    assert "memory  40    40.0%  60       80.0 KiB" in shown
    assert "age of hits: ≤ 1s 30, ≤ 10s 10" in shown
    assert "shop-7d9f" in shown
    assert "similar questions" not in shown


def test_nothing_yet_is_said() -> None:
    """And nothing saved is not."""
    assert headline({"hits": 0, "misses": 0, "hitRatio": None}) == "no cacheable question yet"
    assert saved_line({}) == ""


def test_similar_questions_are_told_when_there_are_any() -> None:
    """The oldest hits are those above the last bound."""
    ages = [{"upToSeconds": 86_400.0, "hits": 0}, {"upToSeconds": None, "hits": 2}]
    total = {"hitAges": ages, "semantic": {"served": 3, "vetoed": 1, "explored": 0}}
    shown = printed(statistics_lines({"total": total}))
    assert "similar questions: 3 served, 1 vetoed" in shown
    assert "age of hits: > 1d 2" in shown


def test_an_answer_is_shown_whole() -> None:
    """What is JSON in lines of its own."""
    shown = printed(entry_lines(READ))
    assert "tenant:team-a" in shown
    assert "age      12s, fresh, ends in 24h" in shown
    body = shown[shown.index("{") :]
    assert json.loads(body) == READ["body"]
    assert "too large" in printed(entry_lines({**READ, "body": None}))
    assert "plain" in printed(entry_lines({**READ, "body": "plain\n\x1b[31mred"}))
    assert "\x1b" not in printed(entry_lines({**READ, "body": "plain\n\x1b[31mred"}))


def test_what_is_void_is_named() -> None:
    """Or that it is everything."""
    assert purged_line(PURGED) == (
        "revision 14 voids every answer of Model gpt-4o-mini, tenant:team-a "
        "that was asked for until 2026-01-31T08:00:00Z"
    )
    assert purged_line({"revision": 2, "at": "T"}).startswith("revision 2 voids every answer that was asked")
    assert "key 0a… " in purged_line({"revision": 2, "at": "T", "keyPrefix": "0a"})


@pytest.mark.parametrize("strange", [{}, {"total": 5, "sidecars": {}}, {"total": {"tiers": [5]}}])
def test_a_strange_answer_is_shown_somehow(strange: dict[str, Any]) -> None:
    """The server may be another one than it should."""
    assert printed(statistics_lines(strange))
    assert printed(entry_lines(strange))
