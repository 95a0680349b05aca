"""Bounds on request parameters: caps, defaults and refusals of the Policy.

A parameter that the caller left out stays out unless the Policy has a default for it, so that models
which do not know it keep working.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ext_proc.contract import headers
from ext_proc.contract.policies import DEFAULTS, Bound
from ext_proc.exchange import Answer, Exchange, Forward, Reason
from ext_proc.openai.errors import ErrorCode
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import BadRequest, read_number
from ext_proc.pipeline import Decisions, PassingStage

# OpenAI's two names for one thing: a cap holds for both, a default is set by the one all servers know.
_MAX_TOKENS = ("max_tokens", "max_completion_tokens")


class Clamp(PassingStage):
    """Brings the request's parameters within the Policy's bounds, and fills in `clamped` and `changed`."""

    name = "clamp"
    reasons = frozenset((Reason.BAD_REQUEST, Reason.CLAMPED))

    def __init__(self, decisions: Decisions) -> None:
        self._decisions = decisions

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Change the parsed document in place.

        Raises:
            BadRequest: 400 for a parameter that is forbidden, or bounded and no number.
        """
        policy = exchange.policy.parameters
        if policy is DEFAULTS.parameters:
            return None
        document = exchange.parsed.document
        for name in policy.forbid:
            if document.get(name) is not None:
                raise BadRequest(
                    400, f"The parameter '{name}' may not be set here.", name, ErrorCode.UNSUPPORTED_PARAMETER
                )
        if exchange.parsed.operation is Operation.EMBEDDINGS:
            return None
        for names, bound in (
            (("temperature",), policy.temperature),
            (("top_p",), policy.top_p),
            (_MAX_TOKENS, policy.max_tokens),
            (("n",), policy.n),
        ):
            bounded = bound.max is not None or bound.default is not None
            if bounded and (changed := _bring_within(document, names, bound)):
                exchange.changed = True
                exchange.clamped = ",".join((exchange.clamped, *changed)).lstrip(",")
                self._decisions.decided(self.name, Reason.CLAMPED)
        return None

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Name the parameters on answers of our own, too; on a provider's, Envoy does."""
        if not exchange.clamped:
            return answer
        return replace(answer, headers=(*answer.headers, (headers.CLAMPED, exchange.clamped)))


def _bring_within(document: dict[str, Any], names: tuple[str, ...], bound: Bound) -> Sequence[str]:
    """Return the parameters of `document` that were changed."""
    values = {name: value for name in names if (value := read_number(document, name)) is not None}
    if not values and bound.default is not None:
        document[names[0]] = _like_whole(bound.default)
        return names[:1]
    # A negative number is no small one: some servers read -1 tokens as "without end".
    over = [
        name
        for name, value in values.items()
        if bound.max is not None and (value > bound.max or (value < 0 and names == _MAX_TOKENS))
    ]
    for name in over:
        document[name] = _like_whole(bound.max or 0)
    return over


def _like_whole(value: float) -> int | float:
    # 4096.0 in a Policy is meant as 4096: providers refuse a fractional token count.
    return int(value) if float(value).is_integer() else value
