"""What is known of providers, and who is told."""

from __future__ import annotations

from ext_proc.contract.policies import RetryPolicy
from ext_proc.contract.snapshot import Backend
from ext_proc.providers.cooling import Cooling
from ext_proc.providers.pacing import Spread
from ext_proc.providers.watch import Nobody, Watch


class Told:
    """Remembers what other processors were told."""

    def __init__(self) -> None:
        self.words: list[tuple[str, float]] = []

    def tell(self, backend: str, wait_s: float) -> None:
        """Remember it."""
        self.words.append((backend, wait_s))


def watching(others: Told | None = None) -> tuple[Watch, list[str]]:
    """Return a watch at the time 0, and the Backends of which something new was known."""
    watch = Watch(Cooling(lambda: 0.0), Spread(), others or Nobody(), lambda: 0.0, lambda: 1e9)
    changed: list[str] = []
    watch.on_change(changed.append)
    return watch, changed


def test_a_refusal_is_told_to_the_others() -> None:
    """Once, and every answer of that Backend matters from then on."""
    others = Told()
    watch, changed = watching(others)
    watch.observe_attempt("b", 429, {"retry-after": "5"})
    watch.observe_attempt("b", 429, {"retry-after": "4"})
    assert others.words == [("b", 5.0)]
    assert watch.needs("b", RetryPolicy())
    assert not watch.needs("other", RetryPolicy())
    assert watch.cooling.ready_in_s("b", 0.0) == 5.0
    assert changed == ["b", "b"]


def test_an_ordinary_answer_is_nothing_new() -> None:
    """Nobody is woken by it."""
    watch, changed = watching()
    watch.observe_attempt("b", 200, {})
    assert not changed
    assert not watch.needs("b", RetryPolicy())


def test_little_that_is_left_matters() -> None:
    """Every answer's word about it."""
    watch, _ = watching()
    watch.observe_attempt(
        "b", 200, {"x-ratelimit-remaining-requests": "2", "x-ratelimit-reset-requests": "9s"}
    )
    assert watch.needs("b", RetryPolicy())


def test_a_try_is_held_to_the_policy_of_the_calls() -> None:
    """Envoy's log does not tell it; the latest call to that Backend does."""
    watch, _ = watching()
    watch.needs("b", RetryPolicy(base_ms=50, max_ms=100))
    watch.observe_attempt("b", 503, {})
    watch.observe_attempt("other", 503, {})
    assert watch.cooling.ready_in_s("b", 0.0) == 0.05
    assert watch.cooling.ready_in_s("other", 0.0) == 1.0


def test_a_backend_that_is_another_now_is_asked_at_once() -> None:
    """Who gave it another URL, key or quota does not wait for what the old one said; others do."""
    watch, changed = watching()
    before = {name: Backend(name, "http://old/v1") for name in ("b", "c", "gone")}
    watch.follow(before)
    for name in before:
        watch.observe_attempt(name, 429, {"retry-after": "60"})
    changed.clear()
    watch.follow({"b": Backend("b", "http://new/v1"), "c": Backend("c", "http://old/v1")})
    assert [watch.cooling.ready_in_s(name, 0.0) for name in before] == [0.0, 60.0, 0.0]
    assert changed == ["b", "gone"]


def test_what_another_has_found_out() -> None:
    """It counts here, and is not told again."""
    others = Told()
    watch, changed = watching(others)
    watch.heard("b", 3.0)
    assert watch.cooling.ready_in_s("b", 0.0) == 3.0
    assert changed == ["b"]
    assert not others.words
