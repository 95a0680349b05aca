"""The chart at an upgrade: what it made once is found in the cluster and kept.

The cluster is an HTTP server that knows a few Secrets, which is all that the chart looks up.
"""

from __future__ import annotations

import json
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import helm_python
import pytest
import yaml

from tests.harness.chart import CHART

Object = dict[str, Any]
NAMESPACE = "outrigger-system"
DISCOVERY: dict[str, Object] = {
    "/version": {"major": "1", "minor": "36", "gitVersion": "v1.36.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {
        "kind": "APIResourceList",
        "groupVersion": "v1",
        "resources": [
            {
                "name": "secrets",
                "singularName": "secret",
                "namespaced": True,
                "kind": "Secret",
                "verbs": ["get"],
            }
        ],
    },
}


@contextmanager
def cluster(secrets: dict[str, Object]) -> Iterator[helm_python.Config]:
    """Serve the Secrets, by their names, as an API server would."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            answer = DISCOVERY.get(path) or secrets.get(
                path.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/secrets/")
            )
            body = json.dumps(answer or {"kind": "Status", "code": 404, "reason": "NotFound"}).encode()
            self.send_response(200 if answer else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    try:
        with helm_python.Config(
            kubeconfig_content=json.dumps(kubeconfig), namespace=NAMESPACE, storage_driver="memory"
        ) as config:
            yield config
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def made(config: helm_python.Config, values: Object) -> dict[str, Object]:
    """Return the Secrets that an upgrade would apply, by name."""
    with helm_python.Chart.load(CHART) as chart:
        rendered = config.render(chart, values, name="outrigger", namespace=NAMESPACE, is_upgrade=True)
    found = (
        item
        for path, text in rendered.items()
        if path.endswith(".yaml")
        for item in yaml.load_all(text, Loader=yaml.CSafeLoader)
        if item and item["kind"] == "Secret"
    )
    return {item["metadata"]["name"]: item for item in found}


VALUES: dict[str, Object] = {
    "sqlite": {},
    "postgresql": {"controlPlane": {"database": {"url": "postgresql://db/outrigger"}}},
    "bundled": {"postgresql": {"bundled": {"enabled": True}}},
}


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_what_was_made_once_survives_an_upgrade(values: Object) -> None:
    """Admin token, encryption key and the bundled database's password stay; a new install has new ones."""
    with cluster({}) as config:
        first, other = made(config, values), made(config, values)
    assert first["outrigger-admin"]["data"] != other["outrigger-admin"]["data"]
    with cluster(first) as config:
        assert made(config, values) == first


def test_a_secret_of_another_shape_gets_what_is_missing() -> None:
    """One that is there without the token, such as an emptied one, is filled."""
    empty = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "outrigger-admin"}}
    with cluster({"outrigger-admin": empty}) as config:
        token = made(config, {})["outrigger-admin"]["data"]["token"]
    assert len(b64decode(token)) == 48


def test_the_webhooks_certificate_is_not_taken_away() -> None:
    """Whatever the control plane has put into its Secret, the chart applies none of it."""
    name = "outrigger-webhook-certificate"
    filled = {"kind": "Secret", "metadata": {"name": name}, "data": {"tls.crt": b64encode(b"x").decode()}}
    with cluster({name: filled}) as config:
        assert "data" not in made(config, {})[name]
