"""What is known of each provider at the moment, gathered from answers and from other processors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from ext_proc.contract.policies import RetryPolicy
from ext_proc.contract.snapshot import Backend
from ext_proc.providers.cooling import Cooling
from ext_proc.providers.hints import Hint, read_hint
from ext_proc.providers.pacing import Spread
from ext_proc.providers.scopes import backend_of, scope_of

OUT_OF_SERVICE: Final = 503
_DEFAULT: Final = RetryPolicy()


class Others(Protocol):
    """The other processors that ask the same providers."""

    def tell(self, scope: str, wait_s: float) -> None:
        """Say that `scope` is to be left alone for so long. Never waits, never raises."""
        ...


class Nobody:
    """A processor by itself."""

    def tell(self, scope: str, wait_s: float) -> None:
        """Tell nobody."""


class Watch:
    """Which Backends cool, and of which little is left.

    Args:
        cooling: holds the former.
        spread: holds the latter.
        others: told of what begins to cool.
        clock: the running loop's time in seconds.
        now: UNIX time in seconds.
    """

    def __init__(
        self,
        cooling: Cooling,
        spread: Spread,
        others: Others,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.cooling = cooling
        self.spread = spread
        self._others = others
        self._clock = clock
        self._now = now
        # By Backend: the Policy of a call to it lately.
        self._retries: dict[str, RetryPolicy] = {}
        self._known: Mapping[str, Backend] | None = None
        self._on_change: list[Callable[[str], None]] = []

    def on_change(self, call: Callable[[str], None]) -> None:
        """Have `call` told of every scope of which something new is known."""
        self._on_change.append(call)

    def follow(self, backends: Mapping[str, Backend]) -> None:
        """Take notice of new policy: what is known of a Backend that is another now counts no more."""
        if self._known is None:
            self.cooling.keep(backends.__contains__)
        for name, before in (self._known or {}).items():
            if backends.get(name) != before:
                self.cooling.forget(name)
                self.spread.forget(name)
                self._retries.pop(name, None)
                self.changed(name)
        self._known = backends

    def needs(self, backend: str, retry: RetryPolicy) -> bool:
        """Say whether the answer of a call to `backend` matters in any case; `retry` is the call's Policy."""
        self._retries[backend] = retry
        return backend in self.cooling or backend in self.spread

    def observe(self, scope: str, status: int, hint: Hint, retry: RetryPolicy) -> None:
        """Take notice of an answer to a call of that scope; `retry` is the call's Policy.

        That it is out of service (503) a provider says to all, whatever their key.
        """
        now, backend = self._clock(), backend_of(scope)
        concerned = backend if status == OUT_OF_SERVICE else scope
        matters = hint.cools or backend in self.cooling or backend in self.spread
        wait_s = self.cooling.observe(concerned, status, hint, retry, now)
        if wait_s:
            self._others.tell(concerned, wait_s)
        self.spread.observe(scope, hint.quota, now)
        if matters:
            self.changed(concerned)

    def observe_attempt(self, backend: str, status: int, headers: Mapping[str, str], key: str = "") -> None:
        """Take notice of one try that Envoy has made; `headers` have lower-case names.

        `key` is the digest of the caller's own key, which counts where the Backend has none.
        """
        known = (self._known or {}).get(backend)
        if known is not None and known.credential is not None:
            key = ""
        hint = read_hint(status, headers, self._now())
        self.observe(scope_of(backend, key), status, hint, self._retries.get(backend, _DEFAULT))

    def heard(self, scope: str, wait_s: float) -> None:
        """Leave `scope` alone for `wait_s`: another processor says so, or whoever else writes to its Redis.

        Backends that nobody has configured are left out; before the first policy nobody knows.
        """
        if self._known is not None and backend_of(scope) not in self._known:
            return
        self.cooling.cool(scope, wait_s, self._clock())
        self.changed(scope)

    def changed(self, scope: str) -> None:
        """Say that something new is known of `scope`; of a Backend, it concerns all its keys."""
        for call in self._on_change:
            call(scope)
