"""`outrigger tune`: find the batch size, and write it into a Policy."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from control_plane.cli.apply import seconds
from control_plane.cli.failures import CommandFailed
from control_plane.cli.measuring import Headers, Html, ModelName, TargetCa, Timeout, Url
from control_plane.cli.options import DEFAULT_SERVER, Ca, Format, Output, Server, TokenFile
from control_plane.resources.quantities import parse_duration_ms
from control_plane.tools.load.calls import Operation, guessed_operation
from control_plane.tools.tune.settings import Method, Setting, Target

if TYPE_CHECKING:
    from rich.console import RenderableType

    from control_plane.cli.trial_policy import TrialPolicy
    from control_plane.tools.tune.asking import Questions
    from control_plane.tools.tune.racing import Race
    from control_plane.tools.tune.report import Report
    from control_plane.tools.tune.tuning import Task

NUMBERS: Final = 1_000_000_000
LARGEST: Final = 2048
MOST_TRIED: Final = 60


def whole_numbers(text: str) -> tuple[int, ...]:
    """Return the sizes that `5,10,20` lists.

    Raises:
        BadParameter: it lists none.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and 1 <= int(part) <= LARGEST for part in parts):
        raise typer.BadParameter(f"is no list of sizes from 1 to {LARGEST}, such as 5,10,20,50")
    return tuple(map(int, parts))


def durations(text: str) -> tuple[int, ...]:
    """Return the milliseconds that `50ms,200ms` lists.

    Raises:
        BadParameter: it lists none.
    """
    try:
        found = tuple(parse_duration_ms(part.strip()) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise typer.BadParameter("is no list of durations, such as 50ms,200ms")
    return found


def tune(
    *,
    url: Url,
    model: ModelName,
    sizes: Annotated[
        Any, typer.Option(metavar="N,N,…", parser=whole_numbers, help="Batch sizes to try; 1 is no batch.")
    ] = "1,5,10,20,50",
    windows: Annotated[
        Any, typer.Option(metavar="T,T,…", parser=durations, help="Windows to try too; with --policy.")
    ] = None,
    requests: Annotated[
        int, typer.Option(min=2, max=10_000_000, help="Budget: questions asked altogether.")
    ] = 2000,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="Budget: tokens read and written altogether.")
    ] = None,
    target: Annotated[Target, typer.Option(help="What the best size is best at.")] = Target.THROUGHPUT,
    max_p99: Annotated[
        Any, typer.Option(metavar="DURATION", parser=seconds, help="A size that is slower is no choice.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Callers to imagine: questions in flight.", show_default="64"),
    ] = None,
    method: Annotated[
        Method | None,
        typer.Option(help="How batches are made.", show_default="policy with --policy, else what is taken"),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The Policy that sidecars batch by: set for each trial, put back."),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write the best into --policy, and say what changed.")
    ] = False,
    prompt: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What to ask; {n} becomes a number.")
    ] = None,
    requests_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSONL of request bodies with equal parameters.")
    ] = None,
    operation: Annotated[
        Operation | None, typer.Option(help="What to ask for.", show_default="by the model's name")
    ] = None,
    answer_tokens: Annotated[int | None, typer.Option(min=1, help="Bound of each answer.")] = None,
    input_price: Annotated[
        float | None, typer.Option(min=0, help="Of a million tokens read; else the cost is in tokens.")
    ] = None,
    output_price: Annotated[float | None, typer.Option(min=0, help="Of a million tokens written.")] = None,
    duration: Annotated[
        Any, typer.Option(metavar="DURATION", parser=seconds, help="Budget: time altogether.")
    ] = "10m",
    html: Html = None,
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the figure alone, as SVG.")
    ] = None,
    header: Headers = None,
    timeout: Timeout = "60s",
    target_ca: TargetCa = None,
    output: Format = Output.TEXT,
    server: Server = DEFAULT_SERVER,
    token_file: TokenFile = None,
    ca: Ca = None,
) -> None:
    """Find how many questions should share a call, within a budget.

    Sizes are tried in rounds under the same pressure; one that is clearly worse drops out, and the trials end
    when the choice is sure. Against a provider this command makes the batches: a list of inputs, or of
    conversations where the provider takes one. With --policy the sidecar makes them: each size is set in that
    Policy, single requests are sent, and what was there is put back at the end, unless --apply.
    """
    import uvloop  # noqa: PLC0415 - keeps --help quick

    from control_plane.cli.measuring import sent_headers, writable, write_page  # noqa: PLC0415
    from control_plane.cli.printing import as_yaml, show, write  # noqa: PLC0415
    from control_plane.tools.load.wire import Endpoint  # noqa: PLC0415
    from control_plane.tools.tune.choosing import Demand  # noqa: PLC0415
    from control_plane.tools.tune.page import alone, curves, tune_page  # noqa: PLC0415
    from control_plane.tools.tune.racing import DEFAULT_CALLERS, Budget, Race, callers_within  # noqa: PLC0415
    from control_plane.tools.tune.scoring import Prices  # noqa: PLC0415
    from control_plane.tools.tune.settings import settings  # noqa: PLC0415
    from control_plane.tools.tune.tuning import Task  # noqa: PLC0415

    writable(html)
    writable(svg)
    candidates = settings(sizes, windows or ())
    by_policy = (method or (Method.POLICY if policy else None)) is Method.POLICY
    _check(policy, apply=apply, windows=windows is not None, by_policy=by_policy, tried=len(candidates))
    task = Task(
        model=model,
        endpoint=Endpoint(url, sent_headers(header or [], os.environ), float(timeout), target_ca),
        questions=_questions(model, operation, prompt, requests_file, answer_tokens),
        method=Method.POLICY if by_policy else method,
        duration_s=float(duration),
        first=random.randrange(NUMBERS),
        policy=policy,
    )
    prices = Prices()
    if input_price is not None or output_price is not None:
        prices = Prices(input_price or 0.0, output_price or 0.0)
    budget = Budget(requests, max_tokens)
    race = Race(
        candidates,
        Demand(target, None if max_p99 is None else float(max_p99) * 1000),
        budget,
        callers_within(concurrency or DEFAULT_CALLERS, candidates, budget),
        random.Random(),
        prices,
    )
    with _policy(policy, server, token_file, ca) as trial:
        made = uvloop.run(_tuned(task, race, trial if by_policy else None))
        if trial is not None:
            _settle(trial, made, apply=apply)
    if output is Output.JSON:
        import orjson  # noqa: PLC0415

        write(orjson.dumps(made, option=orjson.OPT_INDENT_2).decode())
    elif output is Output.YAML:
        write(as_yaml(made))
    else:
        show(*told(made))
    if html is not None:
        write_page(html, tune_page(made))
    if svg is not None:
        write_page(svg, alone(curves(made)))
    if made["best"] is None:
        raise typer.Exit(1)


def _check(policy: str | None, *, apply: bool, windows: bool, by_policy: bool, tried: int) -> None:
    if policy is None and (apply or by_policy):
        raise typer.BadParameter("which Policy? name it", param_hint="--policy")
    if windows and not by_policy:
        raise typer.BadParameter("only sidecars wait: name a Policy with --policy", param_hint="--windows")
    if tried > MOST_TRIED:
        raise typer.BadParameter(f"are {tried} settings; {MOST_TRIED} are the most", param_hint="--sizes")


def _questions(
    model: str, operation: Operation | None, prompt: str | None, file: Path | None, answer_tokens: int | None
) -> Questions:
    from control_plane.tools.load.mix import DEFAULT_PROMPT, WrongMix  # noqa: PLC0415
    from control_plane.tools.tune.asking import from_file, from_prompt  # noqa: PLC0415

    if file is None:
        asked = operation or guessed_operation(model)
        return from_prompt(asked, model, prompt or DEFAULT_PROMPT, answer_tokens)
    if prompt is not None or answer_tokens is not None:
        raise typer.BadParameter("the file says what to ask; leave --prompt and --answer-tokens out")
    try:
        return from_file(file.read_bytes(), model)
    except WrongMix as error:
        raise typer.BadParameter(f"{file} {error}", param_hint="--requests-file") from None
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        raise typer.BadParameter(f"{file} cannot be read ({reason})", param_hint="--requests-file") from None


@contextmanager
def _policy(
    name: str | None, server: str, token_file: Path | None, ca: Path | None
) -> Iterator[TrialPolicy | None]:
    """Yield the Policy that is named; whatever happens, it is as it was afterwards unless it was settled."""
    from control_plane.cli.session import connect  # noqa: PLC0415
    from control_plane.cli.trial_policy import TrialPolicy  # noqa: PLC0415

    if name is None:
        yield None
        return
    with connect(server, token_file, ca) as client:
        trial = TrialPolicy(client, name)
        try:
            yield trial
        finally:
            trial.put_back()


def _settle(trial: TrialPolicy, made: Report, *, apply: bool) -> None:
    """Apply the best, or put back what was there; the report says which."""
    if apply and made["best"] is not None:
        best = Setting(made["best"], made["best_window"])
        made["applied"] = {"policy": made["policy"], "changes": trial.keep(best)}
    elif not trial.put_back():
        made["warnings"].append(
            f"somebody changed Policy/{made['policy']} meanwhile, so it is left as it is now"
        )


async def _tuned(task: Task, race: Race, trial: TrialPolicy | None) -> Report:
    from control_plane.cli.measuring import allow_connections, progress, stop_on_signals  # noqa: PLC0415
    from control_plane.tools.load.wire import CannotConnect  # noqa: PLC0415
    from control_plane.tools.tune.tuning import tuned  # noqa: PLC0415

    allow_connections()
    stop = stop_on_signals()
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    with progress(f"{task.model}, batch size", race.budget.requests) as watch:
        try:
            return await tuned(task, race, trial, stop, watch, at=at)
        except CannotConnect as error:
            raise CommandFailed(str(error)) from None


def told(made: Report) -> list[RenderableType]:
    """Return the report for a terminal."""
    from control_plane.cli.printing import table  # noqa: PLC0415
    from control_plane.tools.tune.page import ENDED, cells, choice  # noqa: PLC0415
    from control_plane.tools.tune.report import sureness  # noqa: PLC0415

    windows = any(one["window"] is not None for one in made["trials"])
    window = ["WINDOW"] if windows else []
    head = ["SIZE", *window, "ANSWERS/S", "P50", "P99", "ERRORS", made["cost_is"].upper(), "ASKED", ""]
    best = (made["best"], made["best_window"])
    rows = []
    for one in made["trials"]:
        row = cells(one, windows=windows)
        if (one["size"], one["window"]) == best:
            row[-1] = "best"
        rows.append(row)
    budget = made["budget"]
    lines: list[RenderableType] = [
        f"{made['model']} at {made['url']}: {made['how']}",
        f"{budget['asked']} of {budget['requests']} questions in {budget['calls']} calls, {made['callers']} "
        f"callers, {made['seconds']:.1f} s; {ENDED[made['ended']]}",
        "",
        table(head, rows),
        "",
    ]
    if made["best"] is None:
        seen = ", ".join(f"{result} × {count}" for result, count in made["results"].items())
        lines.append(f"no size had a good answer: {seen}")
    else:
        lines.append(f"best for {made['target']}: {choice(made)} ({sureness(made)})")
    if gain := made["gain"]:
        lines.append(
            f"beside size {gain['beside_size']}: throughput × {gain['throughput']:.3g}, "
            f"p99 × {gain['p99']:.3g}"
        )
    if made["applied"] is not None:
        changed = [
            f"{one['field']}: {one['before'] or 'the default'} → {one['after']}"
            for one in made["applied"]["changes"]
        ]
        lines.append(f"Policy/{made['policy']}: {', '.join(changed) or 'was so already'}")
    elif made["policy"] is not None:
        lines.append(f"Policy/{made['policy']} is as it was; --apply writes the best into it")
    return [*lines, *(f"note: {sentence}" for sentence in made["warnings"])]
