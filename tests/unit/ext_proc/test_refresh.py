"""Asking again behind an answer that was served."""

from __future__ import annotations

import asyncio

import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.exchange import Answer, Answered, Exchange, Forward
from ext_proc.refresh import AT_ONCE, BackgroundRefresh
from ext_proc.refusals import no_backend
from tests.unit.ext_proc.exchanges import HELLO, exchange
from tests.unit.ext_proc.test_continuation import FINISH, STREAM, WHOLE, Provider
from tests.unit.ext_proc.test_flights import DONE, event, settled


class Asking:
    """A refresh whose provider answers what a test says."""

    def __init__(self, provider: Provider, decision: Answer | Forward | None = None) -> None:
        self.kept: list[tuple[Exchange, Answered]] = []
        self.ended: list[Exchange] = []
        self.dropped: list[None] = []
        self.decision = decision or Forward("route")
        self.refresh = BackgroundRefresh(
            provider,
            self.decide,
            lambda *kept: self.kept.append(kept),
            structlog.get_logger(),
            ended=self.ended.append,
            dropped=lambda: self.dropped.append(None),
        )

    async def decide(self, exchange: Exchange) -> Answer | Forward | None:
        """Say where it goes."""
        return self.decision


async def test_a_fresh_answer_is_kept() -> None:
    """It is called for with the caller's own head and body."""
    provider, again = Provider(), exchange()
    asking = Asking(provider)
    asking.refresh.refresh(b"k", again)
    await settled()
    ((kept, answered),) = asking.kept
    assert (kept, answered.body, provider.ended, asking.ended) == (again, WHOLE, 1, [again])
    assert provider.calls == [(again.head, asking.decision, again.body)]
    assert again.forwarded is asking.decision


async def test_a_stream_is_joined() -> None:
    """What was asked for as a stream is kept as one answer."""
    provider = Provider(headers=STREAM, said=(event("abc"), FINISH, DONE))
    again = exchange(document={**HELLO, "stream": True})
    asking = Asking(provider)
    asking.refresh.refresh(b"k", again)
    await settled()
    ((_, answered),) = asking.kept
    assert again.recorded
    assert b'"abc"' in answered.body


async def test_a_question_is_asked_once_at_a_time_and_not_too_many_are() -> None:
    """When it has been answered, it may be asked again; what is not asked for at all is told."""
    provider = Provider(holds=True)
    asking = Asking(provider)
    for _ in range(3):
        asking.refresh.refresh(b"k", exchange())
    for number in range(AT_ONCE + 5):
        asking.refresh.refresh(f"k{number}".encode(), exchange())
    await settled()
    assert (len(provider.calls), len(asking.dropped)) == (AT_ONCE, 6)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await settled()
    asking.refresh.refresh(b"k", exchange())
    await settled()
    assert len(provider.calls) == AT_ONCE + 1


@pytest.mark.parametrize(
    "provider",
    [
        pytest.param(Provider(status=500), id="an error"),
        pytest.param(Provider(said=(b"{}",)), id="not whole"),
        pytest.param(Provider(headers=STREAM, said=(event("abc"),)), id="a stream that is cut"),
        pytest.param(Provider(refused=RuntimeError("broken")), id="a fault"),
    ],
)
async def test_what_is_no_fresh_answer_changes_nothing(provider: Provider) -> None:
    """It is told in the log, without a word of the caller's."""
    asking = Asking(provider)
    with capture_logs() as logs:
        asking.refresh.refresh(b"k", exchange())
        await settled()
    assert asking.kept == []
    assert len(logs) == 1
    assert "hello" not in str(logs)


async def test_a_question_that_has_nowhere_to_go_is_not_asked() -> None:
    """The stage's refusal is nobody's answer."""
    provider = Provider()
    asking = Asking(provider, no_backend())
    asking.refresh.refresh(b"k", exchange())
    await settled()
    assert (provider.calls, asking.kept, len(asking.ended)) == ([], [], 1)
