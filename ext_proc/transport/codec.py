"""Envoy's external-processing messages to values, and decisions back to messages (bytes).

Protocol: envoy/service/ext_proc/v3/external_processor.proto. Replies are returned serialised: the ones that
recur (most of them) are made once and kept.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HttpHeaders,
    ImmediateResponse,
    ProcessingRequest,
    ProcessingResponse,
    TrailersResponse,
)
from envoy.type.v3.http_status_pb2 import HttpStatus
from google.protobuf.duration_pb2 import Duration
from google.protobuf.struct_pb2 import Struct
from google.protobuf.struct_pb2 import Value as StructValue

from ext_proc.contract import headers as names
from ext_proc.contract import telemetry
from ext_proc.contract.plans import ATTEMPT, PLAN, STAND_IN, STAND_INS, USAGE_REFUSED_BY, USED_UP, Plan
from ext_proc.exchange import (
    Answer,
    Forward,
    Metadata,
    Numbers,
    Pairs,
    Reason,
    RequestHead,
    Value,
)

# The code_details of our own answers begin so; Envoy's local-reply rules leave them alone.
DETAILS_PREFIX: Final = "outrigger_"
# Answers up to this length are kept as messages for a while: a popular one is given many times a second.
ANSWERED_AGAIN_BYTES: Final = 8192
_OVERWRITE: Final = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
_DOUBLE: Final = struct.Struct("<d")
_MAP_ENTRY: Final = Struct.DESCRIPTOR.fields_by_name["fields"].message_type
_SEND: Final = ProcessingMode.SEND
_SKIP: Final = ProcessingMode.SKIP
_NONE: Final = ProcessingMode.NONE
_BUFFERED: Final = ProcessingMode.BUFFERED

decode_request = ProcessingRequest.FromString


def request_head(message: HttpHeaders) -> RequestHead:
    """Read the request headers. Bytes that are no UTF-8 survive as surrogate escapes."""
    received = message.headers.headers
    headers = _by_name(received)
    doubled: frozenset[str] = frozenset()
    if len(headers) != len(received):
        headers, doubled = _join_doubled(received)
    path, _, query = headers.get(":path", "/").partition("?")
    return RequestHead(headers.get(":method", ""), path, query, headers, doubled)


def stand_in(message: ProcessingRequest) -> int:
    """Return the number of the stand-in whose answer this is about; 0: it is that of the one first chosen."""
    attempt = message.metadata_context.filter_metadata.get(ATTEMPT)
    if attempt is None or STAND_IN not in attempt.fields:
        return 0
    return int(attempt.fields[STAND_IN].number_value)


def is_used_up(message: ProcessingRequest) -> bool:
    """Return whether this answer is about the account of the call's key, which no wait changes."""
    attempt = message.metadata_context.filter_metadata.get(ATTEMPT)
    return attempt is not None and USED_UP in attempt.fields


def usage_refused_by(message: ProcessingRequest) -> int | None:
    """Return the number of the stand-in (0: the first chosen) that does not know how a usage is asked for."""
    attempt = message.metadata_context.filter_metadata.get(ATTEMPT)
    if attempt is None or USAGE_REFUSED_BY not in attempt.fields:
        return None
    return int(attempt.fields[USAGE_REFUSED_BY].number_value)


def response_head(message: HttpHeaders) -> tuple[int, dict[str, str]]:
    """Read the response's status and headers; of a name that came twice the last value stands.

    Media types ignore case; that of the response is read in lower case.
    """
    headers = _by_name(message.headers.headers)
    media_type = headers.get("content-type")
    if media_type is not None and not media_type.islower():
        headers["content-type"] = media_type.lower()
    status = headers.get(":status", "")
    return (int(status) if status.isdecimal() else 0), headers


def _by_name(received: Iterable[HeaderValue]) -> dict[str, str]:
    try:
        return {header.key: header.raw_value.decode() for header in received}
    except UnicodeDecodeError:
        return {header.key: _text(header) for header in received}


def _text(header: HeaderValue) -> str:
    raw: bytes = header.raw_value
    return raw.decode("utf-8", "surrogateescape")


def _join_doubled(received: Iterable[HeaderValue]) -> tuple[dict[str, str], frozenset[str]]:
    headers: dict[str, str] = {}
    doubled: set[str] = set()
    for header in received:
        value = _text(header)
        if header.key in headers:
            doubled.add(header.key)
            value = f"{headers[header.key]}, {value}"
        headers[header.key] = value
    return headers, frozenset(doubled)


WANT_BODY: Final[bytes] = ProcessingResponse(request_headers=HeadersResponse()).SerializeToString()
"""Reply to request headers: go on and send the body (the filter's default mode)."""

RESPONSE_HEADERS_SEEN: Final[bytes] = ProcessingResponse(
    response_headers=HeadersResponse()
).SerializeToString()
"""Reply to response headers: go on, the body is not wanted."""

WANT_RESPONSE_BODY: Final[bytes] = ProcessingResponse(
    response_headers=HeadersResponse(),
    mode_override=ProcessingMode(
        request_header_mode=_SEND,
        response_header_mode=_SEND,
        request_body_mode=_BUFFERED,
        response_body_mode=_BUFFERED,
    ),
).SerializeToString()
"""Reply to response headers: go on, and send the whole body."""

# As long as `max_message_timeout` in envoy/bootstrap.yaml.
PARKED_AT_MOST_S: Final = 3600

MORE_TIME: Final[bytes] = ProcessingResponse(
    override_message_timeout=Duration(seconds=PARKED_AT_MOST_S)
).SerializeToString()
"""Not a reply: the one to come may take long. Envoy heeds only the first of these before a reply."""

WANT_RESPONSE_CHUNKS: Final[bytes] = ProcessingResponse(
    # What the caller gets may be shorter than what the provider sent.
    response_headers=HeadersResponse(
        response=CommonResponse(header_mutation=HeaderMutation(remove_headers=["content-length"]))
    ),
    mode_override=ProcessingMode(
        request_header_mode=_SEND,
        response_header_mode=_SEND,
        request_body_mode=_BUFFERED,
        response_body_mode=ProcessingMode.STREAMED,
        response_trailer_mode=_SEND,
    ),
).SerializeToString()
"""Reply to response headers: go on, and send the body part by part as it comes."""


def with_headers(reply: bytes, pairs: Pairs) -> bytes:
    """Return a reply to response headers that also sets `pairs` in the place of the provider's.

    Protobuf merges what is said twice of one message (https://protobuf.dev/programming-guides/encoding/#last-one-wins).
    """
    return reply + _headers_set(pairs) if pairs else reply


@lru_cache(maxsize=1024)
def _headers_set(pairs: Pairs) -> bytes:
    mutation = HeaderMutation(set_headers=_options(pairs))
    return _serialise(
        ProcessingResponse(
            response_headers=HeadersResponse(response=CommonResponse(header_mutation=mutation))
        )
    )


RESPONSE_TRAILERS_SEEN: Final[bytes] = ProcessingResponse(
    response_trailers=TrailersResponse()
).SerializeToString()
"""Reply to response trailers: go on."""

RESPONSE_BODY_SEEN: Final[bytes] = ProcessingResponse(response_body=BodyResponse()).SerializeToString()
"""Reply to a response body that nothing is to be said of."""


@lru_cache(maxsize=1024)
def forward_on_headers(forward: Forward) -> bytes:
    """Reply to request headers: route it, and send us nothing more of it."""
    return _serialise(
        ProcessingResponse(
            request_headers=HeadersResponse(response=_common(forward)),
            mode_override=ProcessingMode(
                request_header_mode=_SEND,
                response_header_mode=_SEND if forward.wants_response else _SKIP,
                request_body_mode=_NONE,
                response_body_mode=_NONE,
            ),
            dynamic_metadata=_metadata(forward.metadata),
        )
    )


def forward_on_body(forward: Forward) -> bytes:
    """Reply to the request body: route it, with the body changed or as it came."""
    if forward.body is None:
        return _forward_unchanged(forward)
    return _forward_on_body(forward)


def answer(given: Answer) -> bytes:
    """Reply to anything: this is the answer, nothing goes upstream.

    All but the body is made once; the body is put beside it as protobuf's wire format allows (fields of one
    message may come in any order, https://protobuf.dev/programming-guides/encoding/).
    """
    return _answer_again(given) if len(given.body) <= ANSWERED_AGAIN_BYTES else _answer(given)


def _answer(given: Answer) -> bytes:
    frame = _answer_frame(given.status, given.reason, given.headers)
    body = given.body
    length = _varint(len(body))
    inner = len(frame) + len(_BODY_TAG) + len(length) + len(body)
    return b"".join(
        (_IMMEDIATE_TAG, _varint(inner), frame, _BODY_TAG, length, body, _metadata_field(given.metadata))
    )


_answer_again = lru_cache(maxsize=256)(_answer)


@lru_cache(maxsize=4096)
def _answer_frame(status: int, reason: Reason, headers: Pairs) -> bytes:
    frame: bytes = ImmediateResponse(
        status=HttpStatus(code=status),
        headers=HeaderMutation(set_headers=_options(headers)),
        details=DETAILS_PREFIX + reason.value.replace("-", "_"),
    ).SerializeToString()
    return frame


@lru_cache(maxsize=4096)
def _metadata_field(metadata: Metadata) -> bytes:
    if not metadata:
        return b""
    return _serialise(ProcessingResponse(dynamic_metadata=_build_metadata(metadata)))


def _tag(descriptor: Any, field: str) -> bytes:
    # Both fields are length-delimited: wire type 2.
    return _varint(descriptor.fields_by_name[field].number << 3 | 2)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_IMMEDIATE_TAG: Final = _tag(ProcessingResponse.DESCRIPTOR, "immediate_response")
_BODY_TAG: Final = _tag(ImmediateResponse.DESCRIPTOR, "body")


def response_chunk_seen(visible: bytes | None) -> bytes:
    """Reply to a part of a stream: the caller gets `visible` in its place, or the same when that is None."""
    if visible is None:
        return RESPONSE_BODY_SEEN
    mutation = BodyMutation(body=visible) if visible else BodyMutation(clear_body=True)
    return _serialise(
        ProcessingResponse(response_body=BodyResponse(response=CommonResponse(body_mutation=mutation)))
    )


def response_body_seen(numbers: Numbers) -> bytes:
    """Reply to a response body: it stays as it is; the access log gets `numbers`."""
    if not numbers:
        return RESPONSE_BODY_SEEN
    head, names_in_order = _numbers_frame(tuple(name for name, _ in numbers))
    parts = [RESPONSE_BODY_SEEN, head]
    for name, (_, value) in zip(names_in_order, numbers, strict=True):
        parts += (name, _DOUBLE.pack(value))
    return b"".join(parts)


def response_body_restored(numbers: Numbers, body: bytes) -> bytes:
    """Reply to a response body: the caller gets `body` in its place; the access log gets `numbers`."""
    mutation = CommonResponse(
        header_mutation=HeaderMutation(set_headers=_options((("content-length", str(len(body))),))),
        body_mutation=BodyMutation(body=body),
    )
    # Protobuf merges what is said twice of one message.
    return response_body_seen(numbers) + _serialise(
        ProcessingResponse(response_body=BodyResponse(response=mutation))
    )


@lru_cache(maxsize=64)
def _numbers_frame(names_in_order: tuple[str, ...]) -> tuple[bytes, tuple[bytes, ...]]:
    """Return what comes before the first number, and what comes right before each.

    Numbers differ from answer to answer while all lengths stay the same, so everything else of the Struct is
    made once.
    """
    entries = []
    for name in names_in_order:
        entry: bytes = Struct(fields={name: StructValue(number_value=1.0)}).SerializeToString()
        if not entry.endswith(_DOUBLE.pack(1.0)):
            raise AssertionError("protobuf no longer writes a Value's number last")
        entries.append(entry[: -_DOUBLE.size])
    inner = sum(len(entry) + _DOUBLE.size for entry in entries)
    value = _tag(StructValue.DESCRIPTOR, "struct_value") + _varint(inner)
    key = telemetry.NAMESPACE.encode()
    entry_body = _tag(_MAP_ENTRY, "key") + _varint(len(key)) + key
    value_length = len(value) + inner
    entry_body += _tag(_MAP_ENTRY, "value") + _varint(value_length) + value
    field = _tag(Struct.DESCRIPTOR, "fields") + _varint(len(entry_body) + inner) + entry_body
    head = _tag(ProcessingResponse.DESCRIPTOR, "dynamic_metadata") + _varint(len(field) + inner) + field
    return head, tuple(entries)


def _forward_on_body(forward: Forward) -> bytes:
    return _serialise(
        ProcessingResponse(
            request_body=BodyResponse(response=_common(forward)),
            dynamic_metadata=_metadata(forward.metadata, forward.plan),
        )
    )


_forward_unchanged = lru_cache(maxsize=1024)(_forward_on_body)


def _serialise(message: ProcessingResponse) -> bytes:
    serialised: bytes = message.SerializeToString()
    return serialised


def _common(forward: Forward) -> CommonResponse:
    pairs: list[tuple[str, str]] = [(names.ROUTE, forward.route), *forward.add]
    if forward.path is not None:
        pairs.append((":path", forward.path))
    common = CommonResponse(clear_route_cache=True)
    if forward.body is not None:
        pairs.append(("content-length", str(len(forward.body))))
        common.body_mutation.CopyFrom(BodyMutation(body=forward.body))
    common.header_mutation.CopyFrom(
        HeaderMutation(set_headers=_options(pairs), remove_headers=forward.remove)
    )
    return common


def _options(pairs: Iterable[tuple[str, str]]) -> list[HeaderValueOption]:
    return [
        HeaderValueOption(
            header=HeaderValue(key=key, raw_value=value.encode("utf-8", "surrogateescape")),
            append_action=_OVERWRITE,
        )
        for key, value in pairs
    ]


def _build_metadata(metadata: Metadata, plan: Plan | None = None) -> Struct:
    inner = Struct(fields={name: _value(value) for name, value in _told(metadata)})
    built = Struct(fields={telemetry.NAMESPACE: StructValue(struct_value=inner)})
    if plan is not None:
        built.update(_plan(plan, metadata))
    return built


def _told(metadata: Metadata) -> Iterator[tuple[str, Value]]:
    """Yield what Envoy reads by itself, numbers, and the rest as one text."""
    for name, value in metadata:
        if name in telemetry.SEEN_BY_ENVOY or type(value) is float:
            yield name, value
    yield telemetry.CALL, telemetry.pack(metadata)


def _plan(plan: Plan, metadata: Metadata) -> dict[str, dict[str, Any]]:
    """Return what Envoy's priority groups and the attempts' own filter read; see `contract/plans.py`."""
    groups = [_group(0, plan.first)] * plan.attempts
    groups += [_group(number, one.cluster) for number, one in enumerate(plan.stand_ins, start=1)]
    stand_ins = [
        {"authority": one.authority, "path": one.path, "told": dict(_told((*metadata, *one.told)))}
        | ({"model": one.model} if one.model is not None else {})
        for one in plan.stand_ins
    ]
    return {PLAN: {"priority_groups": groups}, STAND_INS: {"list": stand_ins}}


def _group(number: int, cluster: str) -> dict[str, Any]:
    return {"name": str(number), "clusters": [{"cluster_name": cluster, "weight": 1}]}


def _value(value: Value) -> StructValue:
    if isinstance(value, bool):
        return StructValue(bool_value=value)
    if isinstance(value, str):
        return StructValue(string_value=value)
    return StructValue(number_value=value)


# What says the same is made once.
_metadata = lru_cache(maxsize=4096)(_build_metadata)
