"""The golden files against the real Envoy: it takes every rendered resource together with the bootstrap."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import certifi
import pytest
import yaml

from ext_proc.agent.bootstrap import find_envoy, render_bootstrap
from ext_proc.agent.render.secrets import AUTHORITIES
from ext_proc.settings import Address, EnvoySettings, RunDir
from tests.unit.ext_proc.agent.render.examples import EXAMPLES, GOLDEN


def golden(name: str) -> Any:
    """Return the content of a golden file, with secrets taken from the bootstrap.

    Envoy 1.40 crashes when it validates a secret that is to come over ADS.
    """
    return without_sds(json.loads((GOLDEN / f"{name}.json").read_text()))


def without_sds(node: Any) -> Any:
    """Return `node` without `sds_config`, at any depth."""
    if isinstance(node, dict):
        return {key: without_sds(value) for key, value in node.items() if key != "sds_config"}
    return [without_sds(value) for value in node] if isinstance(node, list) else node


@pytest.mark.parametrize("name", EXAMPLES)
async def test_envoy_validates_what_is_rendered(tmp_path: Path, name: str) -> None:
    """`envoy --mode validate` accepts the example's clusters, routes and secrets, put in as static ones."""
    settings = EnvoySettings(RunDir(Path("/r")), 2, Address("127.0.0.1", 0), Address("127.0.0.1", 0))
    config = yaml.safe_load(render_bootstrap(settings))
    static = config["static_resources"]
    for cluster in golden(f"clusters-{name}").values():
        static["clusters"].append({key: value for key, value in cluster.items() if key != "@type"})
    if name == "full":
        secrets = golden("secrets-full")
        secrets[AUTHORITIES]["validation_context"] = {"trusted_ca": {"filename": certifi.where()}}
        static["secrets"] = [
            {key: value for key, value in secret.items() if key != "@type"} for secret in secrets.values()
        ]
    connections = static["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    del connections["rds"]
    table = golden(f"routes-{name}")
    connections["route_config"] = {key: value for key, value in table.items() if key != "@type"}
    path = tmp_path / "envoy.json"
    path.write_text(json.dumps(config))
    process = await asyncio.create_subprocess_exec(
        *(find_envoy({}), "--mode", "validate", "--config-path", path, "--log-level", "error"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0, told.decode()
