"""Which version of the Model answers: `assignment` decides, by weight and by the Releases on their way.

A version may have settings of its own, which beat every Policy from here on. With fallbacks, one version of
each is assigned too, should it have to answer.
"""

from __future__ import annotations

from collections.abc import Callable

from ext_proc.assignment import Caller, assign
from ext_proc.candidates import Candidate, stand_ins
from ext_proc.contract.snapshot import Model, Version
from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.pipeline import PassingStage


class Assign(PassingStage):
    """Fills in `version`, its `backend`, the `release` that chose it, its `policy`, and the `candidates`.

    `draw` returns uniform numbers in [0, 1).
    """

    name = "assign"

    def __init__(self, draw: Callable[[], float]) -> None:
        self._draw = draw

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Choose; a Model with one version costs nothing."""
        model = exchange.model
        if model is None:
            return None
        if len(model.versions) == 1:
            version = model.versions[0]
        else:
            assigned = assign(model, caller_of(exchange), self._draw)
            version, exchange.release = assigned.version, assigned.release
            if _reads_answers(model, assigned.release):
                exchange.wants_body = True
                exchange.wants_stream = exchange.parsed.stream
        if version.settings:
            exchange.policy = exchange.loaded.policy_of(model, version, exchange.tier)
        snapshot = exchange.loaded.snapshot
        backend = snapshot.backends[version.backend]
        exchange.version, exchange.backend, exchange.assigned = version, backend, version.name
        if model.fallbacks:
            caller = caller_of(exchange)

            def choose(fallback: Model) -> Version:
                return assign(fallback, caller, self._draw).version

            others = stand_ins(snapshot, model, backend, choose)
            exchange.candidates = (Candidate(model, version, backend), *others)
        return None


def _reads_answers(model: Model, release: str) -> bool:
    return bool(release) and any(one.reads_answers and one.name == release for one in model.releases)


def caller_of(exchange: Exchange) -> Caller:
    """Return what of `exchange` decides its version."""
    consumer = exchange.consumer.name if exchange.consumer is not None else ""
    return Caller(exchange.head.headers, consumer, exchange.tenant, exchange.tier)
