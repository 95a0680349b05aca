"""Mirrors over a real database: one revision a wish, seen by every replica, undone by nobody else."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable

import pytest

from control_plane.registry.errors import OwnedError
from control_plane.registry.registry import Registry
from control_plane.registry.verdicts import Mirrored
from control_plane.resources.loading import RawDocument
from tests.harness.registries import ACTOR, backend, consumer, model

OWNER = "kubernetes"
SECRETS = {"s": {"k": base64.b64encode(b"sk-1").decode()}}


async def mirror(
    registry: Registry, *raws: RawDocument, secrets: dict[str, dict[str, str]] | None = None
) -> Mirrored:
    """Have `raws` be all that is mirrored."""
    return await registry.mirror(OWNER, raws, secrets, ACTOR)


async def test_a_wish_is_one_revision_with_one_audit_row(registry: Registry) -> None:
    """Documents and secrets together; the same again is none, and a secret alone is one of its own."""
    found = await mirror(registry, backend(), model(), secrets=SECRETS)
    assert found.revision == registry.head.revision == registry.in_force.revision == 1
    assert [(item.name, item.in_force, item.revision) for item in found.items] == [
        ("b", True, 1),
        ("m", True, 1),
    ]
    assert (await mirror(registry, model(), backend(), secrets=SECRETS)) == found
    changed = {"s": {"k": base64.b64encode(b"sk-2").decode()}}
    assert (await mirror(registry, backend(), model(), secrets=changed)).revision == 2
    assert registry.in_force.secrets == {("s", "k"): b"sk-2"}
    rows = [(row.action, row.target, row.detail) for row in await registry.audit()]
    assert rows == [
        ("mirror", "Secret/s", "secrets stored: s"),
        ("mirror", "Backend/b, Model/m", "secrets stored: s"),
    ]


async def test_every_replica_knows_the_owner(registry: Registry, replica: Callable[[], Registry]) -> None:
    """Those that were there, and those that come later; what is mirrored by one is mirrored by all."""
    other = replica()
    await other.open()
    await mirror(registry, backend(), secrets=SECRETS)
    await other.refresh()
    late = replica()
    await late.open()
    for found in (other, late):
        assert found.head.stored["Backend", "b"].owner == OWNER
        assert [name.owner for name in await found.secret_names()] == [OWNER]
        with pytest.raises(OwnedError, match="Backend/b is mirrored from kubernetes; change it there"):
            await found.put("Backend", "b", backend(default=True), ACTOR)
        with pytest.raises(OwnedError, match="Secret/s"):
            await found.put_secret("s", {"k": "v"}, ACTOR)
        assert (await mirror(found, backend(), secrets=SECRETS)).revision == 1
    await mirror(other, secrets={})
    await registry.refresh()
    assert (dict(registry.head.stored), registry.head.secrets) == ({}, {})


async def test_wishes_and_changes_at_once_end_as_the_last_of_them(
    registry: Registry, replica: Callable[[], Registry]
) -> None:
    """Each is decided on what is there when it is written."""
    other = replica()
    await other.open()
    await asyncio.gather(
        mirror(registry, backend(), model()),
        mirror(other, backend(), model()),
        other.apply([consumer()], ACTOR),
        registry.apply([consumer("d")], ACTOR),
    )
    await registry.refresh()
    owners = {f"{kind}/{name}": item.owner for (kind, name), item in registry.head.stored.items()}
    assert owners == {"Backend/b": OWNER, "Consumer/c": "", "Consumer/d": "", "Model/m": OWNER}
    assert registry.head.revision == 3


async def test_a_rollback_leaves_what_is_mirrored(registry: Registry) -> None:
    """There, changed or gone: it is its owner's."""
    await registry.apply([consumer()], ACTOR)
    await mirror(registry, backend(), model())
    await registry.delete("Consumer", "c", ACTOR)
    await mirror(registry, backend("other"))
    await registry.rollback(2, ACTOR)
    assert sorted(registry.head.stored) == [("Backend", "other"), ("Consumer", "c")]
    assert registry.head.stored["Backend", "other"].owner == OWNER


async def test_what_is_halted_is_not_written_again(registry: Registry) -> None:
    """The same wish is still what was accepted, though it is not in force; the next one starts from there."""
    await mirror(registry, backend())
    await mirror(registry, backend(url="http://bad/v1"))
    await registry.halt(2, "no")
    assert (await mirror(registry, backend(url="http://bad/v1"))).revision == 2
    assert registry.in_force.documents.backends["b"].url.startswith("http://h/")
    assert (await mirror(registry, backend(url="http://good/v1"))).revision == 3
    assert registry.in_force.documents.backends["b"].url.startswith("http://good/")
