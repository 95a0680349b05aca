"""The uses of a sidecar's processors as one."""

from __future__ import annotations

import asyncio

import pytest

from ext_proc.agent import limit_relay
from ext_proc.agent.limit_relay import LimitRelay
from ext_proc.contract import push_pb2
from ext_proc.contract.uses import Use, Uses, uses_message, uses_of


def told(reports: list[push_pb2.Report]) -> list[Uses]:
    """Return what reports tell."""
    return [uses_of(report.limit_uses) for report in reports]


def test_processors_are_told_as_one_and_forgotten_when_they_go() -> None:
    """Only what is new is told; a new connection hears all of it."""
    reports: list[push_pb2.Report] = []
    relay = LimitRelay(reports.append)
    relay.look()
    relay.counted(1, uses_message({"model:m": Use(2), "tier:t": Use(1)}))
    relay.counted(2, uses_message({"model:m": Use(3)}))
    relay.look()
    relay.look()
    assert told(reports) == [{"model:m": Use(5), "tier:t": Use(1)}]
    relay.gone(1)
    relay.gone(7)
    relay.look()
    assert told(reports[1:]) == [{"model:m": Use(3)}]
    assert told(list(relay.standing())) == [{"model:m": Use(3)}]
    relay.gone(2)
    assert list(relay.standing()) == []


async def test_it_looks_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few seconds."""
    monkeypatch.setattr(limit_relay, "TELL_EVERY_S", 0.001)
    heard = asyncio.Event()
    relay = LimitRelay(lambda _: heard.set())
    relay.counted(1, uses_message({"model:m": Use(2)}))
    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(5):
        await heard.wait()
    running.cancel()
    await asyncio.wait([running])
