"""Calls through a Unix socket: what is sent, what comes back, and how it fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ext_proc.continuation import CallFailed
from ext_proc.exchange import Forward, RequestHead
from ext_proc.transport.caller import EnvoyCaller

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = RequestHead(
    "POST",
    "/v1/chat/completions",
    "a=%20b",
    {
        ":method": "POST",
        ":path": "/v1/chat/completions?a=%20b",
        "authorization": "Bearer k",
        "content-length": "999",
        "content-type": "application/json",
        "transfer-encoding": "chunked",
        "x-odd": b"caf\xe9".decode("utf-8", "surrogateescape"),
        "x-word": "模型",
    },
)
OK = b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\nset-cookie: s=1\r\nset-cookie: t=2\r\n"


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[EnvoyCaller]:
    """Serve a socket in Envoy's place and yield who calls it."""
    with TemporaryDirectory(prefix="or-") as folder:
        socket = Path(folder) / "inner.sock"

        async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await serve(reader, writer)
            writer.close()

        server = await asyncio.start_unix_server(served, str(socket))
        try:
            yield EnvoyCaller(socket)
        finally:
            server.close()


async def called(caller: EnvoyCaller, forward: Forward, body: bytes = b"{}") -> bytes:
    """Make a call and return the answer's body."""
    async with caller.call(HEAD, forward, body) as reply:
        return b"".join([part async for part in reply.parts()])


async def received(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return the head and the body of a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = [
        int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
    ]
    return head, await reader.readexactly(length)


@pytest.mark.parametrize("body", [None, b"", b"x" * 20 * 1024 * 1024], ids=["as it came", "none", "20 MiB"])
async def test_the_request_goes_out_as_it_came_but_for_what_is_changed(body: bytes | None) -> None:
    """Byte for byte; with the route, and without what belongs to the connection or is to be kept."""
    seen: list[tuple[bytes, bytes]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await received(reader))
        writer.write(OK + b"content-length: 2\r\n\r\nhi")

    async with listening(serve) as caller:
        assert await called(caller, Forward("the-route", body=body, remove=("authorization",))) == b"hi"
    ((head, sent),) = seen
    assert sent == (b"{}" if body is None else body)
    line, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    assert line == b"POST /v1/chat/completions?a=%20b HTTP/1.1"
    assert sorted(fields) == sorted(
        [
            b"host: outrigger",
            b"content-length: %d" % len(sent),
            b"content-type: application/json",
            b"x-outrigger-route: the-route",
            b"x-odd: caf\xe9",
            "x-word: 模型".encode(),
        ]
    )


async def test_whose_key_it_is_made_with_is_said() -> None:
    """Envoy has no word of the processor's about this call but its headers."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await received(reader))[0])
        writer.write(OK + b"content-length: 2\r\n\r\nhi")

    async with listening(serve) as caller:
        await called(caller, Forward("the-route", metadata=(("model", "m"), ("key", "0123"))))
    (head,) = seen
    assert b"\r\nx-outrigger-key: 0123\r\n" in head


async def test_a_path_that_was_written_anew_is_used() -> None:
    """Azure's has the query in it."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await received(reader))[0])
        writer.write(OK + b"content-length: 0\r\n\r\n")

    async with listening(serve) as caller:
        await called(caller, Forward("r", path="/openai/x?api-version=1"))
    assert seen[0].startswith(b"POST /openai/x?api-version=1 HTTP/1.1\r\n")


async def test_the_answer_comes_part_by_part() -> None:
    """Each as soon as it is there; doubled headers stay two."""
    go_on = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await received(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await go_on.wait()
        writer.write(b"1\r\nb\r\n0\r\n\r\n")

    async with listening(serve) as caller, caller.call(HEAD, Forward("r"), b"{}") as reply:
        assert (reply.status, reply.headers["content-type"]) == (200, "a/b")
        cookies = [value for name, value in reply.raw if name.lower() == b"set-cookie"]
        assert cookies == [b"s=1", b"t=2"]
        parts = reply.parts()
        assert await anext(parts) == b"a"
        go_on.set()
        assert [part async for part in parts] == [b"b"]


async def test_cookies_of_one_call_are_not_sent_with_the_next() -> None:
    """It may be another tenant's."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await received(reader))[0])
        writer.write(OK + b"content-length: 0\r\n\r\n")

    async with listening(serve) as caller:
        for _ in range(2):
            await called(caller, Forward("r"))
    assert [b"cookie" in head.lower() for head in seen] == [False, False]


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"nonsense\r\n\r\n",
        OK + b"content-length: 5\r\n\r\nhi",
        OK + b"transfer-encoding: chunked\r\n\r\n9\r\nhi",
    ],
    ids=["nothing", "no HTTP", "half a body", "half a chunk"],
)
async def test_an_answer_that_breaks_off_is_a_failed_call(said: bytes) -> None:
    """Nobody takes a part for the whole."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await received(reader)
        writer.write(said)

    async with listening(serve) as caller:
        with pytest.raises(CallFailed):
            await called(caller, Forward("r"))


async def test_nobody_listens() -> None:
    """Envoy is gone: a failed call, at once."""
    with pytest.raises(CallFailed):
        await called(EnvoyCaller(Path("/nowhere/inner.sock")), Forward("r"))


async def test_leaving_ends_the_call() -> None:
    """Envoy sees the connection close."""
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await received(reader)
        writer.write(OK + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n")
        await reader.read()
        closed.set()

    async with listening(serve) as caller:
        async with caller.call(HEAD, Forward("r"), b"{}") as reply:
            assert await anext(reply.parts()) == b"a"
        await asyncio.wait_for(closed.wait(), 2)


async def test_a_cancelled_call_is_ended_too() -> None:
    """In whatever it waits."""
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await received(reader)
        arrived.set()
        await reader.read()
        closed.set()

    async with listening(serve) as caller:
        calling = asyncio.create_task(called(caller, Forward("r")))
        await arrived.wait()
        calling.cancel()
        await asyncio.wait_for(closed.wait(), 2)
