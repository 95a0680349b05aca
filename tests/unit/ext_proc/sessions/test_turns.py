"""Conversations put together from their sessions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.sessions.records import MAX_BYTES, Opened
from ext_proc.sessions.turns import (
    Conversation,
    Message,
    Messages,
    answer_message,
    continued,
    read_messages,
    read_turn,
)

SYSTEM: Message = {"role": "system", "content": "Be brief."}
CALL: Message = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": name, "type": "function", "function": {"name": "f"}} for name in ("c1", "c2")],
}
RESULTS: Messages = tuple({"role": "tool", "tool_call_id": name, "content": "7"} for name in ("c1", "c2"))


def user(text: str) -> Message:
    """Return a user's message."""
    return {"role": "user", "content": text}


def said(text: str) -> Message:
    """Return an assistant's message."""
    return {"role": "assistant", "content": text}


def turn(name: str, *between: Message, system: Messages = ()) -> bytes:
    """Return the record of a turn."""
    return Conversation(0, system, (), (user(f"q {name}"), *between)).record(said(f"a {name}"))


def up(records: list[bytes], *asked: Message, turns: int = 4, max_tokens: int | None = None) -> list[Message]:
    """Return what goes up for `asked` in a session that holds `records`."""
    opened = Opened(100, tuple(enumerate(records)))
    return continued(opened, asked, turns, max_tokens).messages


def test_the_past_goes_up_before_the_new_messages() -> None:
    """The last turns, in their order, and no more of them than asked for."""
    records = [turn(name) for name in "abc"]
    assert up(records, user("q d"), turns=2) == [
        user("q b"),
        said("a b"),
        user("q c"),
        said("a c"),
        user("q d"),
    ]
    assert up([], user("q d")) == [user("q d")]


@pytest.mark.parametrize("role", ["system", "developer"])
def test_the_requests_system_prompt_stands_else_the_sessions(role: str) -> None:
    """First of all messages; the session's is that of its last turn that had one."""
    other = {"role": role, "content": "Be long."}
    records = [turn("a", system=(SYSTEM,)), turn("b")]
    assert up(records, user("q"))[0] == SYSTEM
    assert up(records, other, user("q")) == [
        other,
        *(message for name in "ab" for message in (user(f"q {name}"), said(f"a {name}"))),
        user("q"),
    ]
    assert up([*records, turn("c", system=(other,))], user("q"), turns=1)[0] == other


def test_what_is_over_the_tokens_is_left_out_by_whole_turns() -> None:
    """The oldest first; system prompt and new messages are never left out; a gap is not skipped."""
    tools = turn("tools", CALL, *RESULTS)
    records = [turn("a"), turn("b" * 400), tools]
    assert up(records, SYSTEM, user("q"), max_tokens=5) == [SYSTEM, user("q")]
    assert up(records, user("q"), max_tokens=130) == [
        user("q tools"),
        CALL,
        *RESULTS,
        said("a tools"),
        user("q"),
    ]
    assert len(up(records, user("q"), max_tokens=10_000)) == 2 + 2 + 5 + 1


def test_a_turn_that_could_not_be_kept_hides_what_came_before_it() -> None:
    """An answer would otherwise seem to follow another question."""
    assert up([turn("a"), b"", turn("b")], user("q")) == [user("q b"), said("a b"), user("q")]
    long = Conversation(0, (), (), (user("x" * MAX_BYTES),)).record(said("y"))
    assert long == b""


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(RESULTS, id="results alone"),
        pytest.param((CALL, *RESULTS), id="calls said again"),
        pytest.param((user("q"), CALL, *RESULTS), id="all said again"),
    ],
)
def test_results_go_on_with_the_turn_that_called(asked: Messages) -> None:
    """It stays one turn, under its own number; the answer ends it."""
    first = continued(Opened(1, ((0, turn("a")),)), (SYSTEM, user("q")), 4, None)
    records = ((0, turn("a")), (1, first.record(CALL)))
    second = continued(Opened(2, records), asked, 4, None)
    assert second.number == 1
    assert second.messages == [SYSTEM, user("q a"), said("a a"), user("q"), CALL, *RESULTS]
    done = read_turn(1, second.record(said("done")))
    assert (done.system, done.messages, done.awaits) == (
        (SYSTEM,),
        (user("q"), CALL, *RESULTS, said("done")),
        frozenset(),
    )


def test_a_functions_result_goes_on_by_its_name() -> None:
    """The older form of tools has no ids."""
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    result = {"role": "function", "name": "f", "content": "7"}
    first = continued(Opened(1, ()), (user("q"),), 4, None)
    second = continued(Opened(2, ((1, first.record(call)),)), (result,), 4, None)
    assert second.messages == [user("q"), call, result]


def test_calls_that_nobody_answered_do_not_go_up() -> None:
    """A provider would refuse them: the turn has no end."""
    called = continued(Opened(1, ()), (user("q"),), 4, None).record(CALL)
    assert up([turn("a"), called], user("next")) == [user("q a"), said("a a"), user("next")]


@settings(max_examples=60)
@given(st.lists(st.sampled_from("ptoz"), max_size=8), st.integers(1, 4), st.integers(1, 200) | st.none())
def test_what_goes_up_is_whole(kinds: str, turns: int, max_tokens: int | None) -> None:
    """Each call has its results, each question its answer, in order, whatever there is."""
    kinds_of = {
        "p": turn("p"),
        "t": turn("t", CALL, *RESULTS),
        "o": Conversation(0, (), (), (user("q"),)).record(CALL),
        "z": b"",
    }
    messages = up([kinds_of[kind] for kind in kinds], user("new"), turns=turns, max_tokens=max_tokens)
    roles = "".join(message["role"][0] for message in messages)
    assert roles == "".join({"p": "ua", "t": "uatta"}[kind] for kind in _shown(messages)) + "u"


def _shown(messages: list[Message]) -> str:
    return "".join(message["content"][-1] for message in messages[:-1] if message["role"] == "user")


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        pytest.param({"role": "assistant", "content": "hi", "refusal": None}, said("hi"), id="text"),
        pytest.param({"content": "hi", "annotations": [], "reasoning_content": "hm"}, said("hi"), id="more"),
        pytest.param({"content": None, "tool_calls": CALL["tool_calls"]}, CALL, id="calls"),
        pytest.param({"content": None}, said(""), id="nothing"),
        pytest.param(
            {"content": None, "refusal": "no"},
            {"role": "assistant", "content": None, "refusal": "no"},
            id="refusal",
        ),
        pytest.param(
            {"content": None, "audio": {"id": "a1", "data": "…"}},
            {"role": "assistant", "content": None, "audio": {"id": "a1"}},
            id="audio",
        ),
    ],
)
def test_of_an_answer_is_kept_what_a_request_may_hold(message: Message, kept: Message) -> None:
    """Of the first choice."""
    second = {"index": 1, "message": {"content": "other"}}
    assert answer_message(orjson.dumps({"choices": [second, {"index": 0, "message": message}]})) == kept


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"choices": [1]}', b'{"choices": [{"message": 1}]}', b'{"choices": {}}']
)
def test_what_is_no_answer_has_no_message(body: bytes) -> None:
    """Whatever a provider says."""
    assert answer_message(body) is None


@pytest.mark.parametrize("messages", [None, "hi", [], [1], [[user("a")], [user("b")]], {"role": "user"}])
def test_what_is_no_conversation_is_left_alone(messages: Any) -> None:
    """It passes as it is."""
    assert read_messages({"messages": messages}) is None


@pytest.mark.parametrize(
    "record",
    [
        b"\xff",
        b"{}",
        b"[]",
        b'{"system": 1, "messages": [{}]}',
        b'{"system": [1], "messages": [{}]}',
        b'{"system": [], "messages": [1]}',
    ],
)
def test_what_anybody_may_have_written_is_no_turn(record: bytes) -> None:
    """It is as if the turn could not be kept."""
    assert read_turn(1, record).messages == ()


def test_numbers_go_up_again_as_they_were_written() -> None:
    """However long."""
    from ext_proc.openai.documents import decode, encode  # noqa: PLC0415

    body = b'{"messages":[{"role":"user","content":"q","x":1.00000000000000000001}]}'
    asked = read_messages(decode(body))
    assert asked is not None
    record = continued(Opened(1, ()), asked, 4, None).record(said("a"))
    assert b"1.00000000000000000001" in encode({"messages": up([record], user("q"))})


@pytest.mark.parametrize("role", [["user"], {}, 7, None])
def test_whatever_the_role_is_the_conversation_goes_on(role: object) -> None:
    """What is wrong with it is the provider's to say."""
    asked: Messages = ({"role": role, "content": "a", "tool_call_id": [1]},)
    assert continued(Opened(1, ()), asked, 4, None).messages == list(asked)
