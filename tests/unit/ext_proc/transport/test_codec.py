"""Envoy's messages in, replies out."""

from __future__ import annotations

from envoy.config.core.v3.base_pb2 import HeaderMap, HeaderValue, HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    HttpHeaders,
    ProcessingRequest,
    ProcessingResponse,
)
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.contract.plans import Plan, StandIn
from ext_proc.contract.telemetry import pack
from ext_proc.exchange import Answer, Forward, Reason
from ext_proc.transport import codec


def headers(*pairs: tuple[str, bytes]) -> HttpHeaders:
    """Return Envoy's message with these headers."""
    return HttpHeaders(headers=HeaderMap(headers=[HeaderValue(key=key, raw_value=raw) for key, raw in pairs]))


def reply(serialised: bytes) -> ProcessingResponse:
    """Read a reply as Envoy does."""
    return ProcessingResponse.FromString(serialised)


def set_headers(mutation: object) -> dict[str, bytes]:
    """Return the headers that a mutation sets."""
    return {item.header.key: item.header.raw_value for item in mutation.set_headers}  # type: ignore[attr-defined]


def test_the_request_line_and_headers_are_read() -> None:
    """The query is apart; a name that came twice is joined and marked."""
    read = codec.request_head(
        headers(
            (":method", b"POST"), (":path", b"/v1/x?a=1?b"), ("authorization", b"a"), ("authorization", b"b")
        )
    )
    assert (read.method, read.path, read.query) == ("POST", "/v1/x", "a=1?b")
    assert read.headers["authorization"] == "a, b"
    assert read.doubled == {"authorization"}


@given(st.binary(max_size=40))
def test_header_bytes_survive(raw: bytes) -> None:
    """Whatever bytes come are read without loss and could be written back."""
    value = codec.request_head(headers(("x", raw))).headers["x"]
    assert value.encode("utf-8", "surrogateescape") == raw


def test_a_status_that_is_none_is_zero() -> None:
    """Rather than a fault."""
    assert codec.response_head(headers((":status", b"abc")))[0] == 0
    assert codec.response_head(headers((":status", b"204"), ("a", b"b"))) == (
        204,
        {":status": "204", "a": "b"},
    )
    odd = headers((":status", b"200"), ("content-type", b"Application/JSON; Charset=UTF-8"))
    assert codec.response_head(odd)[1]["content-type"] == "application/json; charset=utf-8"


def test_forwarding_unchanged_carries_no_body() -> None:
    """The route is set and the route cache cleared; the message is made once."""
    forward = Forward("b.json.1", remove=("authorization",), metadata=(("model", "m"), ("stream", True)))
    serialised = codec.forward_on_body(forward)
    assert serialised is codec.forward_on_body(forward)
    message = reply(serialised)
    common = message.request_body.response
    assert common.clear_route_cache
    assert set_headers(common.header_mutation) == {"x-outrigger-route": b"b.json.1"}
    assert list(common.header_mutation.remove_headers) == ["authorization"]
    assert not common.HasField("body_mutation")
    assert dict(message.dynamic_metadata["outrigger"]) == {"call": pack(forward.metadata)}


def test_a_stand_in_is_told_in_the_place_of_the_one_before() -> None:
    """The access log and the response headers have all of the call then, not only what differs."""
    metadata = (("model", "m"), ("shown_model", "m"), ("backend", "a"), ("tier", "gold"), ("key", "0123"))
    other = StandIn("b.1", "b", "/v1", None, (("backend", "b"), ("shown_model", "n"), ("model", "n")))
    message = reply(codec.forward_on_body(Forward("r", metadata=metadata, plan=Plan("a.1", 1, (other,)))))
    (told,) = (dict(one["told"]) for one in message.dynamic_metadata["outrigger.stand_ins"]["list"])
    call = pack((("model", "n"), ("backend", "b"), ("tier", "gold")))
    assert told == {"shown_model": "n", "key": "0123", "call": call}


def test_a_changed_body_has_its_length_in_bytes() -> None:
    """Multi-byte text counts as what is sent."""
    body = '{"model":"é模型"}'.encode()
    common = reply(codec.forward_on_body(Forward("r", path="/p?q=1", body=body))).request_body.response
    assert common.body_mutation.body == body
    assert set_headers(common.header_mutation) == {
        "x-outrigger-route": b"r",
        ":path": b"/p?q=1",
        "content-length": str(len(body)).encode(),
    }


def test_forwarding_on_headers_asks_for_nothing_more() -> None:
    """Body modes are all restated: they have no 'unchanged'."""
    mode = reply(codec.forward_on_headers(Forward("r"))).mode_override
    assert mode.response_header_mode == ProcessingMode.SKIP
    assert (mode.request_body_mode, mode.response_body_mode) == (ProcessingMode.NONE, ProcessingMode.NONE)
    assert codec.forward_on_headers(Forward("r")) != codec.forward_on_headers(
        Forward("r", wants_response=True)
    )


def test_an_answer_is_marked_as_ours() -> None:
    """Envoy's local-reply rules tell it by its details; non-ASCII header values go as bytes."""
    message = reply(
        codec.answer(Answer(404, b"{}", Reason.UNKNOWN_MODEL, (("x-a", "é"),), (("version", "v"),)))
    )
    assert message.immediate_response.status.code == 404
    assert message.immediate_response.details == "outrigger_unknown_model"
    assert set_headers(message.immediate_response.headers) == {"x-a": "é".encode()}
    assert message.dynamic_metadata["outrigger"]["version"] == "v"


def test_the_response_body_is_asked_for_only_when_wanted() -> None:
    """Without the override Envoy sends none."""
    message = reply(codec.WANT_RESPONSE_BODY)
    assert message.mode_override.response_body_mode == ProcessingMode.BUFFERED
    assert not reply(codec.RESPONSE_HEADERS_SEEN).HasField("mode_override")


def test_headers_are_set_beside_what_else_a_reply_says() -> None:
    """Whatever is wanted of the body stays so; without any the reply is what it was."""
    pairs = (("x-ratelimit-limit-requests", "5"), ("x-b", "1"))
    for plain in (codec.RESPONSE_HEADERS_SEEN, codec.WANT_RESPONSE_BODY, codec.WANT_RESPONSE_CHUNKS):
        message, before = reply(codec.with_headers(plain, pairs)), reply(plain)
        mutation = message.response_headers.response.header_mutation
        assert set_headers(mutation) == {"x-ratelimit-limit-requests": b"5", "x-b": b"1"}
        assert mutation.remove_headers == before.response_headers.response.header_mutation.remove_headers
        assert message.mode_override == before.mode_override
        assert codec.with_headers(plain, ()) is plain


def test_a_response_body_stays_as_it_is() -> None:
    """With or without something for the access log."""
    assert codec.response_body_seen(()) == codec.RESPONSE_BODY_SEEN
    message = reply(codec.response_body_seen((("input_tokens", 3.0),)))
    assert message.dynamic_metadata["outrigger"]["input_tokens"] == 3
    assert not message.response_body.response.HasField("body_mutation")


@given(st.binary(max_size=400), st.integers(200, 599), st.booleans())
def test_an_answer_put_together_by_hand_reads_as_one_message(body: bytes, status: int, told: bool) -> None:
    """Exactly the message that protobuf itself would make, for bodies of any length."""
    metadata = (("cache", "hit"), ("stream", True), ("input_tokens", 3.0)) if told else ()
    given_answer = Answer(status, body, Reason.SERVED_FROM_CACHE, (("age", "1"), ("x", "y")), metadata)
    expected = ProcessingResponse()
    expected.immediate_response.status.code = status
    expected.immediate_response.body = body
    expected.immediate_response.details = "outrigger_served_from_cache"
    for name, value in given_answer.headers:
        option = expected.immediate_response.headers.set_headers.add()
        option.header.key, option.header.raw_value = name, value.encode()
        option.append_action = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    if told:
        shown = {"cache": "hit", "input_tokens": 3.0, "call": pack(metadata)}
        expected.dynamic_metadata.update({"outrigger": shown})
    assert reply(codec.answer(given_answer)) == expected


@given(
    st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "x" * 200]), st.floats(allow_nan=False))
)
def test_numbers_for_the_access_log_read_as_one_struct(numbers: dict[str, float]) -> None:
    """Whatever the numbers are, the message is the one that protobuf would make."""
    expected = ProcessingResponse()
    expected.response_body.SetInParent()
    if numbers:
        expected.dynamic_metadata.update({"outrigger": numbers})
    assert reply(codec.response_body_seen(tuple(numbers.items()))) == expected


def test_a_body_that_is_restored_replaces_the_providers() -> None:
    """With its own length, and with what the access log is told beside it."""
    told = reply(codec.response_body_restored((("input_tokens", 3.0),), b"restored"))
    common = told.response_body.response
    assert common.body_mutation.body == b"restored"
    assert set_headers(common.header_mutation) == {"content-length": b"8"}
    plain = reply(codec.response_body_seen((("input_tokens", 3.0),)))
    assert told.dynamic_metadata == plain.dynamic_metadata


def test_what_the_attempts_filter_tells_is_read() -> None:
    """Whose answer it is, and whether it is about an account; of most calls, nothing is told."""
    silent, told = ProcessingRequest(), ProcessingRequest()
    attempt = told.metadata_context.filter_metadata["outrigger.attempt"]
    attempt.update({"stand_in": 2, "used_up": True})
    assert (codec.stand_in(silent), codec.is_used_up(silent)) == (0, False)
    assert (codec.stand_in(told), codec.is_used_up(told)) == (2, True)
    assert codec.usage_refused_by(silent) is codec.usage_refused_by(told) is None
    attempt.update({"usage_refused_by": 0})
    assert codec.usage_refused_by(told) == 0
