"""Which of the wanted forms can be in force together; `test_mirroring` has the rest."""

from __future__ import annotations

from control_plane.registry.planning import parse_all
from control_plane.registry.settling import MAX_ROUNDS, TANGLED, Forms, Settled, settled
from control_plane.registry.verdicts import Reason
from control_plane.resources.loading import RawDocument
from tests.harness.registries import backend, consumer, model, raw


def forms(*raws: RawDocument) -> Forms:
    """Return documents by kind and name."""
    return {(found.kind, found.name): found for found in parse_all(raws)}


def names(found: Settled) -> list[str]:
    """Return what is in force."""
    return sorted(f"{kind}/{name}" for kind, name in found.forms)


def test_what_is_unchanged_is_the_very_object() -> None:
    """By which the caller knows that there is nothing to write."""
    old = forms(backend(), model())
    found = settled({}, old, old, ())
    assert all(found.forms[key] is form for key, form in old.items())
    assert (found.refused, found.kept) == ({}, {})


def test_what_is_wrong_by_itself_stays_with_all_that_it_names() -> None:
    """Though nobody wants that any more."""
    old = forms(backend(), model())
    found = settled({}, old, {}, [("Model", "m")])
    assert (names(found), found.kept) == (
        ["Backend/b", "Model/m"],
        {("Backend", "b"): "Model/m still names it"},
    )
    assert settled({}, old, {}, ()).forms == {}


def test_a_refusal_goes_through_all_that_builds_on_it() -> None:
    """Each is told of what it names itself; what does not build on it is not touched."""
    pin = raw("Pin", "p", model="n", match={"lastUserMessage": "hi"}, answer="x")
    new = forms(model("m", "nowhere"), model("n", "b", fallbacks=["m"]), pin, backend(), consumer())
    found = settled({}, {}, new, ())
    assert names(found) == ["Backend/b", "Consumer/c"]
    assert {key[1]: why for key, (_, why) in found.refused.items()} == {
        "m": 'spec.versions[0].backend names the Backend "nowhere", which does not exist',
        "n": 'spec.fallbacks[0] names the Model "m", which is not accepted',
        "p": 'spec.model names the Model "n", which is not accepted',
    }


def test_documents_of_others_have_the_better_right() -> None:
    """An alias of theirs is no name here, and what they name stays."""
    others = forms(backend(), model("theirs", aliases=["m"], fallbacks=["n"]))
    old = forms(model("n"))
    found = settled(others, old, forms(model("m")), ())
    assert names(found) == ["Model/n"]
    assert found.refused == {("Model", "m"): (Reason.INVALID, "metadata.name is an alias of Model/theirs")}


def test_a_circle_is_accepted_or_refused_as_one() -> None:
    """Two Models may stand in for each other."""
    circle = [model("m", fallbacks=["n"]), model("n", fallbacks=["m"])]
    assert names(settled({}, {}, forms(backend(), *circle), ())) == ["Backend/b", "Model/m", "Model/n"]
    assert names(settled({}, {}, forms(*circle), ())) == []
    old = forms(backend(), *circle)
    assert names(settled({}, old, {}, ())) == []


def test_a_long_chain_of_contradictions_is_given_up() -> None:
    """Each Model wants the alias of the next one, and the last one's is taken: a short chain is followed."""

    def wished(length: int) -> Settled:
        taken = forms(backend(), model("theirs", aliases=["taken"]))
        ends = [f"a{number}" for number in range(length)]
        old = forms(*(model(f"m{number:03}", aliases=[ends[number]]) for number in range(length)))
        wants = [*ends[1:], "taken"]
        new = forms(*(model(f"m{number:03}", aliases=[wants[number]]) for number in range(length)))
        found = settled(taken, old, new, ())
        assert found.forms == old
        return found

    told = [message for _, message in wished(2 * MAX_ROUNDS).refused.values()]
    assert told.count(TANGLED) == MAX_ROUNDS
    assert TANGLED not in [message for _, message in wished(MAX_ROUNDS - 1).refused.values()]
