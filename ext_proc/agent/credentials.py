"""References to credentials → keys: variables, files, Secrets that were pushed or are mounted.

Keys are held in memory only and are in no log. A reference without a key is told once, in one sentence.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

from ext_proc.contract.snapshot import CredentialRef

MAX_BYTES: Final = 64 * 1024
"""What a file of a key may hold; headers hold less."""

Secrets = Mapping[tuple[str, str], bytes]
"""By the Secret's name and the key in it."""


class MissingKeyError(Exception):
    """A reference leads to no key; the message says what to do."""


class Credentials:
    """Resolves references afresh on each call, so that a changed file counts.

    Args:
        environment: the process's variables.
        secrets_dir: where Secrets are mounted, as `<secrets_dir>/<name>/<key>`.
        log: where missing keys are told.
        withheld: variables and files that are the sidecar's own: whoever may write a Backend must not have
            them sent to an address of his choice.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        secrets_dir: Path,
        log: FilteringBoundLogger,
        *,
        withheld: Set[str | Path] = frozenset(),
    ) -> None:
        self._environment = environment
        self._secrets_dir = secrets_dir
        self._log = log
        self._withheld = withheld
        self._told: dict[CredentialRef, str] = {}
        self._pushed: Secrets = {}

    def replace(self, secrets: Secrets) -> Secrets:
        """Hold these pushed Secrets instead of those before, which are returned.

        A pushed Secret beats a mounted one of the same name and key.
        """
        before, self._pushed = self._pushed, secrets
        return before

    def resolve(self, references: Iterable[CredentialRef]) -> dict[CredentialRef, str]:
        """Return the key of each reference that leads to one."""
        keys: dict[CredentialRef, str] = {}
        for reference in references:
            try:
                keys[reference] = self._key(reference)
            except MissingKeyError as error:
                if self._told.get(reference) != str(error):
                    self._told[reference] = str(error)
                    self._log.warning(f"{error}; until then its Backend is called without a key")
            else:
                self._told.pop(reference, None)
        return keys

    def _key(self, reference: CredentialRef) -> str:
        if reference.kind == "env":
            if reference.name in self._withheld:
                raise MissingKeyError(
                    f"the variable {reference.name} is the sidecar's own: put the provider's key in another"
                )
            value = self._environment.get(reference.name)
            if value is None:
                raise MissingKeyError(
                    f"the variable {reference.name} is not set: set it and start the sidecar again"
                )
            place = f"the variable {reference.name}"
        elif reference.kind == "secret" and (reference.name, reference.key or "") in self._pushed:
            place = f"the Secret {reference.name}, key {reference.key}"
            value = self._pushed[reference.name, reference.key or ""].decode("latin-1")
        else:
            path = Path(reference.name)
            if reference.kind == "secret":
                path = self._secrets_dir / reference.name / (reference.key or "")
            if _same_as_any(path, self._withheld):
                raise MissingKeyError(
                    f"the file {path} is the sidecar's own: put the provider's key in another"
                )
            value = _read(path)
            place = f"the file {path}"
        key = value.strip()
        if not key:
            raise MissingKeyError(f"{place} is empty: put the provider's key there")
        if not key.isascii() or not key.isprintable():
            raise MissingKeyError(f"{place} holds characters that no header may hold: correct the key")
        return key


def _same_as_any(path: Path, others: Iterable[str | Path]) -> bool:
    # Not Path.resolve, which in Python 3.11 raises where links go in circles.
    found = os.path.realpath(path)
    return any(isinstance(other, Path) and found == os.path.realpath(other) for other in others)


def _read(path: Path) -> str:
    """Return what a regular file holds: one that never answers or never ends would hold up every change.

    Raises:
        MissingKeyError: it is not there, is no regular file, is too large or cannot be read.
    """
    try:
        # Without O_NONBLOCK the opening of a pipe waits for its writer.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise MissingKeyError(f"{path} is no regular file: name one that holds the provider's key")
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise MissingKeyError(f"the file {path} is too large for a key: name one that holds only the key")
        return content.decode("utf-8")
    except FileNotFoundError as error:
        raise MissingKeyError(f"the file {path} is not there: put the provider's key there") from error
    except (OSError, UnicodeDecodeError) as error:
        raise MissingKeyError(f"the file {path} cannot be read: check its owner and mode") from error


def read_authorities(named: Path | None, usual: Iterable[Path]) -> bytes:
    """Return the PEM certificates of the authorities that sign providers' certificates.

    Args:
        named: the file that settings name; None takes the first of `usual` that is there.
        usual: where machines keep theirs.

    Raises:
        FileNotFoundError: there is none; the message says what to do.
    """
    for path in [named] if named is not None else usual:
        if path.is_file():
            return path.read_bytes()
    where = str(named) if named is not None else "the usual places"
    raise FileNotFoundError(
        f"no certificate authorities at {where}: install ca-certificates or set OUTRIGGER_CA_FILE"
    )
