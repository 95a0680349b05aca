"""References between documents."""

import pytest

from control_plane.resources.documents import check_documents
from control_plane.resources.loading import read_text
from control_plane.resources.parsing import parse_documents
from control_plane.resources.problems import InvalidDocumentsError
from control_plane.resources.references import MAX_HINTS, reference_problems

BASE = """
kind: Backend
metadata: {name: b}
spec: {url: 'http://h/v1'}
---
kind: Model
metadata: {name: m}
spec: {aliases: [fast], versions: [{name: stable, backend: b}, {name: next, backend: b}]}
---
"""


def problems(text: str) -> list[tuple[str, str, str]]:
    """Return document, field and message of every problem of `text` beside a Backend and a Model."""
    try:
        check_documents(read_text((BASE + text).encode(), "p.yaml"))
    except InvalidDocumentsError as error:
        return [(problem.document, problem.field, problem.message) for problem in error.problems]
    return []


MODEL = "kind: Model\nmetadata: {name: n}\nspec: {versions: [{name: v, backend: b}]%s}"


@pytest.mark.parametrize(
    ("text", "field", "word"),
    [
        (
            "kind: Model\nmetadata: {name: n}\nspec: {versions: [{name: v, backend: x}]}",
            "spec.versions[0].backend",
            "Backend",
        ),
        (MODEL % ", fallbacks: [m, x]", "spec.fallbacks[1]", 'Model "x"'),
        (MODEL % ", fallbacks: [n]", "spec.fallbacks[0]", "itself"),
        (MODEL % ", degrade: [{userAgent: '*', model: x}]", "spec.degrade[0].model", "Model"),
        (MODEL % ", degrade: [{userAgent: '*', model: n}]", "spec.degrade[0].model", "itself"),
        (MODEL % ", degrade: [{tier: gold, model: m}]", "spec.degrade[0].tier", 'Tier "gold"'),
        (MODEL % ", aliases: [m]", "spec.aliases[0]", "Model/m"),
        (MODEL % ", aliases: [fast]", "spec.aliases[0]", "Model/m"),
        (MODEL % ", aliases: [x, x]", "spec.aliases[1]", "Model/n"),
        (MODEL % ", aliases: [n]", "spec.aliases[0]", "Model/n"),
        ("kind: Consumer\nmetadata: {name: c}\nspec: {tenant: t, tier: gold}", "spec.tier", "Tier"),
        ("kind: Release\nmetadata: {name: r}\nspec: {model: x, from: a, to: c}", "spec.model", "Model"),
        (
            "kind: Release\nmetadata: {name: r}\nspec: {model: m, from: stable, to: c}",
            "spec.to",
            'version "c"',
        ),
        (
            "kind: Pin\nmetadata: {name: p}\nspec: {model: x, match: {lastUserMessage: hi}, answer: a}",
            "spec.model",
            "Model",
        ),
    ],
)
def test_a_broken_reference_names_the_field_and_the_other_object(text: str, field: str, word: str) -> None:
    """Whatever a document names must be there, and be another than itself."""
    ((_, found, message),) = problems(text)
    assert found == field
    assert word in message


def test_whole_references_are_accepted() -> None:
    """Everything that a document may name, named."""
    assert not problems(
        MODEL % ", fallbacks: [m], degrade: [{tier: gold, model: m}], aliases: [slow]"
        + "\n---\nkind: Tier\nmetadata: {name: gold}\nspec: {}"
        + "\n---\nkind: Consumer\nmetadata: {name: c}\nspec: {tenant: t, tier: gold}"
        + "\n---\nkind: Release\nmetadata: {name: r}\nspec: {model: m, from: stable, to: next}"
        + "\n---\nkind: Pin\nmetadata: {name: p}\nspec: {model: m, match: {lastUserMessage: hi}, answer: a}"
    )


def test_two_defaults_are_refused_naming_both() -> None:
    """Only one Backend is where requests go that nobody has read."""
    one = "kind: Backend\nmetadata: {name: %s}\nspec: {url: 'http://h', default: true}"
    ((document, field, message),) = problems("\n---\n".join(one % name for name in ("x", "y")))
    assert (document, field) == ("Backend/y", "spec.default")
    assert "Backend/x" in message


def test_a_near_name_is_proposed_for_a_broken_reference() -> None:
    """Of the same kind; for the first ones, since comparing with thousands of names takes time."""
    backends = [
        f"kind: Backend\nmetadata: {{name: backend-{n}}}\nspec: {{url: 'http://h/v1'}}" for n in range(3)
    ]
    model = "kind: Model\nmetadata: {name: m%d}\nspec: {versions: [{name: v, backend: Backend_2}]}"
    texts = [*backends, *(model % number for number in range(30))]
    with pytest.raises(InvalidDocumentsError) as error:
        check_documents(read_text("\n---\n".join(texts).encode(), "p.yaml"))
    messages = [problem.message for problem in error.value.problems]
    assert messages[0] == 'names the Backend "Backend_2", which does not exist; did you mean "backend-2"?'
    assert sum("did you mean" in message for message in messages) == MAX_HINTS


def test_a_near_version_is_proposed() -> None:
    """Of the Model that is named."""
    text = (
        b"kind: Backend\nmetadata: {name: b}\nspec: {url: 'http://h/v1'}\n---\n"
        b"kind: Model\nmetadata: {name: m}\nspec: {versions: [{name: stable, backend: b}]}\n---\n"
        b"kind: Release\nmetadata: {name: r}\nspec: {model: m, from: stabel, to: other}\n"
    )
    with pytest.raises(InvalidDocumentsError) as error:
        check_documents(read_text(text, "p.yaml"))
    first, second = (problem.message for problem in error.value.problems)
    assert first.endswith('does not have; did you mean "stable"?')
    assert second.endswith("does not have")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ("Backend", "spec.versions[0].backend"),
        ("Model", "spec.fallbacks[0]"),
        ("Tier", "spec.tier"),
        ("Pin", "spec.model"),
        ("Policy", "spec.cache.semantic.embedder"),
        ("Release", None),
    ],
)
def test_a_change_of_one_kind_is_looked_for_where_that_kind_is_named(changed: str, field: str | None) -> None:
    """In documents of the kind itself and of those that name it, which is where something can have broken."""
    text = (
        b"kind: Model\nmetadata: {name: m}\n"
        b"spec: {versions: [{name: v, backend: gone}], fallbacks: [gone]}\n---\n"
        b"kind: Consumer\nmetadata: {name: c}\nspec: {tenant: t, tier: gone}\n---\n"
        b"kind: Pin\nmetadata: {name: p}\nspec: {model: gone, match: {lastUserMessage: x}, answer: y}\n---\n"
        b"kind: Policy\nmetadata: {name: q}\nspec: {cache: {semantic: {embedder: gone}}}\n"
    )
    parsed, _ = parse_documents(read_text(text, "p.yaml"))
    found = [problem.field for problem in reference_problems(parsed, {changed})]
    assert field in found if field else not found
    assert len(reference_problems(parsed)) == 5


def test_an_embedder_is_our_own_or_a_model() -> None:
    """`local` needs none, whoever writes it."""
    text = "kind: Policy\nmetadata: {name: p}\nspec: {cache: {semantic: {embedder: %s}}}"
    assert problems(text % "local") == []
    ((document, field, message),) = problems(text % "embed-3")
    assert (document, field) == ("Policy/p", "spec.cache.semantic.embedder")
    assert message == 'names the Model "embed-3", which does not exist'


def test_two_pins_of_one_question_are_refused_naming_both() -> None:
    """Nobody could say which one answers. Another Model's may have the same question."""
    model = "kind: Model\nmetadata: {name: %s}\nspec: {versions: [{name: v, backend: b}]}\n---\n"
    pin = "kind: Pin\nmetadata: {name: %s}\nspec: {model: %s, match: {lastUserMessage: hi}, answer: a}\n---\n"
    text = model % "n" + pin % ("one", "m") + pin % ("other", "n")
    assert problems(text) == []
    ((document, field, message),) = problems(text + pin % ("two", "m"))
    assert (document, field) == ("Pin/two", "spec.match.lastUserMessage")
    assert message.startswith("is answered by Pin/one too")


RELEASE = "kind: Release\nmetadata: {name: %s}\nspec: {model: m, from: stable, to: next, match: {%s}}\n---\n"


@pytest.mark.parametrize(
    ("one", "other", "disjoint"),
    [
        ("", "", False),
        ("tiers: [gold]", "", False),
        ("tiers: [gold]", "tiers: [free]", True),
        ("tiers: [gold, free]", "tiers: [free]", False),
        ("consumers: [a]", "consumers: [b]", True),
        ("headers: {x-a: b}", "headers: {X-A: c}", True),
        ("headers: {x-a: b}", "headers: {x-b: c}", False),
        ("userAgents: [a]", "userAgents: [b]", False),
        ("workloads: [shop]", "workloads: [web]", True),
        ("workloads: ['shop*']", "workloads: ['web*', web]", True),
        ("workloads: ['shop*']", "workloads: [shop-1]", False),
        ("workloads: ['shop*']", "workloads: ['shop-a*']", False),
        ("workloads: ['*']", "workloads: [web]", False),
        ("workloads: [shop]", "", False),
        ("tiers: [gold], consumers: [a]", "tiers: [gold], consumers: [b]", True),
    ],
)
def test_two_releases_of_a_model_need_other_callers(one: str, other: str, disjoint: bool) -> None:
    """Who is meant by both could get either; the later one is blamed and names the earlier."""
    found = problems(RELEASE % ("r", one) + RELEASE % ("s", other))
    assert [(document, field) for document, field, _ in found] == (
        [] if disjoint else [("Release/s", "spec.model")]
    )
    assert disjoint or "has Release/r already" in found[0][2]


def test_two_releases_of_a_model_may_have_other_versions() -> None:
    """Each decides between its own two."""
    four = ", ".join(f"{{name: {name}, backend: b}}" for name in "abcd")
    model = f"kind: Model\nmetadata: {{name: n}}\nspec: {{versions: [{four}]}}\n---\n"
    release = "kind: Release\nmetadata: {name: %s}\nspec: {model: n, from: %s, to: %s}\n---\n"
    assert not problems(model + release % ("r", "a", "b") + release % ("s", "c", "d"))
    assert problems(model + release % ("r", "a", "b") + release % ("s", "b", "d"))
