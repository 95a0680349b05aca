"""The key of sessions' cookies: one for all replicas that can read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from structlog.testing import capture_logs

from control_plane.auth.session_key import session_key, with_token
from control_plane.secrets.fernet import FernetSealer
from control_plane.secrets.key_source import GivenKeys
from tests.unit.control_plane.auth.clocks import counting_entropy
from tests.unit.control_plane.secrets.test_key_source import ONE, TWO


class Settings:
    """A database's settings."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Settings]:
        """Change them."""
        yield self

    async def setting(self, name: str) -> bytes | None:
        """Return one."""
        return self.kept.get(name)

    async def set_setting(self, name: str, value: bytes) -> None:
        """Keep one."""
        self.kept[name] = value


class Replicas:
    """Replicas of one database."""

    def __init__(self) -> None:
        self._store = Settings()
        self._entropy = counting_entropy()

    @property
    def kept(self) -> bytes:
        """What the database holds."""
        return b"".join(self._store.kept.values())

    async def key(self, keys: str, *, alone: bool = False) -> bytes:
        """Return the key that a replica with these secret keys comes to."""
        log = structlog.get_logger()
        sealer = FernetSealer(GivenKeys(keys))
        return await session_key(self._store, sealer, self._entropy, log, alone=alone)


async def test_every_replica_gets_the_key_that_the_first_made() -> None:
    """The database has it sealed."""
    replicas = Replicas()
    key = await replicas.key(ONE)
    assert await replicas.key(ONE) == key
    assert key not in replicas.kept


async def test_it_outlives_the_rotation_of_the_secret_key() -> None:
    """Started once with both, a replica needs the older one no more."""
    replicas = Replicas()
    key = await replicas.key(ONE)
    assert await replicas.key(f"{TWO},{ONE}") == key
    assert await replicas.key(TWO) == key


async def test_who_cannot_read_it_has_sessions_of_its_own_and_says_so() -> None:
    """Beside others it leaves theirs alone; alone it makes a new one."""
    replicas = Replicas()
    key = await replicas.key(ONE)
    with capture_logs() as told:
        assert await replicas.key(TWO) != key
    assert "encrypted with another key" in told[0]["reason"]
    assert await replicas.key(ONE) == key
    new = await replicas.key(TWO, alone=True)
    assert new != key
    assert await replicas.key(TWO) == new


def test_another_admin_token_is_another_key() -> None:
    """So that sessions end with the token that they began with."""
    keys = {with_token(b"k", given) for given in (None, "one", "two", "zwölf\udcff")}
    assert len(keys) == 4
