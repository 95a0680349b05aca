"""What is used of limits, as it is answered."""

from __future__ import annotations

import pytest

from control_plane.api.limits import item_of
from ext_proc.contract.uses import Use


@pytest.mark.parametrize(
    ("account", "named"),
    [
        ("tier:gold", ("tier", "gold", None)),
        ("tier:gold/team-a", ("tier", "gold", "team-a")),
        ("consumer:team-a", ("consumer", "team-a", "team-a")),
        ("model:org/m", ("model", "org/m", None)),
    ],
)
def test_an_account_is_told_by_its_parts(account: str, named: tuple[str, str, str | None]) -> None:
    """A Tier's may be a Consumer's own."""
    item = item_of(account, Use(1, 2, 3, 4_500_000, 5))
    assert (item["kind"], item["name"], item["consumer"]) == named
    assert [item[name] for name in ("requestsPerMinute", "tokensPerMinute", "concurrency")] == [1, 2, 5]
    assert (item["tokensPerDay"], item["costPerDay"]) == (3, 4.5)
