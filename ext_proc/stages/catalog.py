"""`GET /v1/models` and `/v1/models/{id}`: our own list. With no Model configured they pass through."""

from __future__ import annotations

from ext_proc.exchange import Answer, Exchange, Forward, Reason
from ext_proc.openai.catalog import ModelCard, model_body, model_list_body
from ext_proc.openai.paths import Operation
from ext_proc.pipeline import PassingStage
from ext_proc.refusals import require_consumer, unknown_model

_JSON = (("content-type", "application/json"),)


class Catalog(PassingStage):
    """Answers questions about which models there are. `created` is what the list says of their age."""

    name = "catalog"
    reasons = frozenset((Reason.CONSUMER_REQUIRED, Reason.MODELS_LISTED, Reason.UNKNOWN_MODEL))

    def __init__(self, created: int) -> None:
        self._created = created

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Answer from the snapshot when it has any Model."""
        operation = exchange.classified.operation
        if operation is not Operation.MODELS and operation is not Operation.MODEL:
            return None
        refused = require_consumer(exchange, "")
        snapshot = exchange.loaded.snapshot
        if refused is not None or not snapshot.models:
            return refused
        if operation is Operation.MODELS:
            return Answer(
                200,
                model_list_body(ModelCard(name, self._created) for name in sorted(snapshot.models)),
                Reason.MODELS_LISTED,
                _JSON,
            )
        asked = exchange.classified.model_id or ""
        if asked not in snapshot.models and asked not in snapshot.aliases:
            return unknown_model(asked)
        return Answer(200, model_body(ModelCard(asked, self._created)), Reason.MODELS_LISTED, _JSON)
