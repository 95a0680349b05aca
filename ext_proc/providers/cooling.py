"""Which Backends are to be left alone, and how they are asked again (pure; times are passed in).

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
    """The Backends that cool, or have lately. `draw` returns uniform numbers in [0, 1)."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw
        self._states: dict[str, _State] = {}

    def __contains__(self, backend: str) -> bool:
        """Whether `backend` cools, or has not been heard of since."""
        return backend in self._states

    def observe(self, backend: str, status: int, hint: Hint, retry: RetryPolicy, now: float) -> float:
        """Take notice of an answer; return for how many seconds `backend` is left alone by it, 0 for not.

        An answer that comes while the Backend cools says nothing new, unless it asks for longer.
        """
        state = self._states.get(backend)
        if not hint.cools:
            if state is not None and now >= state.until and (status < 500 and status != 429):
                del self._states[backend]
            return 0.0
        if state is None:
            state = self._states[backend] = _State(0.0)
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

    def cool(self, backend: str, wait_s: float, now: float) -> None:
        """Leave `backend` alone for `wait_s`, as another processor has found out."""
        state = self._states.setdefault(backend, _State(0.0))
        if now + wait_s > state.until:
            state.until, state.let = now + min(wait_s, LONGEST_S), 0

    def forget(self, backend: str) -> None:
        """Take `backend` for a new one."""
        self._states.pop(backend, None)

    def ready_in_s(self, backend: str, now: float) -> float:
        """Return for how long `backend` still cools, 0 for not."""
        state = self._states.get(backend)
        return max(state.until - now, 0.0) if state is not None else 0.0

    def wait_s(self, backend: str, now: float) -> float:
        """Return 0 and count a call that goes now; else how long it has to wait before it asks again."""
        state = self._states.get(backend)
        if state is None:
            return 0.0
        since = now - state.until
        if since < 0:
            return -since
        if since > FORGOTTEN_S:
            del self._states[backend]
            return 0.0
        ramp = int(since / RAMP_S)
        if ramp < RAMPS and state.let >= 2**ramp:
            return (ramp + 1) * RAMP_S - since
        state.let += 1
        return 0.0


def back_off_s(steps: int, retry: RetryPolicy, drawn: float) -> float:
    """Return how long to leave one alone that has refused `steps` times before and names no time.

    From `retry.base` on, up to twice as long at each step, and never longer than `retry.max`.
    """
    base_s, max_s = retry.base_ms / 1000, retry.max_ms / 1000
    longest_s = min(max_s, base_s * float(2 ** min(steps + 1, 30)), max(PROBE_WITHIN_S, base_s))
    return min(base_s, max_s) + drawn * max(longest_s - base_s, 0.0)
