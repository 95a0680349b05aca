"""Where the secret of a webhook is found: an environment variable, a file, or a stored secret."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from control_plane.resources.kinds.backend import Credentials

MAX_BYTES: Final = 64 * 1024


class SecretUnknownError(Exception):
    """There is no such secret here; the message says what was looked for, never what was found."""


def secret_value(
    credentials: Credentials, environment: Mapping[str, str], stored: Mapping[tuple[str, str], bytes]
) -> bytes:
    """Return the secret that `credentials` name. Reads a file, if it is in one.

    Raises:
        SecretUnknownError: there is none, or it is empty.
    """
    if credentials.env is not None:
        value = environment.get(credentials.env, "").encode()
        where = f"the environment variable {credentials.env}"
    elif credentials.file is not None:
        where = "the file of its secret"
        value = _content(Path(credentials.file))
    else:
        reference = credentials.secret_ref
        assert reference is not None  # a document has exactly one of the three
        value = stored.get((reference.name, reference.key), b"")
        where = f"the stored secret {reference.name}, key {reference.key}"
    if not value.strip():
        raise SecretUnknownError(f"{where} is not there, or empty")
    return value


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():
            return b""
        with path.open("rb") as file:
            return file.read(MAX_BYTES)
    except (OSError, ValueError):
        return b""
