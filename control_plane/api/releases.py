"""Releases on their way: how far each is, with its numbers, and what people do to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from control_plane.api.caller import actor_of
from control_plane.api.documents import document_response
from control_plane.api.examples import EXAMPLES
from control_plane.api.operations import CHANGING, Answer, Operation, add, schema_ref
from control_plane.api.ports import ReleaseBook
from control_plane.api.wire import timestamp, to_json
from control_plane.auth.roles import Need, Role
from control_plane.registry.errors import NotFoundError
from control_plane.registry.releases import Judged
from control_plane.releases.counts import Counts
from control_plane.releases.histograms import GROWTH, quantile
from control_plane.releases.machine import Action, Standing
from ext_proc.contract.comparisons import Likeness

Name = Annotated[str, Path(description="The Release's name.", max_length=1_000)]

SUMMARIES: Final = {
    Action.PROMOTE: ("Promote a Release", "One step on; after the last step its share is 100."),
    Action.PAUSE: ("Pause a Release", "Its share stays, and nothing moves it but people."),
    Action.RESUME: ("Resume a Release", "A paused Release goes on where it was."),
    Action.ABORT: ("Abort a Release", "Its share is 0 from now on, and it has ended."),
}

STATUS_EXAMPLE: Final[dict[str, Any]] = {
    "phase": "progressing",
    "step": 2,
    "share": 25,
    "reason": "baking, 420 s left: every gate holds after 800 requests: errorRate 0.00875 (old 0.01)",
    "since": "2026-01-31T08:00:00Z",
    "decisions": [
        {"at": "2026-01-31T07:50:00Z", "phase": "pending", "step": 1, "share": 5, "reason": "applied"}
    ],
    "analysis": {
        "outcome": "pass",
        "old": {
            "requests": 2400,
            "errors": 24,
            "latencyP95Ms": 812.0,
            "ttftP95Ms": None,
            "durations": [{"upToMs": 789.75, "calls": 2240}, {"upToMs": 868.72, "calls": 136}],
        },
        "new": {
            "requests": 800,
            "errors": 7,
            "latencyP95Ms": 790.0,
            "ttftP95Ms": None,
            "durations": [{"upToMs": 789.75, "calls": 753}, {"upToMs": 868.72, "calls": 40}],
        },
        "gates": [
            {
                "gate": "errorRate",
                "outcome": "pass",
                "old": 0.01,
                "new": 0.00875,
                "limit": 0.01,
                "evidence": 0.4,
                "needed": 50.0,
            }
        ],
    },
    "shadow": {
        "compared": 400,
        "agreement": 0.94,
        "similarity": 0.83,
        "lengthRatio": 1.06,
        "otherStatus": 2,
        "otherFinish": 5,
    },
    "cache": {"compared": 60, "disagreed": 3},
}


@dataclass(frozen=True, slots=True)
class ReleaseRoutes:
    """The four actions."""

    book: ReleaseBook

    def acting(self, action: Action) -> Callable[[Request, str], Awaitable[Response]]:
        """Return the handler of one action."""

        async def act(request: Request, name: Name) -> Response:
            await self.book.act_on_release(name, action, actor_of(request))
            stored = self.book.head.stored.get(("Release", name))
            if stored is None:
                # Deleted since; it did move.
                raise NotFoundError(f"Release/{name}")
            return document_response(stored, await status_json(self.book, name))

        return act


async def status_json(book: ReleaseBook, name: str) -> bytes:
    """Return the `status` of a Release as JSON: null for one that was written before there was any."""
    try:
        return to_json(_status(await book.release_verdict(name)))
    except NotFoundError:
        return b"null"


def add_release_routes(app: FastAPI, book: ReleaseBook) -> None:
    """Serve the actions."""
    routes = ReleaseRoutes(book)
    for action, (summary, description) in SUMMARIES.items():
        add(
            app,
            Operation(
                "POST",
                f"/api/v1/releases/{{name}}/{action}",
                "releases",
                summary,
                Need(Role.EDITOR, "releases:write"),
                {
                    200: Answer(
                        "The Release, with how far it is now.",
                        schema_ref("Release"),
                        {**EXAMPLES["Release"], "status": STATUS_EXAMPLE},
                    )
                },
                f"{description} Refused (409) when it has ended"
                + (", or moved in the meantime." if action in (Action.PROMOTE, Action.RESUME) else "."),
                problems=(404, 409, *CHANGING),
            ),
            routes.acting(action),
        )


def standing_wire(standing: Standing) -> dict[str, Any]:
    """Return how far a Release is, without its numbers; its reason is that of its last move."""
    return {
        "phase": standing.phase,
        "step": standing.step,
        "share": standing.share,
        "reason": standing.reason,
        "since": _time(standing.since_s),
        "decisions": [
            {
                "at": _time(made.at_s),
                "phase": made.phase,
                "step": made.step,
                "share": made.share,
                "reason": made.reason,
            }
            for made in standing.decisions
        ],
    }


def _status(judged: Judged) -> dict[str, Any]:
    standing, verdict = judged.standing, judged.verdict
    return {
        **standing_wire(standing),
        "reason": judged.reason,
        "analysis": {
            "outcome": verdict.outcome,
            "old": _counts(judged.counts.old),
            "new": _counts(judged.counts.new),
            "gates": verdict.readings,
        },
        "shadow": _shadow(judged.likeness),
        "cache": _cache(judged.likeness),
    }


def _shadow(likeness: Likeness) -> dict[str, Any] | None:
    """Return how alike the answers were that both versions gave; None before the first."""
    pairs = likeness.compared
    if not pairs and not likeness.other_status:
        return None
    return {
        "compared": pairs,
        "agreement": likeness.agreed / pairs if pairs else None,
        "similarity": likeness.similarity_milli / 1000 / pairs if pairs else None,
        "lengthRatio": likeness.new_chars / likeness.old_chars if likeness.old_chars else None,
        "otherStatus": likeness.other_status,
        "otherFinish": likeness.other_finish,
    }


def _cache(likeness: Likeness) -> dict[str, int] | None:
    """Return how often a version's answer was not like the other one's cached one; None before the first."""
    if not likeness.cache_compared:
        return None
    return {"compared": likeness.cache_compared, "disagreed": likeness.cache_disagreed}


def _counts(counts: Counts) -> dict[str, Any]:
    return {
        "requests": counts.calls,
        "errors": counts.errors,
        "latencyP95Ms": quantile(counts.duration, 0.95),
        "ttftP95Ms": quantile(counts.first_byte, 0.95),
        "durations": [
            {"upToMs": round(GROWTH**bucket, 2), "calls": calls}
            for bucket, calls in sorted(counts.duration.items())
        ],
    }


def _time(at_s: float) -> str:
    return timestamp(datetime.fromtimestamp(at_s, UTC))
