"""`python -m tests.soak [--minutes M] [--order N] [--only FAULT]…`: soak a mesh, and report.

The report goes to `.soak/`, its table to the terminal. The exit status is 1 when a promise is not kept. The
same `--order` does the same faults in the same order and asks the same questions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.harness.mesh import http_text
from tests.harness.processes import alive
from tests.soak import acts, canary, settled
from tests.soak.callers import Callers
from tests.soak.faults import Order
from tests.soak.lab import ADMIN, PROVIDER_KEY, Lab
from tests.soak.ledger import doubled, recoveries, spans_of, sum_up
from tests.soak.questions import Kind
from tests.soak.report import Figures, as_json, as_markdown, promises, with_last_run
from tests.soak.traffic import CROWD, PHONE, PROMPT_MARKER, SESSION_MARKER, WEIGHTS, Traffic
from tests.soak.watching import Watch

CALIBRATION_S: Final = 8.0
CALLERS: Final = 100
SETTLES_S: Final = 2.0
SHARE: Final = 0.6
REST_S: Final = (3.0, 7.0)
RECOVERS_S: Final = 10.0
# How many questions are asked at one moment, on an average: of a crowd several.
A_TIME: Final = 1 + (CROWD - 1) * WEIGHTS[Kind.CROWD] / sum(WEIGHTS.values())


def main() -> int:
    """Soak once; return the exit status."""
    options = _options()
    output = Path(options.output)
    output.mkdir(parents=True, exist_ok=True)
    # However it is ended, no process stays.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = Path(tempfile.mkdtemp(prefix="outrigger-soak-"))
    # PostgreSQL and others look into it as somebody else.
    folder.chmod(0o755)
    print(f"order {options.order}; logs, if they are wanted afterwards, in {folder}", flush=True)
    lab = Lab(folder, options.workers)
    with lab:
        figures = asyncio.run(_soak(lab, options))
        pids = [child.pid for child in lab.processes()] + [lab.sidecar.pid, lab.redis.pid, lab.provider.pid]
    figures.left = [f"process {pid}" for pid in pids if alive(pid)]
    (output / "report.json").write_text(json.dumps(as_json(figures), indent=2) + "\n", encoding="utf-8")
    (output / "report.md").write_text(as_markdown(figures), encoding="utf-8")
    if options.page is not None:
        text = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_last_run(text, as_markdown(figures)), encoding="utf-8")
    print(as_markdown(figures))
    for line in (*figures.sums.wrong[:20], *figures.sums.examples, *figures.doubles.unexplained[:20]):
        print(line)
    for line in (*figures.unsettled, *figures.canaries, *figures.leaked[:20]):
        print(line)
    if not all(one.kept for one in promises(figures)):
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0, help="How long faults are done.")
    parser.add_argument("--calm", type=float, default=3.0, help="Minutes without faults, afterwards.")
    parser.add_argument("--order", type=int, default=1, help="Which order of faults and questions.")
    parser.add_argument("--only", action="append", default=[], help="Only faults with this in their name.")
    parser.add_argument("--workers", type=int, default=2, help="Processors of the sidecar.")
    parser.add_argument("--per-second", type=float, default=0.0, help="Questions a second; 0: 60 %% of all.")
    parser.add_argument("--quiet", type=float, default=settled.QUIET_S, help="Seconds of rest at the end.")
    parser.add_argument("--output", default=".soak", help="Folder of the report.")
    parser.add_argument("--page", type=Path, help="Page whose last section the tables become.")
    return parser.parse_args()


async def _soak(lab: Lab, options: argparse.Namespace) -> Figures:
    chance = random.Random(options.order)
    tag = f"{options.order}x"
    port = lab.sidecar.proxy_port
    first = Callers(port, Traffic(random.Random(0), lab.consumer_key, "first"), random.Random(0))
    capacity = await first.flood(CALIBRATION_S, CALLERS)
    await first.answered()
    asked = options.per_second or capacity * SHARE
    print(f"{capacity:.0f} questions a second are possible; {asked:.0f} will be asked", flush=True)
    await asyncio.sleep(SETTLES_S)
    traffic = Traffic(random.Random(options.order), lab.consumer_key, tag)
    callers = Callers(port, traffic, random.Random(options.order + 1))
    watch, order = Watch(lab.processes), Order(lab, chance, options.only)
    watching = asyncio.create_task(watch.run())
    began_at = time.monotonic()
    seconds = options.minutes * 60
    # Without faults processes live long enough to show whether they grow, and nothing may go amiss.
    calm_s = max(options.calm * 60, RECOVERS_S)
    try:
        asking = asyncio.create_task(callers.ask_for(seconds + calm_s, asked / A_TIME))
        await order.run(began_at + seconds, REST_S)
        await asking
        await callers.answered()
        print(f"quiet for {options.quiet:.0f} s", flush=True)
        await asyncio.sleep(options.quiet)
        unsettled = await _unsettled(lab, tag, quiet_s=options.quiet)
    finally:
        watching.cancel()
        acts.let_all_go_on(lab)
    entries, faults = callers.entries, order.done
    lines = _diary(lab)
    calls = [line for line in lines if "names" in line]
    return Figures(
        order=options.order,
        minutes=options.minutes + options.calm,
        capacity_per_s=capacity,
        asked_per_s=asked,
        sums=sum_up(entries, faults, began_at),
        doubles=doubled(entries, spans_of(lines), faults, options.workers),
        calls=len(calls),
        leaked=[f"{line['leaked'] or line['wrong']}" for line in calls if line["leaked"] or line["wrong"]],
        unsettled=unsettled,
        growths=watch.grown(),
        canaries=await asyncio.to_thread(_canaries, lab),
        recovery_s=recoveries(entries, faults),
        faults=faults,
        entries=entries,
        refrained=callers.refrained,
    )


async def _unsettled(lab: Lab, tag: str, quiet_s: float) -> list[str]:
    found = await asyncio.to_thread(settled.held_places, lab)
    if quiet_s >= settled.QUIET_S:
        used = await asyncio.to_thread(settled.used_tokens, lab)
        found += [
            f"{name} has used {both} after {quiet_s:.0f} s of rest"
            for name, both in used.items()
            if any(both)
        ]
        amiss, _ = await settled.probe(lab, tag)
        found += amiss
        found += await asyncio.to_thread(settled.held_places, lab)
    return found


def _diary(lab: Lab) -> Sequence[dict[str, Any]]:
    found = []
    for line in lab.diary.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue  # written when the provider was killed
    return found


def _canaries(lab: Lab) -> list[str]:
    markers = {
        "the provider's key": PROVIDER_KEY,
        "the Consumer's key": lab.consumer_key,
        "the administrator's token": ADMIN,
        "a prompt": PROMPT_MARKER,
        "a phone number": PHONE,
        "a session's name": SESSION_MARKER,
    }
    own = [lab.folder / name for name in ("provider-key", "provider.jsonl", "joining")]
    found = list(canary.in_files(lab.folder, markers, own))
    found += [f"PostgreSQL: {line}" for line in canary.in_files(lab.postgres.folder, markers)]
    for name, url in (
        ("the sidecar's metrics", f"http://127.0.0.1:{lab.sidecar.metrics_port}/metrics"),
        ("Envoy's statistics", f"http://127.0.0.1:{lab.sidecar.admin_port}/stats"),
        ("Envoy's configuration", f"http://127.0.0.1:{lab.sidecar.admin_port}/config_dump?include_eds"),
        ("Envoy's clusters", f"http://127.0.0.1:{lab.sidecar.admin_port}/clusters"),
    ):
        found += [f"{name} hold {one}" for one in canary.found_in(http_text(url).encode(), markers)]
    for kept in lab.redis_command("KEYS", "*") or []:
        found += [f"the name of a key in Redis holds {one}" for one in canary.found_in(kept, markers)]
    told = {name: marker for name, marker in markers.items() if name != "the administrator's token"}
    for child in lab.processes():
        allowed = markers if child.role != "control-plane" else told
        found += canary.in_environment(child.pid, child.role, allowed)
        if canary.dumps_core(child.pid):
            found.append(f"the {child.role} may leave its memory in a file")
    return found


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
