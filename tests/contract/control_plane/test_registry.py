"""The registry as a whole: killed in the middle of a change, and at the size it is made for."""

import asyncio
import random
import re
import sys
import time
from pathlib import Path

from control_plane.registry.registry import Registry
from control_plane.resources.loading import RawDocument
from control_plane.store.opening import store_for
from tests.harness.registries import ACTOR, backend, consumer, model, new_registry, raw

MANY = 200
KILLS = 2

# Applies the same documents with one number in all of them, and says so once it is done.
WRITER = """
import asyncio, sys
from pathlib import Path
from control_plane.store.opening import store_for
from tests.harness.registries import ACTOR, consumer, new_registry

async def main(database, folder, many):
    registry = new_registry(store_for(database, folder), folder)
    await registry.open()
    while True:
        number = registry.head.revision + 1
        await registry.apply([consumer(f"c{i}", f"t{number}") for i in range(many)], ACTOR)
        print("applied", number, flush=True)

asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
"""


async def test_a_control_plane_killed_in_the_middle_of_a_change_leaves_all_of_it_or_nothing(
    database: str, tmp_path: Path
) -> None:
    """What was answered is there; what was not is there as a whole or not at all; the next start goes on."""
    chance = random.Random(1)
    last = 0
    for _ in range(KILLS):
        writer = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WRITER, database, str(tmp_path), str(MANY), stdout=asyncio.subprocess.PIPE
        )
        assert writer.stdout is not None
        begun = await writer.stdout.readuntil(b"applied ")
        await asyncio.sleep(chance.uniform(0, 0.3))
        writer.kill()
        answered = re.findall(rb"applied (\d+)\n", begun[-8:] + await writer.stdout.read())
        await writer.wait()
        last = max([last, *map(int, answered)])
        registry = new_registry(store_for(database, tmp_path), tmp_path)
        await registry.open()
        head = registry.head
        assert head.revision in (last, last + 1)
        assert {spec.tenant for spec in head.documents.consumers.values()} == {f"t{head.revision}"}
        assert len(head.documents.consumers) == MANY
        numbers = [item.revision for item in await registry.revisions(limit=500)]
        assert numbers == list(range(head.revision, max(0, head.revision - 500), -1))
        await registry.close()


def five_thousand(tenant: str, first: int = 0, count: int = 5_000) -> list[RawDocument]:
    """Return documents of several kinds that name each other."""
    found = [backend()]
    for number in range(first, first + count):
        if number % 5 < 2:
            found.append(consumer(f"c{number}", tenant))
        elif number % 5 < 4:
            found.append(model(f"m{number}", aliases=[f"a{number}-{tenant}"]))
        else:
            settings = {"cache": {"enabled": True, "ttl": "1h"}, "hold": {"max": f"{len(tenant)}s"}}
            found.append(raw("Policy", f"p{number}", target={"models": [f"m{number}*"]}, **settings))
    return found


async def test_five_hundred_documents_are_applied_among_five_thousand(database: str, tmp_path: Path) -> None:
    """Within three seconds on a core that others use too; a restart and a single change are quick as well."""

    async def opened() -> Registry:
        registry = new_registry(store_for(database, tmp_path), tmp_path)
        await registry.open()
        return registry

    registry = await opened()
    await registry.apply(five_thousand("t"), ACTOR)
    spent: dict[str, float] = {}
    began = time.monotonic()
    applied = await registry.apply(five_thousand("other", count=500), ACTOR)
    spent["apply"] = time.monotonic() - began
    assert sum(change.action == "update" for change in applied.changes) == 500
    began = time.monotonic()
    await registry.put("Consumer", "c0", consumer("c0", "third"), ACTOR)
    spent["put"] = time.monotonic() - began
    await registry.close()
    began = time.monotonic()
    again = await opened()
    spent["open"] = time.monotonic() - began
    assert len(again.head.stored) == 5_001
    await again.close()
    assert spent["apply"] < 3, spent
    assert spent["put"] < 3, spent
    assert spent["open"] < 10, spent
