"""A Policy that is set for trials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from control_plane.cli.client import Client
from control_plane.cli.failures import CommandFailed
from control_plane.cli.trial_policy import TrialPolicy
from control_plane.tools.tune.settings import Setting
from tests.unit.control_plane.cli.stub import Stub

PATH = "/api/v1/policies/batching"
SERVING = {"id": "a", "connected": True, "inForce": True, "nack": None}


def document(**batch: Any) -> dict[str, Any]:
    """Return the Policy as the API answers it."""
    return {
        "apiVersion": "outrigger.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": "batching"},
        "spec": {"batch": {"mode": "native", **batch}},
    }


@pytest.fixture
def client(stub: Stub) -> Iterator[Client]:
    """A client of the stand-in, whose sidecar serves what it is given."""
    stub.answer("GET /api/v1/revisions", {"items": [{"revision": 7}]})
    with Client(stub.url) as made:
        yield made


def written(stub: Stub) -> list[Any]:
    """Return the `batch` of every document that was put."""
    return [seen.json["spec"]["batch"] for seen in stub.seen if seen.method == "PUT"]


async def test_it_is_set_and_put_back(stub: Stub, client: Client) -> None:
    """In force on every sidecar before a trial begins; afterwards as it was."""
    stub.answer("GET /api/v1/sidecars", {"items": [{**SERVING, "inForce": False}]})
    stub.answer("GET /api/v1/sidecars", {"items": [SERVING]})
    stub.answer(f"GET {PATH}", document())
    stub.answer(f"GET {PATH}", document(maxSize=10))
    stub.answer(f"PUT {PATH}", document(maxSize=10))
    policy = TrialPolicy(client, "batching")
    await policy.set(Setting(10))
    await policy.set(Setting(10))
    assert written(stub) == [{"mode": "native", "maxSize": 10}]
    assert policy.put_back()
    assert policy.put_back()
    assert written(stub)[1:] == [{"mode": "native"}]


async def test_what_somebody_else_wrote_meanwhile_stays(stub: Stub, client: Client) -> None:
    """Putting back would undo it."""
    stub.answer("GET /api/v1/sidecars", {"items": [SERVING]})
    stub.answer(f"GET {PATH}", document(), etag='"1"')
    stub.answer(f"GET {PATH}", document(maxSize=7), etag='"3"')
    stub.answer(f"PUT {PATH}", document(), etag='"2"')
    policy = TrialPolicy(client, "batching")
    await policy.set(Setting(10))
    assert not policy.put_back()
    assert len(written(stub)) == 1


async def test_what_somebody_else_wrote_between_two_trials_stays(stub: Stub, client: Client) -> None:
    """Each is written only in the place of the one before; the run ends with a sentence."""
    stub.answer("GET /api/v1/sidecars", {"items": [SERVING]})
    stub.answer(f"GET {PATH}", document(), etag='"1"')
    stub.answer(f"GET {PATH}", document(maxSize=7), etag='"3"')
    stub.answer(f"PUT {PATH}", document(), etag='"2"')
    stub.problem(f"PUT {PATH}", 412, "it has changed")
    policy = TrialPolicy(client, "batching")
    await policy.set(Setting(10))
    with pytest.raises(CommandFailed, match="changed by somebody else"):
        await policy.set(Setting(20))
    assert [seen.headers.get("if-match") for seen in stub.seen if seen.method == "PUT"] == ['"1"', '"2"']
    assert not policy.put_back()


async def test_a_trial_that_nobody_confirmed_is_put_back(stub: Stub, client: Client) -> None:
    """It may have been written all the same."""
    stub.answer("GET /api/v1/sidecars", {"items": [SERVING]})
    stub.answer(f"GET {PATH}", document(), etag='"1"')
    stub.answer(f"GET {PATH}", document(maxSize=10), etag='"2"')
    stub.problem(f"PUT {PATH}", 503, "no answer in time")
    stub.answer(f"PUT {PATH}", document(), etag='"3"')
    policy = TrialPolicy(client, "batching")
    with pytest.raises(CommandFailed):
        await policy.set(Setting(10))
    assert policy.put_back()
    assert written(stub)[1:] == [{"mode": "native"}]


def test_the_best_is_kept(stub: Stub, client: Client) -> None:
    """With what that changes; nothing is put back then."""
    stub.answer("GET /api/v1/sidecars", {"items": [SERVING]})
    stub.answer(f"GET {PATH}", document(maxSize=5))
    stub.answer(f"PUT {PATH}", document(maxSize=50))
    policy = TrialPolicy(client, "batching")
    assert policy.keep(Setting(50, 100)) == [
        {"field": "spec.batch.maxSize", "before": 5, "after": 50},
        {"field": "spec.batch.maxWait", "before": None, "after": "100ms"},
        {"field": "spec.batch.splitAbove", "before": None, "after": 50},
    ]
    assert policy.put_back()
    assert len(written(stub)) == 1


@pytest.mark.parametrize(
    ("sidecar", "revision", "told"),
    [
        ({**SERVING, "inForce": False, "nack": "bad"}, {}, "refused it: bad"),
        (SERVING, {"state": "halted", "reason": "no good"}, "no good"),
    ],
)
async def test_a_policy_that_sidecars_refuse_is_told(
    stub: Stub, sidecar: dict[str, Any], revision: dict[str, Any], told: str
) -> None:
    """With their reason."""
    stub.answer("GET /api/v1/revisions", {"items": [{"revision": 7, **revision}]})
    stub.answer("GET /api/v1/sidecars", {"items": [sidecar]})
    stub.answer(f"GET {PATH}", document())
    stub.answer(f"PUT {PATH}", document())
    with Client(stub.url) as client, pytest.raises(CommandFailed, match=told):
        await TrialPolicy(client, "batching").set(Setting(10))


def test_what_cannot_be_tuned_is_told_before_a_run(stub: Stub, client: Client) -> None:
    """No such Policy, or one that does not batch."""
    with pytest.raises(CommandFailed, match="nothing here"):
        TrialPolicy(client, "batching")
    stub.answer(f"GET {PATH}", document(mode="none"))
    with pytest.raises(CommandFailed, match=r"Policy/batching does not batch; set its batch\.mode"):
        TrialPolicy(client, "batching")
