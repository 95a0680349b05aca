"""Browsers that are logged in: kept in memory, bounded, each with the token that answers CSRF.

A session ends when it has been idle, when it is old, with its token, with the process, or by logging out.
Cross-site request forgery: https://cheatsheetseries.owasp.org/cheatsheets/Cross-Site_Request_Forgery_Prevention_Cheat_Sheet.html
"""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from control_plane.auth.tokens import Entropy

MAX_SESSIONS: Final = 1_000
IDLE_S: Final = 2 * 3_600.0
LONGEST_S: Final = 12 * 3_600.0


@dataclass(frozen=True, slots=True)
class Session:
    """One logged-in browser. `cookie` is its secret, `csrf` what each of its changes has to repeat."""

    token_id: str
    cookie: str = field(repr=False)
    csrf: str = field(repr=False)

    def confirms(self, csrf: str) -> bool:
        """Say whether `csrf` is this session's, in constant time."""
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())


@dataclass(slots=True)
class _Kept:
    session: Session
    began_s: float
    seen_s: float


class Sessions:
    """All sessions of this process. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float], entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        # By digest, so that looking one up tells nothing of its secret by the time it takes.
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()

    def begin(self, token_id: str) -> Session:
        """Return a new session of the holder of `token_id`; the one that was idle longest may end for it."""
        session = Session(token_id, self._entropy(32).hex(), self._entropy(32).hex())
        now = self._clock()
        self._kept[_digest(session.cookie)] = _Kept(session, now, now)
        if len(self._kept) > MAX_SESSIONS:
            self._kept.popitem(last=False)
        return session

    def find(self, cookie: str) -> Session | None:
        """Return the session of `cookie` and count it as used; None when there is none (any more)."""
        key = _digest(cookie)
        kept = self._kept.get(key)
        if kept is None:
            return None
        now = self._clock()
        if now - kept.seen_s >= IDLE_S or now - kept.began_s >= LONGEST_S:
            del self._kept[key]
            return None
        kept.seen_s = now
        self._kept.move_to_end(key)
        return kept.session

    def end(self, cookie: str) -> None:
        """Forget the session of `cookie`, if there is one."""
        self._kept.pop(_digest(cookie), None)

    def __len__(self) -> int:
        return len(self._kept)


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()
