"""Who names whom."""

import pytest

from control_plane.resources.documents import Documents, check_documents
from control_plane.resources.loading import read_text
from control_plane.resources.users import users_of, users_of_secret

TEXT = b"""
kind: Backend
metadata: {name: b}
spec: {url: 'http://h/v1', credentials: {secretRef: {name: s, key: k}}}
---
kind: Backend
metadata: {name: spare}
spec: {url: 'http://h/v1'}
---
kind: Tier
metadata: {name: gold}
spec: {}
---
kind: Model
metadata: {name: m}
spec: {versions: [{name: v, backend: spare}, {name: w, backend: b}]}
---
kind: Model
metadata: {name: n}
spec:
  versions: [{name: v, backend: b}]
  fallbacks: [m]
  degrade: [{tier: gold, model: m}]
---
kind: Consumer
metadata: {name: c}
spec: {tenant: t, tier: gold}
---
kind: Release
metadata: {name: r}
spec: {model: m, from: v, to: w}
---
kind: Pin
metadata: {name: p}
spec: {model: m, match: {lastUserMessage: hi}, answer: there}
---
kind: Policy
metadata: {name: q}
spec: {target: {models: [m, n], tiers: [gold]}, hold: {max: 1s}, cache: {semantic: {embedder: m}}}
"""


@pytest.fixture(scope="module")
def documents() -> Documents:
    """One set with every kind of reference."""
    return check_documents(read_text(TEXT, "p.yaml"))


@pytest.mark.parametrize(
    ("kind", "name", "users"),
    [
        ("Backend", "b", ["Model/m spec.versions[1].backend", "Model/n spec.versions[0].backend"]),
        ("Backend", "spare", ["Model/m spec.versions[0].backend"]),
        (
            "Model",
            "m",
            [
                "Model/n spec.fallbacks[0]",
                "Model/n spec.degrade[0].model",
                "Release/r spec.model",
                "Pin/p spec.model",
                "Policy/q spec.cache.semantic.embedder",
            ],
        ),
        ("Model", "n", []),
        ("Tier", "gold", ["Model/n spec.degrade[0].tier", "Consumer/c spec.tier"]),
        ("Consumer", "c", []),
        ("Policy", "q", []),
        ("Backend", "nobody", []),
    ],
)
def test_each_field_that_names_a_document_is_found(
    documents: Documents, kind: str, name: str, users: list[str]
) -> None:
    """Patterns of a Policy's target name nothing: they may match no document."""
    found = users_of(documents, kind, name)
    assert [f"{problem.document} {problem.field}" for problem in found] == users
    assert {problem.message for problem in found} <= {f'names the {kind} "{name}"'}


def test_a_secret_is_used_by_backends(documents: Documents) -> None:
    """By its name, whatever its key."""
    (problem,) = users_of_secret(documents, "s")
    assert (problem.document, problem.field) == ("Backend/b", "spec.credentials.secretRef.name")
    assert users_of_secret(documents, "other") == ()
