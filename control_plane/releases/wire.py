"""Standings and analyses as JSON, for the database."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter

from control_plane.releases.analysis import Analysis
from control_plane.releases.machine import Standing


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
    """Read a standing back.

    Raises:
        ValueError: it is none.
    """
    return _standing().validate_json(content)


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
