"""When the mesh is ready."""

import pytest

from control_plane.api.readiness import Readiness, readiness
from tests.unit.control_plane.api.sidecars import Shown


@pytest.mark.parametrize(
    ("sidecars", "needed", "found"),
    [
        ([], 0, Readiness(True, 0)),
        ([], 1, Readiness(False, 0, "0 of 1 sidecars connected")),
        ([Shown(connected=False, serving=True)], 1, Readiness(False, 0, "0 of 1 sidecars connected")),
        ([Shown()], 1, Readiness(False, 0, "0 of 1 sidecars serve the policy")),
        ([Shown(nack="bad address")], 1, Readiness(False, 0, "sidecar local refused: bad address")),
        ([Shown(serving=True), Shown(nack="x")], 1, Readiness(True, 1)),
    ],
    ids=["none needed", "none there", "gone", "waiting", "refused", "serving"],
)
def test_the_reason_says_what_is_missing(sidecars: list[Shown], needed: int, found: Readiness) -> None:
    """First the connection, then the answer; a refusal is told with its reason."""
    assert readiness(sidecars, needed) == found
