"""The way to the API server, against a small server that plays one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from control_plane.kubernetes_client import (
    MERGE_PATCH,
    KubeConfigError,
    Kubernetes,
    KubernetesError,
    connect,
    own_namespace,
)

POD = {"kind": "Pod", "metadata": {"name": "a"}}


async def _echo(request: web.Request) -> web.Response:
    body = await request.json() if request.can_read_body else None
    return web.json_response(
        {
            "method": request.method,
            "query": list(request.query.items()),
            "type": request.headers.get("content-type"),
            "authorization": request.headers.get("authorization"),
            "body": body,
        }
    )


async def _refusal(_: web.Request) -> web.Response:
    told = {"kind": "Status", "reason": "AlreadyExists", "message": 'leases "a" already exists', "code": 409}
    return web.json_response(told, status=409)


async def _page(_: web.Request) -> web.Response:
    return web.Response(status=502, text="<html>bad gateway</html>")


async def _list(_: web.Request) -> web.Response:
    return web.json_response([1])


async def _watched(request: web.Request) -> web.StreamResponse:
    assert request.query["watch"] == "true"
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b'{"type": "ADDED", "object": {"kind": "Pod"}}\n\n{"type": "BOOK')
    await response.write(b'MARK", "object": {}}\n')
    if request.query.get("resourceVersion") == "1":
        old = b'{"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}\n'
        await response.write(old)
    return response


@pytest.fixture
async def cluster() -> AsyncIterator[str]:
    """The URL of an API server."""
    app = web.Application()
    app.router.add_route("*", "/echo", _echo)
    app.router.add_get("/refused", _refusal)
    app.router.add_get("/page", _page)
    app.router.add_get("/list", _list)
    app.router.add_get("/watched", _watched)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/")


def kubeconfig(folder: Path, url: str) -> Path:
    """Return the file of a kubeconfig for `url`."""
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "abc"}}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture
async def kubernetes(cluster: str, tmp_path: Path) -> AsyncIterator[Kubernetes]:
    """A connection to it by a kubeconfig."""
    connection = await connect(kubeconfig(tmp_path, cluster), {})
    yield connection
    await connection.close()


async def test_a_call_carries_method_query_body_and_token(kubernetes: Kubernetes) -> None:
    """What is asked arrives as it is, with the credentials of the kubeconfig."""
    answer = await kubernetes.call("POST", "/echo", body=POD, query=[("dryRun", "All")])
    assert answer["method"] == "POST"
    assert answer["body"] == POD
    assert answer["query"] == [["dryRun", "All"]]
    assert answer["authorization"] == "Bearer abc"


async def test_a_patch_is_of_the_type_it_says(kubernetes: Kubernetes) -> None:
    """A merge patch is no strategic one."""
    answer = await kubernetes.call("PATCH", "/echo", body={"a": None}, content_type=MERGE_PATCH)
    assert (answer["type"], answer["body"]) == (MERGE_PATCH, {"a": None})


async def test_a_refusal_tells_status_reason_and_sentence(kubernetes: Kubernetes) -> None:
    """The API's own word decides what to do next, and its sentence is told."""
    with pytest.raises(KubernetesError, match="already exists") as refused:
        await kubernetes.call("GET", "/refused")
    assert (refused.value.status, refused.value.reason) == (409, "AlreadyExists")


@pytest.mark.parametrize(("path", "status"), [("/page", 502), ("/list", 0), ("/nothing", 404)])
async def test_what_is_no_object_is_an_error(kubernetes: Kubernetes, path: str, status: int) -> None:
    """Pages of proxies and odd answers are failures, told without their content."""
    with pytest.raises(KubernetesError) as refused:
        await kubernetes.call("GET", path)
    assert refused.value.status == status
    assert "<html>" not in str(refused.value)


async def test_an_absent_server_is_status_0(tmp_path: Path) -> None:
    """Nobody answers: no status, one sentence."""
    connection = await connect(kubeconfig(tmp_path, "http://127.0.0.1:1"), {})
    with pytest.raises(KubernetesError, match="cannot be reached") as refused:
        await connection.call("GET", "/echo")
    await connection.close()
    assert refused.value.status == 0


async def test_a_watch_yields_events_to_its_end(kubernetes: Kubernetes) -> None:
    """Events cut anywhere arrive whole; the server's end is the end."""
    types = [event["type"] async for event in kubernetes.watch("/watched")]
    assert types == ["ADDED", "BOOKMARK"]


async def test_a_watch_from_too_old_a_version_is_410(kubernetes: Kubernetes) -> None:
    """The error event of an expired version is told as an answer 410 would be."""
    seen: list[Any] = []
    with pytest.raises(KubernetesError) as refused:
        async for event in kubernetes.watch("/watched", query=[("resourceVersion", "1")]):
            seen.append(event)
    assert (len(seen), refused.value.status, refused.value.reason) == (2, 410, "Expired")


async def test_the_variable_names_a_kubeconfig(cluster: str, tmp_path: Path) -> None:
    """Without an option KUBECONFIG decides."""
    connection = await connect(None, {"KUBECONFIG": str(kubeconfig(tmp_path, cluster))})
    assert connection.host == cluster
    await connection.close()


@pytest.mark.parametrize("named", [True, False], ids=["no such file", "no cluster around"])
async def test_without_a_cluster_the_error_says_what_to_give(tmp_path: Path, named: bool) -> None:
    """Outside of a cluster a kubeconfig is asked for."""
    with pytest.raises(KubeConfigError, match="--kubeconfig or KUBECONFIG"):
        await connect(tmp_path / "absent" if named else None, {})


def test_the_namespace_is_the_variable_s_else_the_pod_s(tmp_path: Path) -> None:
    """POD_NAMESPACE wins over the service account's file; outside there is none."""
    file = tmp_path / "namespace"
    assert own_namespace({}, file) is None
    file.write_text("mesh\n")
    assert own_namespace({}, file) == "mesh"
    assert own_namespace({"POD_NAMESPACE": "other"}, file) == "other"
