"""The control plane's answers."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.controller.resources import Key
from control_plane.controller.verdicts import (
    MalformedAnswerError,
    Programming,
    Progress,
    Verdict,
    standing_of,
    verdicts_of,
)


def test_each_document_has_its_verdict() -> None:
    """Accepted or not, why, and whether an older spec of it is in force."""
    answer: dict[str, Any] = {
        "revision": 7,
        "items": [
            {"kind": "Backend", "name": "a", "accepted": True, "reason": "Accepted", "message": ""},
            {
                "kind": "Model",
                "name": "m",
                "accepted": False,
                "reason": "UnknownReference",
                "message": "names b",
                "inForce": True,
            },
        ],
        "kept": [{"kind": "Backend", "name": "old", "message": "Model/m names it"}],
    }
    found = verdicts_of(answer)
    assert found.revision == 7
    assert found.kept == ("Backend/old",)
    assert not found.is_settled
    assert verdicts_of({"items": answer["items"][:1]}).is_settled
    assert found.of == {
        Key("Backend", "a"): Verdict(True, "Accepted"),
        Key("Model", "m"): Verdict(False, "UnknownReference", "names b", True),
    }


def test_what_is_in_force_is_read() -> None:
    """Each document with its sidecars, each Release with its place."""
    answer = {
        "revision": 9,
        "items": [
            {"kind": "Pin", "name": "p", "programmed": True, "sidecars": {"current": 2, "total": 3}},
            {"kind": "Tier", "name": "t", "programmed": False},
        ],
        "releases": {"r": {"phase": "progressing", "step": 1, "share": 5, "reason": "started"}},
    }
    found = standing_of(answer)
    assert found.programming == {
        Key("Pin", "p"): Programming(True, 2, 3),
        Key("Tier", "t"): Programming(False),
    }
    assert found.progress == {"r": Progress("progressing", 1, 5.0, "started")}


@pytest.mark.parametrize("answer", [None, [], {}, {"items": {}}, {"items": ["a"]}, "<html>"])
def test_another_servers_answer_is_told_as_such(answer: object) -> None:
    """A wrong --server is no empty mesh."""
    with pytest.raises(MalformedAnswerError, match="--server"):
        verdicts_of(answer)
    with pytest.raises(MalformedAnswerError, match="--server"):
        standing_of(answer)
