"""The data plane's command line: one command for each process of a sidecar (see docs/architecture.md)."""

from __future__ import annotations

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ext_proc.quick_start import quick_imports
from ext_proc.settings import (
    Address,
    AgentSettings,
    EnvoySettings,
    Joining,
    ProcessorSettings,
    RunDir,
    SettingsError,
    Transport,
)

REDIS_VARIABLE = "OUTRIGGER_REDIS"
CACHE_DATABASE_VARIABLE = "OUTRIGGER_CACHE_DATABASE"
LOG_LEVELS = ("debug", "info", "warning", "error")


def _address(text: str) -> Address:
    try:
        return Address.parse(text)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _index(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE, such as zone=a")
    return key, value


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    root = argparse.ArgumentParser(
        prog="python -m ext_proc",
        description="The processes of an Outrigger sidecar.",
        epilog="example: python -m ext_proc processor --worker 0 --run-dir /tmp/or --data-dir ./data",
    )
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _processor(commands)
    _agent(commands)
    for name, text in (
        ("envoy", "write the bootstrap into the run folder and become Envoy"),
        ("bootstrap", "print the bootstrap, for an Envoy in a container of its own"),
    ):
        _envoy(commands.add_parser(name, help=text, description=text))
    return root


def _folders(command: argparse.ArgumentParser, *, data: bool = True) -> None:
    command.add_argument("--run-dir", type=Path, required=True, help="folder of the sidecar's sockets")
    if data:
        command.add_argument("--data-dir", type=Path, required=True, help="folder of the last good snapshot")


def _processor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "serve Envoy's ext_proc calls on RUN_DIR/processor-N.sock"
    command = commands.add_parser("processor", help=text, description=text)
    _folders(command)
    command.add_argument("--worker", type=_index, default=0, help="which processor this is, from 0")
    command.add_argument(
        "--transport",
        type=Transport,
        choices=list(Transport),
        default=Transport.HTTP2,
        help="who carries Envoy's messages",
    )
    command.add_argument("--log-level", choices=LOG_LEVELS, default="info")


def _agent(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    text = "hold the stream to the control plane and configure the local Envoy and processors"
    command = commands.add_parser("agent", help=text, description=text)
    _folders(command)
    command.add_argument(
        "--control-plane", required=True, help="where policy comes from: unix:/PATH or HOST:PORT"
    )
    command.add_argument("--workload", default="default", help="the workload that Policies name")
    command.add_argument("--sidecar-id", default=socket.gethostname(), help="unique among the connected")
    command.add_argument("--workers", type=_count, default=1, help="number of processors")
    command.add_argument("--metrics-address", type=_address, default=Address("127.0.0.1", 9102))
    command.add_argument("--envoy-admin-address", type=_address, default=Address("127.0.0.1", 9901))
    command.add_argument(
        "--label", type=_label, action="append", default=[], metavar="KEY=VALUE", help="shown of this sidecar"
    )
    command.add_argument("--control-plane-ca", type=Path, help="PEM file of the control plane's authorities")
    command.add_argument("--client-cert", type=Path, help="PEM file of the certificate to show it")
    command.add_argument("--client-key", type=Path, help="PEM file of that certificate's key")
    command.add_argument(
        "--token-file", type=Path, help="file of the token to join with (default: OUTRIGGER_TOKEN's value)"
    )
    command.add_argument(
        "--external-envoy", action="store_true", help="write RUN_DIR/envoy.yaml, for an Envoy elsewhere"
    )
    _addresses(command)
    command.add_argument("--secrets-dir", type=Path, help="mounted Secrets (default: DATA_DIR/secrets)")
    command.add_argument("--log-level", choices=LOG_LEVELS, default="info")


def _envoy(command: argparse.ArgumentParser) -> None:
    _folders(command, data=False)
    command.add_argument("--workers", type=_count, default=1, help="number of processors")
    _addresses(command)
    command.add_argument("--envoy-admin-address", type=_address, default=Address("127.0.0.1", 9901))
    command.add_argument("--concurrency", type=_count, default=1, help="Envoy's worker threads")
    command.add_argument("--log-level", choices=("debug", "info", "warn", "error"), default="warn")


def _addresses(command: argparse.ArgumentParser) -> None:
    command.add_argument("--proxy-address", type=_address, default=Address("127.0.0.1", 10000))
    command.add_argument("--health-address", type=_address, help="where Envoy answers /healthz, if it does")


def _agent_settings(options: argparse.Namespace) -> AgentSettings:
    if (options.client_cert is None) != (options.client_key is None):
        raise SettingsError("--client-cert and --client-key go together: name both or neither")
    named = os.environ.get("OUTRIGGER_CA_FILE") or os.environ.get("SSL_CERT_FILE")
    return AgentSettings(
        run_dir=RunDir(options.run_dir.absolute()),
        data_dir=options.data_dir.absolute(),
        control_plane=options.control_plane,
        workload=options.workload,
        sidecar_id=options.sidecar_id,
        workers=options.workers,
        metrics_address=options.metrics_address,
        envoy_admin_address=options.envoy_admin_address,
        secrets_dir=options.secrets_dir,
        ca_file=Path(named) if named else None,
        joining=Joining(
            options.control_plane_ca, options.client_cert, options.client_key, options.token_file
        ),
        labels=dict(options.label),
        log_level=options.log_level,
    )


def _envoy_settings(options: argparse.Namespace, run_dir: RunDir) -> EnvoySettings:
    return EnvoySettings(
        run_dir=run_dir,
        workers=options.workers,
        proxy_address=options.proxy_address,
        envoy_admin_address=options.envoy_admin_address,
        health_address=options.health_address,
    )


def _run(options: argparse.Namespace) -> int:
    # Imported by the command that needs it: each process loads its own part only.
    run_dir = RunDir(options.run_dir.absolute())
    if options.command == "processor":
        with quick_imports():
            from ext_proc.wiring.processor import run_processor  # noqa: PLC0415

        settings = ProcessorSettings(
            run_dir=run_dir,
            data_dir=options.data_dir.absolute(),
            worker=options.worker,
            transport=options.transport,
            # By variable only: command lines show in ps.
            redis=os.environ.get(REDIS_VARIABLE) or None,
            database=os.environ.get(CACHE_DATABASE_VARIABLE) or None,
            log_level=options.log_level,
        )
        return run_processor(settings)
    if options.command == "agent":
        with quick_imports():
            from ext_proc.wiring.agent import run_agent  # noqa: PLC0415

        if options.external_envoy:
            from ext_proc.agent.bootstrap import write_bootstrap  # noqa: PLC0415

            # Envoy may wait for it already.
            write_bootstrap(_envoy_settings(options, run_dir))
        return run_agent(_agent_settings(options))

    from ext_proc.agent.bootstrap import become_envoy, render_bootstrap  # noqa: PLC0415

    envoy = replace(
        _envoy_settings(options, run_dir), concurrency=options.concurrency, log_level=options.log_level
    )
    if options.command == "bootstrap":
        sys.stdout.write(render_bootstrap(envoy))
        return 0
    return become_envoy(envoy, os.environ)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status (0 good, 1 failed, 2 wrong usage)."""
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except SettingsError as error:
        print(f"{options.command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
