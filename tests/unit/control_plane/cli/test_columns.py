"""Rows of tables."""

from typing import Any

import pytest

from control_plane.api.examples import EXAMPLES
from control_plane.cli.columns import COLUMNS, cells, moment, sidecar_state
from control_plane.cli.kinds import LISTS
from control_plane.resources.plurals import KIND_OF


def row(plural: str, item: dict[str, Any]) -> dict[str, str]:
    """Return the row of one item by column."""
    names, (found,) = cells(plural, [item])
    return dict(zip(names, found, strict=True))


def document(**spec: Any) -> dict[str, Any]:
    """Return a document called n."""
    return {"metadata": {"name": "n"}, "spec": spec}


def test_everything_that_is_listed_has_columns() -> None:
    """Each kind and each other list."""
    assert {*KIND_OF, *LISTS} <= COLUMNS.keys()


@pytest.mark.parametrize("kind", list(KIND_OF.values()))
def test_an_example_of_each_kind_fills_a_row(kind: str) -> None:
    """Its name first."""
    plural = next(plural for plural, one in KIND_OF.items() if one == kind)
    example = EXAMPLES[kind]
    assert row(plural, dict(example))["NAME"] == example["metadata"]["name"]


def test_versions_show_their_shares() -> None:
    """Of all weights, the default included; a lone version has all anyway."""
    versions = [{"name": "a", "backend": "x", "weight": 300}, {"name": "b", "backend": "y"}]
    assert row("models", document(versions=versions))["VERSIONS"] == "a 75% → x, b 25% → y"
    assert row("models", document(versions=versions[:1]))["VERSIONS"] == "a → x"


@pytest.mark.parametrize(
    ("credentials", "text"),
    [
        ({"env": "KEY"}, "env KEY"),
        ({"file": "/k"}, "file /k"),
        ({"secretRef": {"name": "s", "key": "k"}}, "secret s/k"),
        (None, ""),
    ],
)
def test_credentials_show_where_the_key_is(credentials: Any, text: str) -> None:
    """The key itself is in no document."""
    assert row("backends", document(credentials=credentials))["CREDENTIALS"] == text


def test_a_policy_shows_whom_it_is_for_and_what_it_sets() -> None:
    """Without the parts of the target that mean everybody."""
    target = {"models": ["gpt-4*", "o1"], "tiers": ["*"]}
    found = row("policies", document(target=target, cache={"enabled": True}, retry={}))
    assert (found["TARGET"], found["SETS"]) == ("models=gpt-4*, o1", "cache, retry")
    assert row("policies", document(cache={}))["TARGET"] == "all"


@pytest.mark.parametrize(
    ("sidecar", "state"),
    [
        ({"connected": True, "inForce": True}, "in force"),
        ({"connected": True, "inForce": False}, "waiting"),
        ({"connected": True, "inForce": True, "nack": "no"}, "refused"),
        ({"connected": False, "inForce": True}, "disconnected"),
    ],
)
def test_a_sidecars_state_is_a_word(sidecar: dict[str, Any], state: str) -> None:
    """A refusal says more than what it still serves."""
    assert sidecar_state(sidecar) == state


def test_a_revision_shows_what_it_changed_and_why_it_is_halted() -> None:
    """A change of keys or secrets has no documents; it says what it is."""
    change = {"document": "Model/m", "action": "update"}
    halted = {"revision": 7, "state": "halted", "reason": "no", "changes": [change], "rolledBackTo": 3}
    found = row("revisions", halted)
    assert (found["STATE"], found["CHANGES"]) == ("halted: no", "~Model/m (as revision 3)")
    assert row("revisions", {"detail": "key k1 made", "changes": []})["CHANGES"] == "key k1 made"


def test_an_audit_row_says_who_and_how_it_ended() -> None:
    """With the role; a refusal with its reason; of many documents the first few."""
    entry = {"actor": "ci", "role": "editor", "source": "10.0.0.7", "outcome": "forbidden", "detail": "no"}
    found = row("audit", entry)
    assert (found["ACTOR"], found["OUTCOME"]) == ("ci (editor)", "forbidden: no")
    assert row("audit", {"actor": "files"})["ACTOR"] == "files"
    assert row("audit", {"target": "a, b, c, d, e"})["TARGET"] == "a, b, c and 2 more"
    assert row("audit", {"target": "a, b"})["TARGET"] == "a, b"


@pytest.mark.parametrize(("version", "told"), [("r7-1", "yes"), ("r6-1", "r6-1"), ("", "")])
def test_what_a_sidecar_acknowledged(version: str, told: str) -> None:
    """Yes, when it is what was pushed."""
    assert row("sidecars", {"pushed": "r7-1", "acknowledged": version})["ACKNOWLEDGED"] == told


@pytest.mark.parametrize("hint", ["abcd", "…abcd"])
def test_a_key_shows_its_last_characters(hint: str) -> None:
    """However the server writes them."""
    assert row("keys", {"hint": hint})["KEY"] == "…abcd"


@pytest.mark.parametrize("plural", list(COLUMNS))
@pytest.mark.parametrize(
    "item", [{}, {"spec": 5, "metadata": [], "changes": 7, "hint": 1}, {"spec": {"versions": [1]}}]
)
def test_an_answer_of_another_form_still_fills_a_row(plural: str, item: dict[str, Any]) -> None:
    """An older or newer server is no reason to fail."""
    assert all(isinstance(cell, str) for cell in row(plural, item).values())


def test_times_are_shown_without_their_fraction() -> None:
    """As RFC 3339 all the same."""
    assert moment("2026-01-31T08:00:00.123456Z") == "2026-01-31T08:00:00Z"
    assert moment("2026-01-31T08:00:00+00:00") == "2026-01-31T08:00:00+00:00"
    assert moment(None) == ""
