"""Which embedder a Policy names, for one exchange: the local one, or a Model of the snapshot."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from ext_proc.continuation import Caller
from ext_proc.exchange import Exchange
from ext_proc.question import partition
from ext_proc.semantic.embedding import Embedder, Known, Remembering
from ext_proc.semantic.local import ANSWER_BYTES, ANSWER_NICENESS, ANSWERS_WAITING, LocalEmbedder, load_e5
from ext_proc.semantic.model import ModelEmbedder, embedder_name, model_of
from ext_proc.stores.breaker import Breaker

LOCAL: Final = "local"
QUESTION_S: Final = 0.2
"""How long a question waits for its vector; after that it is answered by the provider as any other."""
ANSWER_S: Final = 5.0
MODELS: Final = 64


class PolicyEmbedders:
    """Hands out embedders and keeps what they share.

    Args:
        caller: who calls providers for the processor.
        clock: a monotonic time in seconds.
        log: where it is told what is missing.
        load: loads the local model.
    """

    def __init__(
        self,
        caller: Caller,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
        load: Callable[[], Any] = load_e5,
    ) -> None:
        self._caller = caller
        self._clock = clock
        self._log = log
        # Answers are long: those who ask do not stand in their queue.
        self._local = LocalEmbedder(log, load)
        self._local_for_answers = LocalEmbedder(
            log, load, max_waiting=ANSWERS_WAITING, max_bytes=ANSWER_BYTES, niceness=ANSWER_NICENESS
        )
        self._known: OrderedDict[str, Known] = OrderedDict()
        self._breakers: OrderedDict[str, Breaker] = OrderedDict()
        self._missing: str | None = None

    def of_questions(self, exchange: Exchange) -> Remembering | None:
        """Return who makes the vectors of questions; None when the Policy names no Model that is there."""
        embedder = self._embedder(exchange, self._local, QUESTION_S)
        if embedder is None:
            return None
        return Remembering(embedder, _bounded(self._known, embedder.name, OrderedDict), partition(exchange))

    def of_answers(self, exchange: Exchange) -> Embedder | None:
        """Return who makes the vectors of answers, which nobody waits for."""
        return self._embedder(exchange, self._local_for_answers, ANSWER_S)

    def close(self) -> None:
        """Let the threads go."""
        self._local.close()
        self._local_for_answers.close()

    def _embedder(self, exchange: Exchange, local: LocalEmbedder, deadline_s: float) -> Embedder | None:
        name = exchange.policy.cache.semantic.embedder
        if name == LOCAL:
            return local
        found = model_of(exchange, name)
        if found is None:
            if name != self._missing:
                self._missing = name
                self._log.warning("similar questions find nothing: there is no such Model", embedder=name)
            return None
        breaker = _bounded(self._breakers, embedder_name(found), Breaker)
        return ModelEmbedder(exchange, found, self._caller, breaker, clock=self._clock, deadline_s=deadline_s)


def _bounded(held: OrderedDict[str, Any], name: str, made: Callable[[], Any]) -> Any:
    """Return what `held` has under `name`, made when it is not there; the one unused for longest goes."""
    if name in held:
        held.move_to_end(name)
    else:
        held[name] = made()
        if len(held) > MODELS:
            held.popitem(last=False)
    return held[name]
