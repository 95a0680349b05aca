"""Where the keys come from that stored secrets are encrypted with: an environment variable, else a file.

Newest first. A file's keys are this process's to make and to rotate; a variable's are the operator's.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from control_plane.registry.errors import SecretKeyError

VARIABLE: Final = "OUTRIGGER_SECRET_KEY"
FILE_NAME: Final = "secret.key"
KEY_BYTES: Final = 32
_MAX_FILE_BYTES: Final = 64 * 1024

RandomBytes = Callable[[int], bytes]


class GivenKeys:
    """Keys that the environment gives: one, or several with commas between, newest first."""

    def __init__(self, text: str) -> None:
        self._keys = parse_keys(text.replace(",", "\n"), VARIABLE)

    def newest_first(self) -> Sequence[bytes]:
        """Return the keys, newest first."""
        return self._keys

    def renew(self) -> None:
        """Leave the keys alone: the operator puts a new one in front."""

    def retire(self) -> None:
        """Leave the keys alone: the operator takes old ones out."""


class KeyFile:
    """Keys in a file of this process's own, one a line, newest first; made when it is not there."""

    def __init__(self, path: Path, random_bytes: RandomBytes) -> None:
        self._path = path
        self._random_bytes = random_bytes

    def newest_first(self) -> Sequence[bytes]:
        """Return the keys as the file has them now, newest first.

        Raises:
            SecretKeyError: the file cannot be read or made, or holds no key.
        """
        try:
            with self._path.open("rb") as file:
                content = file.read(_MAX_FILE_BYTES)
        except FileNotFoundError:
            self._write([self._new_key()])
            return self.newest_first()
        except OSError as error:
            raise self._unusable(error) from error
        return parse_keys(content.decode("ascii", "replace"), str(self._path))

    def renew(self) -> None:
        """Put a new key in front.

        Raises:
            SecretKeyError: the file cannot be written.
        """
        self._write([self._new_key(), *self.newest_first()])

    def retire(self) -> None:
        """Keep the newest key only.

        Raises:
            SecretKeyError: the file cannot be written.
        """
        self._write(self.newest_first()[:1])

    def _new_key(self) -> bytes:
        return base64.urlsafe_b64encode(self._random_bytes(KEY_BYTES))

    def _write(self, keys: Sequence[bytes]) -> None:
        # In one piece, or a crash would leave secrets that nobody can open.
        partial = self._path.with_name(f"{self._path.name}.partial")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.unlink(missing_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(b"\n".join(keys) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self._path)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> SecretKeyError:
        reason = (error.strerror or "unusable").lower()
        return SecretKeyError(f"the key file {self._path} cannot be used ({reason}); or set {VARIABLE}")


def parse_keys(text: str, source: str) -> list[bytes]:
    """Return the keys in `text`, one a line: 32 bytes each, as base64 of either alphabet.

    Raises:
        SecretKeyError: there is none, or one is no key; the text is not quoted.
    """
    keys = []
    for line in text.split():
        try:
            raw = base64.b64decode(line.replace("-", "+").replace("_", "/"), validate=True)
        except (binascii.Error, ValueError):
            raw = b""
        if len(raw) != KEY_BYTES:
            raise SecretKeyError(
                f"{source} holds something that is no key: a key is {KEY_BYTES} random bytes in base64, "
                "such as `openssl rand -base64 32` makes"
            )
        keys.append(base64.urlsafe_b64encode(raw))
    if not keys:
        raise SecretKeyError(f"{source} holds no key; make one with `openssl rand -base64 32`")
    return keys


def key_source(variable: str | None, data_dir: Path, random_bytes: RandomBytes) -> GivenKeys | KeyFile:
    """Return the keys of the environment variable's text, else of the file in `data_dir`.

    Raises:
        SecretKeyError: the variable holds no key.
    """
    if variable:
        return GivenKeys(variable)
    return KeyFile(data_dir / FILE_NAME, random_bytes)
