"""Kubernetes' quantities."""

from __future__ import annotations

from decimal import Decimal

import pytest

from control_plane.webhook.quantities import amount


@pytest.mark.parametrize(
    ("text", "value"),
    [("250m", "0.25"), ("2", "2"), ("0.5", "0.5"), ("1k", "1000"), ("1Ki", "1024"), ("1.5Gi", "1610612736")],
)
def test_amounts(text: str, value: str) -> None:
    """Thousandths, decimal and binary suffixes."""
    assert amount(text) == Decimal(value)


@pytest.mark.parametrize("text", ["", "0", "0m", "-1", "1ki", "1K", "1 Gi", "ten", "1mi", "١", "1" * 20])
def test_what_is_no_amount(text: str) -> None:
    """The API server would refuse the pod: it is told before."""
    with pytest.raises(ValueError, match=r"quantity|above 0"):
        amount(text)
