"""Small requests travel together: their inputs go up in one call, and each gets its own answer out of it.

The call is the processor's own, through Envoy like any other, while its members wait. So nobody leads: one
that leaves takes only its own inputs along, and when the processor dies the merged answer dies with it, while
Envoy sends the members on as they came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from structlog.typing import FilteringBoundLogger

from ext_proc.adaptation import Adaptation
from ext_proc.answer_forms import JSON, is_readable
from ext_proc.batches import Batch, Batches, Failure, Member, Terms, shares_of
from ext_proc.continuation import Caller, CallFailed, Reply, whole_body
from ext_proc.contract import headers as names
from ext_proc.contract import telemetry
from ext_proc.contract.policies import BatchPolicy
from ext_proc.contract.routes import CallShape
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason, ResponseHead, describe, stamps
from ext_proc.openai.batching.inputs import Codec, Mismatch, Parts
from ext_proc.openai.errors import ErrorType
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import Request, encode
from ext_proc.openai.responses import parse_completion
from ext_proc.pipeline import PassingStage
from ext_proc.refusals import refuse

MAX_TOKENS: Final = 200_000
"""What one call may hold where the Backend says nothing: below the bound of OpenAI's embeddings."""
PACKED: Final = "packed"
REMEMBERED: Final = 1024
"""How many Models' sizes and windows are learned at the same time."""
LARGE_BYTES: Final = 256 * 1024
"""A larger request gains nothing by company."""
CALLS_AT_ONCE: Final = 64
"""How many calls of all queues are out at the same time."""
# What a caller may say differently and still ask the same provider for the same thing. Any other header, such
# as a key by another name, an account, or a name for this very call, keeps callers apart.
_HARMLESS: Final = frozenset(
    (
        "accept",
        "accept-encoding",
        "accept-language",
        "b3",
        "baggage",
        "connection",
        "content-length",
        "content-type",
        "date",
        "forwarded",
        "host",
        "origin",
        "priority",
        "referer",
        "te",
        "traceparent",
        "tracestate",
        "transfer-encoding",
        "user-agent",
        "via",
        "x-request-id",
    )
)
_HARMLESS_BEGINNINGS: Final = (
    ":",
    "sec-",
    "x-b3-",
    "x-envoy-",
    "x-forwarded-",
    "x-outrigger-",
    "x-stainless-",
)
_TOLD_OF_FAILURES: Final = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")


class BatchStage(PassingStage):
    """Gathers requests and answers them from one call.

    Args:
        codecs: by mode and operation.
        decide: the stage that says where a request goes.
        caller: who makes the calls.
        keep: told of each member's own answer.
        clock: a monotonic time in seconds.
        log: where a batch that falls apart is told.
    """

    name = "batch"
    reasons = frozenset((Reason.BATCH_FAILED, Reason.SERVED_FROM_BATCH))

    def __init__(
        self,
        codecs: Mapping[tuple[str, Operation], Codec],
        *,
        decide: Callable[[Exchange], Awaitable[Answer | Forward | None]],
        caller: Caller,
        keep: Sequence[Callable[[Exchange, Answered], None]],
        clock: Callable[[], float],
        log: FilteringBoundLogger,
    ) -> None:
        self._codecs = codecs
        self._decide = decide
        self._caller = caller
        self._keep = tuple(keep)
        self._log = log
        self._turns = asyncio.Semaphore(CALLS_AT_ONCE)
        self._batches = Batches(self._send, clock)
        self._adaptations: dict[tuple[object, ...], Adaptation] = {}

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Answer from a batch; None goes up by itself."""
        policy, request = exchange.policy.batch, exchange.parsed
        codec = self._codecs.get((policy.mode, request.operation))
        if codec is None or request.stream or exchange.backend is None or len(exchange.body) > LARGE_BYTES:
            return None
        parts = codec.take_apart(request)
        if parts is None:
            return None
        terms = _terms(exchange, policy)
        key = _key(exchange, parts, terms)
        adaptation = self._adaptation(exchange, policy, terms)
        if self._batches.goes_at_once(self._batches.queue(key, codec, terms, adaptation), len(parts.inputs)):
            exchange.batch_queue = key
            # To know when it has been answered.
            exchange.wants_head = True
            return None
        await exchange.park()
        # Not the one of before: nobody may have been left in it while this one was on its way.
        queue = self._batches.queue(key, codec, terms, adaptation)
        return self._answer(exchange, await self._batches.wait(queue, exchange, parts), codec)

    async def close(self) -> None:
        """End every call that is out."""
        await self._batches.close()

    def on_end(self, exchange: Exchange) -> None:
        """Let those who wait for company know that this one has been answered."""
        if exchange.batch_queue is not None:
            key, exchange.batch_queue = exchange.batch_queue, None
            self._batches.left(key)

    def _adaptation(self, exchange: Exchange, policy: BatchPolicy, terms: Terms) -> Adaptation | None:
        if not policy.adaptive or exchange.backend is None:
            return None
        place = (exchange.backend.name, exchange.model_name, exchange.version_name, policy.slo_ms, terms)
        found = self._adaptations.get(place)
        if found is None:
            if len(self._adaptations) >= REMEMBERED:
                self._adaptations.clear()
            goal_s = policy.slo_ms / 1000 if policy.slo_ms else None
            found = self._adaptations[place] = Adaptation(terms.max_inputs, terms.max_wait_s, goal_s)
        return found

    def _answer(self, exchange: Exchange, member: Member, codec: Codec) -> Answer | None:
        shares = member.done.result()
        if shares is None:
            exchange.shared_failed = member.failed
            return _failed(member) if member.failed else None
        body = codec.compose(shares)
        if exchange.cache_key is not None or exchange.flight or exchange.metered or exchange.draft:
            completion = parse_completion(exchange.parsed.operation, body)
            head = ResponseHead(200, {"content-type": JSON, names.BACKEND: member.backend})
            for keep in self._keep:
                keep(exchange, Answered(head, body, completion))
        batched = ((names.BATCH, str(member.size)),) if member.size > 1 else ()
        told = ((names.BACKEND, member.backend),) if member.backend else ()
        told_tokens = [share.tokens for share in shares if share.tokens is not None]
        tokens: tuple[tuple[str, float], ...] = ()
        if len(told_tokens) == len(shares):
            numbers = (float(sum(column)) for column in zip(*told_tokens, strict=True))
            tokens = tuple(zip((telemetry.INPUT_TOKENS, telemetry.OUTPUT_TOKENS), numbers, strict=True))
        return Answer(
            200,
            body,
            Reason.SERVED_FROM_BATCH,
            (
                ("content-type", JSON),
                *told,
                *batched,
                *stamps(exchange.model_name, exchange.version_name, exchange.cache_status),
            ),
            (*describe(exchange), *tokens),
        )

    async def _send(self, batch: Batch) -> bool:
        """Make the call and give everybody their share; return whether the provider answered."""
        first = next((entry.member for entry in batch.queued if entry.member.waits), None)
        if first is None:
            return False
        inputs = [entry.input for entry in batch.queued]
        sent = batch.codec.put_together(first.parts, inputs)
        leader = first.exchange
        request = Request(leader.parsed.operation, sent, leader.parsed.model, stream=False)
        # Nobody's exchange: what the call needs of the first one's.
        asking = replace(leader, request=request, changed=True, wants_stream=False)
        try:
            decision = await self._decide(asking)
            if not isinstance(decision, Forward):
                raise CallFailed("it has nowhere to go")
            for member in batch.members:
                member.exchange.shared = True
            async with self._turns, self._caller.call(leader.head, decision, b"") as reply:
                body = await whole_body(reply)
                if not is_readable(reply.status, reply.headers):
                    if reply.headers.get("content-encoding", "identity") == "identity":
                        batch.failure = Failure(reply.status, body, _told(reply))
                    raise CallFailed(f"the answer is none to share (status {reply.status})")
                for member in batch.members:
                    member.backend = reply.headers.get(names.BACKEND, "")
                    member.size = max(member.size, len(inputs))
            shares_of(batch.queued, batch.codec.deal_out(first.parts, inputs, sent, body))
            return True
        except (CallFailed, Mismatch) as error:
            self._log.info("the members of a batch go alone", reason=str(error), inputs=len(inputs))
        except Exception as error:
            self._log.error("a batch failed", error=type(error).__name__, exc_info=True)
        return False


def _told(reply: Reply) -> tuple[tuple[str, str], ...]:
    return tuple((name, reply.headers[name]) for name in _TOLD_OF_FAILURES if name in reply.headers)


def _failed(member: Member) -> Answer:
    """Return the answer to a request of which one call failed for good."""
    failure = member.failure
    if failure is None or failure.status == 200:
        return refuse(
            502,
            Reason.BATCH_FAILED,
            "The provider did not answer one of the calls that this request's inputs were sent in.",
            kind=ErrorType.SERVER,
            code="batch_failed",
        )
    return Answer(failure.status, failure.body, Reason.SERVED_FROM_BATCH, failure.headers)


def _terms(exchange: Exchange, policy: BatchPolicy) -> Terms:
    limits = exchange.backend.batch if exchange.backend is not None else None
    max_inputs = min(policy.max_size, policy.split_above)
    max_tokens = MAX_TOKENS
    wait_ms = policy.max_wait_ms
    if limits is not None:
        max_inputs = min(max_inputs, limits.max_items or max_inputs)
        max_tokens = limits.max_tokens or max_tokens
    if exchange.backend is not None:
        # Nobody gathers for longer than half of what an answer may take.
        wait_ms = min(wait_ms, exchange.backend.timeouts.request_ms // 2)
    return Terms(policy.send_below, max(max_inputs, 1), max_tokens, wait_ms / 1000)


def _is_harmless(name: str) -> bool:
    return name in _HARMLESS or name.startswith(_HARMLESS_BEGINNINGS)


def _key(exchange: Exchange, parts: Parts, terms: Terms) -> Hashable:
    """Return what requests that travel together have in common."""
    policy, backend, model, version = (
        exchange.policy.batch,
        exchange.backend,
        exchange.model,
        exchange.version,
    )
    headers = exchange.head.headers
    # A Consumer's key is for us.
    left_out = names.CREDENTIALS if exchange.consumer is not None else ()
    rest = {name: value for name, value in parts.rest.items() if name != "model"}
    return (
        (policy.mode, policy.adaptive, policy.slo_ms, terms),
        # The Envoy route of one is the route of all: its tries and time limits.
        exchange.loaded.route(backend, exchange.policy, CallShape.JSON) if backend is not None else "",
        (backend.name, backend.url) if backend is not None else None,
        (model.name, version.name, version.upstream_model) if model and version else exchange.asked_model,
        exchange.head.path,
        exchange.head.query,
        # What one caller's question does to another's answer nobody can rule out.
        exchange.tenant if policy.mode == PACKED else "",
        tuple(
            sorted(pair for pair in headers.items() if pair[0] not in left_out and not _is_harmless(pair[0]))
        ),
        parts.kind,
        encode(rest, sort_keys=True),
    )
