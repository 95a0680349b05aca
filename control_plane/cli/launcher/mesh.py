"""All processes of a mesh together: started, watched until ready, stopped in order.

Envoy goes first, once it is idle; then what it talks to; then what that talks to.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from control_plane.cli.failures import CommandFailed
from control_plane.cli.launcher.child import Child, unheard
from control_plane.cli.launcher.drain import drain_envoy
from control_plane.cli.launcher.local import LocalCallError, call
from control_plane.cli.launcher.plan import ChildSpec, Role

# All must be gone within 12 s of the signal: 6 + 4 × 1, and two seconds to spare for a slow machine.
DRAIN_LIMIT_S: Final = 6.0
STOP_GRACE_S: Final = 1.0
HURRY_GRACE_S: Final = 0.2
POLL_S: Final = 0.1
CALL_TIMEOUT_S: Final = 2.0
# A process that has ended so often before the mesh was ever ready will not come up by itself.
HOPELESS_DEATHS: Final = 5
STOP_ORDER: Final = (
    (Role.ENVOY,),
    (Role.PROCESSOR, Role.PROVIDER),
    (Role.AGENT,),
    (Role.CONTROL_PLANE,),
)

Probe = Callable[[], Awaitable[str]]
"""Returns "" when the mesh is ready, else what is missing."""


class Mesh:
    """The processes of one launch. `write` takes lines for the log, `hear` what they tell the launcher."""

    def __init__(
        self, specs: Sequence[ChildSpec], write: Callable[[str], None], hear: Callable[[str], None] = unheard
    ) -> None:
        self.children = [Child(spec, write, hear) for spec in specs]

    def start(self) -> None:
        """Start every process."""
        for child in self.children:
            child.start()

    async def wait_ready(self, probe: Probe, limit_s: float | None, tell: Callable[[str], None]) -> None:
        """Wait until `probe` finds the mesh ready; `tell` hears what is missing meanwhile.

        Raises:
            CommandFailed: a process keeps ending, or `limit_s` seconds are over.
        """
        missing = "the processes are starting"
        try:
            async with asyncio.timeout(limit_s):
                while missing := await probe():
                    tell(f"not ready yet: {missing}")
                    self._give_up_if_hopeless()
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise CommandFailed(f"not ready after {limit_s:.0f} s: {missing}") from None
        for child in self.children:
            child.settle()

    def _give_up_if_hopeless(self) -> None:
        for child in self.children:
            if child.backoff.deaths >= HOPELESS_DEATHS:
                said = child.last_line.removeprefix("outrigger: ") or "no output"
                raise CommandFailed(f"the {child.spec.name} keeps ending: {said}")

    async def stop(self, envoy_admin_url: str | None, hurry: asyncio.Event) -> None:
        """Stop every process; `hurry` cuts short what is still in flight.

        `envoy_admin_url` None does not wait for requests in flight.
        """
        if envoy_admin_url is not None and any(self._running(Role.ENVOY)) and not hurry.is_set():
            draining = asyncio.create_task(drain_envoy(envoy_admin_url, DRAIN_LIMIT_S))
            hurrying = asyncio.create_task(hurry.wait())
            await asyncio.wait((draining, hurrying), return_when=asyncio.FIRST_COMPLETED)
            for task in (draining, hurrying):
                task.cancel()
            await asyncio.gather(draining, hurrying, return_exceptions=True)
        for roles in STOP_ORDER:
            grace_s = HURRY_GRACE_S if hurry.is_set() else STOP_GRACE_S
            ending = [child.stop(grace_s) for child in self.children if child.spec.role in roles]
            await asyncio.gather(*ending)

    def _running(self, role: Role) -> list[Child]:
        return [child for child in self.children if child.spec.role is role and child.pid is not None]


def control_plane_probe(api_url: str) -> Probe:
    """Return a probe of a control plane's `/readyz`."""

    async def probe() -> str:
        try:
            answer = await call("GET", f"{api_url}/readyz", CALL_TIMEOUT_S)
            return "" if answer.status == 200 else str(json.loads(answer.body)["reason"])
        except (LocalCallError, ValueError, KeyError, TypeError):
            return "the control plane does not answer"

    return probe


def envoy_probe(admin_url: str) -> Probe:
    """Return a probe of Envoy's own `/ready`, which waits for its first configuration."""

    async def probe() -> str:
        try:
            answer = await call("GET", f"{admin_url}/ready", CALL_TIMEOUT_S)
        except LocalCallError:
            return "Envoy does not answer"
        return "" if answer.status == 200 else "Envoy has no configuration"

    return probe
