"""What stands behind the mesh in the bench: an Envoy that answers by itself, and a streaming server.

`python -m tests.bench.upstream PORT` is the streaming server: any request gets a chat stream, every chunk
written apart. `max_tokens` is the number of chunks; up to 20 of them come as a model would send them, 5 ms
apart, more come as fast as they are read.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import lru_cache

import uvloop

COMPLETION = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "bench",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "The quick brown fox jumps over the lazy dog."},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 21, "completion_tokens": 10, "total_tokens": 31},
    }
)

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


PACED = 20
PACE_S = 0.005


@lru_cache(maxsize=4)
def stream_chunks(count: int) -> list[bytes]:
    """Return a chat stream of `count` content chunks, each framed for HTTP/1.1, and its end."""
    events = []
    for number in range(count):
        choice = {"index": 0, "delta": {"content": f"word{number} "}, "finish_reason": None}
        events.append({"id": "chatcmpl-bench", "object": "chat.completion.chunk", "choices": [choice]})
    events.append({"id": "chatcmpl-bench", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    data = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in events] + [b"data: [DONE]\n\n"]
    return [b"%x\r\n%b\r\n" % (len(one), one) for one in data] + [b"0\r\n\r\n"]


async def serve(port: int) -> None:
    """Serve streams on a loopback port for ever."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                body = await reader.readexactly(_content_length(head))
                found = re.search(rb'"max_tokens": *(\d+)', body)
                count = int(found.group(1)) if found else 20
                writer.write(_HEAD)
                *first, last = stream_chunks(count)
                for one in first:
                    writer.write(one)
                    await asyncio.sleep(PACE_S if count <= PACED else 0)
                writer.write(last)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


def _content_length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line[15:])
    return 0


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
