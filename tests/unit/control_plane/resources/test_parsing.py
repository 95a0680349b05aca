"""One document alone: envelope and fields."""

import pytest

from control_plane.resources.loading import read_text
from control_plane.resources.parsing import nearest, parse_documents


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
