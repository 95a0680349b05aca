"""The stages in order: what happens to an exchange at each message that Envoy sends about it.

Pure of transport: it is given values and returns decisions. A stage that fails unexpectedly raises through;
the transport then lets Envoy fail open or closed as the policy says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from ext_proc.answer_forms import READ_AT_MOST_BYTES, STREAM_TYPE, is_document, is_readable
from ext_proc.contract import headers as names
from ext_proc.contract import telemetry
from ext_proc.exchange import (
    REFUSED,
    Answer,
    Answered,
    Exchange,
    Forward,
    Numbers,
    Reason,
    RequestHead,
    ResponseHead,
    Wish,
)
from ext_proc.openai.errors import ErrorCode
from ext_proc.openai.paths import Operation, classify
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.requests import BadRequest, parse_request
from ext_proc.openai.responses import parse_completion
from ext_proc.redaction.answers import restore_body
from ext_proc.redaction.streams import StreamRestorer
from ext_proc.refusals import refuse
from ext_proc.snapshots import SnapshotHolder
from ext_proc.timing import PASSED, Hook, Stopwatches, timed, told_on

# The pipeline's own decisions are counted under this name.
PARSE = "parse"
# A longer stream passes on unrecorded.
RECORD_AT_MOST_BYTES = 16 * 1024 * 1024


class Decisions(Protocol):
    """Who counts what was decided."""

    def decided(self, stage: str, reason: str) -> None:
        """`stage` and `reason` are among those that the stages announce."""
        ...


class Pacing(Protocol):
    """Who tells a stream of our own piece by piece."""

    def begin(self, exchange: Exchange, answer: Answer) -> Forward | None:
        """Begin to tell `answer` at its pace; None when it has to go at once."""
        ...


class Stage(Protocol):
    """One step. Hooks that a stage has no use for it inherits from `PassingStage`.

    `name` is a metric label; `reasons` are all those that the stage can give. Where one `masks` requests, the
    stages before it see answers restored, the others as the provider gave them.
    """

    name: ClassVar[str]
    reasons: ClassVar[frozenset[Reason]]
    masks: ClassVar[bool]

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """See the request's headers. None passes the exchange on."""
        ...

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """See the parsed request. None passes the exchange on; a stage may wait here (park)."""
        ...

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """See an answer of our own to a parsed request; return it as the caller is to get it.

        The last stage sees it first.
        """
        ...

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """See the status and headers of the final response. An answer is given in its place."""
        ...

    def on_unread(self, exchange: Exchange) -> None:
        """See that nothing of the final response's body will be shown, though a stage asked for it."""
        ...

    def on_chunk(self, exchange: Exchange, chunk: bytes, *, end: bool) -> None:
        """See a part of a recorded stream as the provider sent it; `end`: it ended in order."""
        ...

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """See a whole answer of a parsed operation: a JSON response, or a complete stream joined to one."""
        ...

    def on_end(self, exchange: Exchange) -> None:
        """See the exchange end, exactly once, however it ended."""
        ...

    async def close(self) -> None:
        """End what the stage does by itself; no exchange comes any more."""
        ...


class PassingStage:
    """A stage that does nothing; the base of all others."""

    name: ClassVar[str] = "passing"
    reasons: ClassVar[frozenset[Reason]] = frozenset()
    masks: ClassVar[bool] = False

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Pass the exchange on."""
        return None

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Pass the exchange on."""
        return None

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Leave it."""
        return answer

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Look away."""
        return None

    def on_unread(self, exchange: Exchange) -> None:
        """Look away."""

    def on_chunk(self, exchange: Exchange, chunk: bytes, *, end: bool) -> None:
        """Look away."""

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Look away."""

    def on_end(self, exchange: Exchange) -> None:
        """Hold nothing."""

    async def close(self) -> None:
        """Do nothing by itself."""


def announced(stages: Sequence[Stage]) -> Sequence[tuple[str, frozenset[Reason]]]:
    """Return every stage with all reasons that it can give, and the pipeline's own."""
    own = (PARSE, frozenset((Reason.BAD_REQUEST, Reason.UNKNOWN_PATH)))
    return (own, *((stage.name, stage.reasons) for stage in stages if stage.reasons))


class NoSnapshot(RuntimeError):
    """No policy has come yet, so nothing can be decided."""


class Pipeline:
    """Runs the stages. One instance a processor; all state is in the exchanges, the stages and the holder."""

    def __init__(
        self,
        stages: Sequence[Stage],
        snapshots: SnapshotHolder,
        decisions: Decisions,
        pacing: Pacing | None = None,
        stopwatches: Stopwatches | None = None,
    ) -> None:
        self._stages = tuple(stages)
        self._snapshots = snapshots
        self._decisions = decisions
        self._pacing = pacing
        self._stopwatches = stopwatches
        # Only hooks that a stage really has are called.
        self._on_head = [(s.name, s.on_head) for s in stages if _has(s, "on_head")]
        self._on_request: list[tuple[str, Hook]] = [
            (s.name, s.on_request) for s in stages if _has(s, "on_request")
        ]
        self._on_answer = [s.on_answer for s in reversed(stages) if _has(s, "on_answer")]
        self._on_response_head = [(s.name, s.on_response_head) for s in stages if _has(s, "on_response_head")]
        self._on_unread = [s.on_unread for s in stages if _has(s, "on_unread")]
        self._on_chunk = [s.on_chunk for s in stages if _has(s, "on_chunk")]
        masking = next((place for place, s in enumerate(stages) if s.masks), 0)
        self._on_response = [s.on_response for s in stages[masking:] if _has(s, "on_response")]
        self._on_restored = [s.on_response for s in stages[:masking] if _has(s, "on_response")]
        self._on_end = [s.on_end for s in stages if _has(s, "on_end")]

    async def close(self) -> None:
        """End what stages do by themselves."""
        for stage in self._stages:
            await stage.close()

    def begin(self, head: RequestHead) -> Exchange:
        """Open an exchange on the snapshot in force. Whoever opens one must `end` it.

        Raises:
            NoSnapshot: before the first snapshot has come.
        """
        loaded = self._snapshots.acquire()
        if loaded is None:
            raise NoSnapshot("no policy has come from the control plane yet")
        exchange = Exchange(head, loaded, classify(head.method, head.path))
        if names.STAGES in head.headers and self._stopwatches is not None:
            self._stopwatches.give(exchange)
        return exchange

    async def request_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Decide on the headers alone. None asks for the body."""
        classified = exchange.classified
        if classified.refused is not None:
            self._decisions.decided(PARSE, Reason.UNKNOWN_PATH)
            return refuse(404, Reason.UNKNOWN_PATH, classified.refused, code=ErrorCode.UNKNOWN_URL)
        watch = exchange.stopwatch
        for name, hook in self._on_head if watch is None else timed(watch, self._on_head):
            decision = await hook(exchange)
            if decision is not None:
                if isinstance(decision, Forward):
                    exchange.forwarded = decision
                elif watch is not None:
                    decision = told_on(decision, watch)
                return self._counted(name, decision)
        return None

    async def request_body(self, exchange: Exchange, body: bytes) -> Answer | Forward:
        """Parse the body once and take it through the stages.

        Raises:
            RuntimeError: no stage decided, which is a fault of the wiring.
        """
        headers = exchange.head.headers
        exchange.body = body
        name = PARSE
        watch, hooks = exchange.stopwatch, self._on_request
        if watch is not None:
            watch.begin()
        try:
            exchange.request = parse_request(
                exchange.classified.operation,
                body,
                headers.get("content-type"),
                headers.get("content-encoding"),
            )
            # Envoy itself counts the tokens of the others. It would parse pages of vectors on the one thread
            # that carries all traffic.
            exchange.wants_body = exchange.classified.operation is Operation.EMBEDDINGS
            if watch is not None:
                watch.lap(PARSE, PASSED, {})
                hooks = timed(watch, hooks)
            for name, hook in hooks:
                decision = await hook(exchange)
                if decision is not None:
                    if isinstance(decision, Forward):
                        exchange.forwarded = decision
                    else:
                        decision = self._shown(exchange, decision)
                        if decision.pace_ms and self._pacing is not None:
                            decision = self._pacing.begin(exchange, decision) or decision
                    return self._counted(name, decision)
        except BadRequest as bad:
            self._decisions.decided(name, Reason.BAD_REQUEST)
            return refuse(bad.status, Reason.BAD_REQUEST, bad.message, param=bad.param, code=bad.code)
        raise RuntimeError("no stage decided on the request")

    def _shown(self, exchange: Exchange, answer: Answer) -> Answer:
        for see in self._on_answer:
            answer = see(exchange, answer)
        return answer if exchange.stopwatch is None else told_on(answer, exchange.stopwatch)

    def _counted(self, stage: str, decision: Answer | Forward) -> Answer | Forward:
        # A hit is counted by the agent, from Envoy's log.
        if isinstance(decision, Answer) and decision.reason is not Reason.SERVED_FROM_CACHE:
            self._decisions.decided(stage, decision.reason)
        return decision

    def response_head(
        self, exchange: Exchange, status: int, headers: Mapping[str, str], *, alone: bool = False
    ) -> Wish | Answer:
        """Look at the final response's headers; return what is wanted of its body. `alone`: there is none.

        An answer is given to the caller in the response's place.
        """
        exchange.response = ResponseHead(status, headers)
        answer: Answer | None = None
        for name, hook in self._on_response_head:
            instead = hook(exchange)
            if instead is not None and answer is None:
                self._decisions.decided(name, instead.reason)
                answer = instead
        if answer is not None:
            return self._shown(exchange, answer)
        wish = Wish.NOTHING if alone else self._wish(exchange, status, headers)
        if wish is Wish.NOTHING:
            for look in self._on_unread:
                look(exchange)
        return wish

    def _wish(self, exchange: Exchange, status: int, headers: Mapping[str, str]) -> Wish:
        streamed = exchange.wants_stream or exchange.masks is not None
        if not (exchange.wants_body or streamed) or not is_readable(status, headers):
            return Wish.NOTHING
        if is_document(headers.get("content-type", "")):
            return Wish.WHOLE if exchange.wants_body and _is_short(headers) else Wish.NOTHING
        if streamed and headers.get("content-type", "").startswith(STREAM_TYPE):
            if exchange.masks is not None:
                exchange.restorer = StreamRestorer(exchange.masks)
            exchange.recorder = StreamRecorder(
                exchange.parsed.operation,
                hides_usage=exchange.hides_usage,
                max_bytes=RECORD_AT_MOST_BYTES,
            )
            return Wish.CHUNKS
        return Wish.NOTHING

    def response_body(self, exchange: Exchange, body: bytes) -> Numbers:
        """Take a whole JSON response through the stages; return what the access log should know of it."""
        head = exchange.response
        if head is None:
            raise RuntimeError("a response body came before its headers")
        completion = parse_completion(exchange.parsed.operation, body)
        self._answered(exchange, Answered(head, body, completion))
        told = REFUSED if exchange.refused else ()
        if completion is None or completion.usage is None:
            return told
        return (
            *told,
            (telemetry.INPUT_TOKENS, float(completion.usage.prompt_tokens)),
            (telemetry.OUTPUT_TOKENS, float(completion.usage.completion_tokens)),
        )

    def response_chunk(self, exchange: Exchange, chunk: bytes, *, end: bool) -> bytes | None:
        """Record a part of a stream; return what the caller gets in its place, None when that is the same.

        The stages see the joined answer as soon as it is complete: a caller may hang up after the end mark.
        """
        recorder, head = exchange.recorder, exchange.response
        if recorder is None or head is None:
            raise RuntimeError("a part of a stream came that nobody asked for")
        for hook in self._on_chunk:
            hook(exchange, chunk, end=end)
        visible = recorder.feed(chunk, end=end)
        if (recorder.done or end) and recorder.complete and not exchange.recorded:
            exchange.recorded = True
            body = recorder.answer()
            completion = parse_completion(exchange.parsed.operation, body)
            self._answered(exchange, Answered(head, body, completion))
        if exchange.restorer is None:
            return visible
        return exchange.restorer.feed(chunk if visible is None else visible, end=end)

    def _answered(self, exchange: Exchange, answered: Answered) -> None:
        exchange.refused = answered.completion is not None and answered.completion.refused
        for hook in self._on_response:
            hook(exchange, answered)
        if not self._on_restored:
            return
        if exchange.masks is not None:
            answered = replace(answered, body=restore_body(exchange.masks, answered.body))
        for hook in self._on_restored:
            hook(exchange, answered)

    def routed(self, exchange: Exchange) -> None:
        """Let the snapshot go: the decision is made and told. Safe to call again.

        The agent keeps a version's routes a little longer, for decisions that are still on their way.
        """
        if exchange.holds_snapshot:
            exchange.holds_snapshot = False
            self._snapshots.release(exchange.loaded)

    def end(self, exchange: Exchange) -> None:
        """Close an exchange, however it ended."""
        self.routed(exchange)
        for hook in self._on_end:
            hook(exchange)


def _has(stage: Stage, hook: str) -> bool:
    return getattr(type(stage), hook) is not getattr(PassingStage, hook)


def _is_short(headers: Mapping[str, str]) -> bool:
    length = headers.get("content-length", "")
    return not (length.isdecimal() and int(length) > READ_AT_MOST_BYTES)
