"""Streams with their request's values, wherever they are cut."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.openai.sse import EventParser
from ext_proc.redaction.masks import Masks
from ext_proc.redaction.streams import StreamRestorer

PHONE = "13800138000"
DONE = b"data: [DONE]\n\n"


def masks(answers_json: bool = False) -> Masks:
    """Return the masks of a phone number, a mail address and twelve more phone numbers."""
    made = Masks(answers_json=answers_json)
    made.mask("phone", PHONE)
    made.mask("email", "a@b.cn")
    for number in range(12):
        made.mask("phone", f"1390013900{number}")
    return made


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> bytes:
    """Return one event of a chat stream."""
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "created": 1, "choices": [choice]}).encode() + b"\n\n"


def arguments(text: str, number: int = 0) -> dict[str, Any]:
    """Return a delta of a tool call."""
    return {"tool_calls": [{"index": number, "function": {"arguments": text}}]}


def said(stream: bytes) -> dict[str, str]:
    """Return what the texts of a stream add up to, by choice and place."""
    texts: dict[str, str] = {}

    def add(place: str, node: Any) -> None:
        if isinstance(node, str):
            texts[place] = texts.get(place, "") + node
        elif isinstance(node, dict):
            for name, value in node.items():
                add(f"{place}.{name}", value) if name not in ("index", "type") else None
        elif isinstance(node, list):
            for item in node:
                add(f"{place}.{item.get('index', item.get('type'))}", item)

    for event in EventParser().feed(stream):
        if event.data != b"[DONE]":
            for choice in json.loads(event.data)["choices"]:
                add(str(choice["index"]), choice.get("delta", choice.get("text")))
    return texts


def restored(*parts: bytes, end: bool = True) -> bytes:
    """Return what the caller gets of a stream that comes in these parts."""
    restorer = StreamRestorer(masks())
    return b"".join([restorer.feed(part) for part in parts]) + restorer.feed(b"", end=end)


def test_a_placeholder_is_restored_across_deltas() -> None:
    """However it is cut."""
    cut = [chunk(content=letter) for letter in "call [PHONE_1] or [EMAIL_1]!"]
    assert said(restored(*cut, chunk(finish="stop"), DONE))["0.content"] == f"call {PHONE} or a@b.cn!"


def test_only_a_possible_beginning_waits() -> None:
    """Each part goes out at once but for it."""
    restorer = StreamRestorer(masks())
    first = restorer.feed(chunk(content="see [1] and [PHO"))
    assert said(first) == {"0.content": "see [1] and "}
    assert said(restorer.feed(chunk(content="TO] of"))) == {"0.content": "[PHOTO] of"}
    plain = chunk(content="nothing [x](y)")
    assert restorer.feed(plain) is not None
    assert restorer.feed(plain) == plain


def test_every_text_has_its_own_end() -> None:
    """Two choices, two tool calls and the reasoning, told in turns."""
    stream = [
        chunk(0, content="[PHO"),
        chunk(1, content="[EMA"),
        chunk(0, reasoning_content="[PHONE_"),
        chunk(0, content="NE_1]"),
        chunk(0, **arguments('{"a": "[PHONE', 0)),
        chunk(0, **arguments('{"b": "[EMAIL_', 1)),
        chunk(1, content="IL_1]"),
        chunk(0, **arguments('_12]"}', 0)),
        chunk(0, **arguments('1]"}', 1)),
        chunk(0, reasoning_content="2]"),
        chunk(0, "tool_calls"),
        chunk(1, "stop"),
        DONE,
    ]
    assert said(restored(*stream)) == {
        "0.content": PHONE,
        "1.content": "a@b.cn",
        "0.reasoning_content": "13900139000",
        "0.tool_calls.0.function.arguments": '{"a": "139001390010"}',
        "0.tool_calls.1.function.arguments": '{"b": "a@b.cn"}',
    }


@pytest.mark.parametrize("last", [[chunk(finish="length")], [DONE], []], ids=["finish", "mark", "end"])
def test_what_was_held_is_told_in_the_end(last: list[bytes]) -> None:
    """A placeholder that never came to its end is the provider's text, told before the choice ends."""
    stream = restored(chunk(content="a [PHONE_"), chunk(**arguments('"[EM', 3)), *last)
    assert said(stream) == {"0.content": "a [PHONE_", "0.tool_calls.3.function.arguments": '"[EM'}
    if last:
        assert stream.endswith(last[0])


def test_an_error_is_told_once_and_behind_what_was_held() -> None:
    """The error is the last word; what was held keeps the marks of its stream."""
    error = b'data: {"error": {"message": "no"}}\n\n'
    stream = restored(chunk(content="a [PHONE_"), error)
    assert stream.endswith(error)
    assert stream.count(b"error") == 1
    assert said(stream.removesuffix(error)) == {"0.content": "a [PHONE_"}
    assert all(
        json.loads(event.data)["id"] == "c" for event in EventParser().feed(stream.removesuffix(error))
    )


@pytest.mark.parametrize("mark", [b"data: [DONE] \n\n", b"data: [DONE]\t[PHONE_1]\n\n"])
def test_an_end_mark_may_have_more_behind_it(mark: bytes) -> None:
    """What was held comes before it, as before any."""
    stream = restored(chunk(content="a [PHONE_"), mark, end=False)
    assert stream.endswith(mark)
    assert said(stream.removesuffix(mark)) == {"0.content": "a [PHONE_"}


def test_half_a_surrogate_pair_hides_no_placeholder() -> None:
    """Also in the part that ends what was held: the order stays, and the half is told as it came."""
    halves = [chunk(content="[PHO"), chunk(content="NE_1] \ud83d"), chunk(content="\ude00 [EMAIL_1] \udc00[")]
    stream = restored(*halves, DONE)
    assert said(stream) == {"0.content": f"{PHONE} \ud83d\ude00 a@b.cn \udc00["}
    assert rb"\ud83d" in stream


def test_half_a_surrogate_pair_beside_the_choices() -> None:
    """It is said again with what was held."""
    named = chunk(content="a [PHONE_").replace(b'"id": "c"', rb'"id": "\ud83d"')
    assert restored(named, DONE).count(rb'"\ud83d"') == 2


def test_a_choice_without_a_number_has_that_of_its_place() -> None:
    """Some providers write null."""
    event = chunk(content="[PHONE_1]").replace(b'"index": 0', b'"index": null')
    assert PHONE.encode() in restored(event)


def test_the_last_part_may_carry_the_end() -> None:
    """Text in the chunk that finishes its choice is not held."""
    stream = restored(chunk(content="[PHONE"), chunk(content="_1] [EM", finish="stop"), DONE)
    assert said(stream) == {"0.content": f"{PHONE} [EM"}


def test_completions_and_parts() -> None:
    """The text of a completion, and content that comes as a list of parts."""
    texts = [
        b'data: {"choices": [{"index": 0, "text": "%b"}]}\n\n' % part for part in (b"[PH", b"ONE_1", b"] b [")
    ]
    assert said(restored(*texts, DONE)) == {"0": f"{PHONE} b ["}
    parts = [chunk(content=[{"type": "text", "text": text}]) for text in ("x [PHONE", "_1] [")]
    assert said(restored(*parts, DONE)) == {"0.content.text.text": f"x {PHONE} ["}


def test_values_in_arguments_are_escaped() -> None:
    """A key of several lines stays within its JSON string."""
    made = Masks()
    made.mask("key", 'a\n"b')
    restorer = StreamRestorer(made)
    stream = restorer.feed(chunk(**arguments('{"k": "[KEY')) + chunk(**arguments('_1]"}')))
    assert json.loads(said(stream)["0.tool_calls.0.function.arguments"]) == {"k": 'a\n"b'}


@pytest.mark.parametrize(
    "event",
    [
        b": keep-alive [PHONE_1]\n\n",
        b"data: no JSON [PHONE_1]\n\n",
        b'data: ["[PHONE_1]"]\n\n',
        b'data: {"choices": null, "id": "[PHONE_1]"}\n\n',
        b'data: {"choices": ["[PHONE_1]", {"index": "x"}]}\n\n',
        b"\n\n",
        b'id: 7\r\ndata: {"choices":[]}\r\n\r\n',
    ],
)
def test_what_is_no_chunk_passes_as_it_is(event: bytes) -> None:
    """Byte for byte."""
    assert restored(event, end=False) == event


def test_errors_and_marks_of_an_event_are_kept() -> None:
    """An error in a stream is restored too; its event's type and id are said again."""
    event = b'event: error\nid: 7\ndata: {"error": {"message": "bad [PHONE_1]"}}\n\n'
    assert restored(event) == b'event: error\nid: 7\ndata: {"error":{"message":"bad 13800138000"}}\n\n'


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.sampled_from(["[PHONE_1]", "[PHONE_12]", "[PHONE", "[", "_1]", "a", "电", "]", "[EMAIL_1]"]),
        max_size=8,
    ).map("".join),
    st.data(),
)
def test_any_cut_gives_the_same(text: str, data: st.DataObject) -> None:
    """Of the text into deltas, and of the stream into parts: the caller's text is that of the whole."""
    deltas = st.lists(st.integers(0, len(text)), max_size=4).map(sorted)
    bounds = [0, *data.draw(deltas), len(text)]
    pieces = [text[start:end] for start, end in pairwise(bounds)]
    stream = b"".join(chunk(content=piece) for piece in pieces) + chunk(finish="stop") + DONE
    cuts = [0, *sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5))), len(stream)]
    parts = [stream[start:end] for start, end in pairwise(cuts)]
    assert said(restored(*parts)).get("0.content", "") == masks().restore(text)
