"""The self-managed certificate: kept in a Secret that replicas share, and told to the API server.

Whoever finds it missing or near its end writes a new one; the Secret's version decides between replicas, and
who comes second takes what the first has written. Files are what servers read.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from structlog.typing import FilteringBoundLogger

from control_plane.kubernetes_client import JSON_PATCH, KubernetesError
from control_plane.webhook.certificates import Kept, kept_now

LOOK_EVERY_S: Final = 30.0
RETRY_S: Final = 1.0
ATTEMPTS: Final = 10
CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PARTS: Final = {
    "authority": "ca.crt",
    "authority_key": "ca.key",
    "certificate": "tls.crt",
    "key": "tls.key",
}


class Calls(Protocol):
    """The API server."""

    def call(
        self, method: str, path: str, *, body: object = None, content_type: str = "application/json"
    ) -> Awaitable[dict[str, Any]]:
        """Return the answer to one call; raises KubernetesError."""
        ...


@dataclass(frozen=True, slots=True)
class Files:
    """Where the certificate in use is written: PEM, the key for its owner alone."""

    folder: Path

    @property
    def certificate(self) -> Path:
        """The server's certificate."""
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        """Its key."""
        return self.folder / "tls.key"

    @property
    def authority(self) -> Path:
        """The authority that clients verify it against."""
        return self.folder / "ca.crt"

    @property
    def whole(self) -> bool:
        """Whether there is a certificate, from an earlier start for instance."""
        return all(path.exists() for path in (self.certificate, self.key, self.authority))

    def write(self, kept: Kept) -> None:
        """Write what has changed.

        Whoever reads in between finds a key and a certificate that do not match, and keeps what it has.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, content in (
            (self.key, kept.key),
            (self.certificate, kept.certificate),
            (self.authority, kept.authority),
        ):
            if path.exists() and path.read_bytes() == content:
                continue
            beside = path.with_suffix(path.suffix + ".new")
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(content)
            beside.replace(path)


class CertificateKeeper:
    """Keeps the Secret, the files and the registration in step.

    Args:
        kubernetes: the API server.
        namespace: the Secret's.
        secret: its name.
        names: what the server is called.
        registration: the MutatingWebhookConfiguration to tell; None for none.
        files: where the certificate is written.
        now: the time of day.
        log: where what is done is told; never a key.
    """

    def __init__(
        self,
        kubernetes: Calls,
        *,
        namespace: str,
        secret: str,
        names: Sequence[str],
        registration: str | None,
        files: Files,
        now: Callable[[], datetime],
        log: FilteringBoundLogger,
    ) -> None:
        self._kubernetes = kubernetes
        self._path = f"/api/v1/namespaces/{namespace}/secrets"
        self._secret = secret
        self._namespace = namespace
        self._names = names
        self._registration = registration
        self._files = files
        self._now = now
        self._log = log
        self._trouble = ""

    async def begin(self) -> None:
        """Have a certificate in the files, by the Secret; what is there already will do if that fails.

        Raises:
            KubernetesError: there is none, and the API server cannot be asked.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self.look()
            except KubernetesError as error:
                if self._files.whole:
                    self._tell(error)
                    return
                if attempt == ATTEMPTS:
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except (KubernetesError, OSError) as error:
                self._tell(error)
            else:
                self._trouble = ""

    async def look(self) -> None:
        """Do now what is due.

        Raises:
            KubernetesError: the API server refuses or does not answer.
            OSError: the files cannot be written.
        """
        kept = await self._shared()
        await asyncio.to_thread(self._files.write, kept)
        if self._registration is not None:
            await self._register(self._registration, kept)

    async def _shared(self) -> Kept:
        """Return what the replicas share, made or renewed if need be."""
        for _ in range(ATTEMPTS):
            found = await self._read()
            before = _kept_of(found)
            kept = kept_now(before, self._names, self._now())
            if kept is before:
                return kept
            try:
                await self._write(found, kept)
            except KubernetesError as error:
                if error.status != 409:
                    raise
                continue  # another replica was quicker: take what it has written
            self._log.info("a certificate was made", secret=self._secret, names=list(self._names))
            return kept
        raise KubernetesError(409, "Conflict", f"the secret {self._secret} changes all the time")

    async def _read(self) -> dict[str, Any] | None:
        try:
            return await self._kubernetes.call("GET", f"{self._path}/{self._secret}")
        except KubernetesError as error:
            if error.status == 404:
                return None
            raise

    async def _write(self, found: Mapping[str, Any] | None, kept: Kept) -> None:
        data = {key: base64.b64encode(getattr(kept, part)).decode("ascii") for part, key in PARTS.items()}
        if found is None:
            metadata = {"name": self._secret, "namespace": self._namespace}
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": metadata,
                "type": "Opaque",
                "data": data,
            }
            await self._kubernetes.call("POST", self._path, body=body)
        else:
            # With its resourceVersion: somebody else's change in between is a conflict.
            body = {**found, "data": {**(found.get("data") or {}), **data}}
            await self._kubernetes.call("PUT", f"{self._path}/{self._secret}", body=body)

    async def _register(self, name: str, kept: Kept) -> None:
        """Have the API server verify us by our authority."""
        path = f"{CONFIGURATIONS}/{name}"
        found = await self._kubernetes.call("GET", path)
        bundle = base64.b64encode(kept.authority).decode("ascii")
        patch = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle}
            for index, webhook in enumerate(found.get("webhooks") or ())
            if (webhook.get("clientConfig") or {}).get("caBundle") != bundle
        ]
        if not patch:
            return
        version = (found.get("metadata") or {}).get("resourceVersion")
        same = [{"op": "test", "path": "/metadata/resourceVersion", "value": version}]
        await self._kubernetes.call("PATCH", path, body=[*same, *patch], content_type=JSON_PATCH)
        self._log.info("the webhook's registration was given our authority", registration=name)

    def _tell(self, error: Exception) -> None:
        """Log trouble once, until it is over or another one."""
        if str(error) != self._trouble:
            self._trouble = str(error)
            self._log.warning("the webhook's certificate cannot be looked after", reason=str(error))


def _kept_of(secret: Mapping[str, Any] | None) -> Kept | None:
    data = (secret or {}).get("data") or {}
    try:
        parts = {part: base64.b64decode(data[key], validate=True) for part, key in PARTS.items()}
    except (KeyError, TypeError, binascii.Error):
        return None
    return Kept(**parts)
