"""What documents claim for themselves alone."""

from control_plane.registry.planning import parse_all
from control_plane.resources.claims import Claims
from control_plane.resources.loading import RawDocument
from control_plane.resources.parsing import Document
from tests.harness.registries import backend, model, raw


def parsed(document: RawDocument) -> Document:
    """Return a document as the checks see it."""
    return parse_all([document])[0]


def test_of_two_that_claim_the_same_the_later_one_is_blamed() -> None:
    """It names the earlier one; what it claims besides is its own when it is taken in anyway."""
    claims = Claims()
    pin = {"model": "m", "match": {"lastUserMessage": "hi"}, "answer": "x"}
    release = {"model": "m", "from": "a", "to": "b"}
    pairs = [
        (backend("a", default=True), backend("b", default=True)),
        (model("a", aliases=["fast"]), model("b", aliases=["fast"])),
        (model("c", aliases=["d"]), model("d")),
        (raw("Pin", "a", **pin), raw("Pin", "b", **pin)),
        (raw("Release", "a", **release), raw("Release", "b", **release)),
    ]
    for first, second in pairs:
        one, other = parsed(first), parsed(second)
        assert claims.take(one) == []
        ((_, message),) = claims.take(other)
        assert one.id in message


def test_what_is_blamed_and_not_taken_in_claims_nothing() -> None:
    """Its other claims are free for those that come after it."""
    claims = Claims()
    claims.take(parsed(model("a", aliases=["fast"])))
    assert claims.take(parsed(model("b", aliases=["fast", "slow"])), anyway=False)
    assert claims.take(parsed(model("c", aliases=["slow"])), anyway=False) == []


def test_names_come_before_aliases_where_they_are_told_first() -> None:
    """Then an alias is to blame, wherever its Model stands."""
    claims = Claims()
    one, other = parsed(model("a", aliases=["b"])), parsed(model("b"))
    for document in (one, other):
        claims.name(document)
    assert claims.take(one) == [(("spec", "aliases", 0), '"b" already means Model/b')]
    assert claims.take(other) == []
