"""The agent's way to its control plane: in clear or by TLS, with the token to join by.

Files are read at each connect, so that renewed certificates and tokens count without a restart. A Unix
socket is guarded by its folder: it needs neither.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import grpc
from structlog.typing import FilteringBoundLogger

from ext_proc.push_client import DialError, Metadata
from ext_proc.settings import Joining

TOKEN_VARIABLE: Final = "OUTRIGGER_TOKEN"
_UNIX: Final = "unix:"


class ControlPlaneDial:
    """Opens channels to the control plane.

    Args:
        target: `unix:/PATH` or `HOST:PORT`.
        joining: how to be let in.
        environment: may hold the token, when no file is named.
        log: is told once when a token goes over a network in clear.
    """

    def __init__(
        self, target: str, joining: Joining, environment: Mapping[str, str], log: FilteringBoundLogger
    ) -> None:
        self._target = target
        self._joining = joining
        self._environment = environment
        self._log = log
        self._warned = False

    def __repr__(self) -> str:
        return f"ControlPlaneDial({self._target!r}, secured={self._secured})"

    @property
    def target(self) -> str:
        """Who is called."""
        return self._target

    @property
    def _secured(self) -> bool:
        return not self._target.startswith(_UNIX) and bool(self._joining.ca or self._joining.client_cert)

    def channel(self, options: tuple[tuple[str, int], ...]) -> grpc.aio.Channel:
        """Open a channel.

        Raises:
            DialError: a certificate's file cannot be read.
        """
        if not self._secured:
            return grpc.aio.insecure_channel(self._target, options=options)
        joining = self._joining
        credentials = grpc.ssl_channel_credentials(
            root_certificates=_read(joining.ca, "--control-plane-ca"),
            private_key=_read(joining.client_key, "--client-key"),
            certificate_chain=_read(joining.client_cert, "--client-cert"),
        )
        return grpc.aio.secure_channel(self._target, credentials, options=options)

    def metadata(self) -> Metadata:
        """Return the token, as the control plane wants to see it.

        Raises:
            DialError: the token's file cannot be read, or what it holds is no token.
        """
        if self._target.startswith(_UNIX):
            return ()
        content = _read(self._joining.token_file, "--token-file")
        token = (content.decode("latin-1") if content else self._environment.get(TOKEN_VARIABLE, "")).strip()
        if not token:
            return ()
        if not token.isascii() or not token.isprintable():
            raise DialError("the token to join with holds characters that none has: correct it")
        if not self._secured and not self._warned and not _is_loopback(self._target):
            self._warned = True
            self._log.warning(
                "the token to join with goes over the network in clear: name the control plane's "
                "authorities by --control-plane-ca"
            )
        return (("authorization", f"Bearer {token}"),)


def _read(path: Path | None, option: str) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise DialError(f"{option} {path} cannot be read ({error.strerror})") from error


def _is_loopback(target: str) -> bool:
    host = target.rpartition(":")[0].removeprefix("[").removesuffix("]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
