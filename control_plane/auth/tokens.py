"""Tokens as texts and as what is kept of them: made, taken apart, hashed (pure but for its time: see below).

A token is `ort_<id>_<secret>`: 12 hexadecimal digits that name its row, and 43 letters and digits (256 bits)
of which only a salted scrypt digest is kept. `digest` takes tens of milliseconds by design: call it in a
thread. https://www.rfc-editor.org/rfc/rfc7914 describes scrypt and its parameters.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from control_plane.auth.roles import Role
from control_plane.registry.values import TokenRow

PREFIX: Final = "ort_"
_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32
_SECRET_LENGTH: Final = 43
_SALT_BYTES: Final = 16
_ALPHABET: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_FORM: Final = re.compile(rf"{PREFIX}([0-9a-f]{{{2 * _ID_BYTES}}})_([0-9A-Za-z]{{{_SECRET_LENGTH}}})")
WORK: Final = 2**14
"""How much work one digest is: scrypt's N. Less is for tests, whose tokens guard nothing."""

_SCRYPT_R, _SCRYPT_P = 8, 1
_SCRYPT_MEMORY: Final = 64 * 1024 * 1024

Entropy = Callable[[int], bytes]
"""Gives that many random bytes: `secrets.token_bytes`."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made. `token` is shown once and kept nowhere."""

    row: TokenRow
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenParts:
    """A text that has the form of a token."""

    id: str
    secret: str = field(repr=False)


def new_token(
    name: str,
    role: Role,
    scopes: tuple[str, ...],
    *,
    now: datetime,
    expires_at: datetime | None,
    entropy: Entropy,
    work: int = WORK,
) -> NewToken:
    """Make a token. `name` "" becomes the role with the token's id. Blocks for one scrypt."""
    token_id = entropy(_ID_BYTES).hex()
    secret = _text(entropy(_SECRET_BYTES))
    salt = entropy(_SALT_BYTES)
    row = TokenRow(
        id=token_id,
        name=name or f"{role.value}-{token_id}",
        role=role.value,
        scopes=scopes,
        digest=digest(secret, salt, work),
        salt=salt,
        created_at=now,
        expires_at=expires_at,
        revoked_at=None,
    )
    return NewToken(row, f"{PREFIX}{token_id}_{secret}")


def take_apart(token: str) -> TokenParts | None:
    """Return the parts of `token`, or None when it does not have the form of one."""
    found = _FORM.fullmatch(token)
    return TokenParts(found[1], found[2]) if found else None


def digest(secret: str, salt: bytes, work: int = WORK) -> bytes:
    """Return what is kept of a token's secret. Takes about 50 ms and 16 MiB with the usual `work`."""
    return hashlib.scrypt(
        secret.encode(), salt=salt, n=work, r=_SCRYPT_R, p=_SCRYPT_P, maxmem=_SCRYPT_MEMORY, dklen=32
    )


def matches(parts: TokenParts, row: TokenRow | None, work: int = WORK) -> bool:
    """Say whether `parts` are the token of `row`; without a row it takes as long and is False."""
    found = digest(parts.secret, row.salt if row else b"\0" * _SALT_BYTES, work)
    return hmac.compare_digest(found, row.digest if row else bytes(len(found))) and row is not None


def in_use(row: TokenRow, now: datetime) -> bool:
    """Say whether `row` is neither revoked nor expired at `now`."""
    return row.revoked_at is None and (row.expires_at is None or now < row.expires_at)


def _text(raw: bytes) -> str:
    """Return `raw` (32 bytes) as 43 letters and digits."""
    number, text = int.from_bytes(raw, "big"), ""
    for _ in range(_SECRET_LENGTH):
        number, index = divmod(number, len(_ALPHABET))
        text += _ALPHABET[index]
    return text
