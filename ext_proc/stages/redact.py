"""Prompts without personal data and secrets: masked before anything leaves, restored in the answer.

Stands behind the stages that read what the caller wrote (session, pins) and before all that keep, share or
send it: caches, flights and batches know masked questions and masked answers only, and whoever gets one gets
it with the values of their own. So the stages before this one see answers as the caller does.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final, Protocol

from ext_proc.answer_forms import STREAM_TYPE
from ext_proc.contract.entities import Entity
from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.openai.paths import Operation
from ext_proc.pipeline import PassingStage
from ext_proc.redaction.answers import restore_body
from ext_proc.redaction.requests import mask_request
from ext_proc.redaction.streams import StreamRestorer

LARGE_BYTES: Final = 16 * 1024
"""A larger prompt is read in a thread of its own, so that others go on meanwhile."""


class Audit(Protocol):
    """Who is told how much was masked, and never what."""

    def masked(self, entity: Entity, items: int) -> None:
        """`items` of `entity` were replaced in one request."""
        ...


class Redact(PassingStage):
    """Masks the request in place; restores answers of our own. The pipeline restores the provider's."""

    name = "redact"
    masks = True

    def __init__(self, audit: Audit) -> None:
        self._audit = audit

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Mask the parsed document; ask for the answer, if there is anything to be put back into it."""
        policy = exchange.policy.redaction
        if not policy.prompts:
            return None
        if len(exchange.body) > LARGE_BYTES:
            # One full of numbers takes seconds; an Envoy that lost patience might let it go as it came.
            await exchange.park()
            masks = await asyncio.to_thread(mask_request, exchange.parsed, policy.entities)
        else:
            masks = mask_request(exchange.parsed, policy.entities)
        if masks is None:
            return None
        exchange.changed = True
        for entity, items in masks.items.items():
            self._audit.masked(entity, items)
        # Vectors repeat nothing.
        if exchange.parsed.operation is not Operation.EMBEDDINGS:
            exchange.masks = masks
            exchange.wants_body = exchange.wants_head = True
        return None

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Put the caller's own values into an answer that was kept, shared or composed."""
        masks = exchange.masks
        if masks is None:
            return answer
        if dict(answer.headers).get("content-type", "").startswith(STREAM_TYPE):
            body = StreamRestorer(masks).feed(answer.body, end=True)
        else:
            body = restore_body(masks, answer.body)
        return replace(answer, body=body)
