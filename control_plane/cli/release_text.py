"""A Release in words and as a table (pure). Trusts no answer's form."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from control_plane.cli.amounts import number

_OTHERWISE = (("otherStatus", "ended in another status"), ("otherFinish", "for another reason"))
GATES = ["GATE", "OLD", "NEW", "LIMIT", "CERTAINTY", "STATE"]


def headline(document: Mapping[str, Any]) -> str:
    """Return how far a Release is, in a line."""
    status = _mapping(document.get("status"))
    name = _mapping(document.get("metadata")).get("name")
    share = f"{number(status.get('share')):g} %"
    step = "before the first step" if status.get("step") == 0 else f"step {status.get('step')}"
    return f"{name}: {status.get('phase')}, {step}, {share}: {status.get('reason')}"


def likeness(document: Mapping[str, Any]) -> list[str]:
    """Return a line each, if there are any, on how the shadow was left and with which figures, on the answers
    that both versions gave, and on those in the cache.
    """
    status = _mapping(document.get("status"))
    shadow, cache = _mapping(status.get("shadow")), _mapping(status.get("cache"))
    lines = [f"out of the shadow: {reason}" for reason in _left_shadow(status)]
    if shadow:
        told = [f"{number(shadow.get('compared')):g} answers compared"]
        if shadow.get("agreement") is not None:
            told.append(f"{100 * number(shadow['agreement']):.0f} % say about the same")
        if shadow.get("lengthRatio") is not None:
            told.append(f"the new ones {number(shadow['lengthRatio']):.2f} times as long")
        told += [
            f"{number(shadow.get(name)):g} {what}" for name, what in _OTHERWISE if number(shadow.get(name))
        ]
        lines.append(f"shadow: {', '.join(told)}")
    if cache:
        counts = number(cache.get("disagreed")), number(cache.get("compared"))
        lines.append("cache: {:g} of {:g} answers differ from the other version's".format(*counts))
    return lines


def _left_shadow(status: Mapping[str, Any]) -> list[str]:
    """Return why the first step came after step 0, if it did and that is among the last moves."""
    found = status.get("decisions")
    decisions = [_mapping(made) for made in found] if isinstance(found, list) else []
    return [
        str(after.get("reason"))
        for before, after in pairwise(decisions)
        if (before.get("step"), after.get("step")) == (0, 1)
    ]


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
