"""HTTP/2: many streams on one connection, windows, resets."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded
from h2.settings import SettingCodes

from control_plane.tools.provider import Behaviour
from tests.contract.control_plane.tools.provider.servers import CHAT, exchanged, raw, served

PATH = "/v1/chat/completions"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"  # an empty frame
DATA_ON_STREAM_0 = b"\x00\x00\x00\x00\x00\x00\x00\x00\x00"


@pytest.mark.parametrize("wire", ["h2c", "tls-h2"])
async def test_streams_share_a_connection(wire: str) -> None:
    """Fifty calls at once use one connection and run side by side."""
    async with served(wire, decode_ms_per_token=5, answers="echo") as (provider, http):
        await http.get("/v1/models")
        bodies = [CHAT | {"messages": [{"role": "user", "content": f"n {number}"}]} for number in range(50)]
        answers = await asyncio.gather(*(http.post(PATH, json=body) for body in bodies))
        assert [answer.json()["choices"][0]["message"]["content"] for answer in answers] == [
            f"n {number}" for number in range(50)
        ]
        assert provider.observations.opened == 1


async def test_large_bodies_pass_the_windows() -> None:
    """Megabytes in both directions pass the flow-control windows."""
    async with served("h2c", answers="echo") as (_, http):
        text = "word " * 600_000
        body = CHAT | {"messages": [{"role": "user", "content": text}]}
        answer = await http.post(PATH, json=body)
        assert answer.json()["choices"][0]["message"]["content"] == text


async def test_too_large_a_body() -> None:
    """A body beyond the limit is refused with 413, and the connection goes on."""
    async with served("h2c", max_body_bytes=1000) as (provider, http):
        answer = await http.post(PATH, content=b"x" * 5000)
        assert answer.status_code == 413
        assert (await http.post(PATH, json=CHAT)).status_code == 200
        assert provider.observations.opened == 1


async def test_head_and_empty_bodies() -> None:
    """HEAD has no body."""
    async with served("h2c") as (_, http):
        answer = await http.head("/v1/models")
        assert (answer.status_code, answer.content) == (200, b"")
        assert int(answer.headers["content-length"]) > 0


async def test_a_broken_stream_leaves_the_others_alone() -> None:
    """Resetting one stream does not disturb its neighbour on the connection."""
    async with served("h2c", decode_ms_per_token=10) as (provider, http):
        await http.get("/v1/models")
        neighbour = asyncio.create_task(http.post(PATH, json=CHAT | {"max_tokens": 10}))
        await provider.observations.until(lambda seen: seen.in_flight == 1)
        provider.script(Behaviour(close="mid-stream", chunks=("data: 1\n\n",)))
        with pytest.raises(httpx.RemoteProtocolError):
            await http.post(PATH, json=CHAT)
        assert (await neighbour).status_code == 200
        assert provider.observations.opened == 1


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
async def test_a_caller_that_resets_its_stream(stream: bool) -> None:
    """RST_STREAM stops the generation at once and frees its slot; the connection goes on."""
    async with (
        served("h2c", decode_ms_per_token=1000, slots=1) as (provider, _),
        asyncio.timeout(5),
        raw(provider) as (_, writer),
    ):
        client = H2Connection()
        client.initiate_connection()
        post(client, 1, CHAT | {"stream": stream})
        writer.write(client.data_to_send())
        await provider.observations.until(lambda seen: seen.in_flight == 1)
        client.reset_stream(1)
        writer.write(client.data_to_send())
        await provider.observations.until(lambda seen: seen.aborted == 1)
        post(client, 3, CHAT)
        writer.write(client.data_to_send())
        await provider.observations.until(lambda seen: seen.in_flight == 1)
        assert provider.observations.opened == 1
    assert provider.observations.aborted == 2  # the second is aborted with its connection


async def test_a_slow_reader_holds_its_stream_back() -> None:
    """A stream whose window is shut waits, and goes on when it opens; nothing is lost."""
    async with (
        served("h2c", answers="echo") as (provider, _),
        asyncio.timeout(10),
        raw(provider) as (reader, writer),
    ):
        client = H2Connection()
        client.initiate_connection()
        client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 100})
        text = "word " * 200
        post(client, 1, CHAT | {"messages": [{"role": "user", "content": text}]})
        writer.write(client.data_to_send())
        body, ended = b"", False
        while not ended:
            data = await reader.read(65536)
            assert data
            for event in client.receive_data(data):
                if isinstance(event, DataReceived):
                    body += event.data
                    client.acknowledge_received_data(event.flow_controlled_length or 0, 1)
                ended = ended or isinstance(event, StreamEnded)
            writer.write(client.data_to_send())
        assert json.loads(body)["choices"][0]["message"]["content"] == text


def post(client: H2Connection, stream_id: int, body: object) -> None:
    """Send a chat request on a stream."""
    head = [(":method", "POST"), (":path", PATH), (":scheme", "http"), (":authority", "x")]
    client.send_headers(stream_id, head)
    client.send_data(stream_id, json.dumps(body).encode(), end_stream=True)


async def test_bad_frames() -> None:
    """What is no HTTP/2 after the preface gets a GOAWAY and the connection is closed."""
    async with served("h2c") as (provider, _):
        answer = await exchanged(provider, PREFACE + SETTINGS + DATA_ON_STREAM_0)
        assert b"\x07" in answer  # the type of GOAWAY


async def test_the_preface_may_come_in_pieces() -> None:
    """Prior knowledge is recognised however the preface is cut."""
    async with served("h2c") as (provider, _), asyncio.timeout(5), raw(provider) as (reader, writer):
        for place in range(0, len(PREFACE), 5):
            writer.write(PREFACE[place : place + 5])
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(SETTINGS)
        assert (await reader.readexactly(9))[3] == 4  # the server's SETTINGS
