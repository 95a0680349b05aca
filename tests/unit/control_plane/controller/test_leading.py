"""The whole of what a leader does, between a cluster and a control plane in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import orjson
import pytest

from control_plane.controller import mirroring
from control_plane.controller.leading import Leading
from control_plane.controller.metrics import Metrics
from control_plane.controller.mirror import MirrorError
from control_plane.controller.resources import Key
from control_plane.controller.verdicts import Programming, Standing, Verdict, Verdicts
from control_plane.kubernetes_client import KubernetesError
from tests.unit.control_plane.controller.cluster import SECRETS, Cluster, Silence, path_of, until

PINS, BACKENDS = path_of("Pin"), path_of("Backend")


class Plane:
    """A control plane that refuses Pins without an answer, and is away when it is told to be."""

    def __init__(self) -> None:
        self.documents: dict[Key, object] = {}
        self.secrets: dict[str, dict[str, str]] = {}
        self.revision = 0
        self.sidecars = 0
        self.is_away = False

    async def tell(self, desired: bytes) -> Verdicts:
        """Take what is right."""
        if self.is_away:
            raise MirrorError("unreachable", "away")
        body = orjson.loads(desired)
        verdicts = {}
        self.documents = {}
        for document in body["documents"]:
            key = Key(document["kind"], document["metadata"]["name"])
            right = key.kind != "Pin" or "answer" in document["spec"]
            verdicts[key] = Verdict(
                right, "Accepted" if right else "Invalid", "" if right else "needs answer"
            )
            self.documents[key] = document["spec"]
        self.secrets = body.get("secrets", self.secrets)
        self.revision += 1
        return Verdicts(self.revision, verdicts)

    async def standing(self) -> Standing:
        """Say that everything is in force."""
        if self.is_away:
            raise MirrorError("unreachable", "away")
        of = {key: Programming(True, self.sidecars, self.sidecars) for key in self.documents}
        return Standing(self.revision, of)


class Led:
    """A leader and its surroundings."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.plane = Plane()
        self.lead()

    def lead(self) -> None:
        """Begin to lead."""
        leading = Leading(
            self.cluster,
            self.plane,
            "mesh",
            clock=asyncio.get_running_loop().time,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            holds=lambda: True,
            log=Silence(),
            metrics=Metrics(),
        )
        self.task = asyncio.create_task(leading.run())

    def said(self, name: str) -> tuple[str, str] | None:
        """Return what the condition Accepted of a Pin says."""
        return self.cluster.conditions("Pin", name).get("Accepted")


@pytest.fixture
async def led(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Led]:
    """Lead, with short waits."""
    monkeypatch.setattr(mirroring, "GATHER_S", 0.01)
    monkeypatch.setattr(mirroring, "ASK_EVERY_S", 0.05)
    found = Led()
    await until(lambda: found.plane.revision > 0)
    yield found
    found.task.cancel()
    await asyncio.gather(found.task, return_exceptions=True)


async def test_a_resource_comes_over_and_has_both_conditions(led: Led) -> None:
    """Accepted and Programmed; a wrong one has the reason, and heals when it is put right."""
    led.cluster.put(PINS, "right", spec={"answer": "x"})
    led.cluster.put(PINS, "wrong", spec={})
    await until(lambda: led.said("right") is not None and led.said("wrong") is not None)
    assert led.said("right") == ("True", "Accepted")
    assert led.said("wrong") == ("False", "Invalid")
    led.cluster.put(PINS, "wrong", spec={"answer": "now"})
    await until(lambda: led.said("wrong") == ("True", "Accepted"))


async def test_a_deleted_resource_goes(led: Led) -> None:
    """Also when it is deleted while the watch is down."""
    led.cluster.put(PINS, "one", spec={"answer": "x"})
    led.cluster.put(PINS, "two", spec={"answer": "x"})
    await until(lambda: len(led.plane.documents) == 2)
    led.cluster.delete(PINS, "one")
    await until(lambda: len(led.plane.documents) == 1)
    led.cluster.end_watches(KubernetesError(0, "Unreachable", "x"))
    led.cluster.delete(PINS, "two")
    led.cluster.forget()
    await until(lambda: not led.plane.documents)


async def test_a_secret_goes_over_and_is_rotated(led: Led) -> None:
    """Only the entry that is named."""
    led.cluster.put(SECRETS, "provider", data={"key": "b2xk", "other": "eA=="})
    spec = {"url": "https://a", "credentials": {"secretRef": {"name": "provider", "key": "key"}}}
    led.cluster.put(BACKENDS, "a", spec=spec)
    await until(lambda: led.plane.secrets == {"provider": {"key": "b2xk"}})
    led.cluster.put(SECRETS, "provider", data={"key": "bmV3"})
    await until(lambda: led.plane.secrets == {"provider": {"key": "bmV3"}})


async def test_at_rest_nothing_is_written_or_asked(led: Led) -> None:
    """The API server hears nothing of a mesh in which nothing happens."""
    led.cluster.put(PINS, "one", spec={"answer": "x"})
    await until(lambda: led.said("one") is not None)
    await asyncio.sleep(0.1)
    led.cluster.calls.clear()
    await asyncio.sleep(0.3)
    assert not led.cluster.calls


async def test_counts_of_sidecars_follow(led: Led) -> None:
    """A sidecar that connects shows in what is programmed."""
    led.cluster.put(PINS, "one", spec={"answer": "x"})
    await until(lambda: led.said("one") is not None)
    led.plane.sidecars = 3
    await until(lambda: led.cluster.get(PINS, "one")["status"]["sidecars"] == {"current": 3, "total": 3})


async def test_a_status_that_somebody_spoilt_is_put_right(led: Led) -> None:
    """Not at once, but when everything is told again; here, when anything changes."""
    led.cluster.put(PINS, "one", spec={"answer": "x"})
    await until(lambda: led.said("one") is not None)
    led.cluster.put(PINS, "one", status={})
    led.cluster.put(PINS, "two", spec={"answer": "x"})
    await until(lambda: led.said("one") == ("True", "Accepted"))


async def test_a_control_plane_that_was_away_is_told_what_it_missed(led: Led) -> None:
    """However much that was."""
    led.plane.is_away = True
    led.cluster.put(PINS, "one", spec={"answer": "x"})
    await asyncio.sleep(0.1)
    assert led.said("one") is None
    led.plane.is_away = False
    await until(lambda: led.said("one") == ("True", "Accepted"))


async def test_a_thousand_resources_are_quick(led: Led) -> None:
    """In memory it is a matter of a second or two: nothing grows with the square of their number."""
    for number in range(1_000):
        led.cluster.put(PINS, f"pin-{number}", spec={"answer": "x"})
    await until(lambda: len(led.cluster.patches) == 1_000, within_s=20)
    assert led.said("pin-999") == ("True", "Accepted")


async def test_without_a_right_to_secrets_the_rest_is_mirrored(led: Led) -> None:
    """What was told of Secrets before is left as it is."""
    led.cluster.refuse = lambda method, path: (
        KubernetesError(403, "Forbidden", "no") if path.startswith(SECRETS) else None
    )
    led.task.cancel()
    await asyncio.gather(led.task, return_exceptions=True)
    led.plane.secrets = {"left": {}}
    led.cluster.put(PINS, "one", spec={"answer": "x"})
    led.lead()
    await until(lambda: led.said("one") == ("True", "Accepted"))
    assert led.plane.secrets == {"left": {}}
