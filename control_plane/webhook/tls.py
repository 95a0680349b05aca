"""The TLS of the webhook: certificate files that are read again when they change.

One context for the server's whole life: what is loaded into it counts from the next connection on.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Final

from structlog.typing import FilteringBoundLogger

LOOK_EVERY_S: Final = 5.0


class CertificateFilesError(Exception):
    """The files cannot be used; the message says which and what to do."""


class ReloadedTls:
    """A server's TLS by two PEM files.

    Args:
        certificate: the certificate and what leads up from it.
        key: its key.
        log: where a renewal is told, and files that cannot be used.

    Raises:
        CertificateFilesError: they cannot be used. Later that is only logged, and the last pair stays.
    """

    def __init__(self, certificate: Path, key: Path, log: FilteringBoundLogger) -> None:
        self._certificate = certificate
        self._key = key
        self._log = log
        self.context = _context()
        self._trouble = ""
        self._loaded = self._content()
        self._load(self.context)

    async def run(self) -> None:
        """Look for renewed files until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look()

    def look(self) -> None:
        """Load the files if they have changed and can be used."""
        try:
            found = self._content()
            if found == self._loaded:
                return
            # Into one of its own first: half of a pair must not get into the one that serves.
            self._load(_context())
            self._load(self.context)
        except CertificateFilesError as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                self._log.warning("the webhook keeps the certificate that it has", reason=self._trouble)
            return
        self._loaded, self._trouble = found, ""
        self._log.info("the webhook's certificate was renewed", file=str(self._certificate))

    def _content(self) -> tuple[bytes, bytes]:
        try:
            return self._certificate.read_bytes(), self._key.read_bytes()
        except OSError as error:
            raise CertificateFilesError(
                f"cannot read {error.filename} ({error.strerror}): name the webhook's PEM files with "
                "--webhook-cert and --webhook-key"
            ) from error

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self._certificate, self._key)
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            raise CertificateFilesError(
                f"{self._certificate} and {self._key} are no certificate with its key (PEM)"
            ) from error


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
