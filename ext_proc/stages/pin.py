"""Pins: fixed answers to exact last user messages, served with no model call."""

from __future__ import annotations

from collections.abc import Callable

from ext_proc.answer_forms import JSON, form_of, in_form
from ext_proc.exchange import Answer, CacheStatus, Exchange, Forward, Reason, describe, stamps
from ext_proc.openai.completions import MAX_CHOICES, completion_body, last_user_text
from ext_proc.openai.paths import Operation
from ext_proc.pipeline import PassingStage
from ext_proc.tally import CacheTally


class Pin(PassingStage):
    """Answers what a Model's Pins name. `now` is UNIX time in seconds; `tally` is told of each answer."""

    name = "pin"
    reasons = frozenset((Reason.SERVED_PIN,))

    def __init__(self, now: Callable[[], float], tally: CacheTally) -> None:
        self._now = now
        self._tally = tally

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Serve the Pin's answer in the form that was asked for; pass everything else on."""
        model, request = exchange.model, exchange.parsed
        if model is None or not model.pins or request.operation is not Operation.CHAT:
            return None
        asked = last_user_text(request.document)
        text = model.pins.get(asked) if asked is not None else None
        if text is None:
            return None
        choices = request.document.get("n")
        count = choices if isinstance(choices, int) and 1 <= choices <= MAX_CHOICES else 1
        pinned = completion_body(model.name, text, created=int(self._now()), choices=count)
        body, content_type = in_form(exchange, form_of(exchange), pinned, JSON)
        exchange.cache_status = CacheStatus.HIT
        exchange.backend = exchange.version = None
        self._tally.pinned()
        return Answer(
            200,
            body,
            Reason.SERVED_PIN,
            (("content-type", content_type), *stamps(model.name, "", CacheStatus.HIT)),
            describe(exchange),
        )
