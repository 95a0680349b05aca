"""What is kept is read back as it was."""

from __future__ import annotations

import pytest

from control_plane.releases.analysis import Analysis, folded
from control_plane.releases.counts import Both, Counts
from control_plane.releases.gates import gates_of
from control_plane.releases.machine import Plan, begun
from control_plane.releases.wire import analysis_bytes, analysis_of, standing_bytes, standing_of
from control_plane.resources.kinds.release import Gates


def test_a_standing_is_read_back() -> None:
    """Its decisions too; what is none is an error."""
    standing = begun(Plan((5.0, 100.0), 60.0), 7, 1.5)
    assert standing_of(standing_bytes(standing)) == standing
    with pytest.raises(ValueError, match="phase"):
        standing_of(b"{}")


def test_an_analysis_is_read_back() -> None:
    """Histograms and bets too; nothing, or what cannot be read, is a beginning."""
    both = Both(Counts(95, 2, duration={70: 93}), Counts(5, 1, duration={71: 4}))
    analysis = folded(Analysis(), both, gates_of(Gates()), 0.05)
    assert analysis_of(analysis_bytes(analysis)) == analysis
    assert analysis_of(None) == Analysis()
    assert analysis_of(b'{"step": 1}') == Analysis()
