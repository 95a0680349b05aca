"""Points in time as options take them: how long from now, or when."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import typer

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MAX_S: Final = 100 * 366 * 86400


def moment(text: str, now: datetime) -> str:
    """Return the time that `text` means (`24h`, `30d`, or RFC 3339), in RFC 3339 and UTC.

    Raises:
        BadParameter: it means none, or one that is over.
    """
    if found := re.fullmatch(r"([0-9]{1,10})([smhd])", text):
        seconds = int(found[1]) * _UNITS[found[2]]
        if not 0 < seconds <= _MAX_S:
            raise typer.BadParameter("is no time within a hundred years")
        return _written(now + timedelta(seconds=seconds))
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            "is no time; write how long from now (24h, 30d), or 2030-01-31T00:00:00Z"
        ) from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    if when <= now:
        raise typer.BadParameter("is over already")
    return _written(when.astimezone(UTC))


def _written(when: datetime) -> str:
    return when.replace(microsecond=0).isoformat().replace("+00:00", "Z")
