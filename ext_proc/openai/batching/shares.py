"""Sharing numbers out so that nothing is lost by rounding."""

from __future__ import annotations

from collections.abc import Sequence


def shared_out(total: int, weights: Sequence[int]) -> list[int]:
    """Return parts of `total` in proportion to `weights`, which add up to it exactly (largest remainders).

    Without any weight they are as equal as can be.
    """
    if not weights:
        return []
    whole = sum(weights)
    if whole <= 0:
        weights, whole = [1] * len(weights), len(weights)
    parts = [total * weight // whole for weight in weights]
    remainders = sorted(range(len(weights)), key=lambda place: (-(total * weights[place] % whole), place))
    for place in remainders[: total - sum(parts)]:
        parts[place] += 1
    return parts
