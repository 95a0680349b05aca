"""The page at `/`."""

import httpx

from control_plane.auth.roles import Role
from control_plane.push.policy import Policy
from control_plane.push.sidecars import Identity
from control_plane.resources.compile import compile_snapshot
from tests.contract.control_plane.api.papers import backend
from tests.contract.control_plane.api.served import Served


async def test_it_shows_what_is_in_force_and_who_serves_it(served: Served, admin: httpx.AsyncClient) -> None:
    """Every name that came from outside is escaped."""
    await admin.put("/api/v1/backends/openai", json=backend())
    head = served.registry.in_force
    served.fleet.publish(Policy(1, lambda workload: compile_snapshot(head.documents, workload, 1)))
    sidecar = served.fleet.connect(Identity("<b>shop</b>", "shop"), lambda: None)
    served.fleet.next_message(sidecar)
    served.fleet.refuse(sidecar, sidecar.pushed, "<script>alert(1)</script>")
    text = (await admin.get("/")).text
    assert "Revision 1 is in force" in text
    assert "<tr><td>backends</td><td>1</td></tr>" in text
    assert "&lt;b&gt;shop&lt;/b&gt;" in text
    assert '<td class="bad">refused</td>' in text
    assert "<script>" not in text


async def test_it_shows_sidecars_to_whoever_may_see_them(served: Served) -> None:
    """A token with other scopes sees the rest."""
    async with served.client(await served.token(Role.VIEWER, "models:read")) as client:
        text = (await client.get("/")).text
    assert "Policy" in text
    assert "Sidecars" not in text
    async with served.client(await served.token(Role.VIEWER)) as client:
        assert "0 connected" in (await client.get("/")).text
