"""Kubernetes' quantities, as far as CPU and memory need them (pure).

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_FORM: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(m|[kMGTPE]i?|Ki)?")
_FACTORS: Final = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


def amount(text: str) -> Decimal:
    """Return the amount that a quantity such as `250m`, `0.5`, `512Mi` stands for.

    Raises:
        ValueError: it is none, or 0.
    """
    found = _FORM.fullmatch(text)
    if found is None or (found[2] or "") not in _FACTORS:
        raise ValueError(f"{text!r} is no quantity, such as 250m or 512Mi")
    value = Decimal(found[1]) * _FACTORS[found[2] or ""]
    if not value:
        raise ValueError(f"{text!r} must be above 0")
    return value
