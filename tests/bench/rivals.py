"""LiteLLM proxy and Portkey gateway in front of the same upstream, when they are installed here.

`make bench RIVALS=1` installs them: LiteLLM into `.bench-venv/`, Portkey into `.bench-node/`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.processes import free_ports

ROOT = Path(__file__).resolve().parents[2]
LITELLM = ROOT / ".bench-venv" / "bin" / "litellm"
PORTKEY = ROOT / ".bench-node" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"


@dataclass(frozen=True, slots=True)
class Rival:
    """How one rival is started, and the request headers it needs."""

    name: str
    port: int
    command: list[str]
    headers: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)


def install() -> None:
    """Install what is missing, with pip and npm.

    Raises:
        subprocess.CalledProcessError: pip or npm failed.
    """
    if not LITELLM.exists():
        venv = LITELLM.parents[1]
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(venv / "bin" / "pip"), "install", "--quiet", "litellm[proxy]"], check=True)
    if not PORTKEY.exists():
        folder = ROOT / ".bench-node"
        folder.mkdir(exist_ok=True)
        npm = ["npm", "install", "--silent", "--no-save", "--prefix", str(folder), "@portkey-ai/gateway"]
        subprocess.run(npm, check=True)


def installed(folder: Path, upstream_port: int) -> Iterator[Rival]:
    """Yield each rival that is installed, set up for the upstream."""
    upstream = f"http://127.0.0.1:{upstream_port}/v1"
    if LITELLM.exists():
        parameters = {"model": "openai/bench", "api_base": upstream, "api_key": "sk-bench"}
        config = folder / "litellm.json"
        models = [{"model_name": "bench", "litellm_params": parameters}]
        config.write_text(json.dumps({"model_list": models}), encoding="utf-8")
        port = free_ports(1)[0]
        command = [str(LITELLM), "--config", str(config), "--port", str(port), "--num_workers", "1"]
        # Without it LiteLLM fetches its price list from the network at start.
        environment = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}
        environment["LITELLM_MASTER_KEY"] = "sk-bench"
        headers = {"authorization": "Bearer sk-bench"}
        yield Rival("litellm", port, [*command, "--host", "127.0.0.1"], headers, environment)
    if PORTKEY.exists():
        port = free_ports(1)[0]
        headers = {
            "x-portkey-provider": "openai",
            "x-portkey-custom-host": upstream,
            "authorization": "Bearer sk-bench",
        }
        environment = {"TRUSTED_CUSTOM_HOSTS": "127.0.0.1,localhost"}
        command = ["node", str(PORTKEY), f"--port={port}", "--headless"]
        yield Rival("portkey", port, command, headers, environment)
