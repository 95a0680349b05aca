"""Tier: a class of callers."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from control_plane.resources.kinds.spec import Limits, Prose, Spec

_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
HEADER_VALUE: Final = r"[^\x00\r\n]*"
"""What a value may be: no header holds a line break or NUL."""


def check_headers(value: dict[str, str]) -> dict[str, str]:
    """Return `value` with lower-case names.

    Raises:
        ValueError: a name that is no header name, two that differ in case only, a value that no header has.
    """
    if not all(_HEADER_NAME.fullmatch(name) for name in value):
        raise ValueError("must name headers by letters, digits and hyphens")
    if not all(re.fullmatch(HEADER_VALUE, text) for text in value.values()):
        raise ValueError("must give headers values without line breaks or NUL")
    lowered = {name.lower(): text for name, text in value.items()}
    if len(lowered) != len(value):
        raise ValueError("names one header twice")
    return lowered


class TierMatch(Spec):
    """Which callers without a Consumer belong here: every header named has the value given."""

    header: Annotated[dict[str, Prose], Field(min_length=1), AfterValidator(check_headers)]


class TierSpec(Spec):
    """`spec` of a Tier."""

    match: TierMatch | None = None
    limits: Limits = Limits()
    priority: Annotated[int, Field(ge=-1_000_000, le=1_000_000)] = 0
