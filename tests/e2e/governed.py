"""A mesh and the shell of somebody who may change its policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property

import httpx

from tests.harness.mesh import Mesh
from tests.harness.plain import PLAIN
from tests.harness.preloaded import Preloaded, preloaded
from tests.harness.processes import until

ADMIN = "admin-token-of-the-tests"
SECOND = 1.0
HELLO = {"messages": [{"role": "user", "content": "Hello"}]}

BACKEND = """\
kind: Backend
metadata: {{name: {name}}}
spec: {{url: "http://127.0.0.1:{port}/v1", default: {default}}}
"""


def model(name: str, *versions: str, backend: str = "simulated") -> str:
    """Return a Model with versions of these names, served by models of the same names."""
    listed = ", ".join(f"{{name: {one}, backend: {backend}, upstreamModel: {one}}}" for one in versions)
    return f"kind: Model\nmetadata: {{name: {name}}}\nspec: {{versions: [{listed}]}}\n"


class Governed:
    """One mesh, and the shell of somebody who may change its policy."""

    def __init__(self, mesh: Mesh, token: str = ADMIN) -> None:
        self.mesh = mesh
        self.server = f"http://127.0.0.1:{mesh.api_port}"
        self.api = httpx.Client(
            base_url=f"{self.server}/api/v1",
            headers={"authorization": f"Bearer {token}"},
            timeout=30,
            verify=PLAIN,
        )
        self._environment = {
            "OUTRIGGER_SERVER": self.server,
            "OUTRIGGER_TOKEN": token,
            "COLUMNS": "200",
        }
        self._held = ExitStack()

    @cached_property
    def _shell(self) -> Preloaded:
        # It ends with whoever holds it.
        return self._held.enter_context(preloaded("control_plane.cli.client", "control_plane.cli.apply"))

    def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        """Run a command; return its status, stdout and stderr."""
        done = self._shell.run(arguments, self._environment, stdin)
        assert "Traceback" not in done.stdout + done.stderr
        return done.returncode, done.stdout, done.stderr

    def good(self, *arguments: str, stdin: str = "") -> str:
        """Run a command that has to succeed; return its stdout."""
        status, out, err = self.run(*arguments, stdin=stdin)
        assert status == 0, err
        return out

    def apply(self, *documents: str) -> int:
        """Apply documents through the API; return the revision."""
        answer = self.api.post(
            "/apply", content="---\n".join(documents), headers={"content-type": "application/yaml"}
        )
        assert answer.status_code == 200, answer.text
        return int(answer.json()["revision"])

    def chat(self, name: str, key: str = "sk-any") -> httpx.Response:
        """Ask a Model for a completion."""
        return httpx.post(
            f"{self.mesh.url}/chat/completions",
            json={"model": name, **HELLO},
            verify=PLAIN,
            headers={"authorization": f"Bearer {key}"},
            timeout=20,
        )

    def within_a_second(self, probe: Callable[[], object], what: str) -> None:
        """Wait until a change is in force."""
        until(lambda: bool(probe()), SECOND, what)


@contextmanager
def lent(mesh: Mesh, *documents: str) -> Iterator[Mesh]:
    """Let a file of tests have a mesh with more documents, which it keeps until the last of them.

    One of the same kind and name as the mesh's own stands in for that.
    """
    lender = Governed(mesh)
    before = lender.api.get("/revisions", params={"limit": 1}).json()["items"][0]["revision"]
    lender.apply(*documents)
    until(lambda: in_force(lender), 10, "the documents are in force")
    try:
        yield mesh
    finally:
        answer = lender.api.post(f"/revisions/{before}/rollback")
        assert answer.status_code == 200, answer.text
        until(lambda: in_force(lender), 10, "the mesh is as it was")


def in_force(governed: Governed) -> bool:
    """Return whether the sidecar serves the newest revision."""
    (sidecar,) = governed.api.get("/sidecars").json()["items"]
    return bool(sidecar["inForce"])
