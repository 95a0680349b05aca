"""The gate: from a token that was shown to who shows it.

A token's secret is hashed by scrypt once; from then on the token is known by a digest under a key that only
this process has, so that a busy caller costs no scrypt. Its row is looked at each time: a revocation counts
as soon as the token source knows it. A wrong token is refused in one way, whatever is wrong with it, and
counted against its source; a token that is known to be right is never held up by that.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Final, Protocol, TypeVar

from control_plane.auth.errors import TokenRefusedError, TooManyFailuresError
from control_plane.auth.identity import Identity
from control_plane.auth.roles import Role
from control_plane.auth.throttle import Throttle
from control_plane.auth.tokens import TokenParts, in_use, matches, take_apart
from control_plane.registry.values import TokenRow

V = TypeVar("V")

GIVEN: Final = Identity("given", "admin", Role.ADMIN)
"""Whoever shows the token that the operator gave at start."""

MAX_KNOWN: Final = 10_000
# How long a wrong token is refused unseen. A token made by another replica may be known here only then.
REFUSED_FOR_S: Final = 1.0
# Whoever repeats one wrong token within this time guesses nothing and is not counted again.
REMEMBERED_S: Final = 60.0
_HASHING_AT_ONCE: Final = 2
_JOINING: Final = frozenset({Role.SIDECAR, Role.ADMIN})


class TokenSource(Protocol):
    """Where tokens are kept."""

    async def token(self, token_id: str) -> TokenRow | None:
        """Return the row of `token_id`, revoked or not; None when there is none."""


class Gate:
    """Tells who shows a token.

    Args:
        source: where tokens are kept.
        given: the admin token that the operator gave at start, if any; it is valid as long as it is given.
        key: random bytes of this process, for the digests by which tokens are known.
        throttle: counts failures.
        clock: a monotonic clock, in seconds.
        now: the time of day, for expiry.
        check: compares a shown token with a row; slow, so it runs in a thread.
    """

    def __init__(
        self,
        source: TokenSource,
        *,
        given: str | None,
        key: bytes,
        throttle: Throttle,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        check: Callable[[TokenParts, TokenRow | None], bool] = matches,
    ) -> None:
        self._check = check
        self._source = source
        self._key = key
        self._throttle = throttle
        self._clock = clock
        self._now = now
        self._given = self._digest(given.strip().encode()) if given and given.strip() else None
        self._known: OrderedDict[bytes, str] = OrderedDict()
        self._refused: OrderedDict[bytes, float] = OrderedDict()
        self._hashing = asyncio.Semaphore(_HASHING_AT_ONCE)

    async def admit(self, token: bytes, source: str) -> Identity:
        """Return whose `token` this is. `source` is the address it came from.

        Raises:
            TokenRefusedError: it is wrong, expired or revoked.
            TooManyFailuresError: `source` has shown too many wrong ones, and this one is not known.
        """
        digest = self._digest(token)
        if self._given is not None and hmac.compare_digest(digest, self._given):
            return GIVEN
        token_id = self._known.get(digest)
        if token_id is not None:
            self._known.move_to_end(digest)
            return await self.holder(token_id)
        return await self._examine(token, digest, source)

    async def holder(self, token_id: str) -> Identity:
        """Return who holds the token with this id, now.

        Raises:
            TokenRefusedError: it is revoked, expired or gone.
        """
        if token_id == GIVEN.token_id:
            if self._given is None:
                raise TokenRefusedError
            return GIVEN
        row = await self._source.token(token_id)
        if row is None or not in_use(row, self._now()):
            raise TokenRefusedError
        return Identity(row.id, row.name, Role(row.role), row.scopes)

    async def may_join(self, token: str, source: str = "") -> bool:
        """Say whether whoever shows `token` may follow the push stream: a sidecar, or an admin."""
        try:
            identity = await self.admit(token.encode("utf-8", "surrogatepass"), source)
        except (TokenRefusedError, TooManyFailuresError):
            return False
        return identity.role in _JOINING

    async def _examine(self, token: bytes, digest: bytes, source: str) -> Identity:
        refused_at = self._refused.get(digest)
        age = REMEMBERED_S if refused_at is None else self._clock() - refused_at
        if age < REFUSED_FOR_S:
            raise TokenRefusedError
        counted = age >= REMEMBERED_S
        if counted and (wait_s := self._throttle.take(source)) is not None:
            raise TooManyFailuresError(wait_s)
        token_id = await self._verify(token)
        if token_id is None:
            _remember(self._refused, digest, self._clock())
            raise TokenRefusedError
        if counted:
            self._throttle.give_back(source)
        self._refused.pop(digest, None)
        _remember(self._known, digest, token_id)
        return await self.holder(token_id)

    async def _verify(self, token: bytes) -> str | None:
        """Return the id of the row that `token` belongs to, or None."""
        parts = take_apart(token.decode("ascii", "replace"))
        if parts is None:
            return None
        row = await self._source.token(parts.id)
        async with self._hashing:
            right = await asyncio.to_thread(self._check, parts, row)
        return parts.id if right and row is not None and in_use(row, self._now()) else None

    def _digest(self, token: bytes) -> bytes:
        return hashlib.blake2b(token, key=self._key, digest_size=32).digest()


def _remember(memory: OrderedDict[bytes, V], digest: bytes, value: V) -> None:
    memory[digest] = value
    memory.move_to_end(digest)
    if len(memory) > MAX_KNOWN:
        memory.popitem(last=False)
