"""Who names whom: what stands in the way of a deletion (pure)."""

from __future__ import annotations

from collections.abc import Iterator

from control_plane.resources.documents import Documents
from control_plane.resources.kinds.backend import Credentials
from control_plane.resources.kinds.policy import LOCAL_EMBEDDER
from control_plane.resources.loading import FieldPath
from control_plane.resources.parsing import field_text
from control_plane.resources.problems import Problem

Place = tuple[str, FieldPath]
"""The document that names another, and the field within its `spec`."""


def users_of(documents: Documents, kind: str, name: str) -> tuple[Problem, ...]:
    """Return a problem for each field of `documents` that names the document `kind` `name`.

    Patterns of a Policy's target name nothing: they are allowed to match no document.
    """
    if kind == "Backend":
        found = _users_of_backend(documents, name)
    elif kind == "Model":
        found = _users_of_model(documents, name)
    elif kind == "Tier":
        found = _users_of_tier(documents, name)
    else:
        return ()
    return _problems(found, f'names the {kind} "{name}"')


def users_of_secret(documents: Documents, name: str) -> tuple[Problem, ...]:
    """Return a problem for each field of `documents` that names the stored secret `name`."""
    return _problems(_users_of_secret(documents, name), f'names the secret "{name}"')


def _users_of_secret(documents: Documents, name: str) -> Iterator[Place]:
    for backend, spec in documents.backends.items():
        if _is_secret(spec.credentials, name):
            yield f"Backend/{backend}", ("credentials", "secretRef", "name")
    for release, release_spec in documents.releases.items():
        for index, webhook in enumerate(release_spec.notify):
            if _is_secret(webhook.secret, name):
                yield f"Release/{release}", ("notify", index, "secret", "secretRef", "name")


def _is_secret(credentials: Credentials | None, name: str) -> bool:
    return bool(credentials and credentials.secret_ref and credentials.secret_ref.name == name)


def _problems(places: Iterator[Place], message: str) -> tuple[Problem, ...]:
    return tuple(Problem(document, field_text(("spec", *path)), message) for document, path in places)


def _users_of_backend(documents: Documents, name: str) -> Iterator[Place]:
    for model, spec in documents.models.items():
        for index, version in enumerate(spec.versions):
            if version.backend == name:
                yield f"Model/{model}", ("versions", index, "backend")


def _users_of_model(documents: Documents, name: str) -> Iterator[Place]:
    for model, spec in documents.models.items():
        for index, fallback in enumerate(spec.fallbacks):
            if fallback == name:
                yield f"Model/{model}", ("fallbacks", index)
        for index, rule in enumerate(spec.degrade):
            if rule.model == name:
                yield f"Model/{model}", ("degrade", index, "model")
    for release, release_spec in documents.releases.items():
        if release_spec.model == name:
            yield f"Release/{release}", ("model",)
    for pin, pin_spec in documents.pins.items():
        if pin_spec.model == name:
            yield f"Pin/{pin}", ("model",)
    # A Model that is called as our own embedder is, is not meant by that.
    if name != LOCAL_EMBEDDER:
        yield from _users_of_embedder(documents, name)


def _users_of_embedder(documents: Documents, name: str) -> Iterator[Place]:
    for policy, policy_spec in documents.policies.items():
        if policy_spec.cache.semantic.embedder == name:
            yield f"Policy/{policy}", ("cache", "semantic", "embedder")
    for model, spec in documents.models.items():
        for index, version in enumerate(spec.versions):
            if version.policy and version.policy.cache.semantic.embedder == name:
                yield f"Model/{model}", ("versions", index, "policy", "cache", "semantic", "embedder")


def _users_of_tier(documents: Documents, name: str) -> Iterator[Place]:
    for model, spec in documents.models.items():
        for index, rule in enumerate(spec.degrade):
            if rule.tier == name:
                yield f"Model/{model}", ("degrade", index, "tier")
    for consumer, consumer_spec in documents.consumers.items():
        if consumer_spec.tier == name:
            yield f"Consumer/{consumer}", ("tier",)
