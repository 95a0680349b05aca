"""The key that sessions' cookies are signed with: one for all replicas, sealed in the database."""

from __future__ import annotations

import hashlib
import hmac
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol

from control_plane.auth.tokens import Entropy
from control_plane.registry.errors import SecretKeyError
from control_plane.registry.ports import Sealer

SETTING: Final = "session_key"
KEY_BYTES: Final = 32
_SEALED_AS: Final = ("outrigger", "session_key")


class SettingRows(Protocol):
    """Settings of this installation, in one transaction."""

    async def setting(self, name: str) -> bytes | None:
        """Return one."""

    async def set_setting(self, name: str, value: bytes) -> None:
        """Keep one."""


class SettingStore(Protocol):
    """Where they are kept."""

    def write(self) -> AbstractAsyncContextManager[SettingRows]:
        """Change them as the one writer of all replicas."""


class Log(Protocol):
    """Where trouble is told."""

    def warning(self, event: str, **fields: object) -> object:
        """Warn."""


async def session_key(
    store: SettingStore, sealer: Sealer, entropy: Entropy, log: Log, *, alone: bool
) -> bytes:
    """Return the key; the first replica makes it.

    One that was sealed with another key cannot be read: `alone` makes a new one, which ends the sessions
    there are; beside others this replica's sessions are its own then.

    Raises:
        StoreUnavailableError, StorageFullError: the database cannot be used now.
    """
    async with store.write() as tx:
        kept, found = await tx.setting(SETTING), b""
        if kept is not None:
            try:
                found = sealer.unseal(*_SEALED_AS, kept)
            except SecretKeyError as error:
                if not alone:
                    log.warning("sessions of the dashboard are this replica's own", reason=str(error))
                    return entropy(KEY_BYTES)
        found = found or entropy(KEY_BYTES)
        # Sealed anew each time, so that a key of the sealer that is to be retired is needed no more.
        await tx.set_setting(SETTING, sealer.seal(*_SEALED_AS, found))
        return found


def with_token(key: bytes, given: str | None) -> bytes:
    """Return the key for a process that was given this admin token: with another token, sessions end."""
    return hmac.new(key, (given or "").encode("utf-8", "surrogateescape"), hashlib.sha256).digest()
