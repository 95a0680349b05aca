"""What is kept is read back as it was."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from control_plane.releases.analysis import Analysis, folded
from control_plane.releases.counts import Both, Counts
from control_plane.releases.gates import gates_of
from control_plane.releases.machine import Phase, Plan, begun
from control_plane.releases.wire import analysis_bytes, analysis_of, standing_bytes, standing_of
from control_plane.resources.kinds.release import Gates


def test_a_standing_is_read_back() -> None:
    """Its decisions too; what is none is an error."""
    standing = begun(Plan((5.0, 100.0), 60.0), 7, 1.5)
    assert standing_of(standing_bytes(standing)) == standing
    for content in (b"{}", b"[]", b"{", b'{"decisions": 1}'):
        with pytest.raises(ValueError, match=r"phase|standing|JSON|Standing|Expecting"):
            standing_of(content)


def test_a_newer_builds_standing_is_understood_as_far_as_it_can_be() -> None:
    """While replicas are exchanged: the share stays, and a phase that is not known moves nowhere."""
    standing = begun(Plan((5.0, 100.0), 60.0), 7, 1.5)
    newer = {**json.loads(standing_bytes(standing)), "mirrors": 3}
    assert standing_of(json.dumps(newer).encode()) == standing
    made = {"at_s": 2.0, "phase": "shadowing", "step": 1, "share": 5.0, "reason": "x", "by": "y"}
    newer |= {"phase": "shadowing", "decisions": [*newer["decisions"], made]}
    assert standing_of(json.dumps(newer).encode()) == replace(standing, phase=Phase.PAUSED)


def test_an_analysis_is_read_back() -> None:
    """Histograms and bets too; nothing, or what cannot be read, is a beginning."""
    both = Both(Counts(95, 2, duration={70: 93}), Counts(5, 1, duration={71: 4}))
    analysis = folded(Analysis(), both, gates_of(Gates()), 0.05)
    assert analysis_of(analysis_bytes(analysis)) == analysis
    assert analysis_of(None) == Analysis()
    assert analysis_of(b'{"step": 1}') == Analysis()
