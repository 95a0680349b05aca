"""Stored secrets: sealed at rest, pushed in the clear, shown never."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from control_plane.registry.errors import InUseError, NotFoundError, SecretKeyError
from control_plane.registry.registry import Registry
from control_plane.registry.values import SecretName
from control_plane.resources.problems import InvalidDocumentsError
from control_plane.secrets.fernet import FernetSealer
from control_plane.secrets.key_source import KeyFile
from control_plane.store.opening import store_for
from tests.harness.registries import ACTOR, START, backend, new_registry

Replica = Callable[[], Registry]


async def test_a_secret_is_in_force_and_shown_by_name_only(registry: Registry) -> None:
    """Each change is a revision; values that are not given again are gone."""
    assert await registry.put_secret("openai", {"key": "sk-1", "org": "o"}, ACTOR)
    assert registry.in_force.secrets == {("openai", "key"): b"sk-1", ("openai", "org"): b"o"}
    assert not await registry.put_secret("openai", {"key": "sk-2"}, ACTOR)
    assert registry.in_force.secrets == {("openai", "key"): b"sk-2"}
    assert await registry.secret_names() == [SecretName("openai", ("key",), START)]
    assert registry.head.revision == 2


async def test_no_value_is_in_the_database_the_history_or_the_audit(
    registry: Registry, database: str, tmp_path: Path
) -> None:
    """Only that there was a change, with the names."""
    await registry.put_secret("openai", {"key": "sk-marker"}, ACTOR)
    rows = f"{await registry.audit()} {await registry.revisions()} {await registry.revision(1)}"
    assert "Secret/openai" in rows
    assert "sk-marker" not in rows
    store = store_for(database, tmp_path)
    async with store.read() as reading:
        (sealed,) = await reading.secrets()
    assert b"sk-marker" not in sealed.sealed
    await store.close()
    files = await asyncio.to_thread(lambda: [file.read_bytes() for file in tmp_path.iterdir()])
    assert not any(b"sk-marker" in content for content in files)


@pytest.mark.parametrize(
    ("name", "values", "field"),
    [
        ("a/b", {"key": "v"}, "name"),
        ("", {"key": "v"}, "name"),
        ("s", {}, "values"),
        ("s", {"a b": "v"}, "values"),
        ("s", {"key": ""}, "values.key"),
        ("s", {"key": "two\nlines"}, "values.key"),
        ("s", {"key": "schlüssel"}, "values.key"),
        ("s", {"key": "x" * 20_000}, "values.key"),
        ("s", {str(number): "v" for number in range(65)}, "values"),
    ],
)
async def test_a_secret_that_no_backend_could_use_is_refused(
    registry: Registry, name: str, values: dict[str, str], field: str
) -> None:
    """The value, which goes into a header, is not quoted."""
    with pytest.raises(InvalidDocumentsError) as error:
        await registry.put_secret(name, values, ACTOR)
    assert [problem.field for problem in error.value.problems] == [field]
    assert "lines" not in str(error.value)


async def test_a_secret_in_use_is_not_deleted(registry: Registry) -> None:
    """By the head or by what is in force; its users are named."""
    await registry.put_secret("s", {"key": "v"}, ACTOR)
    credentials = {"secretRef": {"name": "s", "key": "key"}}
    await registry.apply([backend("b", credentials=credentials)], ACTOR)
    with pytest.raises(InUseError, match="Secret/s is in use by Backend/b"):
        await registry.delete_secret("s", ACTOR)
    await registry.put("Backend", "b", backend("b"), ACTOR)
    await registry.halt(3, "no")
    with pytest.raises(InUseError):
        await registry.delete_secret("s", ACTOR)
    await registry.put("Backend", "b", backend("b", url="http://other/v1"), ACTOR)
    await registry.delete_secret("s", ACTOR)
    assert (registry.head.secrets, await registry.secret_names()) == ({}, [])
    with pytest.raises(NotFoundError):
        await registry.delete_secret("s", ACTOR)


async def test_a_rotation_changes_what_is_stored_and_nothing_else(replica: Replica, tmp_path: Path) -> None:
    """Old keys are forgotten; another replica of this machine reads the new ones by itself."""
    registry, other = replica(), replica()
    await registry.open()
    await other.open()
    await registry.put_secret("s", {"a": "1", "b": "2"}, ACTOR)
    key_file = KeyFile(tmp_path / "secret.key", os.urandom)
    (before,) = key_file.newest_first()
    assert await registry.rotate_secrets(ACTOR) == 2
    (after,) = key_file.newest_first()
    assert before != after
    await other.refresh()
    assert other.head == registry.head
    assert other.head.secrets == {("s", "a"): b"1", ("s", "b"): b"2"}
    assert registry.head.revision == 1
    assert (await registry.audit())[0].detail == "2 values sealed again"


async def test_a_rotation_during_a_rotation_loses_nothing(
    replica: Replica, database: str, tmp_path: Path
) -> None:
    """The key that the first one sealed with is kept until the second one has sealed with its own."""
    second: list[asyncio.Task[int]] = []

    class Interrupted(FernetSealer):
        renewed = False

        def renew(self) -> None:
            super().renew()
            self.renewed = True

        def seal(self, name: str, key: str, value: bytes) -> bytes:
            if self.renewed and not second:
                second.append(asyncio.create_task(registry.rotate_secrets(ACTOR)))
            return super().seal(name, key, value)

    registry = new_registry(store_for(database, tmp_path), tmp_path, sealer=Interrupted)
    await registry.open()
    await registry.put_secret("s", {"a": "1"}, ACTOR)
    assert (await registry.rotate_secrets(ACTOR), await second[0]) == (1, 1)
    await registry.close()
    again = replica()
    await again.open()
    assert again.head.secrets == {("s", "a"): b"1"}


async def test_a_crash_in_a_rotation_loses_nothing(replica: Replica, tmp_path: Path) -> None:
    """A new key that nothing was sealed with yet stands beside the old one."""
    registry = replica()
    await registry.open()
    await registry.put_secret("s", {"a": "1"}, ACTOR)
    KeyFile(tmp_path / "secret.key", os.urandom).renew()
    again = replica()
    await again.open()
    assert again.head.secrets == {("s", "a"): b"1"}


async def test_a_wrong_key_is_told_at_the_start(registry: Registry, database: str, tmp_path: Path) -> None:
    """In one sentence, before anything is served."""
    await registry.put_secret("s", {"a": "1"}, ACTOR)
    other = new_registry(store_for(database, tmp_path), tmp_path / "elsewhere")
    with pytest.raises(SecretKeyError, match="encrypted with another key"):
        await other.open()
    await other.close()


async def test_a_replica_with_another_key_goes_on_with_all_but_secrets(
    registry: Registry, database: str, tmp_path: Path
) -> None:
    """It started before there was a secret: it follows documents and keys, and refuses to store secrets."""
    other = new_registry(store_for(database, tmp_path), tmp_path / "elsewhere")
    await other.open()
    await registry.put_secret("s", {"a": "1"}, ACTOR)
    await registry.apply([backend()], ACTOR)
    await other.refresh()
    assert "b" in other.in_force.documents.backends
    assert not other.in_force.secrets
    with pytest.raises(SecretKeyError):
        await other.put_secret("t", {"a": "1"}, ACTOR)
    await other.apply([backend("c")], ACTOR)
    await registry.refresh()
    assert "c" in registry.head.documents.backends
    await other.close()
