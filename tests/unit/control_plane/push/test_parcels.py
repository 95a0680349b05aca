"""Snapshots ready to send."""

from __future__ import annotations

import zlib
from dataclasses import replace

from control_plane.push.parcels import PACKED_FROM_BYTES, Parcels
from control_plane.push.policy import Policy
from ext_proc.contract import push_pb2
from ext_proc.contract.snapshot import Snapshot, decode
from tests.unit.control_plane.push.scenes import policy

SECRETS = {("openai", "k"): b"sk-1", ("unnamed", "k"): b"sk-2"}


def test_each_workload_is_compiled_once() -> None:
    """However many sidecars it has."""
    compiled: list[str] = []
    base = policy(1)

    def compile_for(workload: str) -> Snapshot:
        compiled.append(workload)
        return base.compile(workload)

    parcels = Parcels(Policy(1, compile_for), b"")
    assert parcels.of("a") is parcels.of("a")
    assert compiled == ["a"]


def test_of_workloads_known_to_be_alike_one_is_compiled() -> None:
    """Whoever publishes knows which Policies name a workload."""
    compiled: list[str] = []
    base = policy(1)

    def compile_for(workload: str) -> Snapshot:
        compiled.append(workload)
        return base.compile(workload)

    parcels = Parcels(Policy(1, compile_for, alike=lambda workload: workload == "shop"), b"")
    for workload in ("a", "b", "shop", "c"):
        parcels.of(workload)
    assert compiled == ["a", "shop"]


def test_workloads_that_are_to_obey_the_same_share_one_parcel() -> None:
    """So the same bytes go to both; another one has its own."""
    parcels = Parcels(policy(1, "one", of={"shop": "two"}), b"")
    assert parcels.of("a") is parcels.of("b")
    assert parcels.of("a") is not parcels.of("shop")
    assert parcels.of("a").message(packed=True, kept=False) is parcels.of("b").message(
        packed=True, kept=False
    )


def test_a_message_is_the_whole_snapshot() -> None:
    """Plain, or packed where it pays; version and revision stand beside it."""
    plain, long = Parcels(policy(3, "x"), b"").of("w"), Parcels(policy(3, "x" * 2000), b"").of("w")
    message = push_pb2.Snapshot.FromString(plain.message(packed=True, kept=False))
    assert (message.version, message.revision, message.encoding) == (plain.version, 3, push_pb2.PLAIN)
    assert len(message.content) < PACKED_FROM_BYTES
    packed = push_pb2.Snapshot.FromString(long.message(packed=True, kept=False))
    assert packed.encoding == push_pb2.ZLIB
    found = decode(zlib.decompress(packed.content))
    assert replace(found, version=long.version, revision=3, workload="w") == policy(3, "x" * 2000).compile(
        "w"
    )


def test_what_is_kept_is_left_out() -> None:
    """Version and secrets are still there."""
    parcel = Parcels(policy(1, secrets=SECRETS), b"").of("w")
    message = push_pb2.Snapshot.FromString(parcel.message(packed=True, kept=True))
    assert (message.kept, message.content, message.version) == (True, b"", parcel.version)
    assert [secret.value for secret in message.secrets] == [b"sk-1"]


def test_secrets_belong_to_the_content_and_show_nowhere() -> None:
    """Only those that a Backend names count; a mark of the process keeps them from being guessed."""

    def content(mark: bytes = b"m", **changes: bytes) -> str:
        secrets = {**SECRETS, **{(name, "k"): value for name, value in changes.items()}}
        return Parcels(policy(1, secrets=secrets), mark).of("w").content

    assert content() == content(unnamed=b"other")
    assert len({content(), content(openai=b"sk-3"), content(b"n")}) == 3
    parcels = Parcels(policy(1, secrets=SECRETS), b"m")
    assert "sk-1" not in repr((parcels, parcels.of("w")))
    assert parcels.of("w").version == Parcels(policy(1, secrets={("openai", "k"): b""}), b"").of("w").version
