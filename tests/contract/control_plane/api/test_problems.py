"""While the database does not answer, what is in memory is served on and changes are 503; then it heals."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from control_plane.auth.roles import Role
from tests.contract.control_plane.api.papers import backend
from tests.contract.control_plane.api.served import Served


@contextmanager
def held(data_dir: Path) -> Iterator[None]:
    """Hold the database's write lock, as a hung process would."""
    (path,) = data_dir.glob("*.db")
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


async def test_a_database_that_is_away_stops_changes_only(served: Served, admin: httpx.AsyncClient) -> None:
    """503 with retry-after within seconds; documents, known tokens and refusals are answered as ever."""
    await admin.put("/api/v1/backends/openai", json=backend())
    async with served.client(await served.token(Role.VIEWER)) as viewer:
        assert (await viewer.get("/api/v1/backends")).status_code == 200
        with held(served.data_dir):
            changes = [
                admin.put("/api/v1/backends/openai", json=backend(default=True)),
                admin.post("/api/v1/apply", json=[backend("b")]),
                admin.delete("/api/v1/backends/openai"),
                admin.post("/api/v1/revisions/1/rollback"),
                admin.post("/api/v1/tokens", json={"role": "viewer"}),
                admin.put("/api/v1/secrets/x", json={"values": {"k": "v"}}),
            ]
            for answer in await asyncio.wait_for(asyncio.gather(*changes), 20):
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
                assert answer.headers["content-type"] == "application/problem+json"
                assert "nothing was changed" in answer.json()["detail"]
                assert str(served.data_dir) not in answer.text
            assert (await admin.get("/api/v1/backends/openai")).json() == backend()
            assert (await admin.get("/healthz")).status_code == 200
            assert (await viewer.get("/api/v1/backends")).status_code == 200
            # The refusal stands although the audit cannot take it.
            assert (await viewer.delete("/api/v1/backends/openai")).status_code == 403
            async with served.client("wrong") as stranger:
                assert (await stranger.get("/api/v1/backends")).status_code == 401
        answer = await admin.put("/api/v1/backends/openai", json=backend(default=True))
        assert answer.status_code == 200
