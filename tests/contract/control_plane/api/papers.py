"""Documents that tests put."""

from __future__ import annotations

from typing import Any


def document(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    """Return a document."""
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def backend(name: str = "openai", **spec: Any) -> dict[str, Any]:
    """Return a Backend."""
    return document("Backend", name, **{"url": "https://api.openai.com/v1", **spec})


def model(name: str = "mini", on: str = "openai", **spec: Any) -> dict[str, Any]:
    """Return a Model with one version on the Backend `on`."""
    return document("Model", name, versions=[{"name": "stable", "backend": on}], **spec)


def consumer(name: str = "team-a") -> dict[str, Any]:
    """Return a Consumer."""
    return document("Consumer", name, tenant=name)
