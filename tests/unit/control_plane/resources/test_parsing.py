"""One document alone: envelope and fields."""

import time

import pytest

from control_plane.resources.loading import RawDocument, read_text
from control_plane.resources.parsing import (
    MAX_PROBLEMS,
    MAX_PROBLEMS_EACH,
    Document,
    nearest,
    parse_document,
    parse_documents,
)


def problems(text: str) -> list[tuple[str, str, str]]:
    """Return document, field and message of every problem of `text`."""
    _, found = parse_documents(read_text(text.encode(), "p.yaml"))
    return [(problem.document, problem.field, problem.message) for problem in found]


BACKEND = "kind: Backend\nmetadata: {name: b}\nspec: {url: 'http://h/v1'%s}\n"


def test_api_version_may_be_left_out_but_not_be_another() -> None:
    """An absent apiVersion is ours; a wrong one is refused."""
    assert problems(BACKEND % "") == []
    assert problems("apiVersion: outrigger.dev/v1alpha1\n" + BACKEND % "") == []
    ((document, field, message),) = problems("apiVersion: v1\n" + BACKEND % "")
    assert (document, field) == ("Backend/b", "apiVersion")
    assert "outrigger.dev/v1alpha1" in message


@pytest.mark.parametrize(
    ("text", "field", "hint"),
    [
        (BACKEND % ", urll: x", "spec.urll", '"url"'),
        (BACKEND % ", timeouts: {stream_idle: 5s}", "spec.timeouts.stream_idle", '"streamIdle"'),
        (BACKEND % ", quota: {concurency: 5}", "spec.quota.concurency", '"concurrency"'),
        (BACKEND % ", zzz: 1", "spec.zzz", "known here: url, default"),
        (
            "kind: Backend\nmetadata: {name: b, lables: {}}\nspec: {url: 'http://h'}",
            "metadata.lables",
            "name",
        ),
        ("kind: Backend\nmetadata: {name: b}\nspecs: {}\nspec: {url: 'http://h'}", "specs", '"spec"'),
        ("kind: Backnd\nmetadata: {name: b}\nspec: {}", "kind", '"Backend"'),
    ],
)
def test_an_unknown_field_is_named_with_the_nearest_known_one(text: str, field: str, hint: str) -> None:
    """At every level: envelope, kind, metadata, spec and below."""
    ((_, found, message),) = problems(text)
    assert found == field
    assert hint in message


def test_a_field_in_a_list_is_found_by_position() -> None:
    """The path counts list items, and the hint knows the item's fields."""
    text = "kind: Model\nmetadata: {name: m}\nspec: {versions: [{name: a, backend: b, weigth: 5}]}"
    ((document, field, message),) = problems(text)
    assert (document, field) == ("Model/m", "spec.versions[0].weigth")
    assert 'did you mean "weight"?' in message


def test_every_problem_is_found_at_once() -> None:
    """All documents, and all fields of each, are looked at."""
    found = problems(
        "kind: Backend\nmetadata: {name: b}\nspec: {url: 5, default: 'yes', timeouts: {connect: 5}}\n"
        "---\nkind: Tier\nmetadata: {}\nspec: []\n"
        "---\njust text\n"
    )
    assert [(document, field) for document, field, _ in found] == [
        ("Backend/b", "spec.url"),
        ("Backend/b", "spec.default"),
        ("Backend/b", "spec.timeouts.connect"),
        ("document 2", "metadata.name"),
        ("document 2", "spec"),
        ("document 3", ""),
    ]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("kind: Tier\nspec: {}", "metadata"),
        ("kind: Tier\nmetadata: {name: t}", "spec"),
        ("kind: Tier\nmetadata: {name: 5}\nspec: {}", "metadata.name"),
        ("kind: Tier\nmetadata: {name: 'a b'}\nspec: {}", "metadata.name"),
        ("metadata: {name: t}\nspec: {}", "kind"),
        ("kind: [a]\nmetadata: {name: t}\nspec: {}", "kind"),
        ("kind: Tier\nmetadata: {name: t}\nspec:", "spec"),
        ("kind: Tier\nmetadata: {name: t}\nspec: {1: 2}", "spec[1]"),
    ],
)
def test_a_broken_envelope_is_refused_at_its_field(text: str, field: str) -> None:
    """What is missing or of the wrong type is named."""
    assert [found for _, found, _ in problems(text)] == [field]


def test_no_message_quotes_a_value() -> None:
    """A key pasted into the wrong field does not reach the terminal."""
    text = BACKEND % ", credentials: {env: 'sk-secret-1'}, protocol: sk-secret-2, http: sk-secret-3"
    found = problems(text)
    assert len(found) == 3
    assert "secret" not in str(found)


def test_nearest_ignores_case_and_underscores() -> None:
    """snake_case is the most common slip."""
    assert nearest("max_increase", ["maxIncrease", "maxRatio"]) == 'did you mean "maxIncrease"?'


def test_a_status_beside_the_spec_is_accepted() -> None:
    """Answers carry one, and may be sent back; it says nothing about the document."""
    value = {"kind": "Tier", "metadata": {"name": "t"}, "spec": {}, "status": ["anything"]}
    assert isinstance(parse_document(RawDocument(value, "x")), Document)


@pytest.mark.parametrize(
    ("value", "hint"),
    [("azure-openia", 'did you mean "azure-openai"?'), ("OpenAI", 'did you mean "openai"?'), ("grpc", "")],
)
def test_a_near_value_is_proposed(value: str, hint: str) -> None:
    """The values there are stand in every message; what was written is not quoted."""
    spec = {"url": "http://h/v1", "protocol": value}
    found = parse_document(RawDocument({"kind": "Backend", "metadata": {"name": "b"}, "spec": spec}, "x"))
    assert not isinstance(found, Document)
    (problem,) = found
    assert problem.message == "must be 'openai' or 'azure-openai'" + (f"; {hint}" if hint else "")


def test_what_is_wrong_in_every_line_is_told_within_bounds() -> None:
    """A hundred thousand unknown fields, or ten thousand wrong documents, cost neither minutes nor memory."""
    many = {f"field{number}": 1 for number in range(100_000)}
    envelope = {"kind": "Tier", "metadata": {"name": "t"}, "spec": {}}
    for value in ({**envelope, "spec": many}, {**envelope, **many}, {**envelope, "metadata": many}):
        began = time.monotonic()
        _, problems = parse_documents([RawDocument(value, "x")])
        assert 1 <= len(problems) <= MAX_PROBLEMS_EACH
        assert time.monotonic() - began < 5
    _, problems = parse_documents(RawDocument({**envelope, "spec": None}, "x") for _ in range(10_000))
    assert len(problems) == MAX_PROBLEMS + 1
    assert "the rest is not looked at" in problems[-1].message


def test_odd_names_of_fields_are_cut_and_quoted() -> None:
    """A name of a megabyte makes no message of one."""
    name = 'x"y' + "z" * 1_000_000
    value = {"kind": "Tier", "metadata": {"name": "t"}, "spec": {name: 1}}
    _, (problem,) = parse_documents([RawDocument(value, "x")])
    assert problem.field.startswith('spec["x\\"yzzz')
    assert len(problem.field) < 100
