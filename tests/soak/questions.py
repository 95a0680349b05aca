"""Questions of every kind, and whether an answer is the right one (pure).

An answer that the processor decided on has `x-outrigger-model`; one without went up as it came, and is right
if it is to its own question alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from tests.soak.replies import pieces_of, vector_of

CHAT: Final = "/v1/chat/completions"
EMBEDDINGS: Final = "/v1/embeddings"
DECIDED: Final = "x-outrigger-model"
REASON: Final = "x-outrigger-error"


class Kind(StrEnum):
    """What a question tries."""

    CHAT = "chat"
    STREAM = "stream"
    LONG = "long"
    LIMITED = "limited"
    EMBED = "embed"
    ARRAY = "array"
    SESSION = "session"
    CACHED = "cached"
    CROWD = "crowd"
    NARROW = "narrow"


class Outcome(StrEnum):
    """What became of a question."""

    RIGHT = "right"
    AS_IS = "as-is"  # right, and undecided: the processor was passed by
    REFUSED = "refused"  # an error in OpenAI's shape
    DISORDERED = "disordered"  # right, but for the order of a session's turns
    LIMITED = "limited"  # refused for a limit that the question had been given
    LEFT = "left"  # its caller did not wait
    CUT = "cut"  # a stream that ends without saying that it is finished
    LOST = "lost"  # no answer at all
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Question:
    """One request. `streamed`: the answer is to be a stream; `texts`: of embeddings."""

    name: str
    kind: Kind
    target: str
    document: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)
    streamed: bool = False
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Got:
    """What came back. `whole`: the message ended in order."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True


def judge(question: Question, got: Got | None, earlier: Sequence[str] = ()) -> tuple[Outcome, str]:
    """Return what became of a question, and what is wrong if anything is.

    Args:
        question: what was asked.
        got: what came back; None for nothing.
        earlier: of a session, the questions asked in it before.
    """
    if got is None:
        return Outcome.LOST, ""
    if got.status != 200:
        return _refused(question, got)
    as_is = DECIDED not in got.headers
    if question.texts:
        return _embeddings(question, got, as_is)
    if question.streamed:
        return _stream(question, got, as_is, earlier)
    if not got.whole:
        return Outcome.LOST, ""
    try:
        (choice,) = json.loads(got.body)["choices"]
        content, finish = choice["message"]["content"], choice["finish_reason"]
    except (ValueError, LookupError, TypeError):
        return Outcome.WRONG, f"no completion: {got.body[:200]!r}"
    if finish != "stop":
        return Outcome.WRONG, f"finished by {finish!r}"
    return _content(question, content, as_is, earlier)


def _refused(question: Question, got: Got) -> tuple[Outcome, str]:
    if not got.whole:
        return Outcome.LOST, ""
    try:
        error = json.loads(got.body)["error"]
        shaped = set(error) >= {"message", "type", "param", "code"} and isinstance(error["message"], str)
    except (ValueError, LookupError, TypeError):
        shaped = False
    if not shaped:
        return Outcome.WRONG, f"{got.status} in no shape of OpenAI's: {got.body[:200]!r}"
    reason = got.headers.get(REASON, "")
    if got.status == 429 and reason and "retry-after" not in got.headers:
        return Outcome.WRONG, f"429 {reason} without retry-after"
    own_limit = question.kind in (Kind.LIMITED, Kind.NARROW) and got.status == 429
    if own_limit and reason in ("rate-limit", "quota", "shed"):
        return Outcome.LIMITED, ""
    return Outcome.REFUSED, f"{got.status} {reason or error.get('code')}"


def _embeddings(question: Question, got: Got, as_is: bool) -> tuple[Outcome, str]:
    if not got.whole:
        return Outcome.LOST, ""
    try:
        data = json.loads(got.body)["data"]
        given = [item["embedding"] for item in data]
        places = [item["index"] for item in data]
    except (ValueError, LookupError, TypeError):
        return Outcome.WRONG, f"no embeddings: {got.body[:200]!r}"
    if given != [vector_of(text) for text in question.texts] or places != list(range(len(given))):
        return Outcome.WRONG, "embeddings of something else"
    return (Outcome.AS_IS if as_is else Outcome.RIGHT), ""


def _stream(question: Question, got: Got, as_is: bool, earlier: Sequence[str]) -> tuple[Outcome, str]:
    try:
        content, finish, done = joined(got.body)
    except (ValueError, LookupError, TypeError) as error:
        # The last event of a stream that was cut may be cut, too.
        return (Outcome.WRONG, f"unreadable event: {error}") if got.whole else (Outcome.CUT, "")
    if finish is None and not done:
        return Outcome.CUT, ""
    if finish is None or not done:
        return (Outcome.WRONG, "half an end") if got.whole else (Outcome.CUT, "")
    return _content(question, content, as_is, earlier)


def joined(body: bytes) -> tuple[str, str | None, bool]:
    """Return the content of an event stream, its finish reason, and whether it said that it is done.

    Raises:
        ValueError: an event is no JSON. LookupError, TypeError: it has no choices.
    """
    content, finish, done = "", None, False
    for event in body.split(b"\n\n"):
        data = event.removeprefix(b"data:").strip()
        if not event.startswith(b"data:"):
            continue
        if data == b"[DONE]":
            done = True
            continue
        if done or (finish is not None and b'"content"' in data):
            raise ValueError("something behind the end")
        for choice in json.loads(data)["choices"]:
            content += choice["delta"].get("content") or ""
            finish = choice["finish_reason"] or finish
    return content, finish, done


def _content(question: Question, content: str, as_is: bool, earlier: Sequence[str]) -> tuple[Outcome, str]:
    name = question.name
    _, _, rest = content.partition(" own:")
    own = rest.partition(" ")[0].split(",")
    if content != "".join(pieces_of(name, own)):
        return Outcome.WRONG, f"another answer: {content[:200]!r}"
    others = own[:-1]
    if own[-1] != name:
        return Outcome.WRONG, f"not its own question at the end: {own}"
    if not set(others) <= set(earlier) or len(set(others)) < len(others):
        return Outcome.WRONG, f"turns that are not its own: {others}"
    if as_is and others:
        return Outcome.WRONG, "turns, though nobody decided"
    if sorted(others, key=earlier.index) != others:
        return Outcome.DISORDERED, f"turns in another order: {others}"
    return (Outcome.AS_IS if as_is else Outcome.RIGHT), ""
