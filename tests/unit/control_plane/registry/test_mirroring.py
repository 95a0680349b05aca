"""What a mirror's wish makes of the head: for every wish, and every head that it may meet."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.registry.errors import OwnedError
from control_plane.registry.mirroring import MAX_MESSAGE, MirrorPlan, plan_mirror
from control_plane.registry.planning import parse_all, plan_change
from control_plane.registry.state import State, documents_changed
from control_plane.registry.values import DocumentKey, Head
from control_plane.registry.verdicts import Reason
from control_plane.resources.documents import assemble
from control_plane.resources.loading import RawDocument
from control_plane.resources.problems import InvalidDocumentsError
from tests.harness.registries import START, backend, consumer, model, raw

OWNER = "kubernetes"


def after(head: Head, *raws: RawDocument, deleted: Iterable[DocumentKey] = ()) -> Head:
    """Return `head` after somebody else's change."""
    plan = plan_change(head, parse_all(raws), deleted)
    return documents_changed(State(head=head), plan, head.revision + 1, START).head


def mirrored(head: Head, *raws: RawDocument) -> tuple[Head, MirrorPlan]:
    """Return `head` after a wish, and what was decided."""
    plan = plan_mirror(head, raws, OWNER)
    if not plan.change.contents:
        return head, plan
    return documents_changed(State(head=head), plan.change, head.revision + 1, START).head, plan


def reasons(plan: MirrorPlan) -> dict[str, str]:
    """Return the reason of each judgement."""
    return {f"{found.kind}/{found.name}": found.reason.value for found in plan.judgements}


def message(plan: MirrorPlan, name: str) -> str:
    """Return what is told of the document of that name."""
    (found,) = [found.message for found in plan.judgements if found.name == name]
    return found


def release(name: str, model: str, one: str, other: str, **spec: Any) -> RawDocument:
    """Return a Release."""
    return raw("Release", name, **{"model": model, "from": one, "to": other, **spec})


def versions(*names: str, on: str = "b") -> list[dict[str, str]]:
    """Return a Model's versions."""
    return [{"name": name, "backend": on} for name in names]


# One by one.


def test_a_refused_document_heals_when_what_it_names_comes() -> None:
    """In whatever order they come."""
    head, plan = mirrored(Head(0), model())
    assert (reasons(plan), len(head.stored)) == ({"Model/m": "UnknownReference"}, 0)
    head, plan = mirrored(head, model(), backend())
    assert reasons(plan) == {"Backend/b": "Accepted", "Model/m": "Accepted"}


def test_a_refused_document_stays_as_it_was() -> None:
    """Wrong by itself, or with what it names."""
    head, _ = mirrored(Head(0), backend(), model())
    for bad in (model("m", backend="nowhere"), model("m", aliases=1)):
        found, plan = mirrored(head, backend(), bad)
        assert (found, reasons(plan)["Backend/b"]) == (head, "Accepted")
        assert reasons(plan)["Model/m"] != "Accepted"


def test_what_is_named_still_is_kept_until_nothing_names_it() -> None:
    """Whoever names it is told; a document of somebody else is told nothing, and has its way."""
    head, _ = mirrored(Head(0), backend(), backend("other"), model())
    found, plan = mirrored(head, backend("other"), model())
    assert (found, reasons(plan)["Model/m"]) == (head, "UnknownReference")
    assert message(plan, "m") == 'spec.versions[0].backend names the Backend "b", which is to be deleted'
    assert [(kept.name, kept.message) for kept in plan.kept] == [("b", "Model/m still names it")]
    found, plan = mirrored(found, backend("other"), model("m", backend="other"))
    assert ("Backend", "b") not in found.stored
    theirs = after(head, model("theirs"))
    found, plan = mirrored(theirs)
    assert list(found.stored) == [("Backend", "b"), ("Model", "theirs")]
    assert [(kept.name, kept.message) for kept in plan.kept] == [("b", "Model/theirs still names it")]
    assert mirrored(found)[0] is found


def test_a_name_of_somebody_else_is_a_conflict() -> None:
    """Nothing of theirs changes, though it is not to be; it can be named."""
    theirs = after(Head(0), backend(url="http://theirs"))
    found, plan = mirrored(theirs, backend(), model())
    assert reasons(plan) == {"Backend/b": "Conflict", "Model/m": "Accepted"}
    assert found.documents.backends["b"].url.startswith("http://theirs")
    assert "made by the API or a file" in message(plan, "b")


def test_of_two_that_claim_the_same_the_one_in_force_wins() -> None:
    """Of new ones the first by kind and name, whatever their order."""
    wish = [backend("b", default=True), backend("a", default=True)]
    head, plan = mirrored(Head(0), *wish)
    assert reasons(plan) == {"Backend/a": "Accepted", "Backend/b": "Invalid"}
    assert message(plan, "b") == "spec.default is true in Backend/a too; mark one Backend only"
    head, plan = mirrored(Head(0), wish[0])
    head, plan = mirrored(head, *wish)
    assert reasons(plan) == {"Backend/a": "Invalid", "Backend/b": "Accepted"}


def test_what_two_exchange_is_exchanged_at_once() -> None:
    """Neither is in the other's way."""
    head, _ = mirrored(Head(0), backend(), model("m", aliases=["x"]), model("n", aliases=["y"]))
    head, plan = mirrored(head, backend(), model("m", aliases=["y"]), model("n", aliases=["x"]))
    assert set(reasons(plan).values()) == {"Accepted"}
    assert head.documents.models["m"].aliases == ("y",)


def test_what_a_refused_document_would_have_claimed_is_free() -> None:
    """Unless it had it before."""
    head, _ = mirrored(Head(0), backend(), model("m", aliases=["x"]))
    wish = [model("m", aliases=["y", "z"], backend="nowhere"), model("n", aliases=["z"])]
    _, plan = mirrored(head, backend(), *wish)
    assert reasons(plan) == {"Backend/b": "Accepted", "Model/m": "UnknownReference", "Model/n": "Accepted"}
    _, plan = mirrored(head, backend(), wish[0], model("n", aliases=["x"]))
    assert reasons(plan)["Model/n"] == "Invalid"


def test_a_version_that_is_in_use_cannot_go() -> None:
    """The Model is refused then, not whoever was right until now; new users of it are."""
    head, _ = mirrored(
        Head(0), backend(), raw("Model", "m", versions=versions("v1", "v2")), release("r", "m", "v1", "v2")
    )
    wish = [backend(), raw("Model", "m", versions=versions("v1", "v3"))]
    _, plan = mirrored(head, *wish, release("r", "m", "v1", "v2"))
    assert reasons(plan) == {"Backend/b": "Accepted", "Model/m": "Invalid", "Release/r": "Accepted"}
    assert message(plan, "m") == 'spec.versions must keep "v2", which Release/r names'
    _, plan = mirrored(head, *wish, release("r", "m", "v1", "v3"))
    assert set(reasons(plan).values()) == {"Accepted"}
    _, plan = mirrored(head, *wish, release("s", "m", "v1", "v2"))
    assert reasons(plan)["Release/s"] == "UnknownReference"


def test_a_policy_that_lets_nobody_in_unseen_is_not_undone() -> None:
    """By a change of another one, nor by its end."""
    closed = raw("Policy", "closed", target={"workloads": ["shop"]}, failOpen=False)
    asks = raw("Policy", "asks", target={"workloads": ["shop"]}, requireConsumer=True)
    other = raw("Policy", "other", target={"workloads": ["x"]}, failOpen=True)
    _, plan = mirrored(Head(0), asks)
    assert reasons(plan) == {"Policy/asks": "Invalid"}
    head, plan = mirrored(Head(0), asks, closed)
    assert set(reasons(plan).values()) == {"Accepted"}
    opened = raw("Policy", "closed", target={"workloads": ["shop"]}, failOpen=True)
    _, plan = mirrored(head, asks, opened, other)
    assert reasons(plan) == {
        "Policy/asks": "Accepted",
        "Policy/closed": "Invalid",
        "Policy/other": "Accepted",
    }
    found, plan = mirrored(head, asks)
    assert (found, [kept.name for kept in plan.kept]) == (head, ["closed"])


def test_documents_that_cannot_be_told_apart_are_refused() -> None:
    """What was in force stays; what has no name is judged all the same."""
    head, _ = mirrored(Head(0), backend())
    twice = [backend(url="http://one"), backend(url="http://two")]
    found, plan = mirrored(head, *twice, RawDocument([], ""), RawDocument({"kind": "Tier"}, ""))
    assert found is head
    assert [found.reason for found in plan.judgements] == [Reason.INVALID] * 4
    long = RawDocument({"kind": "Tier", "metadata": {"name": "x" * 5_000}, "spec": {}}, "")
    _, plan = mirrored(head, backend(), long)
    assert all(len(found.name) < 300 and len(found.message) <= MAX_MESSAGE for found in plan.judgements)


def test_a_document_is_the_same_in_whatever_order_its_fields_stand() -> None:
    """An API server sorts them."""
    head, _ = mirrored(Head(0), backend(default=True))
    value = {"spec": {"default": True, "url": "http://h/v1"}, "metadata": {"name": "b"}, "kind": "Backend"}
    assert mirrored(head, RawDocument(value, ""))[0] is head


def test_a_thousand_documents_are_planned_within_a_second() -> None:
    """And in a tenth of it when nothing changes; a chain that breaks at its end breaks whole."""
    wish = [backend(f"b{number}", url=f"http://h{number}/v1") for number in range(100)]
    wish += [model(f"m{number}", f"b{number % 100}", aliases=[f"a{number}"]) for number in range(500)]
    wish += [raw("Policy", f"p{number}", target={"models": [f"m{number}"]}) for number in range(200)]
    wish += [consumer(f"c{number}") for number in range(200)]
    begin_s = time.process_time()
    head, plan = mirrored(Head(0), *wish)
    made_s = time.process_time() - begin_s
    assert len(head.stored) == 1_000
    begin_s = time.process_time()
    assert mirrored(head, *wish)[0] is head
    same_s = time.process_time() - begin_s
    chain = [model(f"n{number:03}", "b0", fallbacks=[f"n{number + 1:03}"]) for number in range(300)]
    begin_s = time.process_time()
    _, plan = mirrored(head, *wish, *chain)
    chain_s = time.process_time() - begin_s
    assert [found.reason for found in plan.judgements].count(Reason.UNKNOWN_REFERENCE) == 300
    assert (made_s < 1, same_s < 0.2, chain_s < 1) == (True, True, True), (made_s, same_s, chain_s)


# All together.

NAMES = st.sampled_from("abc")
FEW = st.lists(NAMES, max_size=2, unique=True)
VERSIONS = st.lists(st.sampled_from(["v1", "v2"]), min_size=1, max_size=2, unique=True)
WORKLOADS = st.sampled_from([["*"], ["a*"], ["a"]])


@st.composite
def papers(draw: st.DrawFn) -> RawDocument:
    """Return a document of a few that name each other and are in each other's way."""
    kind = draw(
        st.sampled_from(["Backend", "Model", "Model", "Tier", "Consumer", "Policy", "Release", "Pin"])
    )
    name = draw(NAMES)
    match kind:
        case "Backend":
            return backend(name, default=draw(st.booleans()))
        case "Model":
            on, aliases = draw(NAMES), draw(st.lists(st.sampled_from("abcxy"), max_size=1))
            here = versions(*draw(VERSIONS), on=on)
            return raw("Model", name, versions=here, aliases=aliases, fallbacks=draw(FEW))
        case "Tier":
            return raw("Tier", name, priority=draw(st.sampled_from([1, 2, "x"])))
        case "Consumer":
            return consumer(name, "t", tier=draw(NAMES))
        case "Pin":
            said = {"lastUserMessage": draw(st.sampled_from(["hi", "ho"]))}
            return raw("Pin", name, model=draw(NAMES), match=said, answer="x")
        case "Release":
            return release(name, draw(NAMES), *draw(st.permutations(["v1", "v2"])))
    field = draw(st.sampled_from(["failOpen", "requireConsumer"]))
    spec = {field: draw(st.booleans()), "target": {"workloads": draw(WORKLOADS)}}
    return raw("Policy", name, **spec)


def distinct(raws: Sequence[RawDocument]) -> list[RawDocument]:
    """Return `raws` without those whose kind and name another one has."""
    return list({(item.value["kind"], item.value["metadata"]["name"]): item for item in raws}.values())


WISHES = st.lists(papers(), max_size=14).map(distinct)
STEPS = st.lists(st.tuples(st.booleans(), WISHES), min_size=1, max_size=4)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.randoms(use_true_random=False))
def test_every_wish_holds(steps: list[tuple[bool, list[RawDocument]]], random: Any) -> None:
    """After any history of wishes and of changes by others."""
    head = Head(0)
    for is_wish, raws in steps:
        if is_wish:
            head = held(head, raws, random)
            continue
        for item in raws:
            try:
                head = after(head, item)
            except (InvalidDocumentsError, OwnedError):
                continue


def held(head: Head, raws: list[RawDocument], random: Any) -> Head:
    """Follow a wish, and check all that is promised of it."""
    found, plan = mirrored(head, *raws)
    wanted = {(item.value["kind"], item.value["metadata"]["name"]): item.value for item in raws}
    # The set is right, and what others wrote is as it was.
    assemble(list(found.parsed.values()))
    theirs = {key: item for key, item in head.stored.items() if not item.owner}
    assert {key: item for key, item in found.stored.items() if not item.owner} == theirs
    # One verdict each; what is accepted is there as it is wanted, what is refused as it was.
    assert [(item.kind, item.name) for item in plan.judgements] == sorted(wanted)
    for judged in plan.judgements:
        if judged.reason is Reason.ACCEPTED:
            assert (found.stored[judged.key].value, judged.message) == (wanted[judged.key], "")
            assert found.stored[judged.key].owner == OWNER
        else:
            assert found.stored.get(judged.key) == head.stored.get(judged.key)
            assert judged.message
    unwanted = {key for key, item in found.stored.items() if item.owner and key not in wanted}
    assert unwanted == {(item.kind, item.name) for item in plan.kept}
    # Once more, and in any order.
    assert mirrored(found, *raws)[0] is found
    random.shuffle(raws)
    again, same = mirrored(head, *raws)
    assert (same.judgements, same.kept, dict(again.stored)) == (
        plan.judgements,
        plan.kept,
        dict(found.stored),
    )
    return found
