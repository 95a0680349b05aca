"""One request, start to end: observed, scripted or answered, in the time it should take."""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import orjson
from pydantic import ValidationError

from control_plane.tools.provider import answers, calls, events, fields
from control_plane.tools.provider.answers import Stamp
from control_plane.tools.provider.calls import TextCall
from control_plane.tools.provider.compose import compose
from control_plane.tools.provider.errors import (
    ApiError,
    injected,
    unknown_model,
    unknown_url,
    wrong_key,
    wrong_method,
)
from control_plane.tools.provider.observations import Observations
from control_plane.tools.provider.paths import METHODS, OWN, Operation, Target, target
from control_plane.tools.provider.playback import play, wait_turn
from control_plane.tools.provider.quota import Quota
from control_plane.tools.provider.script import BEHAVIOURS, Behaviour, Script
from control_plane.tools.provider.settings import ProviderSettings
from control_plane.tools.provider.slots import Slots
from control_plane.tools.provider.timing import Clock, decode_step_s, prefill_s
from control_plane.tools.provider.wire.messages import Headers, Reply, Request

LOG = logging.getLogger(__name__)
JSON: Headers = (("content-type", "application/json"),)
SSE: Headers = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))
STEPS_A_WRITE = 128  # of a stream that takes no time: few system calls, and still bounded memory
DEFAULT_MODELS = (
    "gpt-4o-mini",
    "gpt-4o",
    "gpt-3.5-turbo",
    "text-embedding-3-small",
    "text-embedding-3-large",
)


class Application:
    """Answers requests as the settings and the script say."""

    def __init__(
        self, settings: ProviderSettings, observations: Observations, script: Script, clock: Clock
    ) -> None:
        self._settings = settings
        self._observations = observations
        self._script = script
        self._clock = clock
        self._quota = Quota(settings.requests_per_minute, settings.tokens_per_minute)
        self._faults = random.Random(settings.seed)
        self._numbers = count(1)
        self._slots = Slots(
            size=settings.slots,
            queue=settings.queue,
            cold_start_s=settings.cold_start_ms / 1000,
            idle_after_s=settings.idle_after_s,
            clock=clock,
        )

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer one request (a `messages.Handler`)."""
        if request.path.startswith(OWN):
            await self._own(request, reply)
            return
        body = _parsed(request)
        model, stream = (body.get("model"), body.get("stream") is True) if body else (None, False)
        seen = self._observations.begin(request, model if isinstance(model, str) else None, stream=stream)
        whole = False
        try:
            if self._settings.rtt_ms:
                await self._clock.sleep_until(self._clock.monotonic() + self._settings.rtt_ms / 1000)
            behaviour = self._script.take(request, seen.model) if len(self._script) else None
            seen.scripted = behaviour is not None
            common = (("x-request-id", f"req_{next(self._numbers):08x}"), ("openai-version", "2020-10-01"))
            if behaviour is None:
                await self._answer(request, body, reply, common)
            else:
                await self._scripted(behaviour, request, body, reply, common)
            whole = not reply.broken
        except Exception:  # the boundary: a defect of ours is one caller's 500, and is logged
            LOG.exception("the simulated provider failed on %s", request.path)
            await _give_up(reply)
        finally:
            self._observations.end(seen, reply.status, aborted=not whole)

    async def _scripted(
        self,
        behaviour: Behaviour,
        request: Request,
        body: dict[str, Any] | None,
        reply: Reply,
        common: Headers,
    ) -> None:
        await wait_turn(behaviour, self._clock)
        if behaviour.generate:
            await self._answer(request, body, reply, (*common, *behaviour.headers))
        else:
            await play(behaviour, reply, self._clock, common)

    async def _answer(
        self, request: Request, body: dict[str, Any] | None, reply: Reply, common: Headers
    ) -> None:
        try:
            asked = target(request.path, self._settings.base_path)
            self._check(asked, request)
            if asked.operation in (Operation.CHAT, Operation.COMPLETION):
                await self._text(asked, _required(body, request), reply, common)
            elif asked.operation is Operation.EMBEDDING:
                await self._embeddings(asked, _required(body, request), reply, common)
            elif asked.operation is Operation.OTHER:
                await reply.send(200, (*JSON, *common), _echo(request))
            else:
                await reply.send(200, (*JSON, *common), self._models(asked))
        except ApiError as error:
            await reply.send(error.status, (*JSON, *common, *error.headers), error.body())

    def _check(self, asked: Target, request: Request) -> None:
        if self._settings.api_keys and not _key(request) & set(self._settings.api_keys):
            raise wrong_key()
        method = METHODS.get(asked.operation)
        if method is None:
            if self._settings.other_paths == "refuse":
                raise unknown_url(request.method, request.path)
        elif request.method != method and not (method == "GET" and request.method == "HEAD"):
            raise wrong_method(request.method, request.path, method)

    async def _text(self, asked: Target, body: dict[str, Any], reply: Reply, common: Headers) -> None:
        settings = self._settings
        chat = asked.operation is Operation.CHAT
        if chat:
            call = calls.parse_chat(
                body,
                path_model=asked.model,
                seed=settings.seed,
                conversations=settings.conversations,
                most=settings.max_conversations,
            )
        else:
            call = calls.parse_completion(body, path_model=asked.model, seed=settings.seed)
        self._offered(call.model)
        completions = compose(call, settings)
        produced = sum(len(completion.pieces) for completion in completions)
        headers = self._admit(call.model, call.prompt_tokens + produced, common)
        async with self._slots.occupy():
            start = self._clock.monotonic() + prefill_s(call.prompt_tokens, settings)
            step_s = decode_step_s(len(completions), settings)
            stamp = self._stamp(call)
            if call.stream:
                steps = (events.chat_steps if chat else events.completion_steps)(call, completions, stamp)
                await self._stream(reply, steps, start, step_s, headers)
                return
            longest = max((len(completion.pieces) for completion in completions), default=0)
            await self._until(start + step_s * longest)
            whole = answers.chat if chat else answers.completion
            await reply.send(200, (*JSON, *headers), whole(call, completions, stamp))

    async def _stream(
        self, reply: Reply, steps: Iterator[list[bytes]], start: float, step_s: float, headers: Headers
    ) -> None:
        await self._until(start)
        await reply.start(200, (*SSE, *headers))
        if not step_s:
            while ready := [event for step in islice(steps, STEPS_A_WRITE) for event in step]:
                await reply.write(*ready)
            await reply.end()
            return
        # Each step comes at its own moment, so that a slow write does not push back all that follow. The
        # last step ends the stream and is due with the token before it.
        moment, waiting = start, next(steps)
        for step in steps:
            moment += step_s
            await self._until(moment)
            await reply.write(*waiting)
            waiting = step
        await reply.write(*waiting)
        await reply.end()

    async def _embeddings(self, asked: Target, body: dict[str, Any], reply: Reply, common: Headers) -> None:
        call = calls.parse_embedding(body, path_model=asked.model)
        self._offered(call.model)
        read = answers.embedding_tokens(call)
        headers = self._admit(call.model, read, common)
        async with self._slots.occupy():
            await self._until(self._clock.monotonic() + prefill_s(read, self._settings))
            await reply.send(200, (*JSON, *headers), answers.embeddings(call, self._settings.seed))

    def _models(self, asked: Target) -> bytes:
        names = self._settings.models or DEFAULT_MODELS
        if asked.operation is Operation.MODELS:
            return answers.models(names)
        self._offered(asked.model)
        return orjson.dumps(answers.model(asked.model))

    def _offered(self, model: str) -> None:
        if self._settings.models and model not in self._settings.models:
            raise unknown_model(model)

    def _admit(self, model: str, tokens: int, common: Headers) -> Headers:
        """Charge the quota and draw the injected error; return all headers of the answer."""
        limits = self._quota.admit(model, tokens, self._clock.monotonic())
        rate = self._settings.error_rate
        if rate and self._faults.random() < rate:
            raise injected(self._faults.choice(self._settings.error_statuses))
        return (*common, *limits)

    def _stamp(self, call: TextCall) -> Stamp:
        return Stamp(f"{call.prompts[0].source.hex()[:16]}{next(self._numbers):08x}", int(self._clock.wall()))

    async def _until(self, moment: float) -> None:
        if moment > self._clock.monotonic():
            await self._clock.sleep_until(moment)

    async def _own(self, request: Request, reply: Reply) -> None:
        """Answer the provider's own paths; they take no time and are not observed."""
        self._observations.observed_by(request.connection)
        asked = (request.method, request.path.removeprefix(OWN))
        if asked == ("GET", "stats"):
            await reply.send(200, JSON, orjson.dumps(self._observations.as_json()))
        elif asked == ("POST", "reset"):
            self._observations.reset()
            self._script.clear()
            await reply.send(200, JSON, b"{}")
        elif asked == ("GET", "script"):
            await reply.send(200, JSON, orjson.dumps(BEHAVIOURS.json_schema()))
        elif asked == ("POST", "script"):
            try:
                behaviours = BEHAVIOURS.validate_json(request.body)
            except ValidationError as error:
                refusal = ApiError(400, str(error), code="invalid_script")
                await reply.send(400, JSON, refusal.body())
                return
            self._script.add(behaviours)
            await reply.send(200, JSON, orjson.dumps({"waiting": len(self._script)}))
        else:
            await reply.send(404, JSON, unknown_url(request.method, request.path).body())


def _parsed(request: Request) -> dict[str, Any] | None:
    """Return the body if it is a JSON object, else None; whether it had to be one comes out later."""
    if not request.body or request.method != "POST":
        return None
    try:
        return fields.json_object(request.body)
    except ApiError:
        return None


def _required(body: dict[str, Any] | None, request: Request) -> dict[str, Any]:
    return fields.json_object(request.body) if body is None else body


def _key(request: Request) -> set[str]:
    """Return the keys a request carries, as bearer (OpenAI) or `api-key` (Azure)."""
    found = set()
    for name, value in request.headers:
        if name == "authorization" and value[:7].lower() == "bearer ":
            found.add(value[7:].strip())
        elif name == "api-key":
            found.add(value)
    return found


def _echo(request: Request) -> bytes:
    """Return what came, for paths that are not simulated."""
    return orjson.dumps(
        {
            "object": "echo",
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "body_bytes": len(request.body),
            "body_sha256": hashlib.sha256(request.body).hexdigest(),
        }
    )


async def _give_up(reply: Reply) -> None:
    if reply.status:
        reply.close()
        return
    error = ApiError(500, "The simulated provider failed; its log says why.", kind="server_error")
    await reply.send(500, JSON, error.body())
