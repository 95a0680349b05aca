"""Documents as a set."""

import time
from pathlib import Path

import pytest

from control_plane.resources.documents import assemble, check_documents, load_documents
from control_plane.resources.loading import read_text
from control_plane.resources.parsing import parse_documents
from control_plane.resources.problems import InvalidDocumentsError
from control_plane.resources.unbuilt import UNBUILT


def test_documents_of_several_files_are_one_set(tmp_path: Path) -> None:
    """A Model may stand in another file than its Backend."""
    (tmp_path / "a.yaml").write_text(
        "kind: Model\nmetadata: {name: m}\nspec: {versions: [{name: v, backend: b}]}\n"
    )
    (tmp_path / "b.yaml").write_text("kind: Backend\nmetadata: {name: b}\nspec: {url: 'http://h/v1'}\n")
    documents = load_documents([tmp_path / "a.yaml", tmp_path / "b.yaml"])
    assert (list(documents.models), list(documents.backends), len(documents)) == (["m"], ["b"], 2)


def test_a_name_defined_twice_is_refused_with_both_places() -> None:
    """The same kind and name in two documents is a slip, not an update."""
    text = b"kind: Tier\nmetadata: {name: t}\nspec: {}\n---\nkind: Tier\nmetadata: {name: t}\nspec: {}\n"
    with pytest.raises(InvalidDocumentsError) as error:
        check_documents(read_text(text, "p.yaml"))
    (problem,) = error.value.problems
    assert problem.sentence() == "p.yaml:6: Tier/t: metadata.name: is defined twice, first at p.yaml:1"


def test_a_slip_in_one_document_is_not_told_as_broken_references_of_others() -> None:
    """References are looked at only among documents that are right by themselves."""
    text = (
        b"kind: Backend\nmetadata: {name: b}\nspec: {url: nonsense}\n---\n"
        b"kind: Model\nmetadata: {name: m}\nspec: {versions: [{name: v, backend: b}]}\n"
    )
    with pytest.raises(InvalidDocumentsError) as error:
        check_documents(read_text(text, "p.yaml"))
    assert [problem.field for problem in error.value.problems] == ["spec.url"]


def test_five_thousand_documents_are_checked_in_seconds() -> None:
    """The ceiling of one control plane is no burden at start."""
    one = b"kind: Consumer\nmetadata: {name: c%d}\nspec:\n  tenant: t%d\n"
    text = b"---\n".join(one % (number, number) for number in range(5_000))
    began = time.monotonic()
    assert len(check_documents(read_text(text, "p.yaml"))) == 5_000
    assert time.monotonic() - began < 20


def test_a_set_is_the_same_in_whatever_order_it_was_written() -> None:
    """So that two replicas, or a file and the API, compile the same version."""
    texts = [b"kind: Tier\nmetadata: {name: %s}\nspec: {}\n" % name for name in (b"b", b"a", b"c")]
    there = check_documents(read_text(b"---\n".join(texts), "p.yaml"))
    back = check_documents(read_text(b"---\n".join(reversed(texts)), "p.yaml"))
    assert list(there.tiers) == list(back.tiers) == ["a", "b", "c"]


def test_only_what_may_have_changed_is_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies are compared when a Policy changed; notices are collected for a whole set only."""
    monkeypatch.setitem(UNBUILT, "Backend", frozenset({("warmup",)}))
    text = b"kind: Policy\nmetadata: {name: %s}\nspec: {session: {enabled: true}}\n"
    parsed, _ = parse_documents(read_text(text % b"a" + b"---\n" + text % b"b", "p.yaml"))
    warming = b"kind: Backend\nmetadata: {name: c}\nspec: {url: 'http://h', warmup: {requests: 2}}\n"
    noticed, _ = parse_documents(read_text(warming, "p.yaml"))
    assert assemble([*parsed, *noticed], {"Tier"}).notices == ()
    with pytest.raises(InvalidDocumentsError, match="exactly as specific"):
        assemble(parsed, {"Policy"})
    assert len(assemble([*parsed[:1], *noticed]).notices) == 1
