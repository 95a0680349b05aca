"""Policy while the mesh runs: changed by the command line and the API, in force at once, kept over deaths."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.e2e.documents import PROVIDER_KEY
from tests.e2e.governed import ADMIN, BACKEND, SECOND, Governed, in_force, model
from tests.harness.mesh import Mesh
from tests.harness.processes import until
from tests.harness.rude import RudeProvider


@pytest.fixture(scope="module")
def started(simulated: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    """A mesh whose file has one Backend and one Model."""
    documents = BACKEND.format(name="simulated", port=simulated, default="true") + "---\n" + model("m", "one")
    with Mesh(tmp_path_factory.mktemp("governed"), documents, ("--admin-token", ADMIN)) as mesh:
        yield Governed(mesh)


@pytest.fixture
def governed(started: Governed) -> Iterator[Governed]:
    """The mesh as its file describes it, before the test and after it."""
    yield started
    started.good("rollback", "1")
    assert len(started.api.get("/models").json()["items"]) == 1
    until(lambda: in_force(started), 5, "the mesh is as it was")


def test_apply_diff_a_bad_change_and_rollback(governed: Governed, tmp_path: Path) -> None:
    """The day of a platform engineer: every step is in force at the proxy within a second."""
    first = governed.api.get("/revisions").json()["items"][0]["revision"]
    file = tmp_path / "mesh.yaml"
    file.write_text(model("m", "two") + "---\n" + model("n", "three"))
    status, out, _ = governed.run("diff", "-f", str(file))
    assert status == 1
    assert out.splitlines() == [
        "~ Model/m",
        "  - spec.versions[0].name: one",
        "  + spec.versions[0].name: two",
        "  - spec.versions[0].upstreamModel: one",
        "  + spec.versions[0].upstreamModel: two",
        "+ Model/n",
        "  + spec.versions[0].name: three",
        "  + spec.versions[0].backend: simulated",
        "  + spec.versions[0].upstreamModel: three",
    ]
    assert governed.chat("m").headers["x-outrigger-version"] == "one"

    out = governed.good("apply", "-f", str(file), "--wait")
    assert f"revision {first + 1}: 1 created, 1 updated" in out
    assert governed.chat("m").headers["x-outrigger-version"] == "two"
    assert governed.chat("n").headers["x-outrigger-version"] == "three"
    assert governed.run("diff", "-f", str(file)) == (0, "", "")
    assert "in force" in governed.good("status")

    file.write_text(model("m", "four") + "---\n" + model("n", "five", backend="simulatd"))
    status, out, err = governed.run("apply", "-f", str(file))
    assert (status, out) == (1, "")
    assert f'{file}:7: Model/n: spec.versions[0].backend: names the Backend "simulatd"' in err
    assert 'did you mean "simulated"?' in err
    assert governed.chat("m").headers["x-outrigger-version"] == "two"

    status, _, err = governed.run("delete", "backends", "simulated")
    assert status == 1
    assert "Model/m" in err

    governed.good("rollback", str(first))
    governed.within_a_second(
        lambda: governed.chat("m").headers.get("x-outrigger-version") == "one", "the first revision is back"
    )
    assert "x-outrigger-version" not in governed.chat("n").headers
    history = json.loads(governed.good("history", "-o", "json"))["items"]
    assert [(item["revision"], item["action"]) for item in history[:2]] == [
        (first + 2, "rollback"),
        (first + 1, "apply"),
    ]


CONSUMERS = """\
kind: Consumer
metadata: {name: team-a}
spec: {tenant: team-a}
---
kind: Policy
metadata: {name: known-callers}
spec: {failOpen: false, requireConsumer: true}
"""


def test_keys_live_and_die_within_a_second(governed: Governed) -> None:
    """Made, rotated with an overlap, revoked; and in no log, file or other answer."""
    mesh = governed.mesh
    governed.good("apply", "-f", "-", "--wait", stdin=CONSUMERS)
    assert governed.chat("m").status_code == 401
    first = governed.good("key", "create", "team-a").strip()
    assert first.startswith("ork_")
    governed.within_a_second(lambda: governed.chat("m", first).status_code == 200, "the key is known")
    (info,) = governed.api.get("/consumers/team-a/keys").json()["items"]
    second = governed.good("key", "rotate", "team-a", info["id"], "--overlap", "1h").strip()
    governed.within_a_second(lambda: governed.chat("m", second).status_code == 200, "the new key is known")
    assert governed.chat("m", first).status_code == 200, "the old key goes on for the overlap"
    governed.good("key", "revoke", "team-a", info["id"])
    governed.within_a_second(lambda: governed.chat("m", first).status_code == 401, "the key is refused")
    assert governed.chat("m", second).status_code == 200
    governed.good("delete", "consumers", "team-a")
    governed.within_a_second(lambda: governed.chat("m", second).status_code == 401, "its keys went with it")
    seen = mesh.log() + "".join(
        path.read_bytes().decode("latin-1") for path in mesh.data_dir.rglob("*") if path.is_file()
    )
    seen += governed.api.get("/audit").text + governed.api.get("/revisions").text
    for key in (first, second):
        assert key not in seen
        assert key.removeprefix("ork_")[:-4] not in seen


def test_a_stored_secret_reaches_the_provider_and_nobody_else(governed: Governed, rude: RudeProvider) -> None:
    """Set through the API, changed while the mesh runs; in no file, log, answer or config dump."""
    marker, later = PROVIDER_KEY, PROVIDER_KEY.replace("marker", "second")
    backend = BACKEND.format(name="rude", port=rude.port, default="false").replace(
        "default: false", "credentials: {secretRef: {name: rude, key: api-key}}"
    )
    assert governed.good("secret", "set", "rude", "api-key", stdin=marker + "\n") == (
        "secret rude stored: api-key\n"
    )
    governed.good(
        "apply", "-f", "-", "--wait", stdin=backend + "---\n" + model("secretive", "v", backend="rude")
    )

    def shown() -> str:
        """Return the key that the provider saw last."""
        assert governed.chat("secretive").status_code == 200
        headers = {name.lower(): value for name, value in rude.seen()[-1].headers}
        return headers["authorization"]

    governed.within_a_second(lambda: shown() == f"Bearer {marker}", "the key is used")
    governed.good("secret", "set", "rude", "api-key", stdin=later + "\n")
    governed.within_a_second(lambda: shown() == f"Bearer {later}", "the new key is used")
    status, _, err = governed.run("secret", "delete", "rude")
    assert status == 1
    assert "Backend/rude" in err
    mesh = governed.mesh
    seen = mesh.log() + "".join(
        path.read_bytes().decode("latin-1") for path in mesh.data_dir.rglob("*") if path.is_file()
    )
    seen += httpx.get(f"http://127.0.0.1:{mesh.admin_port}/config_dump").text
    for path in ("/secrets", "/snapshot", "/backends", "/audit", "/revisions", "/sidecars", "/explain"):
        seen += governed.api.get(path).text
    assert marker not in seen
    assert later not in seen


def batch(number: int, size: int) -> str:
    """Return `size` Consumers of one apply."""
    return "---\n".join(
        f"kind: Consumer\nmetadata: {{name: c{one}}}\nspec: {{tenant: batch-{number}}}\n"
        for one in range(size)
    )


def test_killed_in_the_middle_of_an_apply_it_is_all_or_nothing(governed: Governed) -> None:
    """Whenever the control plane dies, it comes back with one whole batch, and takes the next one."""
    size = 300
    before = governed.apply(batch(0, size))
    for number in (1, 3, 5):
        answered = threading.Event()

        def send(number: int = number, answered: threading.Event = answered) -> None:
            try:
                governed.apply(batch(number, size))
                answered.set()
            except httpx.HTTPError:
                pass

        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(0.05 * number)  # another moment of the apply each time
        governed.mesh.kill("control-plane")
        sender.join(60)
        until(governed.mesh.ready, 40, "the control plane is back")
        items = governed.api.get("/consumers").json()["items"]
        tenants = {item["spec"]["tenant"] for item in items}
        newest = governed.api.get("/revisions", params={"limit": 1}).json()["items"][0]
        assert len(items) == size
        assert len(tenants) == 1, "one batch, whole"
        if answered.is_set():
            assert tenants == {f"batch-{number}"}, "what was answered is kept"
        assert newest["revision"] in (before, before + 1)
        before = newest["revision"]
    assert governed.chat("m").status_code == 200


def test_a_control_plane_that_died_keeps_what_the_api_changed(governed: Governed) -> None:
    """Also where a file said something else at the start."""
    governed.apply(model("m", "changed"))
    until(lambda: governed.chat("m").headers["x-outrigger-version"] == "changed", SECOND, "in force")
    governed.mesh.kill("control-plane")
    assert governed.chat("m").headers["x-outrigger-version"] == "changed", "the sidecar goes on"
    until(governed.mesh.ready, 40, "the control plane is back")
    assert governed.api.get("/models/m").json()["spec"]["versions"][0]["name"] == "changed"


def test_the_next_start_applies_the_files_and_keeps_the_rest(governed: Governed) -> None:
    """Documents, keys and history of the same data folder; the file's own documents are as the file says."""
    governed.apply(model("m", "changed"), model("other", "two"), CONSUMERS)
    key = governed.good("key", "create", "team-a").strip()
    token = governed.good("token", "create", "--role", "viewer").strip()
    governed.mesh.stop()
    governed.mesh.start()
    assert governed.chat("m", key).headers["x-outrigger-version"] == "one"
    assert governed.chat("other", key).headers["x-outrigger-version"] == "two"
    assert governed.chat("other").status_code == 401
    viewer = {"authorization": f"Bearer {token}"}
    answer = governed.api.get("/revisions", headers=viewer)
    assert answer.status_code == 200
    newest = answer.json()["items"][0]
    assert (newest["action"], newest["actor"]) == ("start", "files")
    assert [change["document"] for change in newest["changes"]] == ["Model/m"]


def test_the_demo_hands_over_a_token_once(start_mesh: Callable[..., Mesh]) -> None:
    """At its first start; the next one finds its provider and what was changed again."""
    mesh = start_mesh(None)
    found = re.findall(r"export OUTRIGGER_TOKEN=(ort_\S+)", mesh.log())
    assert len(found) == 1
    governed = Governed(mesh, found[0])
    assert "gpt-4o-mini" in governed.good("get", "models")
    assert "fast" in governed.good("explain", "--model", "fast", "-o", "json")
    governed.good("delete", "models", "text-embedding-3-small")
    mesh.stop()
    kept = "".join(path.read_bytes().decode("latin-1") for path in mesh.data_dir.rglob("*") if path.is_file())
    assert found[0] not in kept
    port = int((mesh.data_dir / "provider-port").read_text())
    with socket.create_server(("127.0.0.1", port)):
        mesh.start()
        assert mesh.log().count(found[0]) == 1
        assert governed.chat("gpt-4o-mini").status_code == 200, "its Backend follows the provider's port"
        assert "text-embedding" not in governed.good("get", "models")
