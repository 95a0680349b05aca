"""Sessions in the pipeline, with a provider that answers what it is told to."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from ext_proc.answer_forms import EVENT_STREAM
from ext_proc.contract.policies import DEFAULTS, Policy, SessionPolicy
from ext_proc.contract.snapshot import Consumer, PolicyLayer
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason, ResponseHead
from ext_proc.openai.paths import Operation
from ext_proc.openai.replays import replay
from ext_proc.openai.requests import BadRequest
from ext_proc.openai.responses import parse_completion
from ext_proc.sessions.records import NotErased
from ext_proc.stages.session import Session
from ext_proc.stores.memory_sessions import MemorySessions
from tests.unit.ext_proc.exchanges import exchange, snapshot

WITH_SESSIONS = Policy(session=SessionPolicy(enabled=True, turns=2))


def user(text: str) -> dict[str, Any]:
    """Return a user's message."""
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    """Return an assistant's message."""
    return {"role": "assistant", "content": text}


def completion(text: str = "hi", finish: str | None = "stop", choices: int = 1) -> bytes:
    """Return a completion."""
    return orjson.dumps(
        {
            "choices": [
                {"index": index, "message": said(text if not index else "other"), "finish_reason": finish}
                for index in range(choices)
            ]
        }
    )


class Talk:
    """A session stage, and what goes up by it."""

    def __init__(self) -> None:
        self.stage = Session(MemorySessions(lambda: 0.0))

    async def ask(
        self, *messages: Any, name: str | None = "s", policy: Policy = WITH_SESSIONS, **fields: Any
    ) -> Exchange:
        """Send a request."""
        document = {"model": "m", "messages": list(messages), **fields.pop("document", {})}
        headers = {"x-outrigger-session": name} if name is not None else {}
        opened = exchange(None, document, headers, path=fields.pop("path", "/v1/chat/completions"))
        opened.policy = policy
        for field, value in fields.items():
            setattr(opened, field, value)
        assert await self.stage.on_request(opened) is None
        return opened

    async def erase(
        self, name: str, *, tenant: str = "workload:default", enabled: bool = True, **line: str
    ) -> Answer | None:
        """Ask for a session to be erased."""
        layer = PolicyLayer("p", ("*",), ("*",), (0, 0), {"session.enabled": enabled})
        line = {"method": "DELETE", **line}
        opened = exchange(snapshot(policies=(layer,)), None, {"x-outrigger-session": name}, **line)
        opened.tenant = tenant
        answer = await self.stage.on_head(opened)
        assert not isinstance(answer, Forward)
        return answer

    def answered(self, opened: Exchange, body: bytes | None = None, status: int = 200) -> None:
        """Let the provider answer."""
        body = completion() if body is None else body
        head = ResponseHead(status, {"content-type": "application/json"})
        self.stage.on_response(opened, Answered(head, body, parse_completion(Operation.CHAT, body)))

    async def past(self, **fields: Any) -> list[Any]:
        """Return what goes up before a new message."""
        opened = await self.ask(user("?"), **fields)
        return list(up(opened)[:-1])


def up(opened: Exchange) -> list[Any]:
    """Return the messages that go up."""
    messages: list[Any] = opened.parsed.document["messages"]
    return messages


async def test_the_past_goes_up_with_the_next_message() -> None:
    """The body that other stages count and the provider gets is the whole one."""
    talk = Talk()
    first = await talk.ask(user("one"))
    assert (up(first), first.changed, first.wants_body, first.wants_stream) == (
        [user("one")],
        False,
        True,
        False,
    )
    talk.answered(first)
    second = await talk.ask(user("two"), document={"stream": True, "x_future": 1})
    assert up(second) == [user("one"), said("hi"), user("two")]
    assert orjson.loads(second.body) == second.parsed.document
    assert second.parsed.document["x_future"] == 1
    assert (second.changed, second.wants_stream) == (True, True)


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"policy": DEFAULTS}, id="not enabled"),
        pytest.param({"name": None}, id="no session"),
        pytest.param({"name": ""}, id="empty name"),
        pytest.param({"path": "/v1/completions"}, id="no chat"),
    ],
)
async def test_without_a_session_nothing_is_added_and_nothing_kept(fields: dict[str, Any]) -> None:
    """The request passes as it came."""
    talk = Talk()
    talk.answered(await talk.ask(user("one")))
    opened = await talk.ask(user("two"), **fields)
    assert (up(opened), opened.changed, opened.wants_body) == ([user("two")], False, False)
    talk.answered(opened)
    assert await talk.past() == [user("one"), said("hi")]


async def test_messages_that_are_no_conversation_pass() -> None:
    """What is wrong with them is the provider's to say."""
    opened = await Talk().ask([user("a")], [user("b")])
    assert (opened.changed, opened.conversation) == (False, None)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        pytest.param(500, completion(), id="error status"),
        pytest.param(200, b'{"error": {"message": "x"}}', id="error in a 200"),
        pytest.param(200, completion(finish=None), id="not finished"),
        pytest.param(200, completion(finish="content_filter"), id="filtered"),
        pytest.param(200, completion(finish="error"), id="broken off"),
        pytest.param(200, b'{"choices": [{"fin', id="cut"),
    ],
)
async def test_a_failed_turn_leaves_nothing(status: int, body: bytes) -> None:
    """Neither its question nor its answer."""
    talk = Talk()
    talk.answered(await talk.ask(user("one")), body, status)
    assert await talk.past() == []


async def test_of_several_choices_the_first_is_the_turns() -> None:
    """The session goes on with that one."""
    talk = Talk()
    talk.answered(await talk.ask(user("one"), document={"n": 2}), completion(choices=2))
    assert await talk.past() == [user("one"), said("hi")]


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_of_our_own_is_a_turn_too(streamed: bool) -> None:
    """A hit, a pin, a follower's: in either form. The caller gets it as it is."""
    talk = Talk()
    opened = await talk.ask(user("one"), document={"stream": streamed})
    body, kind = completion(), "application/json"
    if streamed:
        body, kind = b"".join(replay(Operation.CHAT, body, include_usage=False)), EVENT_STREAM
    answer = Answer(200, body, Reason.SERVED_FROM_CACHE, (("content-type", kind),))
    assert talk.stage.on_answer(opened, answer) is answer
    assert await talk.past() == [user("one"), said("hi")]


async def test_refusals_and_streams_without_an_end_are_no_turns() -> None:
    """Whatever else they hold."""
    talk = Talk()
    cut = b"".join(replay(Operation.CHAT, completion(), include_usage=False)).partition(b'"stop"')[0]
    for answer in (
        Answer(429, completion(), Reason.RATE_LIMIT),
        Answer(200, cut, Reason.SERVED_FROM_FLIGHT, (("content-type", EVENT_STREAM),)),
    ):
        talk.stage.on_answer(await talk.ask(user("one")), answer)
    assert await talk.past() == []


async def test_concurrent_turns_are_all_kept_in_the_order_they_were_asked() -> None:
    """Each beside its answer, whichever came first; none sees one that is not done."""
    talk = Talk()
    first, second = await talk.ask(user("one")), await talk.ask(user("two"))
    assert up(second) == [user("two")]
    talk.answered(second, completion("2"))
    talk.answered(first, completion("1"))
    assert await talk.past() == [user("one"), said("1"), user("two"), said("2")]


async def test_an_answer_counts_once() -> None:
    """Told again, by whomever, it changes nothing."""
    talk = Talk()
    opened = await talk.ask(user("one"))
    talk.answered(opened)
    talk.answered(opened, completion("other"))
    assert await talk.past() == [user("one"), said("hi")]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"tenant": "key:other"}, id="another key"),
        pytest.param({"consumer": Consumer("c2", "t")}, id="another Consumer"),
        pytest.param({"consumer": None}, id="no Consumer"),
        pytest.param({"name": "S"}, id="another case"),
        pytest.param({"name": "s*"}, id="pattern"),
        pytest.param({"name": "../s"}, id="path"),
        pytest.param({"name": "s s"}, id="more"),
    ],
)
async def test_a_session_is_its_callers(other: dict[str, Any]) -> None:
    """Another identity, or another name, however alike, finds it empty and puts nothing into it."""
    talk = Talk()
    mine: dict[str, Any] = {"consumer": Consumer("c1", "t")}
    talk.answered(await talk.ask(user("secret"), **mine))
    talk.answered(await talk.ask(user("poison"), **{**mine, **other}), completion("poison"))
    assert await talk.past(**mine) == [user("secret"), said("hi")]
    assert await talk.past(**{**mine, **other}) == [user("poison"), said("poison")]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("x" * 257, id="too long"),
        pytest.param("a\tb", id="tab"),
        pytest.param("a\udcff", id="no text"),
        pytest.param("a\x7f", id="control"),
    ],
)
async def test_names_that_nobody_can_mean_are_refused(name: str) -> None:
    """As a bad request."""
    with pytest.raises(BadRequest, match="x-outrigger-session") as refused:
        await Talk().ask(user("one"), name=name)
    assert refused.value.status == 400
    assert (await Talk().ask(user("one"), name="é" * 256)).conversation is not None


async def test_a_caller_erases_a_session() -> None:
    """Its own, by DELETE; a turn that was under way leaves nothing then."""
    talk = Talk()
    talk.answered(await talk.ask(user("one")))
    under_way = await talk.ask(user("two"))
    answer = await talk.erase("s")
    assert answer is not None
    assert (answer.status, answer.body, answer.reason) == (204, b"", Reason.SESSION_ERASED)
    talk.answered(under_way)
    assert await talk.past() == []


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"tenant": "key:other"}, id="another's"),
        pytest.param({"name": "S"}, id="another name"),
        pytest.param({"method": "POST"}, id="no DELETE"),
        pytest.param({"path": "/v1/chat/completions/id"}, id="another path"),
        pytest.param({"name": ""}, id="no name"),
        pytest.param({"enabled": False}, id="no sessions"),
    ],
)
async def test_nothing_else_erases_it(fields: dict[str, Any]) -> None:
    """Another caller's request erases another session, another request none."""
    talk = Talk()
    talk.answered(await talk.ask(user("one")))
    erases = "tenant" in fields or fields.get("name") == "S"
    assert (await talk.erase(**{"name": "s", **fields}) is not None) == erases
    assert await talk.past() == [user("one"), said("hi")]


async def test_what_cannot_be_erased_is_said() -> None:
    """503 when the store is out of reach, 400 for a name that nobody can mean."""

    class Gone(MemorySessions):
        async def erase(self, key: bytes, *, ttl_ms: int) -> None:
            """Fail."""
            raise NotErased

    talk = Talk()
    refused = await talk.erase("x" * 257)
    assert refused is not None
    assert (refused.status, refused.reason) == (400, Reason.BAD_REQUEST)
    talk.stage = Session(Gone(lambda: 0.0))
    unsure = await talk.erase("s")
    assert unsure is not None
    assert (unsure.status, unsure.reason) == (503, Reason.SESSIONS_UNAVAILABLE)
    assert dict(unsure.headers)["retry-after"] == "1"


async def test_a_name_that_came_twice_is_refused() -> None:
    """Nobody can tell which one is meant."""
    opened = exchange(None, None, {"x-outrigger-session+": "a, b"})
    opened.policy = WITH_SESSIONS
    with pytest.raises(BadRequest, match="one x-outrigger-session header"):
        await Talk().stage.on_request(opened)
