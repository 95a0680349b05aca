"""Where the push stream is listened on, and the certificates that it is secured with."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Protocol

import grpc
from structlog.typing import FilteringBoundLogger

UNIX = "unix:"


class PushAddressError(Exception):
    """The push address cannot be listened on; the message says what to do."""


class PushTls(Protocol):
    """PEM files of the push stream's TLS. With `client_ca`, sidecars must show a certificate signed by it."""

    @property
    def cert(self) -> Path:
        """The server's certificate and what leads up from it to its authority."""

    @property
    def key(self) -> Path:
        """The certificate's key."""

    @property
    def client_ca(self) -> Path | None:
        """Authorities of the sidecars' certificates."""


def add_port(server: grpc.aio.Server, address: str, tls: PushTls | None, log: FilteringBoundLogger) -> int:
    """Let `server` listen on `address` (`unix:/PATH` or `HOST:PORT`, secured by `tls`); return the port.

    Renewed files count from the next connection on. A Unix socket is secured by its folder, not by TLS.

    Raises:
        PushAddressError: the address is none or is in use, or a file cannot be read.
    """
    if address.startswith(UNIX):
        # What a killed predecessor left; a live one would hold the data folder's lock.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(address.removeprefix(UNIX))  # noqa: PTH108 - before anything is served
    port = 0
    try:
        if tls is None or address.startswith(UNIX):
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, _credentials(tls, log))
    except RuntimeError:
        port = 0
    if not port:
        raise PushAddressError(f"cannot listen on {address}; choose another address with --push-address")
    return port


def _credentials(tls: PushTls, log: FilteringBoundLogger) -> grpc.ServerCredentials:
    in_use = _read(tls)

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal in_use
        try:
            found = _read(tls)
        except PushAddressError as error:
            log.error("the push stream keeps the certificate that it has", reason=str(error))
            return None
        if found == in_use:
            return None
        in_use = found
        return _configuration(found)

    return grpc.dynamic_ssl_server_credentials(
        _configuration(in_use), renewed, require_client_authentication=tls.client_ca is not None
    )


def _configuration(pem: tuple[bytes, bytes, bytes | None]) -> grpc.ServerCertificateConfiguration:
    key, cert, client_ca = pem
    return grpc.ssl_server_certificate_configuration([(key, cert)], client_ca)


def _read(tls: PushTls) -> tuple[bytes, bytes, bytes | None]:
    try:
        client_ca = tls.client_ca.read_bytes() if tls.client_ca is not None else None
        return tls.key.read_bytes(), tls.cert.read_bytes(), client_ca
    except OSError as error:
        raise PushAddressError(
            f"cannot read {error.filename} ({error.strerror}): name the push stream's PEM files with "
            "--push-cert, --push-key and --push-client-ca"
        ) from error
