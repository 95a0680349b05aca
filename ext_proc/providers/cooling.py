"""Which Backends are to be left alone, and how they are asked again (pure; times are passed in).

What cools is a scope (see `scopes`): the calls with one key, or all of a Backend and so of each of its keys.
One that refuses cools until the time that it names, else for a while that grows. Afterwards few calls go
first, twice as many each moment, until one is answered: whoever waited does not come back all at once, and a
provider that is still down costs a call or two each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ext_proc.contract.policies import RetryPolicy
from ext_proc.providers.hints import Hint
from ext_proc.providers.scopes import Scopes, backend_of

LONGEST_S: Final = 3600.0
"""However long a provider asks for, it is asked again after that."""
PROBE_WITHIN_S: Final = 3.0
"""One that does not say how long is asked again after that at most, unless `retry.base` is longer."""
RAMP_S: Final = 0.1
"""How long the first call has the Backend to itself; then the number doubles."""
RAMPS: Final = 12
"""After so many doublings nobody waits."""
FORGOTTEN_S: Final = 60.0
"""One that nobody has heard of for so long after its time is as good as any."""


@dataclass(slots=True)
class _State:
    until: float
    steps: int = 0  # refusals in a row, without an answer between them
    let: int = 0  # calls since `until`


class Cooling:
    """The scopes that cool, or have lately. `draw` returns uniform numbers in [0, 1)."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._states: Scopes[_State] = Scopes()

    def __contains__(self, backend: str) -> bool:
        """Whether `backend` or one of its keys cools, or has not been heard of since."""
        return backend in self._states

    def knows(self, scope: str) -> bool:
        """Whether exactly that scope cools, or has not been heard of since."""
        return self._states.get(scope) is not None

    def observe(self, scope: str, status: int, hint: Hint, retry: RetryPolicy, now: float) -> float:
        """Take notice of an answer; return for how many seconds `scope` is left alone by it, 0 for not.

        An answer that comes while it cools says nothing new, unless it asks for longer. A good one clears its
        Backend, too.
        """
        if not hint.cools:
            if status < 500 and status != 429:
                for one in {scope, backend_of(scope)}:
                    state = self._states.get(one)
                    if state is not None and now >= state.until:
                        self._states.drop(one)
            return 0.0
        state = self._state(scope)
        cools_already = now < state.until
        if hint.wait_s is not None:
            wait_s = min(hint.wait_s, LONGEST_S)
        elif cools_already:
            return 0.0
        else:
            wait_s = back_off_s(state.steps, retry, self._draw())
        if now + wait_s <= state.until:
            return 0.0
        if not cools_already:
            state.steps += 1
        state.until, state.let = now + wait_s, 0
        return wait_s

    def cool(self, scope: str, wait_s: float, now: float) -> None:
        """Leave `scope` alone for `wait_s`, as another processor has found out."""
        state = self._state(scope)
        if now + wait_s > state.until:
            state.until, state.let = now + min(wait_s, LONGEST_S), 0

    def forget(self, backend: str) -> None:
        """Take `backend` for a new one."""
        self._states.forget(backend)

    def keep(self, wanted: Callable[[str], bool]) -> None:
        """Forget the Backends that are not `wanted`."""
        self._states.keep(wanted)

    def ready_in_s(self, scope: str, now: float) -> float:
        """Return for how long `scope` still cools, by itself or with its Backend, 0 for not."""
        return max((0.0, *(state.until - now for state in self._concerned(scope))))

    def wait_s(self, scope: str, now: float) -> float:
        """Return 0 and count a call that goes now; else how long it has to wait before it asks again."""
        backend = backend_of(scope)
        for one in {scope, backend}:
            state = self._states.get(one)
            if state is not None and now - state.until > FORGOTTEN_S:
                self._states.drop(one)
        self._states.tidy(backend, lambda state: now - state.until > FORGOTTEN_S)
        concerned = self._concerned(scope)
        wait_s = max((_wait_s(state, now) for state in concerned), default=0.0)
        if not wait_s:
            for state in concerned:
                state.let += 1
        return wait_s

    def take_back(self, scope: str) -> None:
        """Count one call less: it did not go after all."""
        for state in self._concerned(scope):
            state.let = max(state.let - 1, 0)

    def _state(self, scope: str) -> _State:
        state = self._states.get(scope)
        if state is None:
            state = _State(0.0)
            self._states.put(scope, state)
        return state

    def _concerned(self, scope: str) -> list[_State]:
        found = (self._states.get(one) for one in {scope, backend_of(scope)})
        return [state for state in found if state is not None]


def _wait_s(state: _State, now: float) -> float:
    since = now - state.until
    if since < 0:
        return -since
    ramp = int(since / RAMP_S)
    return (ramp + 1) * RAMP_S - since if ramp < RAMPS and state.let >= 2**ramp else 0.0


def back_off_s(steps: int, retry: RetryPolicy, drawn: float) -> float:
    """Return how long to leave one alone that has refused `steps` times before and names no time.

    From `retry.base` on, up to twice as long at each step, and never longer than `retry.max`, or than
    `retry.base` where that is above it.
    """
    base_s, max_s = retry.base_ms / 1000, retry.longest_ms / 1000
    longest_s = min(max_s, base_s * float(2 ** min(steps + 1, 30)), max(PROBE_WITHIN_S, base_s))
    return base_s + drawn * (longest_s - base_s)
