"""The simulated providers of the articles and the one mesh before all of them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from control_plane.tools.provider.settings import ProviderSettings
from tests.harness.mesh import OUTRIGGER, Mesh, http_status
from tests.harness.processes import free_ports, until


@dataclass(frozen=True, slots=True)
class Conditions:
    """One provider: how far away it is, how it answers, what it allows. Times are milliseconds.

    `handshake_ms` is what a new connection costs beside TCP's round trip.
    """

    name: str
    rtt_ms: float
    handshake_ms: float
    decode_ms: float
    output_tokens: float = 34.17
    echo: bool = False
    batch_slowdown: float = 0.0
    most_conversations: int = 0
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    error_rate: float = 0.0

    def settings(self) -> ProviderSettings:
        """Return them as the provider's settings, for what it will say."""
        return ProviderSettings(
            answers="echo" if self.echo else "words", output_tokens=self.output_tokens, conversations=True
        )

    def options(self) -> list[str]:
        """Return them as the options of `outrigger provider`."""
        options: dict[str, object] = {
            "--rtt-ms": self.rtt_ms,
            "--tls-handshake-ms": self.handshake_ms,
            "--decode-ms-per-token": self.decode_ms,
            "--output-tokens": self.output_tokens,
            "--answers": "echo" if self.echo else "words",
            "--batch-slowdown": self.batch_slowdown,
            "--max-conversations": self.most_conversations,
            "--rpm": self.requests_per_minute,
            "--tpm": self.tokens_per_minute,
            "--error-rate": self.error_rate,
            "--log-size": 0,
        }
        said = [text for name, value in options.items() if value is not None for text in (name, str(value))]
        return ["--conversations", *said]


@dataclass(frozen=True, slots=True)
class Ports:
    """Where providers and the sidecar listen."""

    providers: Mapping[str, int]
    sidecar: int


@contextmanager
def running(providers: Sequence[Conditions], documents: Sequence[str], folder: Path) -> Iterator[Ports]:
    """Run the providers and a mesh of these documents, in which `{name}` is a provider's port."""
    with ExitStack() as stack:
        ports = {one.name: stack.enter_context(_provider(one, folder)) for one in providers}
        for port in ports.values():
            until(partial(_listens, port), 20, "the providers listen")
        text = "---\n".join(documents)
        for name, port in ports.items():
            text = text.replace(f"{{{name}}}", str(port))
        mesh = stack.enter_context(Mesh(folder / "mesh", text))
        yield Ports(ports, mesh.proxy_port)


@contextmanager
def _provider(conditions: Conditions, folder: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    command = [str(OUTRIGGER), "provider", "--port", str(port), *conditions.options()]
    with (folder / f"{conditions.name}.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def _listens(port: int) -> bool:
    return http_status(f"http://127.0.0.1:{port}/v1/models") == 200
