"""The stages in order, and what the pipeline itself decides."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest

from ext_proc.answer_forms import READ_AT_MOST_BYTES
from ext_proc.exchange import Answer, Answered, Exchange, Forward, Reason, RequestHead, Wish
from ext_proc.openai.ratelimits import RateLimitHint
from ext_proc.openai.requests import BadRequest
from ext_proc.pipeline import NoSnapshot, PassingStage, Pipeline, announced
from ext_proc.redaction.masks import Masks
from ext_proc.snapshots import SnapshotHolder
from ext_proc.wiring.stages import stages
from tests.unit.ext_proc.exchanges import HELLO, SHARING, Counted, caching, head, snapshot

BODY = orjson.dumps(HELLO)
ANSWER = orjson.dumps(
    {"choices": [{"finish_reason": "stop"}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
)
JSON = {"content-type": "application/json"}


class Recorder(PassingStage):
    """A stage that writes down what it sees and forwards."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Forward, and ask for the answer."""
        self.seen.append("request")
        exchange.wants_body = True
        return Forward("route")

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Write down."""
        self.seen.append(f"response {answered.head.status}")

    def on_end(self, exchange: Exchange) -> None:
        """Write down."""
        self.seen.append("end")


class Refuser(PassingStage):
    """A stage that refuses."""

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Refuse."""
        raise BadRequest(400, "no", "model")


def opened(request_head: RequestHead, *stages: PassingStage) -> tuple[Pipeline, Exchange, SnapshotHolder]:
    """Return a pipeline with one exchange begun in it."""
    holder = SnapshotHolder()
    holder.replace(snapshot())
    pipeline = Pipeline(stages, holder, Counted())
    return pipeline, pipeline.begin(request_head), holder


async def test_an_exchange_from_begin_to_end() -> None:
    """Each hook is called once, in order; usage goes to the access log."""
    stage = Recorder()
    pipeline, exchange, _ = opened(head(), stage)
    assert await pipeline.request_head(exchange) is None
    assert await pipeline.request_body(exchange, BODY) == Forward("route")
    assert pipeline.response_head(exchange, 200, JSON) is Wish.WHOLE
    assert dict(pipeline.response_body(exchange, ANSWER)) == {"input_tokens": 3.0, "output_tokens": 4.0}
    pipeline.end(exchange)
    assert stage.seen == ["request", "response 200", "end"]


async def test_a_bad_body_never_reaches_a_stage() -> None:
    """It is answered with the parser's sentence."""
    stage = Recorder()
    pipeline, exchange, _ = opened(head(), stage)
    answer = await pipeline.request_body(exchange, b"{")
    assert isinstance(answer, Answer)
    assert (answer.status, answer.reason) == (400, Reason.BAD_REQUEST)
    assert dict(answer.headers)["x-outrigger-error"] == "bad-request"
    assert stage.seen == []


async def test_a_stage_may_refuse_by_raising() -> None:
    """BadRequest from a stage becomes the same kind of answer."""
    pipeline, exchange, _ = opened(head(), Refuser())
    answer = await pipeline.request_body(exchange, BODY)
    assert isinstance(answer, Answer)
    assert orjson.loads(answer.body)["error"]["param"] == "model"


class Signing(PassingStage):
    """A stage that signs answers."""

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Sign it."""
        return replace(answer, headers=(("x-signed", "yes"),))


class Answering(PassingStage):
    """A stage that answers."""

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Answer."""
        return Answer(200, b"hit", Reason.SERVED_FROM_CACHE)


async def test_answers_of_our_own_are_seen_by_all_stages() -> None:
    """Before the caller gets them; what goes up is none."""
    pipeline, exchange, _ = opened(head(), Signing(), Answering())
    answer = await pipeline.request_body(exchange, BODY)
    assert isinstance(answer, Answer)
    assert (answer.body, answer.headers) == (b"hit", (("x-signed", "yes"),))
    pipeline, exchange, _ = opened(head(), Signing(), Recorder())
    assert await pipeline.request_body(exchange, BODY) == Forward("route")


class Telling:
    """Tells one answer at its pace, and has no room for another."""

    def __init__(self) -> None:
        self.told: list[Answer] = []

    def begin(self, exchange: Exchange, answer: Answer) -> Forward | None:
        """Send the first to the origin."""
        self.told.append(answer)
        return Forward("origin") if len(self.told) == 1 else None


class Pacing(Answering):
    """A stage that answers with a pace."""

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Answer."""
        return Answer(200, b"hit", Reason.SERVED_FROM_CACHE, pace_ms=5)


async def test_an_answer_with_a_pace_is_told_at_it_where_there_is_room() -> None:
    """As all stages have seen it; it is no call, and without room it goes at once."""
    holder, telling, counted = SnapshotHolder(), Telling(), Counted()
    holder.replace(snapshot())
    pipeline = Pipeline((Signing(), Pacing()), holder, counted, telling)
    exchange = pipeline.begin(head())
    assert await pipeline.request_body(exchange, BODY) == Forward("origin")
    assert exchange.forwarded is None
    assert telling.told[0].headers == (("x-signed", "yes"),)
    at_once = await pipeline.request_body(pipeline.begin(head()), BODY)
    assert isinstance(at_once, Answer)
    assert at_once.body == b"hit"
    plain = Pipeline((Answering(),), holder, counted, telling)
    assert isinstance(await plain.request_body(plain.begin(head()), BODY), Answer)
    assert (len(telling.told), counted.pairs) == (2, [])


class Passing(PassingStage):
    """A stage that forwards unread."""

    async def on_head(self, exchange: Exchange) -> Answer | Forward | None:
        """Forward."""
        return Forward("raw")


async def test_what_goes_up_unread_has_been_sent_too() -> None:
    """Stages see at its end that it was a call."""
    pipeline, exchange, _ = opened(head(path="/v1/files"), Passing())
    assert await pipeline.request_head(exchange) == Forward("raw")
    assert exchange.forwarded == Forward("raw")


async def test_another_spelling_of_a_path_is_refused() -> None:
    """Before any stage sees it."""
    pipeline, exchange, _ = opened(head(path="/v1/chat/completions/"), Recorder())
    answer = await pipeline.request_head(exchange)
    assert isinstance(answer, Answer)
    assert (answer.status, answer.reason) == (404, Reason.UNKNOWN_PATH)


@pytest.mark.parametrize(
    ("status", "headers", "read"),
    [
        pytest.param(200, JSON, True, id="JSON"),
        pytest.param(200, {"content-type": "text/event-stream"}, False, id="a stream nobody records"),
        pytest.param(500, JSON, False, id="an error passes unread"),
        pytest.param(200, {**JSON, "content-encoding": "gzip"}, False, id="coded"),
        pytest.param(200, {**JSON, "content-length": str(64 * 1024 * 1024)}, False, id="too long to hold"),
        pytest.param(200, {}, False, id="no type"),
        pytest.param(200, {"content-type": "application/x-ndjson"}, False, id="many documents"),
    ],
)
async def test_only_json_answers_are_read(status: int, headers: dict[str, str], read: bool) -> None:
    """Everything else costs no message."""
    pipeline, exchange, _ = opened(head(), Recorder())
    await pipeline.request_body(exchange, BODY)
    assert (pipeline.response_head(exchange, status, headers) is Wish.WHOLE) is read
    exchange.wants_body = False
    assert pipeline.response_head(exchange, status, headers) is Wish.NOTHING


async def test_a_refusal_goes_to_the_access_log() -> None:
    """Read whole, or joined from the parts of a stream."""
    pipeline, exchange, _ = opened(head(), Recorder())
    await pipeline.request_body(exchange, BODY)
    assert pipeline.response_head(exchange, 200, JSON) is Wish.WHOLE
    document = {"choices": [{"finish_reason": "content_filter", "message": {"content": "H"}}]}
    assert dict(pipeline.response_body(exchange, orjson.dumps(document))) == {"filtered": 1.0}
    pipeline, exchange, _ = opened(head(), Recorder())
    await pipeline.request_body(exchange, orjson.dumps({**HELLO, "stream": True}))
    exchange.wants_stream = True
    assert pipeline.response_head(exchange, 200, {"content-type": "text/event-stream"}) is Wish.CHUNKS
    choice = b'{"index":0,"delta":{"content":"H"},"finish_reason":"content_filter"}'
    pipeline.response_chunk(exchange, b'data: {"choices":[' + choice + b"]}\n\n", end=False)
    assert not exchange.refused
    pipeline.response_chunk(exchange, b"data: [DONE]\n\n", end=True)
    assert exchange.refused


async def test_the_tokens_of_embeddings_are_read_here() -> None:
    """Envoy counts those of completions by itself."""
    for path, document, wanted in (
        ("/v1/embeddings", {"model": "m", "input": "a"}, True),
        ("/v1/chat/completions", HELLO, False),
    ):
        pipeline, exchange, _ = opened(head(path=path), Refuser())
        await pipeline.request_body(exchange, orjson.dumps(document))
        assert exchange.wants_body is wanted


async def test_an_exchange_keeps_its_snapshot_and_lets_go_once_routed() -> None:
    """A stream of hours holds no old policy."""
    pipeline, exchange, holder = opened(head(), Recorder())
    first = exchange.loaded
    holder.replace(snapshot(version="r2"))
    assert holder.oldest_in_use() == "r1-test"
    assert exchange.loaded is first
    pipeline.routed(exchange)
    assert holder.oldest_in_use() == "r2"
    pipeline.end(exchange)
    assert first.held == 0


def test_before_the_first_snapshot_nothing_is_decided() -> None:
    """Envoy then fails open or closed."""
    with pytest.raises(NoSnapshot):
        Pipeline((), SnapshotHolder(), Counted()).begin(head())


async def test_a_pipeline_that_decides_nothing_is_a_fault() -> None:
    """And says so, rather than answer anything."""
    pipeline, exchange, _ = opened(head())
    with pytest.raises(RuntimeError, match="no stage decided"):
        await pipeline.request_body(exchange, BODY)


async def test_every_decision_is_counted_by_stage_and_reason() -> None:
    """Answers of stages and of the pipeline itself, and only what was announced."""
    holder, counted = SnapshotHolder(), Counted()
    holder.replace(snapshot(default_backend=None))
    steps = stages(caching(), counted, NoQuota(), 0, SHARING, audit=counted)
    pipeline = Pipeline(steps, holder, counted)
    for request_head, body in (
        (head(path="/v1/chat/completions/"), b""),
        (head(), b"{"),
        (head(), orjson.dumps({**HELLO, "model": "invented"})),
        (head({"authorization": "ork_x"}), b""),
        (head(method="GET", path="/v1/models"), b""),
        (head({"x-outrigger-cache": "only"}), BODY),
    ):
        exchange = pipeline.begin(request_head)
        if await pipeline.request_head(exchange) is None:
            await pipeline.request_body(exchange, body)
        pipeline.end(exchange)
    assert counted.pairs == [
        ("parse", "unknown-path"),
        ("parse", "bad-request"),
        ("resolve", "no-backend"),
        ("identify", "unknown-key"),
        ("catalog", "models-listed"),
        ("cache", "not-cached"),
    ]
    known = {(stage, reason) for stage, reasons in announced(steps) for reason in reasons}
    assert known.issuperset(counted.pairs)


class NoQuota:
    """Is told of quotas and forgets them."""

    def observe(self, backend: str, hint: RateLimitHint) -> None:
        """Forget it."""


class Listener(Recorder):
    """A stage that also hears when nothing will be shown to it."""

    def on_unread(self, exchange: Exchange) -> None:
        """Write down."""
        self.seen.append("unread")


@pytest.mark.parametrize(
    ("status", "headers", "alone"),
    [
        (200, {"content-type": "text/event-stream", "content-length": "0"}, True),
        (200, JSON, True),
        (200, {**JSON, "content-encoding": "gzip"}, False),
        (200, {**JSON, "content-length": str(READ_AT_MOST_BYTES + 1)}, False),
        (200, {"content-type": "text/html"}, False),
        (500, JSON, False),
    ],
    ids=["empty stream", "empty", "coded", "too long", "HTML", "failed"],
)
async def test_a_body_that_will_not_be_shown_is_not_waited_for(
    status: int, headers: dict[str, str], alone: bool
) -> None:
    """The stages hear of it at once."""
    stage = Listener()
    pipeline, exchange, _ = opened(head(), stage)
    await pipeline.request_body(exchange, BODY)
    exchange.wants_stream = True
    assert pipeline.response_head(exchange, status, headers, alone=alone) is Wish.NOTHING
    assert stage.seen == ["request", "unread"]


class Masking(PassingStage):
    """A stage that masks one phone number and, told so, has an answer of its own for a failure."""

    masks = True

    def __init__(self, rescue: bool = False) -> None:
        self.rescue = rescue

    async def on_request(self, exchange: Exchange) -> Answer | Forward | None:
        """Set the masks."""
        exchange.masks = Masks()
        exchange.masks.mask("phone", "138")
        exchange.wants_body = True
        return None

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Restore."""
        return replace(answer, body=answer.body.replace(b"[PHONE_1]", b"138"))

    def on_response_head(self, exchange: Exchange) -> Answer | None:
        """Answer in the response's place."""
        return Answer(200, b"stale [PHONE_1]", Reason.SERVED_STALE) if self.rescue else None


class Reader(PassingStage):
    """A stage that writes down the answers that it sees."""

    def __init__(self) -> None:
        self.read: list[bytes] = []

    def on_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Write down."""
        self.read.append(answer.body)
        return answer

    def on_response(self, exchange: Exchange, answered: Answered) -> None:
        """Write down."""
        self.read.append(answered.body)


MASKED = b'{"choices":[{"message":{"content":"call [PHONE_1]"},"finish_reason":"stop"}]}'


async def test_stages_before_masks_see_what_the_caller_sees() -> None:
    """Those behind see what the provider said, of responses and of answers of our own."""
    before, behind, masking = Reader(), Reader(), Masking()
    pipeline, exchange, _ = opened(head(), before, masking, behind, Recorder())
    await pipeline.request_body(exchange, BODY)
    assert pipeline.response_head(exchange, 200, JSON) is Wish.WHOLE
    pipeline.response_body(exchange, MASKED)
    assert behind.read == [MASKED]
    assert before.read == [MASKED.replace(b"[PHONE_1]", b"138")]
    pipeline, exchange, _ = opened(head(), before, masking, behind, Answering())
    await pipeline.request_body(exchange, BODY)
    assert before.read[1:] == behind.read[1:] == [b"hit"]


async def test_an_answer_in_the_place_of_a_failure_is_restored() -> None:
    """Like any other of our own."""
    pipeline, exchange, _ = opened(head(), Masking(rescue=True), Recorder())
    await pipeline.request_body(exchange, BODY)
    answer = pipeline.response_head(exchange, 503, JSON)
    assert isinstance(answer, Answer)
    assert answer.body == b"stale 138"


async def test_a_stream_is_restored_as_it_passes() -> None:
    """Nobody else need want it; what is joined of it stays masked."""
    behind = Reader()
    pipeline, exchange, _ = opened(head(), Masking(), behind, Recorder())
    await pipeline.request_body(exchange, orjson.dumps({**HELLO, "stream": True}))
    assert pipeline.response_head(exchange, 200, {"content-type": "text/event-stream"}) is Wish.CHUNKS
    told = b""
    for text, reason in (("call [PHO", "null"), ("NE_1]", "null"), ("!", '"stop"')):
        event = f'data: {{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":{reason}}}]}}'
        told += pipeline.response_chunk(exchange, f"{event}\n\n".encode(), end=False) or b""
    told += pipeline.response_chunk(exchange, b"data: [DONE]\n\n", end=True) or b""
    assert b'"138"' in told
    assert b"PHONE" not in told
    assert b"call [PHONE_1]!" in behind.read[0]
