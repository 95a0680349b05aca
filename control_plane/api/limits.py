"""What is used of limits, by account: a Tier's own limits are counted for each Consumer of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from fastapi import FastAPI
from starlette.responses import Response

from control_plane.api.operations import JSON, Answer, Operation, add, schema_ref
from control_plane.api.wire import to_json
from control_plane.auth.roles import Need, Role
from ext_proc.contract.uses import MAX_USES, Use, Uses

_MILLION: Final = 1_000_000


class Using(Protocol):
    """Knows what is used."""

    def most(self, limit: int) -> Uses:
        """Return the accounts that use most."""


@dataclass(frozen=True, slots=True)
class LimitRoutes:
    """`/api/v1/limits`."""

    uses: Using

    async def list(self) -> Response:
        """Answer the accounts that use most."""
        items = [item_of(account, use) for account, use in self.uses.most(MAX_USES).items()]
        return Response(to_json({"items": items}), media_type=JSON)


def item_of(account: str, use: Use) -> dict[str, Any]:
    """Return an account as it is answered."""
    kind, _, rest = account.partition(":")
    name, _, consumer = rest.partition("/") if kind == "tier" else (rest, "", "")
    return {
        "kind": kind,
        "name": name,
        "consumer": consumer or (name if kind == "consumer" else None),
        "requestsPerMinute": use.requests,
        "tokensPerMinute": use.tokens,
        "tokensPerDay": use.day_tokens,
        "costPerDay": use.day_cost_micros / _MILLION,
        "concurrency": use.at_once,
    }


def add_limit_routes(app: FastAPI, uses: Using) -> None:
    """Serve what is used of limits."""
    routes = LimitRoutes(uses)
    add(
        app,
        Operation(
            "GET",
            "/api/v1/limits",
            "mesh",
            "List what is used of limits",
            Need(Role.VIEWER, "sidecars:read"),
            {200: Answer("The accounts that use most.", schema_ref("LimitUseList"), {"items": [EXAMPLE]})},
            "The hundred accounts that used most in the last minute, by what connected sidecars tell every "
            "few seconds of the calls they admitted. `kind` is `tier`, `consumer` or `model`; of a Tier "
            "there is one account for each `consumer` of it, and one with null for all callers without. "
            "Fields are named as the limits that they count against. A sidecar that restarts forgets what it "
            "admitted.",
        ),
        routes.list,
    )


EXAMPLE: Final[dict[str, Any]] = item_of("tier:gold/team-a", Use(42, 18_300, 1_204_000, 2_310_000, 3))
