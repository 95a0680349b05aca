"""Browsers that are logged in: a signed cookie each, which every replica reads alike and none remembers.

A session ends when it has been idle, when it is old, with its token, or by logging out. What is logged out is
remembered by `ended`, since the cookie itself would still be good.
Cross-site request forgery: https://cheatsheetseries.owasp.org/cheatsheets/Cross-Site_Request_Forgery_Prevention_Cheat_Sheet.html
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from control_plane.auth.tokens import Entropy

IDLE_S: Final = 2 * 3_600.0
LONGEST_S: Final = 12 * 3_600.0
RENEW_S: Final = 300.0
"""A cookie says when it was used last, as exactly as this."""
MAX_COOKIE_CHARS: Final = 1_024
_ID_BYTES: Final = 16


class Ended(Protocol):
    """Knows which sessions were ended before their time."""

    def __contains__(self, session_id: object) -> bool:
        """Say whether this one was."""

    def add(self, session_id: str, until_s: float) -> None:
        """End one; after `until_s` (seconds since the epoch) it would have ended by itself."""


@dataclass(frozen=True, slots=True)
class Session:
    """One logged-in browser. `cookie` is its secret, `csrf` what each of its changes has to repeat.

    `renewed`: the cookie that it is to have from now on, "" while the one it has will do.
    """

    token_id: str
    cookie: str = field(repr=False)
    csrf: str = field(repr=False)
    renewed: str = field(default="", repr=False)

    def confirms(self, csrf: str) -> bool:
        """Say whether `csrf` is this session's, in constant time."""
        return hmac.compare_digest(csrf.encode(), self.csrf.encode())


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a cookie holds. Times are in seconds since the epoch."""

    token_id: str
    session_id: str
    began_s: float
    seen_s: float


class Sessions:
    """Signs cookies and reads them.

    Args:
        now: the time of day, in seconds since the epoch.
        entropy: random bytes.
        key: what cookies are signed with; replicas that have the same one read each other's.
        ended: the sessions that were logged out.
    """

    def __init__(self, now: Callable[[], float], entropy: Entropy, key: bytes, ended: Ended) -> None:
        self._now = now
        self._entropy = entropy
        self._key = key
        self._ended = ended

    def begin(self, token_id: str) -> Session:
        """Return a new session of the holder of `token_id`."""
        now_s = self._now()
        kept = _Kept(token_id, self._entropy(_ID_BYTES).hex(), now_s, now_s)
        return Session(token_id, self._signed(kept), self._csrf(kept))

    def find(self, cookie: str) -> Session | None:
        """Return the session of `cookie`; None when there is none (any more)."""
        kept = self._read(cookie)
        if kept is None or kept.session_id in self._ended:
            return None
        now_s = self._now()
        if now_s - kept.seen_s >= IDLE_S or now_s - kept.began_s >= LONGEST_S:
            return None
        renewed = ""
        if now_s - kept.seen_s >= RENEW_S:
            renewed = self._signed(_Kept(kept.token_id, kept.session_id, kept.began_s, now_s))
        return Session(kept.token_id, cookie, self._csrf(kept), renewed)

    def end(self, cookie: str) -> None:
        """End the session of `cookie`, if there is one."""
        kept = self._read(cookie)
        if kept is not None:
            self._ended.add(kept.session_id, kept.began_s + LONGEST_S)

    def _signed(self, kept: _Kept) -> str:
        fields = [kept.token_id, kept.session_id, round(kept.began_s, 3), round(kept.seen_s, 3)]
        content = base64.urlsafe_b64encode(json.dumps(fields).encode()).rstrip(b"=").decode()
        return f"{content}.{self._mac('cookie', content)}"

    def _read(self, cookie: str) -> _Kept | None:
        content, _, mac = cookie.partition(".")
        if len(cookie) > MAX_COOKIE_CHARS or not cookie.isascii():
            return None
        if not hmac.compare_digest(self._mac("cookie", content), mac):
            return None
        try:
            token_id, session_id, began_s, seen_s = json.loads(base64.urlsafe_b64decode(content + "=="))
        except (ValueError, binascii.Error):
            return None  # signed by a build that writes others
        return _Kept(str(token_id), str(session_id), float(began_s), float(seen_s))

    def _csrf(self, kept: _Kept) -> str:
        return self._mac("csrf", kept.session_id)

    def _mac(self, purpose: str, text: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()
