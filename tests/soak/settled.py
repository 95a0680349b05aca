"""Whether limits and quotas hold nothing once all is quiet, and count to the token what is asked then."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Sequence
from typing import Any, Final

from ext_proc.stores.limit_words import PREFIX as LIMITS
from tests.harness.raw_http import Answer, post
from tests.soak.documents import NARROW, PLACES
from tests.soak.lab import Lab

QUIET_S: Final = 66.0
PROBES: Final = 24
TIER: Final = {"x-outrigger-tier": "soaked"}


def held_places(lab: Lab) -> list[str]:
    """Return a line for each set of places in Redis that somebody still holds."""
    keys = lab.redis_command("KEYS", "outrigger:{*") or []
    lines = []
    for key in sorted(map(bytes.decode, keys)):
        if "places" not in key:
            continue
        if held := lab.redis_command("ZCARD", key):
            lines.append(f"{key} holds {held}")
    return lines


def used_tokens(lab: Lab) -> dict[str, tuple[int, int]]:
    """Return what each account has used of its minute in Redis: requests and tokens."""
    used = {}
    for key in map(bytes.decode, lab.redis_command("KEYS", f"{LIMITS.replace('{', '[{]')}*") or []):
        name = key.removeprefix(LIMITS)
        raw = lab.redis_command("GET", key) if lab.redis_command("TYPE", key) == b"string" else None
        if raw and not name.startswith(("day:", "asked:", "places:")) and len(raw) >= 16:
            requests, tokens = struct.unpack(">dd", raw[:16])
            used[name] = int(requests), int(tokens)
    return used


async def probe(lab: Lab, tag: str) -> tuple[list[str], int]:
    """Ask a known number of questions at once and compare; return what is amiss, and how many were asked.

    As many as there are places have to go at the same time, of the Tier and of the bounded Backend.
    """
    port = lab.sidecar.proxy_port
    amiss = []
    answers = await asyncio.gather(
        *(post(port, _chat("plain", f"q-probe{tag}-{number}", number % 2 == 1), TIER, seconds=30)
          for number in range(PLACES))
    )  # fmt: skip
    if refused := [one.status for one in answers if one.status != 200]:
        amiss.append(f"of {PLACES} calls for {PLACES} places, {len(refused)} were refused: {set(refused)}")
    narrow = await asyncio.gather(
        *(post(port, _chat("narrow", f"q-narrowprobe{tag}-{n}", False), seconds=30) for n in range(NARROW))
    )
    if refused := [one.status for one in narrow if one.status != 200]:
        amiss.append(f"of {NARROW} calls for {NARROW} places of a Backend, {len(refused)} were refused")
    await asyncio.sleep(1.5)  # the last settlements are on their way
    spent = sum(map(_tokens, answers))
    counted = used_tokens(lab)
    found = next(iter(counted.values())) if len(counted) == 1 else None
    if found != (PLACES, spent):
        amiss.append(f"{PLACES} calls of {spent} tokens are counted as {counted}")
    return amiss, PLACES + NARROW


def _chat(model: str, name: str, streamed: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": name}]}
    if streamed:
        document |= {"stream": True, "stream_options": {"include_usage": True}}
    return document


def _tokens(answer: Answer) -> int:
    if answer.status != 200:
        return 0
    if (answer.get("content-type") or "").startswith("application/json"):
        return int(answer.json()["usage"]["total_tokens"])
    usages: Sequence[dict[str, Any]] = [
        found["usage"]
        for event in answer.body.split(b"\n\n")
        if event.startswith(b"data: {") and (found := json.loads(event[6:])).get("usage")
    ]
    return int(usages[-1]["total_tokens"]) if usages else 0
