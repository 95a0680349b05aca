"""Sidecars by their pods' service accounts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from control_plane.auth.service_accounts import REVIEWS, Holder, ServiceAccounts, is_signed
from control_plane.auth.throttle import Throttle

NOW_S = 1_000_000.0
SOURCE = "10.0.0.1"


def token(seconds: float = 3600.0, name: str = "x") -> str:
    """Return a token that says it is valid for so long."""
    claims = json.dumps({"exp": NOW_S + seconds, "name": name}).encode()
    return f"eyJh.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"


class Cluster:
    """An API server with one pod, whose tokens are all good until `refuses`."""

    def __init__(self) -> None:
        self.status: dict[str, Any] = {
            "authenticated": True,
            "audiences": ["outrigger"],
            "user": {
                "username": "system:serviceaccount:shop:checkout",
                "extra": {
                    "authentication.kubernetes.io/pod-name": ["checkout-1"],
                    "authentication.kubernetes.io/pod-uid": ["u-1"],
                },
            },
        }
        self.pod = {"metadata": {"name": "checkout-1", "uid": "u-1", "labels": {"app": "checkout"}}}
        self.asked: list[str] = []

    async def call(self, method: str, path: str, *, body: Any = None) -> dict[str, Any]:
        """Answer a review or the pod."""
        self.asked.append(path)
        if path == REVIEWS:
            assert (method, body["spec"]["audiences"]) == ("POST", ["outrigger"])
            return {"status": self.status}
        assert (method, path) == ("GET", "/api/v1/namespaces/shop/pods/checkout-1")
        return self.pod


class Clock:
    """A clock that stands until it is told."""

    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.s


@pytest.fixture
def cluster() -> Cluster:
    """Return an API server."""
    return Cluster()


@pytest.fixture
def clock() -> Clock:
    """Return a clock."""
    return Clock()


@pytest.fixture
def accounts(cluster: Cluster, clock: Clock) -> ServiceAccounts:
    """Return service accounts whose workload is the label app."""
    return ServiceAccounts(
        cluster,
        lambda metadata: str(metadata["labels"]["app"]),
        throttle=Throttle(clock, burst=3),
        clock=clock,
        now=lambda: NOW_S + clock.s,
    )


async def test_a_token_is_its_pod_s(accounts: ServiceAccounts) -> None:
    """Workload, namespace and labels are what the API server has of the pod."""
    holder = await accounts.holder(token(), SOURCE)
    assert holder is not None
    assert (holder.sidecar, holder.workload, holder.namespace) == ("shop/checkout-1", "checkout", "shop")
    assert holder.labels == {
        "app": "checkout",
        "namespace": "shop",
        "pod": "checkout-1",
        "serviceAccount": "checkout",
    }


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False},
        {"audiences": []},
        {"audiences": ["https://kubernetes.default.svc"]},
        {"user": {"username": "alice"}},
        {"user": {"username": "system:serviceaccount:shop"}},
    ],
    ids=repr,
)
async def test_what_is_not_meant_for_us_does_not_come_in(
    accounts: ServiceAccounts, cluster: Cluster, status: dict[str, Any]
) -> None:
    """A token of another audience or another kind of user is none of ours."""
    cluster.status = {**cluster.status, **status} if status else {}
    assert await accounts.holder(token(), SOURCE) is None


async def test_a_pod_of_the_same_name_is_another_one(accounts: ServiceAccounts, cluster: Cluster) -> None:
    """The token is bound to the pod's uid: who took its name later is not it."""
    cluster.pod["metadata"]["uid"] = "u-2"
    assert await accounts.holder(token(), SOURCE) is None


async def test_a_token_of_no_pod_is_its_account_s(accounts: ServiceAccounts, cluster: Cluster) -> None:
    """Such as `kubectl create token` makes: the account's name is the workload."""
    cluster.status["user"]["extra"] = {}
    assert await accounts.holder(token(), SOURCE) == Holder(
        "shop", "checkout", "", "checkout", {"namespace": "shop", "serviceAccount": "checkout"}
    )
    assert cluster.asked == [REVIEWS]


async def test_what_is_known_is_not_asked_again(
    accounts: ServiceAccounts, cluster: Cluster, clock: Clock
) -> None:
    """For five minutes, and no longer than the token is valid."""
    long, short = token(), token(60.0)
    await accounts.holder(long, SOURCE)
    await accounts.holder(short, SOURCE)
    asked = len(cluster.asked)
    clock.s = 59.0
    await accounts.holder(long, SOURCE)
    await accounts.holder(short, SOURCE)
    assert len(cluster.asked) == asked
    cluster.status = {"authenticated": False}
    clock.s = 61.0
    assert await accounts.holder(short, SOURCE) is None
    assert await accounts.holder(long, SOURCE) is not None
    clock.s = 301.0
    assert await accounts.holder(long, SOURCE) is None


async def test_a_refusal_is_short(accounts: ServiceAccounts, cluster: Cluster, clock: Clock) -> None:
    """It is not asked for at each try, and forgotten within seconds."""
    good, cluster.status = cluster.status, {}
    assert await accounts.holder(token(), SOURCE) is None
    assert await accounts.holder(token(), SOURCE) is None
    assert cluster.asked == [REVIEWS]
    cluster.status, clock.s = good, 6.0
    assert await accounts.holder(token(), SOURCE) is not None


@pytest.mark.parametrize(
    ("shown", "signed"),
    [(token(), True), ("ort_abc_def", False), ("eyJ", False), ("", False), ("eyJ.a." + "b" * 20000, False)],
)
def test_which_tokens_are_a_service_account_s(shown: str, signed: bool) -> None:
    """A JWT by its form; ours have another."""
    assert is_signed(shown) is signed


async def test_an_api_server_that_is_away_costs_no_tries(
    accounts: ServiceAccounts, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sidecars have tried meanwhile, they come in when it is back."""

    async def away(*_: object, **__: object) -> dict[str, Any]:
        raise OSError("away")

    with monkeypatch.context() as outage:
        outage.setattr(cluster, "call", away)
        for _ in range(9):
            with pytest.raises(OSError, match="away"):
                await accounts.holder(token(), SOURCE)
    assert await accounts.holder(token(), SOURCE) is not None


async def test_wrong_tokens_do_not_become_questions_without_end(
    accounts: ServiceAccounts, cluster: Cluster
) -> None:
    """After a few from one address the API server is asked no more; right ones are not counted."""
    for number in range(5):
        assert await accounts.holder(token(name=f"right-{number}"), SOURCE) is not None
    good, cluster.status = cluster.status, {}
    cluster.asked.clear()
    for number in range(9):
        assert await accounts.holder(token(name=f"wrong-{number}"), SOURCE) is None
    assert len(cluster.asked) == 3
    cluster.status = good
    assert await accounts.holder(token(name="right-1"), SOURCE) is not None
    assert await accounts.holder(token(name="new"), "10.0.0.2") is not None
