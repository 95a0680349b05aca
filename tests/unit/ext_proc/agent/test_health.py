"""What the agent tells beside its answers."""

from __future__ import annotations

from ext_proc.agent.health import Health
from ext_proc.contract import push_pb2

LIVE = push_pb2.Envoy(state=push_pb2.Envoy.LIVE, version="1.2.3")
DEAD = push_pb2.Envoy(state=push_pb2.Envoy.DEAD)


class Surroundings:
    """An Envoy in the state that the test says, and statistics that change when it says so."""

    def __init__(self) -> None:
        self.now = LIVE
        self.changed = True
        self.urgent = False
        self.told: list[push_pb2.Report] = []

    async def state(self) -> push_pb2.Envoy:
        """Return how Envoy is."""
        return self.now

    def report(self) -> push_pb2.Statistics:
        """Return all."""
        return push_pb2.Statistics(epoch="e")

    def news(self) -> push_pb2.Statistics | None:
        """Return all, once."""
        changed, self.changed = self.changed, False
        return self.report() if changed else None


def kinds(reports: list[push_pb2.Report]) -> list[str]:
    """Return what kind each report is of."""
    return [str(report.WhichOneof("kind")) for report in reports]


async def test_only_news_is_told() -> None:
    """A state that stays, and counts that stand still, are no news."""
    around = Surroundings()
    health = Health(around, around, around.told.append)
    for _ in range(3):
        await health.look(statistics=True)
    assert kinds(around.told) == ["envoy", "statistics"]
    around.now = DEAD
    await health.look(statistics=False)
    assert around.told[-1].envoy == DEAD


async def test_statistics_wait_for_their_turn() -> None:
    """They are larger than the state."""
    around = Surroundings()
    health = Health(around, around, around.told.append)
    await health.look(statistics=False)
    assert kinds(around.told) == ["envoy"]
    await health.look(statistics=True)
    assert kinds(around.told) == ["envoy", "statistics"]


async def test_a_release_does_not_wait() -> None:
    """Its numbers are told at each look, when they have changed."""
    around = Surroundings()
    around.urgent = True
    health = Health(around, around, around.told.append)
    for _ in range(2):
        await health.look(statistics=False)
    assert kinds(around.told) == ["envoy", "statistics"]


async def test_a_new_connection_is_told_all() -> None:
    """Whatever was told on the one before."""
    around = Surroundings()
    health = Health(around, around, around.told.append)
    await health.look(statistics=True)
    assert list(health.standing()) == [
        push_pb2.Report(envoy=LIVE),
        push_pb2.Report(statistics=push_pb2.Statistics(epoch="e")),
    ]
    assert kinds(list(Health(around, None, around.told.append).standing())) == ["envoy"]
