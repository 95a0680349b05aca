"""Sessions: a caller sends what is new, and the turns before it go up with it.

Stands before all stages that answer, so that they see all of it. A turn is kept when its answer is complete,
whoever gave it. What failed, broke off or was left leaves nothing.
"""

from __future__ import annotations

from typing import Final, Protocol

from ext_proc.answer_forms import READ_AT_MOST_BYTES, STREAM_TYPE
from ext_proc.contract import headers as names
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason
from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.requests import BadRequest, encode
from ext_proc.openai.responses import Completion, parse_completion
from ext_proc.pipeline import PassingStage
from ext_proc.sessions.records import Opened, Record, session_key
from ext_proc.sessions.turns import answer_message, continued, read_messages

MAX_NAME_CHARS: Final = 256
# Turns that wait for results of tools are kept beside the others.
OPEN_TURNS: Final = 8


class Sessions(Protocol):
    """Where turns are kept. Never fails: what cannot be had is not there."""

    async def begin(self, key: bytes, *, ttl_ms: int, keep: int) -> Opened:
        """Draw a number for a request of the session, and return the last `keep` records."""
        ...

    def commit(self, key: bytes, record: Record, *, ttl_ms: int, keep: int) -> None:
        """Keep `record`, in the place of one with its number. The session lives on for `ttl_ms`."""
        ...


class Session(PassingStage):
    """Puts a session's past before the request's messages, and keeps the turn. `store` is where."""

    name = "session"
    reasons = frozenset((Reason.BAD_REQUEST,))

    def __init__(self, store: Sessions) -> None:
        self._store = store

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Change the parsed document in place.

        Raises:
            BadRequest: 400 for a session's name that is too long, cannot be printed, or came twice.
        """
        policy, request = exchange.policy.session, exchange.parsed
        if not policy.enabled or request.operation is not Operation.CHAT:
            return None
        session = exchange.head.headers.get(names.SESSION)
        asked = read_messages(request.document)
        if not session or asked is None:
            return None
        _check(session, exchange)
        consumer = exchange.consumer.name if exchange.consumer is not None else ""
        key = session_key(exchange.tenant, consumer, session)
        opened = await self._store.begin(key, ttl_ms=policy.ttl_ms, keep=policy.turns + OPEN_TURNS)
        exchange.session_key = key
        exchange.conversation = conversation = continued(opened, asked, policy.turns, policy.max_tokens)
        exchange.wants_body = True
        exchange.wants_stream = request.stream
        messages = conversation.messages
        if len(messages) > len(asked):
            request.document["messages"] = messages
            exchange.body = encode(request.document)
            exchange.changed = True
        return None

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Keep the turn that an answer of our own ends; leave the answer as it is."""
        if exchange.conversation is not None and answer.status == 200:
            body = _joined(answer)
            self._keep(exchange, body, parse_completion(Operation.CHAT, body))
        return answer

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Keep the turn that the provider's answer ends."""
        if exchange.conversation is not None and answered.head.status == 200:
            self._keep(exchange, answered.body, answered.completion)

    def _keep(self, exchange: Exchange, body: bytes, completion: Completion | None) -> None:
        key, conversation = exchange.session_key, exchange.conversation
        exchange.conversation = None
        if key is None or conversation is None or completion is None:
            return
        message = answer_message(body) if completion.answers_all_of(exchange.parsed) else None
        if message is not None:
            policy = exchange.policy.session
            record = (conversation.number, conversation.record(message))
            self._store.commit(key, record, ttl_ms=policy.ttl_ms, keep=policy.turns + OPEN_TURNS)


def _check(session: str, exchange: Exchange) -> None:
    if names.SESSION in exchange.head.doubled:
        raise BadRequest(400, f"Send one {names.SESSION} header only.")
    if len(session) > MAX_NAME_CHARS or not session.isprintable():
        raise BadRequest(
            400,
            f"The {names.SESSION} header must be {MAX_NAME_CHARS} characters that can be printed, at most.",
        )


def _joined(answer: Answer) -> bytes:
    """Return the body of an answer as JSON, whichever form it has."""
    if not dict(answer.headers).get("content-type", "").startswith(STREAM_TYPE):
        return answer.body
    recorder = StreamRecorder(Operation.CHAT, hides_usage=False, max_bytes=READ_AT_MOST_BYTES)
    recorder.feed(answer.body, end=True)
    return recorder.answer() if recorder.complete else b""
