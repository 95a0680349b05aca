"""What is known of providers, and who is told."""

from __future__ import annotations

from ext_proc.contract.policies import RetryPolicy
from ext_proc.contract.snapshot import Backend, CredentialRef
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


def test_a_refusal_concerns_the_key_that_was_refused() -> None:
    """Out of service a provider is for all; where the Backend has a key, whose call it was is no matter."""
    others = Told()
    watch, changed = watching(others)
    own = Backend("own", "http://x/v1", credential=CredentialRef("env", "KEY"))
    watch.follow({"b": Backend("b", "http://x/v1"), "own": own})
    watch.observe_attempt("b", 429, {"retry-after": "9"}, "1")
    watch.observe_attempt("own", 429, {"retry-after": "8"}, "1")
    assert watch.needs("b", RetryPolicy())
    watch.observe_attempt("b", 503, {"retry-after": "7"}, "2")
    assert others.words == [("b#1", 9.0), ("own", 8.0), ("b", 7.0)]
    assert changed == ["b#1", "own", "b"]
    assert [watch.cooling.ready_in_s(one, 0.0) for one in ("b#1", "b#2", "own")] == [9.0, 7.0, 8.0]
    watch.follow({"own": own})
    assert "b" not in watch.cooling


def test_what_nobody_configured_is_not_heard() -> None:
    """Anybody may write to Redis; what came before the first policy is held against that."""
    watch, changed = watching()
    for scope in ("b", "b#1", "junk"):
        watch.heard(scope, 3.0)
    watch.follow({"b": Backend("b", "http://x/v1")})
    assert ("b" in watch.cooling, "junk" in watch.cooling) == (True, False)
    changed.clear()
    watch.heard("junk#1", 3.0)
    watch.heard("b#2", 3.0)
    assert changed == ["b#2"]
    assert "junk" not in watch.cooling


def test_what_another_has_found_out() -> None:
    """It counts here, and is not told again."""
    others = Told()
    watch, changed = watching(others)
    watch.heard("b", 3.0)
    assert watch.cooling.ready_in_s("b", 0.0) == 3.0
    assert changed == ["b"]
    assert not others.words
