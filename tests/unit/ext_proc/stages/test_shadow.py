"""Which calls are asked of a new version too, and what it is told of them."""

from __future__ import annotations

from dataclasses import replace

import orjson

from ext_proc.contract.snapshot import Model, Rollout, Version
from ext_proc.exchange import Answered, Exchange, ResponseHead
from ext_proc.openai.paths import Operation
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.responses import parse_completion
from ext_proc.pairs import Came
from ext_proc.stages.shadow import Shadow
from tests.unit.ext_proc.exchanges import HELLO, exchange, snapshot
from tests.unit.ext_proc.test_continuation import WHOLE

MODEL = Model(
    "m",
    (Version("old", "b", "m-1"), Version("new", "b", "m-2")),
    releases=(Rollout("r", "old", "new", 0.0, "salt", shadow=0.25),),
)


class Watched:
    """The stage with who asks, whose clock goes on by a second at each look."""

    def __init__(self, draw: float = 0.1, *, room: bool = True) -> None:
        self.asked: list[tuple[Exchange, bytes, Came]] = []
        self.room = room
        self.unseen = 0
        self.closed = False
        self.now = 0.0
        self.stage = Shadow(self, lambda: draw, self.clock)

    def clock(self) -> float:
        """Return the time."""
        self.now += 1.0
        return self.now

    def has_room(self) -> bool:
        """Say what the test says."""
        return self.room

    def ask(self, exchange: Exchange, body: bytes, came: Came) -> None:
        """Write it down."""
        self.asked.append((exchange, body, came))

    def unread(self) -> None:
        """Count it."""
        self.unseen += 1

    async def close(self) -> None:
        """Be closed."""
        self.closed = True

    async def begun(self, *, stream: bool = False, **changes: object) -> Exchange:
        """Return an exchange that the stage has seen on its way up, changed as said."""
        opened = exchange(snapshot(models={"m": MODEL}), {**HELLO, "stream": stream})
        opened.model, opened.release, opened.assigned = MODEL, "r", "old"
        for name, value in changes.items():
            setattr(opened, name, value)
        assert await self.stage.on_request(opened) is None
        return opened


async def test_an_answer_is_handed_on_when_it_is_whole() -> None:
    """With the body that went up, and how long it took; once."""
    watched = Watched()
    opened = await watched.begun()
    assert (opened.wants_head, opened.wants_body, opened.wants_stream) == (True, True, False)
    completion = parse_completion(Operation.CHAT, WHOLE)
    watched.stage.on_response(opened, Answered(ResponseHead(200, {}), WHOLE, completion))
    watched.stage.on_end(opened)
    assert watched.asked == [(opened, opened.body, Came(200, 1.0, None, WHOLE, completion))]


async def test_what_a_stage_has_changed_is_what_is_asked() -> None:
    """The new version is asked what the old one is, not what the caller wrote."""
    watched = Watched()
    opened = await watched.begun(changed=True)
    assert opened.mirror is not None
    assert orjson.loads(opened.mirror.body) == opened.parsed.document
    assert opened.mirror.body is not opened.body


async def test_who_is_not_looked_at() -> None:
    """Who was not drawn, is under no such Release, is answered by another one; and nobody without room."""
    for watched, changes in (
        (Watched(draw=0.25), {}),
        (Watched(room=False), {}),
        (Watched(), {"release": ""}),
        (Watched(), {"assigned": "new"}),
        (Watched(), {"passed_over": True}),
        (Watched(), {"model": replace(MODEL, releases=(replace(MODEL.releases[0], shadow=0.0),))}),
    ):
        opened = await watched.begun(**changes)
        assert (opened.mirror, opened.wants_body) == (None, False)


async def test_a_refusal_and_a_fault_are_handed_on() -> None:
    """As no answer; a body that nobody can read says nothing."""
    watched = Watched()
    for status in (429, 503, 200):
        opened = await watched.begun()
        opened.response = ResponseHead(status, {})
        watched.stage.on_unread(opened)
        watched.stage.on_end(opened)
    assert [came for _, _, came in watched.asked] == [Came(429, 1.0), Came(503, 1.0)]
    assert watched.unseen == 1


async def test_a_stream_tells_when_it_began() -> None:
    """The first piece counts, and the end mark ends it."""
    watched = Watched()
    opened = await watched.begun(stream=True)
    assert opened.wants_stream
    for _ in range(3):
        watched.stage.on_chunk(opened, b"data", end=False)
    watched.stage.on_response(opened, Answered(ResponseHead(200, {}), WHOLE, None))
    ((_, _, came),) = watched.asked
    assert (came.duration_s, came.first_byte_s) == (2.0, 1.0)


async def test_a_stream_that_ends_early_is_no_answer_and_one_that_breaks_off_says_nothing() -> None:
    """Nobody can tell a caller that has left from a provider that has."""
    watched = Watched()
    for ended in (True, False):
        opened = await watched.begun(stream=True)
        opened.recorder = StreamRecorder(Operation.CHAT, hides_usage=False, max_bytes=1000)
        watched.stage.on_chunk(opened, b"data", end=ended)
        watched.stage.on_end(opened)
    ((_, _, came),) = watched.asked
    assert (came.status, came.is_answer) == (200, False)


async def test_an_answer_of_a_stand_in_is_none_of_the_old_version() -> None:
    """As at a step; what was sent together with others is not asked again."""
    watched = Watched()
    completion = parse_completion(Operation.CHAT, WHOLE)
    opened = await watched.begun()
    opened.stood_in = True
    watched.stage.on_response(opened, Answered(ResponseHead(200, {}), WHOLE, completion))
    shared = await watched.begun()
    shared.shared = True
    watched.stage.on_response(shared, Answered(ResponseHead(200, {}), WHOLE, completion))
    watched.stage.on_end(shared)
    ((_, _, came),) = watched.asked
    assert not came.is_answer
    await watched.stage.close()
    assert watched.closed
