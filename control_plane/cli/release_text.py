"""A Release in words and as a table (pure). Trusts no answer's form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control_plane.cli.amounts import number

GATES = ["GATE", "OLD", "NEW", "LIMIT", "CERTAINTY", "STATE"]


def headline(document: Mapping[str, Any]) -> str:
    """Return how far a Release is, in a line."""
    status = _mapping(document.get("status"))
    name = _mapping(document.get("metadata")).get("name")
    share = f"{number(status.get('share')):g} %"
    return f"{name}: {status.get('phase')}, step {status.get('step')}, {share}: {status.get('reason')}"


def gates(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the columns and rows of what the gates say."""
    analysis = _mapping(_mapping(document.get("status")).get("analysis"))
    readings = analysis.get("gates")
    found = readings if isinstance(readings, list) else []
    return GATES, [_row(reading) for reading in found if isinstance(reading, Mapping)]


def _row(reading: Mapping[str, Any]) -> list[str]:
    return [
        str(reading.get("gate")),
        _figure(reading.get("old")),
        _figure(reading.get("new")),
        _figure(reading.get("limit")),
        _certainty(reading),
        str(reading.get("outcome")),
    ]


def _certainty(reading: Mapping[str, Any]) -> str:
    """Return how sure it is that the new version is worse: 1 - 1/evidence."""
    evidence = number(reading.get("evidence"))
    return f"{100 * (1 - 1 / evidence):.0f} %" if evidence > 1 else "0 %"


def _figure(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else ""


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
