"""Changes as lines."""

from typing import Any

from control_plane.cli.changes import differs, headlines, short, summary, unified

UPDATE: dict[str, Any] = {
    "document": "Model/m",
    "action": "update",
    "fields": [
        {"field": "spec.versions[0].weight", "before": 95, "after": 90},
        {"field": "spec.aliases", "before": None, "after": ["fast"]},
        {"field": "spec.fallbacks", "before": ["x"], "after": None},
    ],
}
CREATE: dict[str, Any] = {
    "document": "Tier/t",
    "action": "create",
    "fields": [
        {"field": "spec.match", "before": None, "after": {"header": {"x-tier": "t"}}},
        {"field": "spec.rules", "before": None, "after": [{"a": 1}, {"a": ""}]},
    ],
}
DELETE: dict[str, Any] = {"document": "Pin/p", "action": "delete", "fields": []}
SAME: dict[str, Any] = {"document": "Backend/b", "action": "unchanged", "fields": []}


def test_a_unified_view_shows_before_and_after() -> None:
    """A field a line, as deep as it goes; what is absent on one side has one line."""
    assert [line.plain for line in unified([UPDATE, CREATE, DELETE, SAME])] == [
        "~ Model/m",
        "  - spec.versions[0].weight: 95",
        "  + spec.versions[0].weight: 90",
        '  + spec.aliases: ["fast"]',
        '  - spec.fallbacks: ["x"]',
        "+ Tier/t",
        "  + spec.match.header.x-tier: t",
        "  + spec.rules[0].a: 1",
        '  + spec.rules[1].a: ""',
        "- Pin/p",
    ]


def test_colours_follow_the_sign() -> None:
    """Red goes, green comes, yellow changes."""
    styles = [str(line.style) for line in unified([UPDATE, CREATE, DELETE])]
    assert (styles[0], styles[1], styles[2]) == ("bold yellow", "red", "green")
    assert (styles[5], styles[-1]) == ("bold green", "bold red")


def test_values_cannot_drive_the_terminal() -> None:
    """Whatever a document holds."""
    field = {"field": "spec.\x1b", "before": None, "after": "a\x1b[2J\nb"}
    (_, line) = unified([{**UPDATE, "fields": [field]}])
    assert line.plain == r"  + spec.\x1b: a\x1b[2J\nb"


def test_headlines_count_the_fields_of_an_update() -> None:
    """And leave out what stays."""
    lines = [line.plain for line in headlines([UPDATE, CREATE, SAME])]
    assert lines == ["~ Model/m  (3 fields)", "+ Tier/t"]


def test_a_summary_counts() -> None:
    """In a fixed order; nothing is said in words."""
    assert summary([SAME, UPDATE, CREATE, CREATE]) == "2 created, 1 updated, 1 unchanged"
    assert summary([]) == "nothing changes"
    assert differs([SAME, DELETE])
    assert not differs([SAME])


def test_a_cell_names_the_first_few() -> None:
    """And how many more."""
    assert short([UPDATE, SAME, CREATE]) == "~Model/m +Tier/t"
    assert short([CREATE] * 5) == "+Tier/t +Tier/t +Tier/t and 2 more"
