"""What differs between two documents."""

import copy
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from control_plane.registry.changes import field_changes, path_changes, versions_diff
from control_plane.registry.ports import DocumentVersion
from control_plane.registry.values import ChangeAction, FieldChange
from tests.harness.registries import START

names = st.sampled_from(["a", "b", "x-y", "ttl", "with.dot", 'quote"d', "汉"])
leaves = st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)
documents = st.dictionaries(names, values, max_size=4)


def carried_out(before: Any, changes: list[tuple[Any, Any, Any]]) -> Any:
    """Return `before` with every change made."""
    result = copy.deepcopy(before)
    # From the end, so that positions in lists stay right while items go.
    for path, _, after in sorted(changes, key=lambda change: _order(change[0]), reverse=True):
        if after is None:
            _around(result, path).pop(path[-1])
    for path, _, after in sorted(changes, key=lambda change: _order(change[0])):
        if after is None:
            continue
        parent = _around(result, path)
        if isinstance(parent, list) and path[-1] == len(parent):
            parent.append(after)
        else:
            parent[path[-1]] = after
    return result


def _around(value: Any, path: Any) -> Any:
    for part in path[:-1]:
        value = value[part]
    return value


def _value_at(value: Any, path: Any) -> Any:
    """Return the value at `path`, None when there is none."""
    for part in path:
        items = value if isinstance(value, dict) else dict(enumerate(value))
        value = items.get(part)
    return value


def _order(path: Any) -> list[tuple[int, int, str]]:
    return [(0, part, "") if isinstance(part, int) else (1, 0, part) for part in path]


@given(documents, documents)
def test_the_changes_carried_out_on_the_one_give_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Nothing that differs is missing, and what is said to be before was before."""
    changes = list(path_changes(before, after))
    assert carried_out(before, changes) == after
    for path, was, _ in changes:
        assert _value_at(before, path) == was


@given(documents)
def test_a_document_does_not_differ_from_itself(document: dict[str, Any]) -> None:
    """Nor from a copy with its fields in another order."""
    turned = dict(reversed(list(document.items())))
    assert list(path_changes(document, json.loads(json.dumps(turned)))) == []


def test_paths_are_written_as_in_messages() -> None:
    """Positions in brackets, odd names quoted."""
    before = {"spec": {"versions": [{"weight": 95}, {"weight": 5}], "header": {"x.y": "1"}}}
    after = {"spec": {"versions": [{"weight": 50}], "header": {"x.y": "2"}, "new": []}}
    assert field_changes(before, after) == (
        FieldChange("spec.versions[0].weight", 95, 50),
        FieldChange("spec.versions[1]", {"weight": 5}, None),
        FieldChange('spec.header["x.y"]', "1", "2"),
        FieldChange("spec.new", None, []),
    )


def test_true_is_not_one() -> None:
    """Though Python says so; 1 and 1.0 are the same number in JSON."""
    assert [change.after for change in field_changes({"a": 1}, {"a": True})] == [True]
    assert field_changes({"a": 1}, {"a": 1.0}) == ()


def test_a_new_document_shows_its_fields_and_a_deleted_one_too() -> None:
    """Those of its spec."""
    document = {"kind": "Tier", "spec": {"limits": {"concurrency": 5}, "priority": 1}}
    created = field_changes(None, document)
    assert created == (
        FieldChange("spec.limits", None, {"concurrency": 5}),
        FieldChange("spec.priority", None, 1),
    )
    assert [(change.before, change.after) for change in field_changes(document, None)] == [
        ({"concurrency": 5}, None),
        (1, None),
    ]


def version(revision: int, name: str, spec: Any) -> DocumentVersion:
    """Return what a revision made of a Tier."""
    content = None if spec is None else json.dumps({"spec": spec}).encode()
    return DocumentVersion("Tier", name, revision, ChangeAction.UPDATE, content, START)


def test_a_difference_looks_over_what_came_in_between() -> None:
    """What was changed and changed back is none."""
    versions = [
        version(1, "same", {"priority": 1}),
        version(1, "gone", {"priority": 1}),
        version(2, "same", {"priority": 2}),
        version(2, "brief", {"priority": 9}),
        version(3, "same", {"priority": 1}),
        version(3, "brief", None),
        version(3, "gone", None),
        version(3, "new", {"priority": 3}),
    ]
    assert [(item.name, item.action) for item in versions_diff(versions, 1, 3)] == [
        ("gone", ChangeAction.DELETE),
        ("new", ChangeAction.CREATE),
    ]
    assert [(item.name, item.action) for item in versions_diff(versions, 3, 1)] == [
        ("gone", ChangeAction.CREATE),
        ("new", ChangeAction.DELETE),
    ]
    (change,) = [item for item in versions_diff(versions, 1, 2) if item.name == "same"]
    assert change.fields == (FieldChange("spec.priority", 1, 2),)
