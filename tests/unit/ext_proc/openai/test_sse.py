"""Server-sent events: every split of every event, every line end."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.sse import DONE, Event, EventParser, EventTooLarge, encode_event


def parse(*chunks: bytes) -> list[Event]:
    """Return the events of a whole stream."""
    parser = EventParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def plain_reading(stream: bytes) -> list[Event]:
    """Read a whole stream the slow and obvious way of the standard."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    events: list[Event] = []
    data: list[bytes] = []
    kind, last_id, retry = b"", b"", None
    for line in text.split(b"\n")[:-1]:
        if not line:
            if data:
                events.append(Event(b"\n".join(data), kind, last_id, retry))
            data, kind, retry = [], b"", None
            continue
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"data":
            data.append(value)
        elif name == b"event":
            kind = value
        elif name == b"id" and b"\0" not in value:
            last_id = value
        elif name == b"retry" and value and all(48 <= byte <= 57 for byte in value) and len(value) < 19:
            retry = int(value)
    return events


STREAM = (
    "\ufeff: comment\ndata: 你好😀\r\n\r\nid: 7\revent: delta\rdata:a\rdata: b\r\rdata\n\n"
    "retry: 10\ndata:  two spaces\n\n:\n\nid: x\n\ndata: [DONE]\n\n"
).encode()
EVENTS = [
    Event("你好😀".encode()),
    Event(b"a\nb", b"delta", b"7"),
    Event(b"", b"", b"7"),
    Event(b" two spaces", b"", b"7", 10),
    Event(DONE, b"", b"x"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64, 10_000])
def test_chunks_of_every_size(size: int) -> None:
    """Characters, fields and line ends cut anywhere change nothing."""
    assert parse(*(STREAM[at : at + size] for at in range(0, len(STREAM), size))) == EVENTS


def test_every_cut_in_two() -> None:
    """Wherever a stream is cut once, the events are the same."""
    for at in range(len(STREAM) + 1):
        assert parse(STREAM[:at], STREAM[at:]) == EVENTS


def test_every_cut_in_three() -> None:
    """Nor do two cuts matter, empty chunks included."""
    head = STREAM[:60]
    whole = parse(head)
    for first in range(len(head) + 1):
        for second in range(first, len(head) + 1):
            assert parse(head[:first], head[first:second], head[second:]) == whole


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
def test_the_three_line_ends(end: bytes) -> None:
    """One stream in three writings has the same events."""
    stream = end.join([b"data: a", b"data: b", b"", b"data: c", b"", b""])
    assert [event.data for event in parse(stream)] == [b"a\nb", b"c"]


def test_a_crlf_cut_in_the_middle_is_one_line_end() -> None:
    """Its LF in the next chunk does not end a second, empty line."""
    assert [e.data for e in parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n")] == [b"a\nb"]
    assert [e.data for e in parse(b"data: a\r", b"", b"\ndata: b\r\n\r\n")] == [b"a\nb"]


def test_an_event_is_given_at_its_empty_line() -> None:
    """A CR ends the event at once: no byte of the next chunk is waited for."""
    parser = EventParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [Event(b"a")]
    assert parser.feed(b"data: b\r\r") == [Event(b"b")]
    assert parser.feed(b"\n") == []


def test_comments_and_ids_make_no_event() -> None:
    """Keep-alives and id lines do not disturb; the id stays for later events."""
    assert parse(b": keep-alive\n\n", b"id: 1\n\n", b": k\ndata: x\n: k\ndata: y\n\n") == [
        Event(b"x\ny", b"", b"1")
    ]


def test_odd_chunks_of_a_provider_pass_as_they_are() -> None:
    """The parser does not look into the data."""
    documents: list[object] = [{}, {"choices": None}, {"choices": []}, {"choices": [{"delta": None}]}]
    stream = b"".join(encode_event(json.dumps(document).encode()) for document in documents)
    assert [json.loads(event.data) for event in parse(stream)] == documents


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        pytest.param(b"data: a", [], id="no-line-end"),
        pytest.param(b"data: a\n", [], id="no-empty-line"),
        pytest.param(b"id: 1\0\ndata: a\n\n", [Event(b"a")], id="id-with-nul"),
        pytest.param(b"retry: 1s\ndata: a\n\n", [Event(b"a")], id="retry-junk"),
        pytest.param(b"retry: -1\ndata: a\n\n", [Event(b"a")], id="retry-negative"),
        pytest.param(b"DATA: b\nfoo: c\n data: d\ndata: a\n\n", [Event(b"a")], id="unknown-fields"),
        pytest.param(b"event: x\n\ndata: a\n\n", [Event(b"a")], id="event-without-data"),
        pytest.param(b"data: \n\n", [Event(b"")], id="empty-data"),
        pytest.param(b"data: a:b: c\n\n", [Event(b"a:b: c")], id="colons"),
        pytest.param(b"\n\n\n\r\r\r\n", [], id="only-line-ends"),
        pytest.param(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", [], id="second-bom-is-a-name"),
        pytest.param(b"\xefdata: a\n\ndata: b\n\n", [Event(b"b")], id="half-a-bom"),
        pytest.param(b"data: \xff\xfe\n\n", [Event(b"\xff\xfe")], id="not-utf-8"),
        pytest.param(
            b"data: a\x0b\x0c\x1c\x85b\n\n", [Event(b"a\x0b\x0c\x1c\x85b")], id="no-other-line-ends"
        ),
    ],
)
def test_the_standards_corners(stream: bytes, events: list[Event]) -> None:
    """Each rule of the standard, in one chunk and byte by byte."""
    assert parse(stream) == events
    assert parse(*(bytes([byte]) for byte in stream)) == events


def test_unfinished_says_whether_an_end_would_cut() -> None:
    """A recorder must know that the last event did not come whole."""
    parser = EventParser()
    assert not parser.unfinished
    parser.feed(b"da")
    assert parser.unfinished
    parser.feed(b"ta: a\n")
    assert parser.unfinished
    parser.feed(b"\n")
    assert not parser.unfinished
    parser.feed(b": comment\n")
    assert not parser.unfinished


@pytest.mark.parametrize("size", [1, 10, 1_000])
@pytest.mark.parametrize("head", [b"data: ", b": ", b""])
def test_memory_is_bounded(size: int, head: bytes) -> None:
    """A line without an end does not fill the memory."""
    parser = EventParser(max_event_bytes=100)
    parser.feed(head)
    with pytest.raises(EventTooLarge):
        for _ in range(0, 200, size):
            parser.feed(b"x" * size)


def test_many_data_lines_are_bounded_too() -> None:
    """Empty data lines cost memory as well."""
    parser = EventParser(max_event_bytes=100)
    with pytest.raises(EventTooLarge):
        parser.feed(b"data\n" * 200)


def test_a_stream_may_be_far_longer_than_an_event() -> None:
    """The bound is on one event, not on the stream."""
    parser = EventParser(max_event_bytes=100)
    assert sum(len(parser.feed(b"data: 0123456789\n\n: ping\n\n")) for _ in range(1_000)) == 1_000


FIELD = st.sampled_from(
    [
        b"data: a",
        b"data:",
        b"data",
        "data: 你😀".encode(),
        b"event: e",
        b"id: 1",
        b"id",
        b"retry: 5",
        b": c",
        b"x: y",
        b"",
    ]
)
END = st.sampled_from([b"\n", b"\r", b"\r\n"])
LINES = st.lists(st.tuples(FIELD, END).map(b"".join), max_size=12).map(b"".join)


@given(st.booleans(), LINES, st.lists(st.integers(0, 200), max_size=8))
def test_any_cuts_read_like_the_whole(bom: bool, lines: bytes, cuts: list[int]) -> None:
    """Any lines, any cuts: the events of the slow and obvious reading."""
    stream = (b"\xef\xbb\xbf" if bom else b"") + lines
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[start:stop] for start, stop in pairwise(edges)]
    assert parse(*chunks) == plain_reading(stream)


@given(st.binary(max_size=60), st.integers(1, 5))
def test_any_bytes_read_like_the_whole(stream: bytes, size: int) -> None:
    """Junk never raises and is cut-proof too."""
    assert parse(*(stream[at : at + size] for at in range(0, len(stream), size))) == plain_reading(stream)


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=20),
            st.sampled_from([b"", b"delta"]),
            st.sampled_from([b"", b"7"]),
            st.sampled_from([None, 0, 3_000]),
        )
    )
)
def test_what_is_encoded_is_read_back(events: list[tuple[bytes, bytes, bytes, int | None]]) -> None:
    """Type, id and retry survive; line ends within the data become LF."""
    stream = b"".join(
        encode_event(data, event=event, id=last_id, retry_ms=retry) for data, event, last_id, retry in events
    )
    assert parse(stream) == [
        Event(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), event, last_id, retry)
        for data, event, last_id, retry in events
    ]


def test_done_as_openai_writes_it() -> None:
    """The last event of a stream, byte for byte."""
    assert encode_event(DONE) == b"data: [DONE]\n\n"
