"""The registry's Sealer: Fernet (AES-128-CBC with HMAC-SHA256) of the `cryptography` library.

A sealed value holds the name and key it is for, so that one cannot be passed off as another in the database.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from control_plane.registry.errors import SecretKeyError


class Keys(Protocol):
    """Where keys come from: urlsafe base64 of 32 bytes each."""

    def newest_first(self) -> Sequence[bytes]:
        """Return the keys as they are now, newest first."""
        ...

    def renew(self) -> None:
        """Put a new key in front, if that is this source's to do."""
        ...

    def retire(self) -> None:
        """Keep the newest key only, if that is this source's to do."""
        ...


class FernetSealer:
    """See `control_plane.registry.ports.Sealer`.

    Keys are read again when none fits: another process of this machine may have rotated them.
    """

    def __init__(self, source: Keys) -> None:
        self._source = source
        self._cipher = self._read()

    def seal(self, name: str, key: str, value: bytes) -> bytes:
        """Encrypt `value`."""
        return self._cipher.encrypt(json.dumps([name, key, value.decode("latin-1")]).encode())

    def unseal(self, name: str, key: str, sealed: bytes) -> bytes:
        """Decrypt what `seal` gave for this name and key.

        Raises:
            SecretKeyError: it was sealed with another key, or for another name.
        """
        try:
            opened = self._cipher.decrypt(sealed)
        except InvalidToken:
            self._cipher = self._read()
            try:
                opened = self._cipher.decrypt(sealed)
            except InvalidToken:
                raise SecretKeyError(
                    "the stored secrets were encrypted with another key; give every replica the same "
                    "OUTRIGGER_SECRET_KEY, or put the secret.key of this database back"
                ) from None
        found_name, found_key, value = json.loads(opened)
        if (found_name, found_key) != (name, key):
            raise SecretKeyError(f"the stored secret {name} holds a value that was sealed for another")
        return str(value).encode("latin-1")

    def renew(self) -> None:
        """Seal with a new key from now on, if keys are made here; older ones still open."""
        self._source.renew()
        self._cipher = self._read()

    def retire(self) -> None:
        """Forget every key but the newest, if keys are made here."""
        self._source.retire()
        self._cipher = self._read()

    def _read(self) -> MultiFernet:
        return MultiFernet([Fernet(key) for key in self._source.newest_first()])
