"""What is fuzzed: each parser with what must hold for any bytes, and a few examples to begin from.

A check returns quietly when the parser takes the bytes or refuses them as it says it does; anything else that
it raises is a finding. Bytes that arrive in several parts have to mean what they mean in one.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final
from urllib.parse import unquote

import orjson
import structlog
from google.protobuf.message import DecodeError
from hpack import Encoder
from lupa import luajit21

from control_plane.resources.documents import check_documents
from control_plane.resources.loading import read_text
from control_plane.resources.problems import InvalidDocumentsError
from ext_proc.agent.render.attempts import attempts_script
from ext_proc.answers import Clocks
from ext_proc.contract import push_pb2
from ext_proc.contract.cache_wire import answer_of, question_of, statistics_of
from ext_proc.contract.snapshot import decode as decode_snapshot
from ext_proc.openai.batching.array import Array
from ext_proc.openai.batching.inputs import Codec, Mismatch
from ext_proc.openai.batching.native import Native
from ext_proc.openai.batching.packed import Packed
from ext_proc.openai.deltas import NotJoinable
from ext_proc.openai.documents import InvalidDocument, decode, encode
from ext_proc.openai.paths import Operation, classify
from ext_proc.openai.ratelimits import parse_hints
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.replays import replay
from ext_proc.openai.requests import BadRequest, Request, cache_key, parse_request
from ext_proc.openai.responses import parse_completion
from ext_proc.openai.splice import NotSpliceable, Splice
from ext_proc.openai.sse import EventParser, EventTooLarge, encode_event
from ext_proc.providers.hints import read_hint
from ext_proc.redaction.answers import restore_body
from ext_proc.redaction.items import items_in
from ext_proc.redaction.masks import Masks
from ext_proc.redaction.requests import mask_request, mask_text
from ext_proc.redaction.streams import StreamRestorer
from ext_proc.sessions.records import packed, unpacked
from ext_proc.sessions.turns import answer_message, read_turn
from ext_proc.stores.entries import MAGIC, decode_entry
from ext_proc.stores.shared_flights import decode_landed
from ext_proc.transport.http2 import frames
from ext_proc.transport.http2.calls import Serving
from ext_proc.transport.http2.connection import Connection
from ext_proc.transport.stream import Stream
from tests.harness.virtual_time import VirtualLoop

OURS: Final = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings")
NOW_S: Final = 1_700_000_000.0
A_YEAR_S: Final = 366 * 86400.0


@dataclass(frozen=True, slots=True)
class Target:
    """One parser: what must hold for any bytes, what to begin from, and words of its language."""

    check: Callable[[bytes], None]
    examples: tuple[bytes, ...]
    words: tuple[bytes, ...] = ()


def parts_of(data: bytes) -> Iterable[bytes]:
    """Yield `data` in parts whose lengths its own bytes decide."""
    at = 0
    while at < len(data):
        size = 1 + data[at] % 23
        yield data[at : at + size]
        at += size


def sse(data: bytes) -> None:
    """The same events in whatever parts; what is encoded is read again as it was."""
    with suppress(EventTooLarge):
        whole, parted = EventParser(4096), EventParser(4096)
        events = whole.feed(data)
        assert [event for part in parts_of(data) for event in parted.feed(part)] == events
        for event in events:
            (again,) = EventParser(1 << 20).feed(encode_event(event.data, event=event.event))
            assert (again.data, again.event) == (event.data.replace(b"\r", b"\n"), event.event)


def requests(data: bytes) -> None:
    """A request is refused or understood; written again it is the same, and has one cache key."""
    for operation in (Operation.CHAT, Operation.COMPLETIONS, Operation.EMBEDDINGS):
        try:
            request = parse_request(operation, data, "application/json", None)
        except BadRequest:
            continue
        again = parse_request(operation, encode(request.document), "application/json", None)
        assert again.document == request.document
        assert cache_key("t", "m/v", again) == cache_key("t", "m/v", request)
        mask_request(again)
    # Beside a text so long that it is not looked into, made of the same bytes, all is as it was.
    if data[:1] == b"{" and not data[1:].lstrip().startswith(b"}"):
        text = orjson.dumps(data.decode("latin-1"))[1:-1]
        large = b'{"a picture":"' + text * (20_000 // len(text) + 1) + b'",' + data[1:]
        read, alone = _document(large), _document(data)
        if read is not None and alone is not None:
            assert {**read, "a picture": ""} == {"a picture": "", **alone}
        else:
            assert read is None
            assert alone is None or "a picture" in alone


def _document(body: bytes) -> dict[str, Any] | None:
    try:
        return decode(body)
    except InvalidDocument:
        return None


def chunks(data: bytes) -> None:
    """A stream in parts is recorded as in one; what is joined and told again is joined to the same."""
    for hides in (False, True):
        whole = StreamRecorder(Operation.CHAT, hides_usage=hides, max_bytes=1 << 16)
        parted = StreamRecorder(Operation.CHAT, hides_usage=hides, max_bytes=1 << 16)
        seen, seen_in_parts = _visible(whole, [data]), _visible(parted, list(parts_of(data)))
        # Behind a hidden event the second half of a CR LF may be left, an empty line.
        assert EventParser().feed(seen_in_parts) == EventParser().feed(seen)
        assert hides or seen == seen_in_parts == data
        assert (whole.complete, whole.usage) == (parted.complete, parted.usage)
        if not whole.complete:
            continue
        answer = whole.answer()
        assert parted.answer() == answer
        parse_completion(Operation.CHAT, answer)
        with suppress(NotJoinable):
            told = b"".join(replay(Operation.CHAT, answer, include_usage=True))
            again = StreamRecorder(Operation.CHAT, hides_usage=False, max_bytes=1 << 20)
            again.feed(told, end=True)


def _visible(recorder: StreamRecorder, parts: Sequence[bytes]) -> bytes:
    out = b""
    for part in parts:
        visible = recorder.feed(part, end=False)
        out += part if visible is None else visible
    return out + (recorder.feed(b"", end=True) or b"")


def splices(data: bytes) -> None:
    """A second stream goes on with the first or is refused; and does so in whatever parts it comes."""
    first, _, second = data.partition(b"\xff")
    with suppress(NotSpliceable):
        whole, parted = Splice(first), Splice(first)
        try:
            rest = whole.feed(second)
        except NotSpliceable:
            rest = None
        said = b""
        try:
            for part in parts_of(second):
                said += parted.feed(part)
        except NotSpliceable:
            return
        assert rest is None or said == rest


def answers(data: bytes) -> None:
    """An answer of a provider is understood or none."""
    for operation in Operation:
        parse_completion(operation, data)
    answer_message(data)
    with suppress(InvalidDocument):
        assert decode(encode(decode(data))) == decode(data)


def hints(data: bytes) -> None:
    """Headers hold a time to wait that can be believed, or none."""
    headers = {}
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value
    for status in (200, 429, 503):
        wait_s = read_hint(status, headers, NOW_S).wait_s
        assert wait_s is None or (math.isfinite(wait_s) and 0 <= wait_s <= A_YEAR_S)


@cache
def _script() -> Any:
    """Return the functions of the script that Envoy runs on each attempt."""
    exported = "\nreturn {wait = refusal_wait_s, with_member = with_member}"
    runtime: Any = luajit21.LuaRuntime
    return runtime(encoding=None).execute((attempts_script() + exported).encode())


def attempts(data: bytes) -> None:
    """Envoy's script reads hints as the processor does, and replaces a body's own model alone."""
    script, headers = _script(), {}
    for line in data.split(b"\n"):
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value
    wait_s = script.wait(headers.get, NOW_S)
    assert wait_s is None or (math.isfinite(wait_s) and 0 < wait_s <= A_YEAR_S)
    told = b"".join(headers.values())
    # Of ISO 8601 the script reads the form that providers use.
    if told.isascii() and told.decode().isprintable() and b"-" not in told and b"T" not in told:
        named = {name.decode("latin-1"): value.decode() for name, value in headers.items()}
        own = parse_hints(named, NOW_S).wait_s
        assert (wait_s is None) is (own is None), (wait_s, own)
        assert wait_s is None or own is None or math.isclose(wait_s, own, rel_tol=1e-9, abs_tol=1e-6)
    _replaced(data, script.with_member(data, b"model", b'"other"'))


def _replaced(before: bytes, after: bytes) -> None:
    """Check what the script made of a body."""
    try:
        document, changed = decode(before), orjson.loads(after)
    except (InvalidDocument, ValueError):
        return
    if isinstance(document.get("model"), str):
        assert changed == {**orjson.loads(before), "model": "other"}
    else:
        assert changed == orjson.loads(before)


def batches(data: bytes) -> None:
    """Of an answer to many each gets its own, or nobody anything."""
    asked, _, body = data.partition(b"\xff")
    packing = Packed(lambda: "0a1b2c3d4e5f")
    codecs: tuple[tuple[Codec, Operation], ...] = (
        (Native(Operation.EMBEDDINGS), Operation.EMBEDDINGS),
        (Native(Operation.COMPLETIONS), Operation.COMPLETIONS),
        (Array(), Operation.CHAT),
        (packing, Operation.CHAT),
    )
    for codec, operation in codecs:
        try:
            request: Request = parse_request(operation, asked, "application/json", None)
        except BadRequest:
            continue
        parts = codec.take_apart(request)
        if parts is None:
            continue
        inputs = parts.inputs
        sent = codec.put_together(parts, inputs)
        encode(sent)
        with suppress(Mismatch):
            shares = codec.deal_out(parts, inputs, sent, body)
            assert len(shares) == len(inputs)
            got = [share for share in shares if share is not None]
            if len(got) == len(inputs):
                parse_completion(operation, codec.compose(got))


def redaction(data: bytes) -> None:
    """What is masked is put back as it was, in whatever parts it comes back."""
    text = data.decode("utf-8", "replace")
    masks = Masks()
    items = items_in(text)
    assert all(0 <= item.start <= item.end <= len(text) for item in items)
    assert all(one.end <= other.start for one, other in pairwise(items))
    masked = mask_text(text, items, masks)
    whole, parted = StreamRestorer(masks), StreamRestorer(masks)
    choice = {"index": 0, "delta": {"content": masked}, "finish_reason": None}
    told = b"data: " + orjson.dumps({"choices": [choice]}) + b"\n\ndata: [DONE]\n\n" + data
    out = whole.feed(told, end=True)
    assert b"".join(parted.feed(part) for part in parts_of(told)) + parted.feed(b"", end=True) == out
    restore_body(masks, data)


_QUIET: Final = structlog.wrap_logger(
    structlog.PrintLogger(), wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
)


async def _echo(stream: Stream) -> None:
    while (message := await stream.read()) is not None:
        await stream.write(message)


class _Wire(asyncio.Transport):
    def __init__(self, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._protocol = protocol
        self._closed = False

    def write(self, data: Any) -> None:
        assert not self._closed

    def is_closing(self) -> bool:
        return self._closed

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    abort = close


async def _connected(data: bytes) -> None:
    loop = asyncio.get_running_loop()
    faults: list[object] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    serving = Serving({"/t/Echo": _echo}, 1 << 16, _QUIET, lambda: None)
    connection = Connection(serving, loop)
    wire = _Wire(connection)
    connection.connection_made(wire)
    for part in (frames.PREFACE, *parts_of(data)):
        if not wire.is_closing():
            connection.data_received(part)
            await asyncio.sleep(0)
    await asyncio.sleep(10)
    wire.close()
    await asyncio.sleep(1)
    assert not connection.calls
    assert not serving.connections
    assert not serving.leaving
    assert not faults, faults


def http2(data: bytes) -> None:
    """A peer that breaks HTTP/2 loses its connection, and nothing of it is left."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(_connected(data))


def stores(data: bytes) -> None:
    """What anybody may have written into a store is what we wrote, or nothing."""
    decode_entry(b"k" * 32, data, Clocks(NOW_S, 1.0))
    decode_entry(b"k" * 32, MAGIC + data, Clocks(NOW_S, 1.0))
    decode_landed(data)
    records = unpacked(data)
    assert unpacked(packed(records)) == records
    read_turn(1, data)


def push(data: bytes) -> None:
    """A message of another build is understood or refused."""
    with suppress(ValueError):
        decode_snapshot(data)
    with suppress(DecodeError):
        question_of(push_pb2.CacheQuestion.FromString(data))
    with suppress(DecodeError):
        answer_of(push_pb2.CacheAnswer.FromString(data))
    with suppress(DecodeError):
        statistics_of(push_pb2.CacheStatistics.FromString(data))


def documents(data: bytes) -> None:
    """Documents are understood, or refused in sentences."""
    for source in ("a.yaml", "a.json"):
        with suppress(InvalidDocumentsError):
            check_documents(read_text(data, source))


def paths(data: bytes) -> None:
    """A path that servers may read as one of ours, but is written in another way, is refused."""
    path = data.decode("utf-8", "surrogateescape")
    found = classify("POST", path)
    read = path
    for _ in range(3):
        read = unquote(read)
    segments: list[str] = []
    for segment in read.replace("\\", "/").split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    if "/" + "/".join(segments) in OURS and not set("?#;\0") & set(read):
        assert found.operation is not Operation.OTHER or found.refused, path
        assert path in OURS or found.refused, path


def _call(*payloads: bytes) -> bytes:
    fields = [(":method", "POST"), (":scheme", "http"), (":path", "/t/Echo"), ("te", "trailers")]
    block = Encoder().encode(fields)
    opening = frames.settings({}) + frames.frame(frames.HEADERS, frames.END_HEADERS, 1, block)
    return opening + b"".join(frames.frame(frames.DATA, 0, 1, one) for one in payloads)


_CHAT: Final = b'{"model":"m","messages":[{"role":"user","content":"hi 13900139417"}],"temperature":0.5}'
_STREAM: Final = (
    b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}\n\n'
    b"data: [DONE]\n\n"
)
_TOOLS: Final = (
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":'
    b'{"name":"f","arguments":"{"}}]}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},'
    b'"finish_reason":"tool_calls"}]}\n\n'
)
_ANSWER: Final = (
    b'{"choices":[{"index":0,"message":{"role":"assistant","content":"[PHONE_1]"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}'
)
_VECTORS: Final = (
    b'{"data":[{"index":1,"embedding":[1]},{"index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":2}}'
)
_JSON: Final = (b'"', b"{", b"}", b"[", b"]", b":", b",", b"null", b"1e400", b"-0", b"\\u0000", b"\\ud800")
_FIELDS: Final = (
    b'"choices"',
    b'"index"',
    b'"delta"',
    b'"content"',
    b'"usage"',
    b'"finish_reason"',
    b'"error"',
)
_LINES: Final = (b"data: ", b"\n\n", b"\r\n\r\n", b"\r", b": x\n", b"event: e\n", b"id: 1\n", b"[DONE]")

TARGETS: Final = {
    "sse": Target(
        sse, (_STREAM, b"\xef\xbb\xbfdata:a\rdata:b\r\n\revent: e\nid\nretry: 7\ndata\n\n"), _LINES
    ),
    "requests": Target(
        requests,
        (_CHAT, b'{"model":"m","prompt":["a","b"],"n":2}', b'{"model":"m","input":[[1,2],[3]],"model":"n"}'),
        (*_JSON, b'"model"', b'"messages"', b'"stream"'),
    ),
    "chunks": Target(chunks, (_STREAM, _TOOLS + b"data: [DONE]\n\n"), (*_LINES, *_JSON, *_FIELDS)),
    "splices": Target(
        splices,
        (_STREAM[:95] + b"\xff" + _STREAM, _TOOLS[:160] + b"\xff" + _TOOLS),
        (*_LINES, *_FIELDS, b"\xff"),
    ),
    "answers": Target(answers, (_ANSWER, _VECTORS), (*_JSON, *_FIELDS)),
    "hints": Target(
        hints,
        (
            b"retry-after: 1.5\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 6m0s",
            b"retry-after: Sun, 06 Nov 1994 08:49:37 GMT\nretry-after-ms: 7",
            b"x-ratelimit-remaining-tokens: 0\nx-ratelimit-reset-tokens: 2026-01-01T00:00:00+08:00",
        ),
        (b"1e999", b"-1", b"h", b"ms", b"\xff", b"9999999999999", b"nan", b"inf"),
    ),
    "attempts": Target(
        attempts,
        (
            b"retry-after: 1.5\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 6m0s",
            b"x-ratelimit-reset-tokens: 1ms\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT",
            b'{"a":{"model":"x"},"model":"m","s":"\\"model\\":"}',
        ),
        (*_JSON, b'"model"', b'"m\\u006fdel"', b"1e999", b"h", b"ms", b"\xc2\xb5s", b"0x1", b"nan"),
    ),
    "batches": Target(
        batches,
        (
            b'{"model":"m","input":["a","b"]}\xff' + _VECTORS,
            _CHAT + b"\xff" + _ANSWER,
            b'{"model":"m","prompt":["a","b"]}\xff{"choices":[{"index":0,"text":"x"},{"index":1,"text":"y"}]}',
        ),
        (*_JSON, *_FIELDS, b"\xff"),
    ),
    "redaction": Target(
        redaction,
        (
            b"call 13900139417 or a@b.cn, \\u0031",
            b'{"card": 4111111111111111}',
            b"sk-abcdefghijklmnopqrstuvwx",
        ),
        (b"[PHONE_1]", b"\\u003", b"@", b".com", b"+86 ", b"11010519491231002X"),
    ),
    "http2": Target(
        http2,
        (
            _call(b"\0\0\0\0\1x"),
            _call(b"\0\0\0", b"\0\2xy") + frames.frame(frames.RST_STREAM, 0, 1, b"\0\0\0\x08"),
        ),
        (
            b"\0\0\4\3\0\0\0\0\1",
            b"\0\0\0\1\5\0\0\0\1",
            b"\0\0\x08\6\0\0\0\0\0",
            b"\0\0\4\x08\0\0\0\0\0",
            b"\x7f\xff\xff\xff",
        ),
    ),
    "stores": Target(
        stores,
        (
            packed([(7, b'{"system":[],"messages":[{"role":"user"}]}')]),
            b'["application/json","b"]\n{}',
            b'{"key":"x"}\n',
        ),
        (*_JSON, MAGIC, b'"expires_at"', b'"packed"'),
    ),
    "push": Target(
        push, (b'{"version":"r1","backends":{},"models":{}}', b"\x08\1\x12\1a"), (*_JSON, b'"policies"')
    ),
    "documents": Target(
        documents,
        (
            b"kind: Model\nmetadata: {name: m}\nspec: {versions: [{name: v, backend: b}]}\n---\n"
            b"kind: Backend\nmetadata: {name: b}\nspec: {url: 'http://a/v1', timeouts: {request: 5s}}\n",
            b'[{"kind":"Tier","metadata":{"name":"t"},"spec":{"limits":{"requestsPerMinute":1}}}]',
            b"kind: Policy\nmetadata: {name: p}\nspec: {cache: {ttl: 1h}, batch: {mode: none}}\n",
        ),
        (b"&a ", b"*a", b"!!", b"---\n", b"<<: ", b"? ", b"|\n", b"0x1f", b"1_0", b".inf", b"yes"),
    ),
    "paths": Target(
        paths, (b"/v1/chat/completions", b"/v1//chat/%63ompletions/"), (b"%2f", b"%2e", b"//", b"..")
    ),
}
"""By name. `documents` is the control plane's, all others are the data plane's."""
