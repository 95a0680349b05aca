"""Whether a Release's two versions answer alike, as the cache shows it.

When one version has answered a question whose answer by the other one is in memory, the two are compared.
Nobody is asked anything for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ext_proc.answers import StoredAnswer
from ext_proc.contract.snapshot import Purge, Rollout
from ext_proc.exchange import Exchange
from ext_proc.pairs import cache_compared
from ext_proc.question import other_question_key
from ext_proc.release_tally import ReleaseTally
from ext_proc.tiers import Tiers


class OtherAnswers:
    """Compares answers. `purges` is what is void."""

    def __init__(self, tiers: Tiers, purges: Callable[[], Sequence[Purge]], tally: ReleaseTally) -> None:
        self._tiers = tiers
        self._purges = purges
        self._tally = tally

    def asked(self, exchange: Exchange) -> None:
        """Note under which key the other version's answer would be; ask only under a Release."""
        model = exchange.model
        rollout = _rollout(exchange)
        if model is None or rollout is None:
            return
        names = (rollout.from_version, rollout.to_version)
        if exchange.assigned not in names:
            return
        other = names[exchange.assigned == names[0]]
        version = next((one for one in model.versions if one.name == other), None)
        backend = exchange.loaded.snapshot.backends.get(version.backend) if version is not None else None
        if version is not None and backend is not None:
            exchange.other_key = other_question_key(exchange, version, backend)

    def answered(self, exchange: Exchange, answer: StoredAnswer) -> None:
        """Compare `answer`, which the provider has given to the exchange's question."""
        key = exchange.other_key
        if key is None:
            return
        other = self._tiers.in_memory(key, exchange.policy.cache.tiers, self._purges())
        if other is not None:
            found = cache_compared(exchange.parsed.operation, answer.body, other.body)
            if found.likeness:
                self._tally.add(exchange.release, found)


def _rollout(exchange: Exchange) -> Rollout | None:
    releases = exchange.model.releases if exchange.model is not None else ()
    return next((one for one in releases if one.name == exchange.release), None)
