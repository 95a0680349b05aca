"""What accounts have used, looked at in pieces: thousands of them at once would hold calls up (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from ext_proc.contract.uses import Use, Uses, most_used
from ext_proc.limits.window import Window

AT_ONCE: Final = 1_000
"""So many accounts are looked at in one go, which takes some milliseconds."""


class Account(Protocol):
    """What one account has used."""

    windows: list[Window | None]
    held: int

    def pass_time(self, now: int) -> bool:
        """Let go what is over; return whether anything is in use."""
        ...


class Survey:
    """Goes round the accounts. Of those whose turn is not yet it tells what it saw last."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._at_once = at_once
        self._turns: list[str] = []
        self._seen: dict[str, Use] = {}

    def __repr__(self) -> str:
        return f"<Survey {len(self._seen)} in use, {len(self._turns)} to come>"

    def look(self, accounts: Mapping[str, Account], now: int) -> Uses:
        """Look at the next ones of `accounts` at that time; return those that use most."""
        if not self._turns:
            self._turns = list(accounts)
            self._seen = {key: use for key, use in self._seen.items() if key in accounts}
        for key in self._turns[-self._at_once :]:
            account = accounts.get(key)
            if account is not None and account.pass_time(now):
                requests, tokens, day, cost = (one.used if one is not None else 0 for one in account.windows)
                self._seen[key] = Use(requests, tokens, day, cost, account.held)
            else:
                self._seen.pop(key, None)
        del self._turns[-self._at_once :]
        return most_used(self._seen)
