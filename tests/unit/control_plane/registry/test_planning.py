"""What a change makes of the head."""

import time
from dataclasses import replace
from types import MappingProxyType

import pytest

from control_plane.registry.errors import InUseError, NotFoundError
from control_plane.registry.planning import (
    Plan,
    parse_all,
    parse_one,
    parse_stored,
    plan_change,
    plan_delete,
    plan_rollback,
)
from control_plane.registry.state import State, documents_changed
from control_plane.registry.values import ChangeAction, Head, StoredDocument
from control_plane.resources.loading import RawDocument, read_text
from control_plane.resources.problems import InvalidDocumentsError
from control_plane.resources.unbuilt import UNBUILT
from tests.harness.registries import START, backend, consumer, model, raw


def head_of(*raws: RawDocument) -> Head:
    """Return a head with these documents at revision 1."""
    plan = plan_change(Head(0), parse_all(raws))
    return documents_changed(State(), plan, 1, START).head


def actions(plan: Plan) -> dict[str, str]:
    """Return what becomes of each document."""
    return {change.document: change.action.value for change in plan.changes}


def test_each_document_is_new_changed_or_unchanged() -> None:
    """Only what differs is written."""
    head = head_of(backend(), consumer("c", "t"))
    plan = plan_change(head, parse_all([backend(), consumer("c", "u"), consumer("d")]))
    assert actions(plan) == {"Backend/b": "unchanged", "Consumer/c": "update", "Consumer/d": "create"}
    assert list(plan.contents) == [("Consumer", "c"), ("Consumer", "d")]
    assert plan.documents.consumers["c"].tenant == "u"
    assert list(plan.parsed) == [("Backend", "b"), ("Consumer", "c"), ("Consumer", "d")]


def test_what_is_changed_is_to_blame_for_a_contradiction() -> None:
    """Not the document that was right until now, whatever their names."""
    head = head_of(raw("Policy", "z", hold={"max": "1s"}))
    with pytest.raises(InvalidDocumentsError) as error:
        plan_change(head, parse_all([raw("Policy", "a", hold={"max": "2s"})]))
    (problem,) = error.value.problems
    assert problem.document == "Policy/a"
    assert "Policy/z" in problem.message


def test_a_change_may_break_a_document_that_it_does_not_touch() -> None:
    """Then that one is named."""
    release = raw("Release", "r", **{"model": "m", "from": "v", "to": "w"})
    both = raw("Model", "m", versions=[{"name": "v", "backend": "b"}, {"name": "w", "backend": "b"}])
    head = head_of(backend(), both, release)
    with pytest.raises(InvalidDocumentsError) as error:
        plan_change(head, parse_all([model("m")]))
    assert [(item.document, item.field) for item in error.value.problems] == [("Release/r", "spec.to")]


def test_what_is_kept_is_a_value_of_its_own() -> None:
    """Plain JSON, whatever the reader shared between documents by aliases or made of a set."""
    text = b"kind: Policy\nmetadata: {name: p}\nspec: {retry: {retryOn: !!set {reset, connect}}}\n"
    plan = plan_change(Head(0), parse_all(read_text(text, "p.yaml")))
    kept = plan.parsed["Policy", "p"].raw
    assert kept.value["spec"]["retry"]["retryOn"] == ["connect", "reset"]
    assert (kept.source, dict(kept.lines)) == ("", {})


def test_the_document_of_a_path_must_say_the_same() -> None:
    """Kind and name; other problems are told under the path's document."""
    for wrong in (raw("Tier", "c"), raw("Consumer", "d")):
        with pytest.raises(InvalidDocumentsError, match="the path says"):
            parse_one("Consumer", "c", wrong)
    values: list[object] = [None, [], "text", {"spec": {}}]
    for nonsense in values:
        with pytest.raises(InvalidDocumentsError) as error:
            parse_one("Consumer", "c", RawDocument(nonsense, "body"))
        assert {problem.document for problem in error.value.problems} == {"Consumer/c"}


def test_a_deletion_needs_a_document_that_nobody_names() -> None:
    """A missing one, a used one, a free one."""
    head = head_of(backend("b"), backend("c"), model("m", "b"))
    with pytest.raises(NotFoundError):
        plan_delete(head, ("Backend", "x"))
    with pytest.raises(InUseError):
        plan_delete(head, ("Backend", "b"))
    plan = plan_delete(head, ("Backend", "c"))
    assert (actions(plan), plan.contents) == ({"Backend/c": "delete"}, {("Backend", "c"): None})
    assert list(plan.documents.backends) == ["b"]


def test_a_rollback_writes_only_what_differs() -> None:
    """From the contents that were kept."""
    then = head_of(backend(), consumer("c", "t"), consumer("d", "t"))
    now = head_of(backend(), consumer("c", "u"), consumer("e", "t"))
    plan = plan_rollback(now, list(then.stored.values()))
    assert actions(plan) == {"Consumer/c": "update", "Consumer/d": "create", "Consumer/e": "delete"}
    assert plan_rollback(then, list(then.stored.values())).contents == {}


def test_what_this_build_refuses_does_not_come_back() -> None:
    """A rollback is checked like any change."""
    old = StoredDocument("Tier", "t", 1, b'{"kind":"Tier","metadata":{"name":"t"},"spec":{"gone":1}}', START)
    with pytest.raises(InvalidDocumentsError, match="no field of Tier"):
        plan_rollback(Head(1), [old])
    with pytest.raises(InvalidDocumentsError):
        parse_stored([old])


def test_names_given_twice_are_refused() -> None:
    """The second would silently win."""
    with pytest.raises(InvalidDocumentsError, match="defined twice"):
        parse_all([consumer("c"), consumer("c")])


def test_warnings_are_about_the_documents_of_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unchanged ones too; not about others."""
    monkeypatch.setitem(UNBUILT, "Backend", frozenset({("warmup",)}))
    head = head_of(backend("a", warmup={"requests": 1}), backend("b", warmup={"requests": 2}))
    plan = plan_change(head, parse_all([backend("b", warmup={"requests": 2})]))
    assert [(item.document, item.field) for item in plan.warnings] == [("Backend/b", "spec.warmup.requests")]


def test_a_fallback_that_is_barred_is_warned_of_with_the_models_there_are() -> None:
    """Whether the document changes or not."""
    head = head_of(backend("b", credentials={"env": "KEY"}), backend("c"), model("spare", "c"))
    for _ in range(2):
        plan = plan_change(head, parse_all([model("m", "b", fallbacks=["spare"])]))
        assert [(item.document, item.field) for item in plan.warnings] == [("Model/m", "spec.fallbacks[0]")]
        head = documents_changed(State(), plan, 2, START).head


def test_one_document_among_five_thousand_is_planned_quickly() -> None:
    """It is what a change waits for before it is pushed."""
    head = head_of(backend(), *(consumer(f"c{number}") for number in range(5_000)))
    one = parse_all([consumer("c7", "u")])
    began = time.monotonic()
    plan = plan_change(head, one)
    assert time.monotonic() - began < 2
    assert plan.changes[0].action is ChangeAction.UPDATE


def test_a_head_is_not_changed_by_planning() -> None:
    """Heads are shared with whoever reads them."""
    head = head_of(consumer("c", "t"))
    frozen = replace(head, stored=MappingProxyType(dict(head.stored)))
    plan_change(head, parse_all([consumer("c", "u")]))
    assert head == frozen
