"""Answers that processors share in Redis: over restarts, between sidecars, and without Redis."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.documents import SMALL_MESH
from tests.harness.mesh import Mesh
from tests.harness.processes import eventually
from tests.harness.raw_http import Answer, post
from tests.harness.redis import RedisMissingError, RedisServer, redis_server
from tests.harness.rude import RudeProvider, completion, reply

MORE = """\
---
kind: Policy
metadata: {name: together}
spec: {target: {models: [plain]}, coalesce: {enabled: true}}
---
kind: Policy
metadata: {name: kept}
spec: {target: {models: [kept]}, cache: {enabled: true, tiers: [database]}}
---
kind: Model
metadata: {name: kept}
spec: {versions: [{name: v1, backend: rude}]}
"""


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis."""
    try:
        with redis_server(Path(tmp_path_factory.mktemp("redis"))) as started:
            yield started
    except RedisMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def pair(
    rude: RudeProvider, redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Mesh, Mesh]]:
    """Two meshes that share a Redis."""
    documents = SMALL_MESH.format(rude=rude.port, fail_open="true") + MORE
    options = ("--redis", redis.url, "--log-level", "info")
    with ExitStack() as running:
        one, other = (
            running.enter_context(Mesh(tmp_path_factory.mktemp(name), documents, options))
            for name in ("one", "other")
        )
        yield one, other


def status(answer: Answer) -> str | None:
    """Return what the cache said."""
    return answer.get("x-outrigger-cache")


async def ask(mesh: Mesh, text: str, **more: object) -> Answer:
    """Ask the cached Model."""
    return await post(
        mesh.proxy_port, {"model": "cached", "messages": [{"role": "user", "content": text}], **more}
    )


async def entries(redis: RedisServer, count: int) -> None:
    """Wait until Redis holds so many."""
    async with asyncio.timeout(5):
        while int(redis.command("DBSIZE")[1:]) < count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.01)


async def hit(again: Callable[[], Awaitable[Answer]], body: bytes | None = None) -> None:
    """Ask until the answer is a hit; meanwhile a call may go up, but none fails."""

    async def is_hit() -> bool:
        answer = await again()
        assert answer.status == 200
        assert status(answer) != "hit" or body in (None, answer.body)
        return status(answer) == "hit"

    await eventually(is_hit, 20, "a hit")


async def test_hits_outlive_a_processor_and_are_shared(pair: tuple[Mesh, Mesh], redis: RedisServer) -> None:
    """A killed processor's answers are hits of the next one, and of another mesh's; a flush forgets them."""
    redis.command("FLUSHALL")
    one, other = pair
    for attempt in range(5):
        asked = f"shared {attempt}"
        first = await ask(one, asked)
        assert status(first) == "miss"
        with suppress(TimeoutError):
            await entries(redis, attempt + 1)
        found = await ask(other, asked)
        # A Redis that does not answer in time is not waited for, and left alone for a second: a busy
        # machine may be so slow.
        if status(found) == "hit":
            break
        await asyncio.sleep(1.5)
    assert (status(found), found.body) == ("hit", first.body)
    assert status(await ask(other, asked, stream=True)) == "hit"
    one.kill("processor")
    await hit(partial(ask, one, asked), first.body)
    redis.command("FLUSHALL")
    assert status(await ask(one, "never asked")) == "miss"
    assert status(await ask(one, "never asked")) == "hit"


async def test_equal_requests_at_two_sidecars_are_one_call(
    pair: tuple[Mesh, Mesh], rude: RudeProvider, redis: RedisServer, script: str
) -> None:
    """Twenty at each of two meshes of one Redis; and answers in a database outlive a processor."""
    redis.command("FLUSHALL")
    one, other = pair
    calls = 0
    for attempt in range(5):
        headers = rude.script(script, [0.4, reply(200, completion("once"))])
        asked = {"model": "plain", "messages": [{"role": "user", "content": f"all at once {attempt}"}]}
        answers = await asyncio.gather(
            *(post(mesh.proxy_port, asked, headers) for _ in range(20) for mesh in (one, other))
        )
        assert {answer.json()["choices"][0]["message"]["content"] for answer in answers} == {"once"}
        calls = len(rude.seen(script))
        assert [status(answer) for answer in answers].count("coalesced") == 40 - calls
        # A Redis that does not say within 20 ms who leads is not waited for, and left alone for a second.
        if calls == 1:
            break
        await asyncio.sleep(1.5)
    assert calls == 1
    keep = {"model": "kept", "messages": [{"role": "user", "content": "keep this"}]}
    assert status(await post(one.proxy_port, keep)) == "miss"
    await hit(partial(post, one.proxy_port, keep))
    one.kill("processor")
    await hit(partial(post, one.proxy_port, keep))
    assert (one.data_dir / "answers.db").stat().st_mode & 0o077 == 0


async def test_without_redis_nothing_fails_and_nothing_waits(
    pair: tuple[Mesh, Mesh], redis: RedisServer
) -> None:
    """Six seconds dead or frozen under steady load: no call fails, a handful of lines in the log."""
    redis.command("FLUSHALL")
    mesh, _ = pair
    for break_it, mend_it in ((redis.freeze, redis.thaw), (redis.kill, redis.start)):
        before, back = mesh.log().count("Redis"), mesh.log().count("Redis is back")
        break_it()
        try:
            slow = 0
            for number in range(150):
                began = time.monotonic()
                answer = await ask(mesh, f"question {number % 50} {break_it.__name__}")
                slow += time.monotonic() - began > 0.25
                assert answer.status == 200
            assert slow <= 5
        finally:
            mend_it()
        async with asyncio.timeout(20):
            while mesh.log().count("Redis is back") == back:
                await ask(mesh, f"another {time.monotonic()}")
        assert mesh.log().count("Redis") - before <= 4
        assert "Traceback" not in mesh.log()
    assert status(await ask(mesh, "afterwards")) == "miss"
    await entries(redis, 1)
