"""One stream continued by another: the joined text is exact, each event whole."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.chunks import ChunkJoiner
from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import WholeEvents
from ext_proc.openai.splice import NotSpliceable, Splice
from ext_proc.openai.sse import DONE, EventParser

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)


def choice(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> dict[str, Any]:
    """Return a choice of a chunk."""
    return {"index": index, "delta": delta, "finish_reason": finish}


def event(*choices: dict[str, Any], end: bytes = b"\n", **more: Any) -> bytes:
    """Return one event of a chat stream."""
    document = {"id": "c", "object": "chat.completion.chunk", "choices": list(choices), **more}
    return b"data: " + orjson.dumps(document) + end + end


def call(index: int, arguments: str = "", **more: Any) -> dict[str, Any]:
    """Return a fragment of a tool call."""
    function = {"arguments": arguments, **({"name": more.pop("name")} if "name" in more else {})}
    return {"index": index, "function": function, **more}


def mark(end: bytes = b"\n") -> bytes:
    """Return the end mark."""
    return b"data: " + DONE + end + end


def answer(stream: bytes) -> dict[str, Any]:
    """Return what a stream adds up to; each of its events must be one."""
    parser, joiner = EventParser(), ChunkJoiner(Operation.CHAT, 10_000_000)
    for one in parser.feed(stream):
        joiner.add(one.data)
    assert not parser.unfinished
    assert joiner.done
    joined: dict[str, Any] = orjson.loads(joiner.answer())
    return joined


def written(texts: dict[int, str], arguments: dict[int, str], draw: Random) -> bytes:
    """Write the same answer as a stream, cut into chunks in some way."""
    end = draw.choice((b"\n", b"\r\n", b"\r"))
    events = [event(choice({"role": "assistant", "content": ""}, index=index), end=end) for index in texts]
    if draw.random() < 0.5:
        events.append(event(end=end, prompt_filter_results=[1]))
    owed: list[tuple[str, int, str]] = [("text", index, text) for index, text in texts.items()]
    owed += [("call", index, text) for index, text in arguments.items()]
    opened: set[int] = set()
    while owed:
        place = draw.randrange(len(owed))
        kind, index, text = owed[place]
        size = draw.randint(0, len(text))
        piece, rest = text[:size], text[size:]
        if kind == "text":
            events.append(event(choice({"content": piece}, index=index), end=end))
        else:
            more = {} if index in opened else {"id": f"call_{index}", "name": f"f{index}", "type": "function"}
            opened.add(index)
            events.append(event(choice({"tool_calls": [call(index, piece, **more)]}), end=end))
        if rest:
            owed[place] = (kind, index, rest)
        else:
            del owed[place]
    events += [event(choice({}, "stop", index=index), end=end) for index in texts]
    events.append(event(end=end, usage={"prompt_tokens": 1, "completion_tokens": 2}))
    return b"".join([*events, mark(end)])


def said(stream: bytes) -> list[tuple[Any, ...]]:
    """Return what a stream adds up to, tool calls in the order of their ids."""
    return [
        (
            one["message"].get("content"),
            one["finish_reason"],
            sorted(orjson.dumps(made) for made in one["message"].get("tool_calls", ())),
        )
        for one in answer(stream)["choices"]
    ]


@given(
    texts=st.lists(TEXTS, min_size=1, max_size=2),
    arguments=st.lists(TEXTS, max_size=2),
    draw=st.randoms(use_true_random=True),
)
def test_any_cut_and_any_chunking_add_up_to_the_same_answer(
    texts: list[str], arguments: list[str], draw: Random
) -> None:
    """The readers hear every text, tool call, reason and the usage once, in whole events."""
    first, second = (written(dict(enumerate(texts)), dict(enumerate(arguments)), draw) for _ in range(2))
    told = WholeEvents().feed(first[: draw.randrange(len(first) - len(mark()))])
    splice = Splice(told)
    rest = b""
    at = 0
    while at < len(second):
        size = draw.choice((1, 2, 5, 40, 1000))
        rest += splice.feed(second[at : at + size])
        at += size
    assert said(told + rest) == said(second)
    assert answer(told + rest)["usage"] == answer(second)["usage"]
    assert (told + rest).count(b'"usage"') == 1
    assert (told + rest).count(b'"stop"') == len(texts)


@given(first=TEXTS, second=TEXTS, size=st.integers(1, 40))
def test_another_text_is_never_mixed_in(first: str, second: str, size: int) -> None:
    """What is told is a beginning of what the second stream says, or the splice fails."""
    told = event(choice({"content": first}))
    stream = event(choice({"content": second})) + event(choice({}, "stop")) + mark()
    try:
        splice = Splice(told)
        rest = b"".join(splice.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    except NotSpliceable:
        assert not second.startswith(first)
    else:
        assert answer(told + rest)["choices"][0]["message"].get("content", "") == second


def test_nothing_told_passes_the_second_stream_as_it_is() -> None:
    """Comments, ids and what is no JSON too."""
    stream = b": comment\n\nid: 7\nretry: 5\ndata: no JSON\n\n" + mark()
    assert Splice(b"").feed(stream) == stream


def test_what_both_streams_begin_with_is_told_once() -> None:
    """The role is not said again, and a call keeps the id it was told under."""
    told = event(choice({"role": "assistant", "content": ""}))
    told += event(choice({"tool_calls": [call(0, '{"a', id="first", name="f", type="function")]}))
    whole = call(0, '{"a": 1}', id="second", name="f", type="function")
    second = event(choice({"role": "assistant", "content": "", "tool_calls": [whole]}))
    rest = Splice(told).feed(second + event(choice({}, "tool_calls")) + mark())
    joined = answer(told + rest)["choices"][0]
    (told_call,) = joined["message"]["tool_calls"]
    assert (told_call["id"], told_call["function"]) == ("first", {"name": "f", "arguments": '{"a": 1}'})
    assert (b"role" in rest, b"second" in rest) == (False, False)


def test_a_sign_of_life_passes() -> None:
    """An event that says nothing keeps a connection open."""
    splice = Splice(event(choice({"content": "a"})))
    alive = event(choice({}))
    assert EventParser().feed(splice.feed(alive))


@pytest.mark.parametrize(
    "told",
    [
        pytest.param(event(choice({"content": "a"}))[:-1], id="half an event"),
        pytest.param(b"data: no JSON\n\n", id="no JSON"),
        pytest.param(b"data: [1]\n\n", id="no object"),
        pytest.param(event()[:-4] + b': {}, "choices": 3}\n\n', id="broken choices"),
        pytest.param(event(choice({"content": "a"}) | {"logprobs": {"content": [1]}}), id="logprobs"),
        pytest.param(event(choice({"tool_calls": [{"id": "x"}]})), id="a call without index"),
        pytest.param(event({**choice({}), "index": "x"}), id="an index that is none"),
    ],
)
def test_what_cannot_be_told_apart_from_a_repetition_is_not_continued(told: bytes) -> None:
    """It fails before anything is said."""
    with pytest.raises(NotSpliceable):
        Splice(told)


@pytest.mark.parametrize(
    "second",
    [
        pytest.param(event(choice({"content": "abd"})), id="another text"),
        pytest.param(event(choice({"content": "ab"})) + event(choice({}, "stop")), id="a shorter one"),
        pytest.param(event(choice({"content": "ab"})) + mark(), id="a shorter one without a reason"),
        pytest.param(b"data: no JSON\n\n", id="no JSON"),
        pytest.param(b"data: " + b"x" * (5 * 1024 * 1024), id="an endless event"),
    ],
)
def test_a_second_stream_that_differs_is_not_told(second: bytes) -> None:
    """The readers' text would be nobody's."""
    splice = Splice(event(choice({"content": "abc"})))
    with pytest.raises(NotSpliceable):
        splice.feed(second)
