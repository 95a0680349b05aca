"""Streams as they pass: what the caller gets, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import StreamRecorder, WholeEvents
from ext_proc.openai.sse import MAX_EVENT_BYTES, EventParser

USAGE = {"prompt_tokens": 3, "completion_tokens": 2}


def event(**chunk: object) -> bytes:
    """Return one chunk as a provider sends it."""
    return b"data: " + json.dumps({"id": "c", **chunk}, ensure_ascii=False).encode() + b"\n\n"


def choice(content: str, finish: str | None = None) -> list[object]:
    """Return the choices of a chunk."""
    return [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]


PLAIN = [event(choices=choice("你")), b": keep-alive\n\n", event(choices=choice("好", "stop"))]
DONE = b"data: [DONE]\n\n"
WITH_USAGE = [
    event(choices=choice("你"), usage=None),
    b": keep-alive\n\n",
    event(choices=choice("好", "stop"), usage=None),
    event(choices=[], usage=USAGE),
]


def passed(chunks: Sequence[bytes], *, hides: bool, end: bool = True) -> tuple[bytes, StreamRecorder]:
    """Return what the caller gets of `chunks`, and the recorder."""
    recorder = StreamRecorder(Operation.CHAT, hides_usage=hides, max_bytes=1_000_000)
    out = b""
    for number, chunk in enumerate(chunks, 1):
        visible = recorder.feed(chunk, end=end and number == len(chunks))
        out += chunk if visible is None else visible
    return out, recorder


@given(st.lists(st.integers(0, 400), max_size=6), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans())
def test_wherever_it_is_cut_the_caller_gets_the_same_and_so_is_kept(
    cuts: list[int], line_end: bytes, hides: bool
) -> None:
    """The usage that we asked for is gone without a trace, everything else is there to the byte."""
    stream = b"".join([*(WITH_USAGE if hides else PLAIN), DONE]).replace(b"\n", line_end)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    pieces = [stream[start:stop] for start, stop in pairwise(places)]
    out, recorder = passed(pieces, hides=hides)
    if hides:
        # Written anew, a chunk has our white space; its neighbours keep theirs.
        chunks = [json.loads(line[6:]) for line in out.splitlines() if line.startswith(b"data: {")]
        assert chunks == [json.loads(chunk[6:]) for chunk in PLAIN if chunk.startswith(b"data")]
        assert b": keep-alive" in out
        assert out.count(b"[DONE]") == 1
        assert recorder.usage is not None
    else:
        assert out == stream
    assert recorder.complete
    answer = json.loads(recorder.answer())
    assert answer["choices"][0]["message"]["content"] == "你好"
    assert answer.get("usage") == (USAGE if hides else None)


@given(st.lists(st.integers(0, 400), max_size=8), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_only_whole_events_are_passed_on(cuts: list[int], line_end: bytes) -> None:
    """Wherever it is cut, what has passed is a number of events, and in the end it is everything."""
    stream = b"".join([*WITH_USAGE, DONE]).replace(b"\n", line_end)
    places = sorted({min(cut, len(stream)) for cut in cuts} | {0, len(stream)})
    whole, passed_on = WholeEvents(), b""
    for start, stop in pairwise(places):
        passed_on += whole.feed(stream[start:stop])
        parser = EventParser()
        parser.feed(passed_on)
        assert not parser.unfinished
    assert passed_on + whole.rest() == stream
    # A line feed that belongs to the last carriage return may come alone.
    assert len(stream) - len(passed_on) <= 1


def test_an_event_that_nobody_can_hold_passes_in_parts() -> None:
    """Rather than to be held for ever."""
    whole = WholeEvents()
    assert whole.feed(b"data: " + b"x" * 100) == b""
    assert len(whole.feed(b"x" * MAX_EVENT_BYTES)) == MAX_EVENT_BYTES + 106
    assert whole.feed(b"\n\ndata: y") == b"\n\n"
    assert (whole.rest(), whole.rest()) == (b"data: y", b"")


def test_whole_events_pass_at_once() -> None:
    """Nothing is held back that is whole."""
    recorder = StreamRecorder(Operation.CHAT, hides_usage=True, max_bytes=1_000_000)
    for chunk in PLAIN:
        assert recorder.feed(chunk, end=False) is None
    assert recorder.feed(WITH_USAGE[-1], end=False) == b""


def test_a_caller_who_hangs_up_after_the_end_mark_has_seen_it_all() -> None:
    """The answer is complete before the stream's end."""
    _, recorder = passed([*PLAIN, DONE], hides=False, end=False)
    assert recorder.done
    assert recorder.complete


def test_without_an_end_mark_an_end_in_order_will_do() -> None:
    """A finish reason and a clean end; without either it is not complete."""
    assert passed(PLAIN, hides=False)[1].complete
    assert not passed(PLAIN, hides=False, end=False)[1].complete
    assert not passed(PLAIN[:1], hides=False)[1].complete


LARGE = b"data: " + b"x" * (MAX_EVENT_BYTES + 10) + b"\n\n"


@pytest.mark.parametrize(
    "odd",
    [
        b"data: {half\n\n",
        b"data: plain words\n\n",
        b'data: {"choices": [{"index": "0", "delta": {}}]}\n\n',
        b'data: {"choices": [{"index": 0, "logprobs": {"content": [{"logprob": -Infinity}]}}]}\n\n',
        LARGE,
    ],
    ids=["no JSON", "text", "an index that is none", "no number", "large"],
)
def test_the_usage_stays_hidden_whatever_else_comes(odd: bytes) -> None:
    """Not recorded, but passed on to the byte without what the caller did not ask for; which still counts."""
    for pieces in ([odd], [odd[:7], odd[7:]], [odd[:-1], odd[-1:]]):
        stream = [PLAIN[0], *pieces, *WITH_USAGE[2:], DONE]
        out, recorder = passed(stream, hides=True)
        assert out == b"".join([PLAIN[0], odd, PLAIN[2], DONE])
        assert not recorder.complete
        assert recorder.usage is not None
        assert recorder.usage.total_tokens == 5


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ({"error": {"message": "boom"}, "usage": None}, {"error": {"message": "boom"}}),
        (
            {"error": {"message": "boom"}, "choices": [], "usage": USAGE},
            {"error": {"message": "boom"}, "choices": []},
        ),
        (
            {"choices": [], "prompt_filter_results": [1], "usage": None},
            {"choices": [], "prompt_filter_results": [1]},
        ),
        ({"choices": [], "citations": ["u"], "usage": USAGE}, {"choices": [], "citations": ["u"]}),
        ({"choices": [], "usage": None}, {"choices": []}),
        ({"usage": None, "n": 12345678901234567890123}, {"n": 12345678901234567890123}),
    ],
    ids=["error", "error beside usage", "filter results", "citations", "nothing", "a long number"],
)
def test_of_what_is_told_beside_the_usage_nothing_is_lost(
    sent: dict[str, object], shown: dict[str, object]
) -> None:
    """Least of all an error."""
    out, recorder = passed([event(**sent), *PLAIN, DONE], hides=True)
    first, rest = out.split(b"\n\n", 1)
    assert json.loads(first.removeprefix(b"data: ")) == {"id": "c", **shown}
    assert rest == b"".join([*PLAIN, DONE])
    assert recorder.complete is ("error" not in sent)


def test_a_sign_of_life_does_not_wait_for_the_next_event() -> None:
    """A comment is one line; within an event it waits for the rest of that."""
    recorder = StreamRecorder(Operation.CHAT, hides_usage=True, max_bytes=1_000_000)
    assert recorder.feed(b": alive\n", end=False) is None
    assert recorder.feed(b": a", end=False) == b""
    assert recorder.feed(b"live\r\n: more\n", end=False) == b": alive\r\n: more\n"
    assert recorder.feed(b"data: {}\n: in an event\n", end=False) == b""
    assert recorder.feed(b"\n", end=False) == b"data: {}\n: in an event\n\n"
    assert recorder.feed(b"data: {}\r\n\r", end=False) is None
    assert recorder.feed(b"\n" + WITH_USAGE[-1], end=False) == b"\n"
    hidden = b": before\n" + WITH_USAGE[-1]
    assert recorder.feed(hidden, end=False) == b": before\n"
    assert (recorder.feed(hidden[:12], end=False), recorder.feed(hidden[12:], end=False)) == (
        b": before\n",
        b"",
    )


@pytest.mark.parametrize("hides", [False, True])
def test_what_cannot_be_recorded_passes_on(hides: bool) -> None:
    """To the byte, and it is not kept."""
    stream = [b"data: {half", b" an object\n\n", event(choices=choice("a", "stop")), DONE]
    out, recorder = passed(stream, hides=hides)
    assert out == b"".join(stream)
    assert not recorder.complete


def test_what_was_hidden_stays_hidden_when_something_unreadable_follows() -> None:
    """In the same chunk or in the next; from there on all passes as it is."""
    junk = [b"data: junk\n\n", DONE]
    stream = [*WITH_USAGE, *junk]
    apart, _ = passed(stream, hides=True)
    together, recorder = passed([b"".join(stream)], hides=True)
    assert apart == together
    assert b"completion_tokens" not in together
    assert together.endswith(b"".join(junk))
    assert not recorder.complete


def test_a_long_stream_passes_on_unrecorded() -> None:
    """Beyond the bound nothing more is held."""
    recorder = StreamRecorder(Operation.CHAT, hides_usage=True, max_bytes=100)
    chunks = [event(choices=choice("x" * 50)), event(choices=choice("y" * 50, "stop")), DONE]
    out = b""
    for chunk in chunks:
        visible = recorder.feed(chunk, end=False)
        out += chunk if visible is None else visible
    assert out == b"".join(chunks)
    assert not recorder.complete


def test_usage_that_a_provider_tells_unasked_stays() -> None:
    """With the last choice, as some do: it is the caller's."""
    chunk = event(choices=choice("a", "stop"), usage=USAGE)
    assert passed([chunk, DONE], hides=True)[0] == chunk + DONE


def test_ids_and_names_of_events_stay() -> None:
    """A chunk that is written anew keeps the lines around its data."""
    chunk = b"event: delta\nid: 7\n" + event(choices=choice("a"), usage=None)
    out, _ = passed([chunk], hides=True)
    assert out.startswith(b"event: delta\nid: 7\ndata: {")
    assert b"usage" not in out


def test_what_has_come_is_a_rough_number_of_tokens() -> None:
    """A chunk is one at least, four letters are another; what cannot be added up counts all the same."""
    recorder = passed([event(choices=choice(letter)) for letter in "abc"], hides=True)[1]
    assert recorder.produced == 3
    recorder.feed(event(choices=choice("x" * 37)), end=False)
    assert recorder.produced == 10
    recorder.feed(b"data: {half\n\n" + event(choices=choice("y" * 400)), end=False)
    assert recorder.produced == 110


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize(
    ("sent", "complete"),
    [
        (b'event: error\ndata: {"message": "overloaded"}\n\n', False),
        (b"event: error\ndata: overloaded\n\n", False),
        (b'data: {"object": "error", "message": "boom", "code": 500}\n\n', False),
        (b'data: {"type": "error", "message": "boom"}\n\n', False),
        (b'event: ping\ndata: {"type": "ping"}\n\n', True),
        (b'data: {"type": "ping"}\n\n', True),
        (b"event: keepalive\ndata: 12:30\n\n", True),
        (b"data:\n\n", True),
    ],
)
def test_errors_and_signs_of_life_in_every_form(sent: bytes, complete: bool, hides: bool) -> None:
    """A stream with an error is never kept; a sign of life is no part of the answer. Both pass on."""
    out, recorder = passed([PLAIN[0], sent, PLAIN[2], DONE], hides=hides)
    assert out == b"".join([PLAIN[0], sent, PLAIN[2], DONE])
    assert recorder.complete is complete
    if complete:
        assert json.loads(recorder.answer()).keys() == {"id", "object", "choices"}


def test_an_end_mark_may_have_a_blank_behind_it() -> None:
    """As OpenAI's own client takes it."""
    out, recorder = passed([*PLAIN, b"data: [DONE] \n\n"], hides=True, end=False)
    assert recorder.complete
    assert out.endswith(b"[DONE] \n\n")
