"""How much accounts of limits use over the whole mesh: a sum that follows what sidecars tell.

A sidecar that leaves takes its use with it. Memory is bounded by what each sidecar may tell.
"""

from __future__ import annotations

from control_plane.push.sidecars import Told
from ext_proc.contract.uses import Use, Uses, most_used

_NONE = Use()


class UsesEverywhere:
    """The sum. Belongs to one event loop."""

    def __init__(self) -> None:
        self._uses: dict[str, Use] = {}

    def __repr__(self) -> str:
        return f"<UsesEverywhere {len(self._uses)} accounts>"

    def told(self, before: Told, after: Told) -> None:
        """Take in what one sidecar tells now in place of what it told before."""
        if after.uses is before.uses:
            return
        for account in before.uses.keys() | after.uses.keys():
            was, now = before.uses.get(account, _NONE), after.uses.get(account, _NONE)
            if was == now:
                continue
            total = self._uses.get(account, _NONE).plus(now).minus(was)
            if total == _NONE:
                del self._uses[account]
            else:
                self._uses[account] = total

    def most(self, limit: int) -> Uses:
        """Return the accounts that use most."""
        return most_used(self._uses, limit)
