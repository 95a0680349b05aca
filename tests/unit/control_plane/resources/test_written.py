"""Documents as they are kept."""

import json

from control_plane.resources.loading import RawDocument, read_text
from control_plane.resources.parsing import Document, parse_document
from control_plane.resources.written import same_content, written_content


def content(text: str) -> bytes:
    """Return what is kept of a text with one document."""
    found = parse_document(read_text(text.encode(), "p.yaml")[0])
    assert isinstance(found, Document), found
    return written_content(found)


def test_a_document_is_kept_as_written() -> None:
    """Durations, order, nulls and names of any script; no defaults are filled in."""
    spec = "{model: m, answer: 您好 \U0001f600, match: {lastUserMessage: ''}}"
    text = f"kind: Pin\nmetadata: {{name: p}}\nspec: {spec}\n"
    kept = content(text)
    assert kept.isascii()
    assert json.loads(kept) == read_text(text.encode(), "p.yaml")[0].value
    assert list(json.loads(kept)["spec"]) == ["model", "answer", "match"]
    assert content(
        "kind: Policy\nmetadata: {name: p}\nspec: {batch: {slo: null, maxWait: 1m30s}}\n"
    ).endswith(b'"spec":{"batch":{"slo":null,"maxWait":"1m30s"}}}')


def test_a_status_is_left_out() -> None:
    """Answers carry one, and may be sent back."""
    text = "kind: Tier\nmetadata: {name: t}\nstatus: {phase: x}\nspec: {}\n"
    assert content(text) == b'{"kind":"Tier","metadata":{"name":"t"},"spec":{}}'


def test_what_yaml_knows_beyond_json_becomes_json() -> None:
    """A set is a list in order; times are text."""
    kept = content("kind: Policy\nmetadata: {name: p}\nspec: {retry: {retryOn: !!set {reset, connect}}}\n")
    assert json.loads(kept)["spec"]["retry"]["retryOn"] == ["connect", "reset"]


def test_the_order_of_fields_makes_no_difference() -> None:
    """Any other difference does: a null, a number's form, true for 1."""
    assert same_content(b'{"a":1,"b":{"c":2,"d":3}}', b'{"b":{"d":3,"c":2},"a":1}')
    for other in (b'{"a":1,"b":null}', b'{"a":1.0}', b'{"a":true}', b'{"a":[1]}'):
        assert not same_content(b'{"a":1}', other)


def test_the_value_that_was_read_is_not_changed() -> None:
    """It belongs to the caller."""
    value = {"kind": "Tier", "metadata": {"name": "t"}, "spec": {}, "status": {}}
    found = parse_document(RawDocument(value, "x"))
    assert isinstance(found, Document)
    written_content(found)
    assert "status" in value
