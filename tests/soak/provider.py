"""`python -m tests.soak.provider PORT LOG [CERT KEY]`: the provider of the soak, a process to be killed.

Every call is a line of JSON in LOG before it is answered (the questions in it, and what a mesh must not send
up), and another one when that is over. `POST /_soak/mode` takes what it is to be like from now on:
`delay_ms`, and shares of calls that it refuses (`refuse`) or breaks off (`reset`).
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TextIO

import uvloop

from control_plane.tools.provider.observations import Observations
from control_plane.tools.provider.timing import SystemClock
from control_plane.tools.provider.wire.messages import Reply, Request
from control_plane.tools.provider.wire.server import Server, tls_context
from tests.soak.replies import conversation, names_in, pieces_of, prompt_tokens, vector_of

JSON: Final = (("content-type", "application/json"),)
SSE: Final = (("content-type", "text/event-stream"),)
PIECE_S: Final = 0.01
THINKS_S: Final = 0.02
MODE: Final = {"delay_ms": 0.0, "refuse": 0.0, "reset": 0.0}


class SoakProvider:
    """Answers by `replies`, and tells `log` of every call."""

    def __init__(self, log: TextIO) -> None:
        self._log = log
        self._mode = dict(MODE)
        self._chance = random.Random(1)

    async def __call__(self, request: Request, reply: Reply) -> None:
        """Answer one request."""
        names: list[str] = []
        try:
            await self._answer(request, reply, names)
        finally:
            if names:
                self._write({"at": time.time(), "over": names})

    async def _answer(self, request: Request, reply: Reply, names: list[str]) -> None:
        try:
            body = json.loads(request.body or b"{}")
            if request.path == "/_soak/mode":
                self._mode = {**MODE, **body}
                await reply.send(200, JSON, b"{}")
            elif request.path.endswith("/embeddings"):
                await self._embeddings(request, body, reply, names)
            elif request.path.endswith("/chat/completions"):
                await self._chat(request, body, reply, names)
            else:
                await reply.send(200, JSON, b'{"object": "list", "data": []}')
        except (ValueError, LookupError, TypeError) as error:
            self._note(request, [], wrong=str(error))
            await reply.send(400, JSON, _error("invalid_request_error", str(error)))

    def _write(self, line: dict[str, Any]) -> None:
        self._log.write(json.dumps(line) + "\n")
        self._log.flush()

    def _note(self, request: Request, names: Sequence[str], wrong: str = "") -> None:
        leaked = [
            name
            for name, value in request.headers
            if name.startswith(("x-outrigger-", "x-envoy-")) or "ork_" in value
        ]
        self._write({"at": time.time(), "names": list(names), "leaked": leaked, "wrong": wrong})

    async def _troubled(self, reply: Reply) -> bool:
        mode = self._mode
        await asyncio.sleep(THINKS_S + mode["delay_ms"] / 1000)
        if self._chance.random() < mode["refuse"]:
            await reply.send(503, (*JSON, ("retry-after", "1")), _error("server_error", "overloaded"))
            return True
        if self._chance.random() < mode["reset"]:
            reply.reset()
            return True
        return False

    async def _chat(self, request: Request, body: dict[str, Any], reply: Reply, names: list[str]) -> None:
        messages = body["messages"]
        several = isinstance(messages[0], list)
        talks = [conversation(one) for one in (messages if several else [messages])]
        names += [name for name, _ in talks]
        self._note(request, names)
        if await self._troubled(reply):
            return
        answers = [pieces_of(*talk) for talk in talks]
        read = sum(prompt_tokens(one) for one in (messages if several else [messages]))
        made = sum(map(len, answers))
        usage = {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made}
        common = {"id": f"chatcmpl-{time.time_ns()}", "created": int(time.time()), "model": body["model"]}
        if body.get("stream"):
            options = body.get("stream_options") or {}
            await self._stream(common, answers[0], usage if options.get("include_usage") else None, reply)
            return
        choices = [
            {
                "index": place,
                "message": {"role": "assistant", "content": "".join(pieces)},
                "finish_reason": "stop",
            }
            for place, pieces in enumerate(answers)
        ]
        whole = {**common, "object": "chat.completion", "choices": choices, "usage": usage}
        await reply.send(200, JSON, json.dumps(whole).encode())

    async def _stream(
        self, common: dict[str, Any], pieces: Sequence[str], usage: object, reply: Reply
    ) -> None:
        common["object"] = "chat.completion.chunk"
        await reply.start(200, SSE)
        for piece in pieces:
            choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
            await reply.write(_event({**common, "choices": [choice]}))
            await asyncio.sleep(PIECE_S)
        choice = {"index": 0, "delta": {}, "finish_reason": "stop"}
        await reply.write(_event({**common, "choices": [choice]}))
        if usage is not None:
            await reply.write(_event({**common, "choices": [], "usage": usage}))
        await reply.write(b"data: [DONE]\n\n")
        await reply.end()

    async def _embeddings(
        self, request: Request, body: dict[str, Any], reply: Reply, names: list[str]
    ) -> None:
        texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
        # A question is in each of its texts.
        names += sorted({name for text in texts for name in names_in(text)})
        self._note(request, names)
        if await self._troubled(reply):
            return
        data = [
            {"object": "embedding", "index": place, "embedding": vector_of(text)}
            for place, text in enumerate(texts)
        ]
        read = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": read, "total_tokens": read}
        whole = {"object": "list", "data": data, "model": body["model"], "usage": usage}
        await reply.send(200, JSON, json.dumps(whole).encode())


def _event(document: object) -> bytes:
    return b"data: " + json.dumps(document).encode() + b"\n\n"


def _error(kind: str, message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}}).encode()


async def serve(port: int, log_path: Path, files: Sequence[Path]) -> None:
    """Serve for ever."""
    clock = SystemClock()
    with log_path.open("a", encoding="utf-8") as log:
        server = Server(
            SoakProvider(log),
            Observations(clock, 0, 0),
            clock,
            tls=tls_context(files[0], files[1]) if files else None,
            connection_cost_s=0,
            max_body_bytes=64 * 1024 * 1024,
            max_streams=1000,
        )
        await server.start("127.0.0.1", port)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2]), [Path(one) for one in sys.argv[3:]]))
