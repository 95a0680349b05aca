"""The lines before all Backends: one each, and one beside it for every key of which something is known.

A key that cools holds only its own calls: one that finds that out at the head of its Backend's line leaves it
and waits beside it. For one event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from ext_proc.providers.line import Blocked, Line, Outcome
from ext_proc.providers.quota import Ask, Draft
from ext_proc.providers.scopes import backend_of


class Lines:
    """Opens lines, and forgets them as soon as nobody waits in them.

    Args:
        try_to_go: as of `Line`.
        take_back: as of `Line`.
        has_its_own: whether calls of that scope, which is a key's, are to wait by themselves.
    """

    def __init__(
        self,
        try_to_go: Callable[[Ask, float], Awaitable[Outcome]],
        take_back: Callable[[Draft], None],
        has_its_own: Callable[[str], bool],
    ) -> None:
        self._try_to_go = try_to_go
        self._take_back = take_back
        self._has_its_own = has_its_own
        # By Backend, then by scope.
        self._lines: dict[str, dict[str, Line]] = {}

    def is_alone(self, ask: Ask) -> bool:
        """Whether a call waits with others of its key only."""
        return ask.scope not in ("", ask.backend) and self._has_its_own(ask.scope)

    def waits(self, ask: Ask) -> bool:
        """Whether somebody waits already where this call would."""
        return self._name(ask) in self._lines.get(ask.backend, ())

    async def wait(
        self, ask: Ask, priority: int, until: float, now: Callable[[], float], *, elsewhere: bool
    ) -> Outcome:
        """Wait for the turn of a call until that time by the loop's clock, `now`; see `Line.wait`."""
        while True:
            # Looked for each time: a line is gone as soon as nobody waits in it.
            line = self._line(ask)
            outcome = await line.wait(ask, priority, max(until - now(), 0.0), elsewhere=elsewhere)
            if not isinstance(outcome, Blocked) or not outcome.alone:
                return outcome

    def look_again(self, scope: str) -> None:
        """Let the first of each line that `scope` concerns ask now; a Backend concerns all its keys."""
        backend = backend_of(scope)
        lines = self._lines.get(backend)
        if lines is not None:
            for name, line in tuple(lines.items()):
                if scope == backend or name in (scope, backend):
                    line.look_again()

    async def close(self) -> None:
        """Let nobody wait any more."""
        for line in [line for lines in self._lines.values() for line in lines.values()]:
            await line.close()

    def _name(self, ask: Ask) -> str:
        return ask.scope if self.is_alone(ask) else ask.backend

    def _line(self, ask: Ask) -> Line:
        name = self._name(ask)
        lines = self._lines.setdefault(ask.backend, {})
        if name not in lines:
            try_to_go = self._try_to_go if name == ask.backend else self._try_among_its_own
            lines[name] = Line(try_to_go, self._take_back, partial(self._emptied, ask.backend, name))
        return lines[name]

    def _emptied(self, backend: str, name: str) -> None:
        del self._lines[backend][name]
        if not self._lines[backend]:
            del self._lines[backend]

    async def _try_among_its_own(self, ask: Ask, bears_s: float) -> Outcome:
        # What is in the way of one of a key is so for all who wait here.
        outcome = await self._try_to_go(ask, bears_s)
        return outcome._replace(alone=False) if isinstance(outcome, Blocked) else outcome
