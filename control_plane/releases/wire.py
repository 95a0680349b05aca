"""Standings and analyses as JSON, for the database."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from control_plane.releases.analysis import Analysis
from control_plane.releases.machine import Phase, Standing


@cache
def _standing() -> TypeAdapter[Standing]:
    return TypeAdapter(Standing)


@cache
def _analysis() -> TypeAdapter[Analysis]:
    return TypeAdapter(Analysis)


def standing_bytes(standing: Standing) -> bytes:
    """Return a standing as it is kept."""
    return _standing().dump_json(standing)


def standing_of(content: bytes) -> Standing:
    """Read a standing back, one of a newer build too while replicas are exchanged one by one.

    Fields that this build does not know are left out. So are decisions with a phase that it does not know,
    and a Release in such a phase is paused as far as this build is concerned: its share stays.

    Raises:
        ValueError: it is none.
    """
    try:
        return _standing().validate_json(content)
    except ValueError:
        return _standing().validate_json(json.dumps(_in_known_phases(json.loads(content))))


def _in_known_phases(value: Any) -> Any:
    if not isinstance(value, dict) or not isinstance(value.get("decisions", []), list):
        return value
    known = frozenset(Phase)
    made = [item for item in value.get("decisions", []) if isinstance(item, dict)]
    decisions = [item for item in made if item.get("phase") in known]
    phase = value.get("phase")
    is_newer = isinstance(phase, str) and phase not in known
    return {**value, "decisions": decisions, "phase": Phase.PAUSED if is_newer else phase}


def analysis_bytes(analysis: Analysis) -> bytes:
    """Return an analysis as it is kept."""
    return _analysis().dump_json(analysis)


def analysis_of(content: bytes | None) -> Analysis:
    """Read an analysis back; None is a beginning, and so is one that another build wrote differently."""
    if content is None:
        return Analysis()
    try:
        return _analysis().validate_json(content)
    except ValueError:
        return Analysis()
