"""Sessions: a caller sends what is new, and the turns before it go up with it.

Stands before all stages that answer, so that they see all of it. A turn is kept when its answer is complete,
whoever gave it. What failed, broke off or was left leaves nothing.
"""

from __future__ import annotations

from typing import Final, Protocol

from ext_proc.answer_forms import READ_AT_MOST_BYTES, STREAM_TYPE
from ext_proc.contract import headers as names
from ext_proc.contract.policies import all_settings
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason
from ext_proc.openai.errors import ErrorType
from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.requests import BadRequest, encode
from ext_proc.openai.responses import Completion, parse_completion
from ext_proc.pipeline import PassingStage
from ext_proc.refusals import refuse
from ext_proc.sessions.records import NotErased, Opened, Record, session_key
from ext_proc.sessions.turns import answer_message, continued, read_messages

MAX_NAME_CHARS: Final = 256
# Turns that wait for results of tools are kept beside the others.
OPEN_TURNS: Final = 8
# So long a turn may have been under way when its session was erased.
ERASED_MS: Final = 3_600_000
_ERASED_BY: Final = ("DELETE", "/v1/chat/completions")


class Sessions(Protocol):
    """Where turns are kept. What cannot be had is not there."""

    async def begin(self, key: bytes, *, ttl_ms: int, keep: int) -> Opened:
        """Draw a number for a request of the session, and return the last `keep` records."""
        ...

    def commit(self, key: bytes, record: Record, *, ttl_ms: int, keep: int) -> None:
        """Keep `record`, in the place of one with its number. The session lives on for `ttl_ms`."""
        ...

    async def erase(self, key: bytes, *, ttl_ms: int) -> None:
        """Forget the session, and for `ttl_ms` turns of it that are under way. Raises NotErased."""
        ...


class Session(PassingStage):
    """Puts a session's past before the request's messages, and keeps the turn. `store` is where."""

    name = "session"
    reasons = frozenset((Reason.BAD_REQUEST, Reason.SESSION_ERASED, Reason.SESSIONS_UNAVAILABLE))

    def __init__(self, store: Sessions) -> None:
        self._store = store

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Erase the caller's session, which is asked for by DELETE on the path of chats."""
        head = exchange.head
        session = head.headers.get(names.SESSION)
        if not session or (head.method, head.path) != _ERASED_BY or not _somewhere_enabled(exchange):
            return None
        try:
            _check(session, exchange)
            await self._store.erase(_key(exchange, session), ttl_ms=ERASED_MS)
        except BadRequest as bad:
            return refuse(bad.status, Reason.BAD_REQUEST, bad.message)
        except NotErased:
            return refuse(
                503,
                Reason.SESSIONS_UNAVAILABLE,
                "Where sessions are kept is out of reach: this one may be there still. Try again soon.",
                kind=ErrorType.SERVER,
                code="sessions_unavailable",
                headers=(("retry-after", "1"),),
            )
        return Answer(204, b"", Reason.SESSION_ERASED)

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
        key = _key(exchange, session)
        opened = await self._store.begin(key, ttl_ms=policy.ttl_ms, keep=policy.turns + OPEN_TURNS)
        exchange.session_key = key
        exchange.conversation = conversation = continued(opened, asked, policy.turns, policy.max_tokens)
        exchange.wants_body = True
        exchange.wants_stream = exchange.wants_stream or request.stream
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


def _key(exchange: Exchange, session: str) -> bytes:
    consumer = exchange.consumer.name if exchange.consumer is not None else ""
    return session_key(exchange.tenant, consumer, session)


def _somewhere_enabled(exchange: Exchange) -> bool:
    return any(settings.get("session.enabled") for settings in all_settings(exchange.loaded.snapshot))


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
