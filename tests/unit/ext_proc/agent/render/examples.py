"""Snapshots that the renderers are tested with, and their golden files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ext_proc.agent.render.attempts import attempts_script
from ext_proc.contract.snapshot import (
    Backend,
    CredentialRef,
    Model,
    PolicyLayer,
    Quota,
    Snapshot,
    Timeouts,
    Version,
)

GOLDEN = Path(__file__).parents[1] / "golden"
REGENERATE = "REGENERATE_GOLDEN"

OPENAI = Backend(
    "openai",
    "https://api.openai.com/v1",
    credential=CredentialRef("env", "OPENAI_API_KEY"),
    quota=Quota(3_500, 90_000, 50),
)
AZURE = Backend(
    "azure",
    "https://example.openai.azure.com",
    "azure-openai",
    "2024-06-01",
    CredentialRef("secret", "azure", "key"),
)
LOCAL = Backend("local", "http://127.0.0.1:8000/base", timeouts=Timeouts(1_500, 60_000, 10_000), http="1.1")
SIX = Backend("six", "https://[2001:db8::1]:8443", quota=Quota(concurrency=250), http="2")
PLAIN = Backend("plain", "http://models.internal/v1")

FULL = Snapshot(
    version="full",
    default_backend="openai",
    backends={backend.name: backend for backend in (OPENAI, AZURE, LOCAL, SIX, PLAIN)},
    models={"gpt": Model("gpt", (Version("stable", "openai", "gpt"),))},
    policies=(
        PolicyLayer("all", settings={"retry.attempts": 5, "retry.budget": 0.5}),
        PolicyLayer("gpt", models=("gpt",), settings={"retry.retry_on": ("503", "connect")}),
    ),
)
CLOSED = Snapshot(version="closed", fail_open=False, default_backend="plain", backends={"plain": PLAIN})
EMPTY = Snapshot(version="empty")
PLANNED = Snapshot(
    version="planned",
    backends={"plain": PLAIN, "local": LOCAL},
    models={
        "gpt": Model("gpt", (Version("stable", "plain", "gpt"),), fallbacks=("spare",)),
        "spare": Model("spare", (Version("v", "local", "spare"),)),
    },
)
EXAMPLES = {"full": FULL, "closed": CLOSED, "empty": EMPTY, "planned": PLANNED}


def check_golden(name: str, rendered: Any) -> None:
    """Compare with the golden file; with `REGENERATE_GOLDEN=1` in the environment, write it."""
    path = GOLDEN / f"{name}.json"
    text = json.dumps(rendered, indent=1, sort_keys=True) + "\n"
    # The script has tests of its own.
    text = text.replace(json.dumps(attempts_script()), '"-- attempts.lua"')
    if os.environ.get(REGENERATE):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert path.read_text() == text, f"differs from {path}; {REGENERATE}=1 writes it anew"


def routes_in(table: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the routes of a table by name: those that are found by it, then the others in their order."""
    (host,) = table["virtual_hosts"]
    if "matcher" not in host:
        return {route["name"]: route for route in host["routes"]}
    decided = host["matcher"]["matcher_tree"]["exact_match_map"]["map"]
    found = {name: one["action"]["typed_config"] for name, one in decided.items()}
    assert all(route["name"] == name for name, route in found.items())
    others = host["matcher"]["on_no_match"]["action"]["typed_config"]["routes"]
    return {**found, **{route["name"]: route for route in others}}
