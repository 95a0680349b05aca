"""Which answers are right, and which are not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.soak.questions import CHAT, DECIDED, EMBEDDINGS, Got, Kind, Outcome, Question, judge
from tests.soak.replies import pieces_of, vector_of

NAME = "q-chat-1"
ASKED = Question(NAME, Kind.CHAT, CHAT, {})
STREAMED = Question(NAME, Kind.STREAM, CHAT, {}, streamed=True)
VECTORS = Question("q-embed-1", Kind.EMBED, EMBEDDINGS, {}, texts=("q-embed-1 part 0", "q-embed-1 part 1"))
DECIDED_BY = {DECIDED: "m"}


def whole(content: str, finish: str | None = "stop") -> bytes:
    """Return a completion."""
    return json.dumps({"choices": [{"message": {"content": content}, "finish_reason": finish}]}).encode()


def events(*pieces: str, finish: str | None = "stop", done: bool = True) -> bytes:
    """Return a stream."""
    choices: list[dict[str, Any]] = [{"delta": {"content": one}, "finish_reason": None} for one in pieces]
    if finish is not None:
        choices.append({"delta": {}, "finish_reason": finish})
    out = b"".join(b"data: " + json.dumps({"choices": [one]}).encode() + b"\n\n" for one in choices)
    return out + (b"data: [DONE]\n\n" if done else b"")


def answer(*own: str, name: str = NAME) -> str:
    """Return the right answer, of a conversation of these questions."""
    return "".join(pieces_of(name, own or (name,)))


@pytest.mark.parametrize(
    ("got", "outcome"),
    [
        pytest.param(None, Outcome.LOST, id="nothing"),
        pytest.param(Got(200, DECIDED_BY, whole(answer())), Outcome.RIGHT, id="its answer"),
        pytest.param(Got(200, {}, whole(answer())), Outcome.AS_IS, id="undecided"),
        pytest.param(Got(200, DECIDED_BY, whole(answer(name="q-chat-2"))), Outcome.WRONG, id="another's"),
        pytest.param(Got(200, DECIDED_BY, whole(answer() + "!")), Outcome.WRONG, id="more than it"),
        pytest.param(Got(200, DECIDED_BY, whole(answer()[:-1])), Outcome.WRONG, id="less than it"),
        pytest.param(Got(200, DECIDED_BY, whole(answer(), "length")), Outcome.WRONG, id="unfinished"),
        pytest.param(Got(200, DECIDED_BY, whole(answer())[:30], whole=False), Outcome.LOST, id="half"),
        pytest.param(Got(200, DECIDED_BY, b"<html>"), Outcome.WRONG, id="no completion"),
        pytest.param(Got(503, {}, b"upstream connect error"), Outcome.WRONG, id="an error without a shape"),
    ],
)
def test_a_whole_answer(got: Got | None, outcome: Outcome) -> None:
    """One question, one answer, to the letter."""
    assert judge(ASKED, got)[0] is outcome


def refused(status: int, headers: dict[str, str]) -> Got:
    """Return an error in OpenAI's shape."""
    error = {"message": "no", "type": "t", "param": None, "code": "c"}
    return Got(status, headers, json.dumps({"error": error}).encode())


@pytest.mark.parametrize(
    ("kind", "got", "outcome"),
    [
        pytest.param(Kind.CHAT, refused(503, {}), Outcome.REFUSED, id="an error"),
        pytest.param(
            Kind.LIMITED,
            refused(429, {"x-outrigger-error": "rate-limit", "retry-after": "1"}),
            Outcome.LIMITED,
            id="over a limit of its own",
        ),
        pytest.param(
            Kind.CHAT,
            refused(429, {"x-outrigger-error": "rate-limit", "retry-after": "1"}),
            Outcome.REFUSED,
            id="over a limit that it has not",
        ),
        pytest.param(
            Kind.LIMITED, refused(429, {"x-outrigger-error": "rate-limit"}), Outcome.WRONG, id="for how long?"
        ),
        pytest.param(Kind.CHAT, refused(429, {}), Outcome.REFUSED, id="a provider need not say how long"),
    ],
)
def test_errors(kind: Kind, got: Got, outcome: Outcome) -> None:
    """In OpenAI's shape, and with the time to wait where it is ours."""
    assert judge(Question(NAME, kind, CHAT, {}), got)[0] is outcome


PIECES = tuple(pieces_of(NAME, [NAME]))


@pytest.mark.parametrize(
    ("body", "complete", "outcome"),
    [
        pytest.param(events(*PIECES), True, Outcome.RIGHT, id="to its end"),
        pytest.param(events(*PIECES[:3], finish=None, done=False), False, Outcome.CUT, id="cut"),
        pytest.param(events(*PIECES[:3], finish=None, done=False), True, Outcome.CUT, id="cut, in order"),
        pytest.param(events(*PIECES, done=False)[:-9], False, Outcome.CUT, id="cut in an event"),
        pytest.param(events(*PIECES[:3]), True, Outcome.WRONG, id="a made-up finish"),
        pytest.param(events(*PIECES, finish=None), True, Outcome.WRONG, id="a mark without a finish"),
        pytest.param(events(*PIECES) + events("x"), True, Outcome.WRONG, id="something behind the end"),
        pytest.param(events(*PIECES[:1], *PIECES), True, Outcome.WRONG, id="a piece twice"),
    ],
)
def test_a_stream(body: bytes, complete: bool, outcome: Outcome) -> None:
    """It is cut, or right to its end; a finish that nobody said is wrong."""
    assert judge(STREAMED, Got(200, DECIDED_BY, body, complete))[0] is outcome


def test_vectors() -> None:
    """Each at its own place."""

    def told(*texts: str) -> Got:
        data = [{"index": place, "embedding": vector_of(text)} for place, text in enumerate(texts)]
        return Got(200, DECIDED_BY, json.dumps({"data": data}).encode())

    assert judge(VECTORS, told(*VECTORS.texts))[0] is Outcome.RIGHT
    assert judge(VECTORS, told(*reversed(VECTORS.texts)))[0] is Outcome.WRONG
    assert judge(VECTORS, told(VECTORS.texts[0]))[0] is Outcome.WRONG


@pytest.mark.parametrize(
    ("own", "outcome"),
    [
        pytest.param(("a", "b"), Outcome.RIGHT, id="in order"),
        pytest.param(("b",), Outcome.RIGHT, id="the last one"),
        pytest.param((), Outcome.RIGHT, id="forgotten"),
        pytest.param(("b", "a"), Outcome.DISORDERED, id="in another order"),
        pytest.param(("a", "a"), Outcome.WRONG, id="twice"),
        pytest.param(("c",), Outcome.WRONG, id="another session's"),
    ],
)
def test_a_session_holds_its_own_turns(own: tuple[str, ...], outcome: Outcome) -> None:
    """Whatever goes up of another session is wrong."""
    names = {"a": "q-session-1", "b": "q-session-2", "c": "q-session-3"}
    question = Question("q-session-9", Kind.SESSION, CHAT, {})
    content = answer(*(names[one] for one in own), question.name, name=question.name)
    got = Got(200, DECIDED_BY, whole(content))
    assert judge(question, got, (names["a"], names["b"]))[0] is outcome


def test_turns_of_an_undecided_request_are_wrong() -> None:
    """Who added them?"""
    question = Question("q-session-9", Kind.SESSION, CHAT, {})
    got = Got(200, {}, whole(answer("q-session-1", question.name, name=question.name)))
    assert judge(question, got, ("q-session-1",))[0] is Outcome.WRONG
