"""The way to the Kubernetes API server: configuration, plain JSON calls, and watches.

The one place that knows how a kubeconfig or a pod's own service account is found. Objects come and go as the
dictionaries that the API speaks: models would drop what they do not know. Loads the client library only once
it is asked to connect. https://kubernetes.io/docs/reference/using-api/api-concepts/
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import getproxies_environment

import orjson

if TYPE_CHECKING:
    import aiohttp
    from kubernetes.aio.client.api_client import ApiClient

__all__ = ["KubeConfigError", "Kubernetes", "KubernetesError", "connect"]

VARIABLE: Final = "KUBECONFIG"
NAMESPACE_FILE: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
CALL_WITHIN_S: Final = 10.0
JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
MAX_REASON: Final = 500

Query = Sequence[tuple[str, str]]


class KubeConfigError(Exception):
    """There is no way to a cluster; the message says what to give."""


class KubernetesError(Exception):
    """The API server refused a call or could not be reached.

    `status` is the HTTP status, 0 when there was no answer. `reason` is the API's own word, such as
    `AlreadyExists`. The message is one sentence without headers or bodies.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason

    def __repr__(self) -> str:
        return f"<KubernetesError {self.status} {self.reason}: {self}>"


class Kubernetes:
    """One connection pool to one API server.

    Args:
        client: the library's client; closed with this.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<Kubernetes {self.host}>"

    @property
    def host(self) -> str:
        """The URL of the API server."""
        return str(self._client.configuration.host)

    @property
    def client(self) -> ApiClient:
        """The library's client, for its own API classes."""
        return self._client

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Query = (),
        content_type: str = JSON,
        accept: str = JSON,
        within_s: float = CALL_WITHIN_S,
    ) -> dict[str, Any]:
        """Return what the API server answers to one call. `accept` may ask for metadata only.

        Raises:
            KubernetesError: it refuses, answers nothing in time, or answers no JSON object.
        """
        timeout = _timeout(total=within_s)
        response = await self._ask(
            method, path, query, timeout, body=body, content_type=content_type, accept=accept
        )
        try:
            content = await response.read()
        except _failures() as error:
            raise _unreachable(error) from error
        finally:
            response.release()
        if not 200 <= response.status <= 299:
            raise _refused(response.status, content)
        return _object(content)

    async def watch(
        self, path: str, *, query: Query = (), accept: str = JSON, silent_s: float = 330.0
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until the API server ends it (`timeoutSeconds` of `query`).

        Args:
            path: a collection.
            query: `resourceVersion`, `allowWatchBookmarks`, …; `watch=true` is added.
            accept: the form that is asked for, such as metadata only.
            silent_s: after how many seconds without an event the connection counts as lost.

        Raises:
            KubernetesError: refused, broken off, or an `ERROR` event (410 once the version is too old).
        """
        timeout = _timeout(sock_connect=CALL_WITHIN_S, sock_read=silent_s)
        response = await self._ask("GET", path, (*query, ("watch", "true")), timeout, accept=accept)
        try:
            if response.status != 200:
                raise _refused(response.status, await response.read())
            async for line in response.content:
                if not line.strip():
                    continue
                event = _object(line)
                if event.get("type") == "ERROR":
                    status = event.get("object") or {}
                    raise KubernetesError(
                        int(status.get("code") or 500), str(status.get("reason") or "Error"), _said(status)
                    )
                yield event
        except _failures() as error:
            raise _unreachable(error) from error
        finally:
            # Not released to the pool: a watch that is left has more to come.
            response.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()  # type: ignore[no-untyped-call]

    async def _ask(
        self,
        method: str,
        path: str,
        query: Query,
        within: aiohttp.ClientTimeout,
        *,
        body: object = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> aiohttp.ClientResponse:
        try:
            verb, url, headers, sent, _ = await self._client.param_serialize(
                method,
                path,
                query_params=list(query),
                header_params={"Accept": accept, "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(verb, url, headers, sent, _request_timeout=within)
        except _failures() as error:
            raise _unreachable(error) from error
        answer: aiohttp.ClientResponse = response.response
        return answer


async def connect(kubeconfig: Path | None = None, environment: Mapping[str, str] = os.environ) -> Kubernetes:
    """Return the way to the cluster of `kubeconfig`, else of `KUBECONFIG`, else of the pod this runs in.

    Raises:
        KubeConfigError: none of them, or one that cannot be used.
    """
    # Imported here: a second of imports that only a process in a cluster needs.
    from kubernetes.aio.client.api_client import ApiClient  # noqa: PLC0415
    from kubernetes.aio.client.configuration import Configuration  # noqa: PLC0415
    from kubernetes.aio.config.config_exception import ConfigException  # noqa: PLC0415
    from kubernetes.aio.config.incluster_config import load_incluster_config  # noqa: PLC0415
    from kubernetes.aio.config.kube_config import load_kube_config  # noqa: PLC0415

    configuration = Configuration()
    # To look for a proxy and a .netrc costs two turns of a thread for each call.
    configuration.client_session_kwargs = {"trust_env": bool(getproxies_environment())}
    named = str(kubeconfig) if kubeconfig is not None else environment.get(VARIABLE, "")
    try:
        if named:
            await load_kube_config(  # type: ignore[no-untyped-call]
                named, client_configuration=configuration, persist_config=False
            )
        else:
            load_incluster_config(configuration)  # type: ignore[no-untyped-call]
        return Kubernetes(ApiClient(configuration))
    except (ConfigException, OSError, ValueError) as error:
        where = f"the kubeconfig {named}" if named else "the service account of a pod"
        raise KubeConfigError(
            f"{where} cannot be used ({_sentence(error)}); name a kubeconfig by --kubeconfig or {VARIABLE}"
        ) from error


def own_namespace(environment: Mapping[str, str], file: Path = NAMESPACE_FILE) -> str | None:
    """Return the namespace that this process runs in: `POD_NAMESPACE`, else the pod's own; None outside."""
    named = environment.get("POD_NAMESPACE", "").strip()
    if named:
        return named
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _timeout(**limits_s: float) -> aiohttp.ClientTimeout:
    import aiohttp  # noqa: PLC0415 - see `connect`

    return aiohttp.ClientTimeout(**limits_s)


def _failures() -> tuple[type[Exception], ...]:
    """Return what a call raises that gets no answer."""
    import aiohttp  # noqa: PLC0415 - see `connect`

    # A ValueError is a line of a watch that is too long.
    return (aiohttp.ClientError, TimeoutError, OSError, ValueError)


def _object(content: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise KubernetesError(0, "NoJson", "the API server's answer is no JSON") from error
    if not isinstance(value, dict):
        raise KubernetesError(0, "NoJson", "the API server's answer is no JSON object")
    return value


def _refused(status: int, content: bytes) -> KubernetesError:
    try:
        told = orjson.loads(content)
    except orjson.JSONDecodeError:
        told = {}
    if not isinstance(told, dict):
        told = {}
    return KubernetesError(status, str(told.get("reason") or f"HTTP{status}"), _said(told, status))


def _said(status: Mapping[str, Any], code: int = 0) -> str:
    said = " ".join(str(status.get("message") or "").split())[:MAX_REASON]
    return said or f"the API server answered {code or status.get('code') or 'an error'}"


def _unreachable(error: Exception) -> KubernetesError:
    if isinstance(error, asyncio.TimeoutError):
        return KubernetesError(0, "Timeout", "the API server did not answer in time")
    return KubernetesError(0, "Unreachable", f"the API server cannot be reached ({_sentence(error)})")


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:MAX_REASON].rstrip(".") or type(error).__name__
