"""Kubernetes' own schemas, read once a version: `kubernetes_validate.validate` reads them at each call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema.validators import Draft202012Validator
from kubernetes_validate.utils import all_versions, schema_contents
from referencing import Registry, Resource


def check(item: Mapping[str, Any], version: str = "1.36") -> None:
    """Check one object strictly: an unknown field is refused too.

    Raises:
        jsonschema.ValidationError: it is not valid.
    """
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", item["apiVersion"])
    _validator(f"{item['kind'].lower()}-{group}", _release(version)).validate(item)


@cache
def _release(version: str) -> str:
    found: str = next(known for known in all_versions() if known.startswith(f"{version}."))
    return found


@cache
def _registry(release: str) -> Registry[Any]:
    definitions = _contents("_definitions", release)
    empty: Registry[Any] = Registry()
    registry: Registry[Any] = empty.with_resource(definitions["$id"], Resource.from_contents(definitions))
    return registry


@cache
def _validator(name: str, release: str) -> Draft202012Validator:
    return Draft202012Validator(_contents(name, release), registry=_registry(release))


def _contents(name: str, release: str) -> Any:
    return schema_contents(f"kubernetes-json-schema/v{release}-local-strict/{name}.json", release)
