"""What is done to the lab's processes: killed, frozen, slowed; and to what they stand on."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from tests.harness.processes import alive, until
from tests.soak.documents import changes
from tests.soak.lab import Lab, signal_all

Act: TypeAlias = Callable[[Lab, random.Random], None]
"""One thing done, in a thread. It may raise OSError: it could not be done."""

START_S = 30.0
SLOW_S = 5.0
SLOW_ON_S = 0.02
SLOW_OFF_S = 0.06


def pids_of(lab: Lab, role: str) -> list[int]:
    """Return the processes of a role: one of the mesh's, `redis` or `provider`."""
    outside = {"redis": lab.redis, "provider": lab.provider}
    if role in outside:
        return [pid for pid in (outside[role].pid,) if pid]
    return [child.pid for child in lab.processes() if child.role == role]


def killing(role: str, *, one: bool = False, number: signal.Signals = signal.SIGKILL) -> Act:
    """Send a signal to the processes of a role, or to one of them."""

    def kill(lab: Lab, chance: random.Random) -> None:
        pids = pids_of(lab, role)
        signal_all([chance.choice(pids)] if one and pids else pids, number)

    return kill


def freezing(role: str, *, one: bool = False) -> tuple[Act, Act]:
    """Stop the processes of a role, or one of them; and let them go on."""
    stopped: list[int] = []

    def freeze(lab: Lab, chance: random.Random) -> None:
        pids = pids_of(lab, role)
        stopped[:] = [chance.choice(pids)] if one and pids else pids
        signal_all(stopped, signal.SIGSTOP)

    def thaw(lab: Lab, chance: random.Random) -> None:
        signal_all(stopped, signal.SIGCONT)

    return freeze, thaw


def slowing(role: str) -> Act:
    """Let the processes of a role run a quarter of the time only, for five seconds."""

    def slow(lab: Lab, chance: random.Random) -> None:
        pids = pids_of(lab, role)
        ending = time.monotonic() + SLOW_S
        try:
            while time.monotonic() < ending and any(map(alive, pids)):
                signal_all(pids, signal.SIGSTOP)
                time.sleep(SLOW_OFF_S)
                signal_all(pids, signal.SIGCONT)
                time.sleep(SLOW_ON_S)
        finally:
            signal_all(pids, signal.SIGCONT)

    return slow


def mode(**told: float) -> Act:
    """Have the provider be like that."""
    return lambda lab, chance: lab.provider_mode(**told)


def end_redis(lab: Lab, chance: random.Random) -> None:
    """Kill Redis, with all it holds."""
    lab.redis.end(signal.SIGKILL)


def empty_redis(lab: Lab, chance: random.Random) -> None:
    """Have Redis forget everything while it goes on."""
    lab.redis_command("FLUSHALL")


def start_redis(lab: Lab, chance: random.Random) -> None:
    """Start Redis, empty."""
    lab.redis.start()
    until(lab.redis_answers, START_S, "Redis answers")


def start_provider(lab: Lab, chance: random.Random) -> None:
    """Start the provider."""
    lab.provider.start()
    until(lab.provider_answers, START_S, "the provider answers")


def start_control_plane(lab: Lab, chance: random.Random) -> None:
    """Start the control plane."""
    lab.control_plane.start()
    until(lambda: lab.api_status("healthz") == 200, START_S, "the API answers")


def end_provider(lab: Lab, chance: random.Random) -> None:
    """Kill the provider."""
    lab.provider.end(signal.SIGKILL)


def end_control_plane(lab: Lab, chance: random.Random) -> None:
    """Kill the control plane."""
    lab.control_plane.end(signal.SIGKILL)


def renew_certificates(lab: Lab, chance: random.Random) -> None:
    """Give provider and push stream new certificates; who was connected connects anew."""
    lab.renew_certificates()
    lab.provider.end(signal.SIGKILL)
    start_provider(lab, chance)
    lab.control_plane.end(signal.SIGTERM)
    start_control_plane(lab, chance)


def change_policy(lab: Lab, chance: random.Random) -> None:
    """Change the policy ten times, to what it was in the end."""
    for path, document in changes():
        lab.api("PUT", path, document)
        time.sleep(0.4)


def roll_back(lab: Lab, chance: random.Random) -> None:
    """Change the policy, and roll that back."""
    newest = max(int(one["revision"]) for one in lab.api("GET", "revisions")["items"])
    path, document = changes()[0]
    lab.api("PUT", path, document)
    time.sleep(1)
    lab.api("POST", f"revisions/{newest}/rollback", {})


def fill_disk(lab: Lab, chance: random.Random) -> None:
    """Fill the disk of the data folders, and change the policy, which is kept there."""
    lab.fill_disk()
    change_policy(lab, chance)


def free_disk(lab: Lab, chance: random.Random) -> None:
    """Make room again."""
    lab.free_disk()


def step_clock(seconds: float) -> Act:
    """Step the time of day of the mesh."""
    return lambda lab, chance: lab.clock.step(seconds)


def let_all_go_on(lab: Lab) -> None:
    """Let everything go on that is stopped."""
    with suppress(OSError):
        signal_all([child.pid for child in lab.processes()], signal.SIGCONT)
        signal_all([kept.pid for kept in (lab.redis, lab.provider) if kept.pid], signal.SIGCONT)
        lab.postgres.thaw()
