"""Before a Release's first step its new version is asked what the old one is, for nobody (`shadow`).

A share of the calls that the old version answers is looked at. Whatever those come to, the new version is
asked the same afterwards, and the two are compared. The caller's answer is not touched and waits for nothing.
Calls that were answered without a provider, or together with others, are not asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Protocol

from ext_proc.contract.snapshot import Rollout
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Mirror
from ext_proc.openai.requests import encode
from ext_proc.pairs import Came
from ext_proc.pipeline import PassingStage

NO_ANSWER = 502


class Asking(Protocol):
    """Who asks the new version."""

    def has_room(self) -> bool:
        """Say whether one more may be asked; one that may not is counted."""
        ...

    def ask(self, exchange: Exchange, body: bytes, came: Came) -> None:
        """Ask the new version `body` in the background; `came` is what the old one made of it."""
        ...

    def unread(self) -> None:
        """Learn that what the old version answered was not seen whole."""
        ...

    async def close(self) -> None:
        """End every call."""
        ...


class Shadow(PassingStage):
    """Watches calls. Stands last before the stages that send.

    Args:
        asking: who asks the new version.
        draw: returns uniform numbers in [0, 1).
        clock: a monotonic time in seconds.
    """

    name: ClassVar[str] = "shadow"

    def __init__(self, asking: Asking, draw: Callable[[], float], clock: Callable[[], float]) -> None:
        self._asking = asking
        self._draw = draw
        self._clock = clock

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Draw whether this call is looked at; it then has to be shown when it comes back."""
        if not exchange.release or exchange.passed_over:
            return None
        rollout = _rollout(exchange)
        if rollout is None or exchange.assigned != rollout.from_version or self._draw() >= rollout.shadow:
            return None
        if not self._asking.has_room():
            return None
        request = exchange.parsed
        # Here it is as it goes up: within its bounds, with its session, masked.
        body = encode(request.document) if exchange.changed else exchange.body
        exchange.mirror = Mirror(body, self._clock())
        exchange.wants_head = exchange.wants_body = True
        exchange.wants_stream = exchange.wants_stream or request.stream
        return None

    def on_unread(self, exchange: Exchange) -> None:
        """See a refusal or a fault of the provider, or an answer that nobody can read."""
        mirror, response = exchange.mirror, exchange.response
        if mirror is None:
            return
        exchange.mirror = None
        if response is not None and response.status >= 400:
            self._asking.ask(exchange, mirror.body, Came(response.status, self._clock() - mirror.began))
        else:
            self._asking.unread()

    def on_chunk(self, exchange: Exchange, chunk: bytes, *, end: bool) -> None:
        """See a stream begin and end."""
        mirror = exchange.mirror
        if mirror is not None:
            mirror.ended = mirror.ended or end
            if mirror.first_at is None:
                mirror.first_at = self._clock()

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """See the whole answer; of a stand-in's it is only known that it is none of the old version."""
        mirror = exchange.mirror
        if mirror is None or exchange.shared:
            return
        exchange.mirror = None
        began, first_at = mirror.began, mirror.first_at
        came = Came(
            NO_ANSWER if exchange.stood_in else answered.head.status,
            self._clock() - began,
            first_at - began if first_at is not None else None,
            answered.body,
            answered.completion,
        )
        self._asking.ask(exchange, mirror.body, came)

    def on_end(self, exchange: Exchange) -> None:
        """See a stream that came to its end in order and is no whole answer.

        One that broke off says nothing: the caller may have left.
        """
        mirror = exchange.mirror
        if mirror is not None and mirror.ended and not exchange.recorded:
            exchange.mirror = None
            self._asking.ask(exchange, mirror.body, Came(200, self._clock() - mirror.began))

    async def close(self) -> None:
        """End every call."""
        await self._asking.close()


def _rollout(exchange: Exchange) -> Rollout | None:
    releases = exchange.model.releases if exchange.model is not None else ()
    return next((one for one in releases if one.name == exchange.release and one.shadow > 0), None)
