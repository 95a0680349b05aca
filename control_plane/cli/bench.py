"""`outrigger bench`: load on a sidecar or a provider, and a report."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from control_plane.cli.apply import seconds
from control_plane.cli.measuring import Headers, Html, ModelName, TargetCa, Timeout, Url
from control_plane.cli.options import Format, Output
from control_plane.tools.load.arrivals import Arrivals
from control_plane.tools.load.calls import Operation
from control_plane.tools.load.presets import Preset

if TYPE_CHECKING:
    from rich.console import RenderableType

    from control_plane.tools.load.mix import Mix
    from control_plane.tools.load.plan import Plan
    from control_plane.tools.load.report import Report, Subject
    from control_plane.tools.load.wire import Endpoint

NUMBERS: Final = 1_000_000_000
_MORE: Final = "More"


def bench(
    *,
    url: Url,
    model: ModelName,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Callers at once; with --rate the most calls at once."),
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=1, max=10_000_000, help="Calls altogether.", show_default="1000")
    ] = None,
    duration: Annotated[
        Any,
        typer.Option(metavar="DURATION", parser=seconds, help="No call starts later.", show_default="60s"),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.01, max=100_000, help="Open loop: calls a second, come what may.")
    ] = None,
    arrivals: Annotated[Arrivals, typer.Option(help="How calls of --rate are spaced.")] = Arrivals.CONSTANT,
    ramp: Annotated[
        Any,
        typer.Option(metavar="DURATION", parser=seconds, help="Time until all callers (the rate) are there."),
    ] = None,
    preset: Annotated[
        Preset | None, typer.Option(help="quick; stress: 200 callers, 300 calls each, ramp 30 s; soak.")
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Ask for streams: TTFT, time between pieces.")
    ] = False,
    prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="What to ask; {n} becomes a number, so that questions differ."),
    ] = None,
    requests_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSONL of request bodies, sent in turn.")
    ] = None,
    operation: Annotated[
        Operation | None, typer.Option(help="What to ask for.", show_default="by the model's name")
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Bound of each answer.")] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A JSON report to show beside this run.")
    ] = None,
    html: Html = None,
    name: Annotated[str, typer.Option(metavar="TEXT", help="What the report calls this run.")] = "",
    header: Headers = None,
    timeout: Timeout = "60s",
    target_ca: TargetCa = None,
    processes: Annotated[
        int, typer.Option(min=1, max=64, help="Generators; one makes some 2,000 calls a second.")
    ] = 1,
    output: Format = Output.TEXT,
) -> None:
    """Put load on a sidecar or a provider and report what came back.

    With --concurrency callers wait for their answers (closed loop); with --rate calls start whatever the
    server does (open loop), and latency counts from when they were due. Every question differs, so no cache
    answers it, unless --prompt or --requests-file say otherwise. The key is taken from OPENAI_API_KEY.
    Ctrl-C ends the run with the report of what was done. Exit status 1: no call had a good answer.
    """
    import uvloop  # noqa: PLC0415 - keeps --help quick

    from control_plane.cli.measuring import sent_headers, writable, write_page  # noqa: PLC0415
    from control_plane.cli.printing import as_yaml, show, write  # noqa: PLC0415
    from control_plane.tools.load.calls import guessed_operation  # noqa: PLC0415
    from control_plane.tools.load.comparing import as_json  # noqa: PLC0415
    from control_plane.tools.load.page import bench_page  # noqa: PLC0415
    from control_plane.tools.load.presets import Wish  # noqa: PLC0415
    from control_plane.tools.load.report import Subject  # noqa: PLC0415
    from control_plane.tools.load.wire import Endpoint  # noqa: PLC0415

    writable(html)
    asked = operation or guessed_operation(model)
    if stream and asked is Operation.EMBEDDINGS:
        raise typer.BadParameter("embeddings are not streamed", param_hint="--stream")
    mix = _mix(model, asked, prompt, requests_file, stream=stream, max_tokens=max_tokens)
    # Another run asks other questions: what this one left in a cache must not answer them.
    first = random.randrange(NUMBERS)
    plan = Wish(concurrency, requests, duration, rate, arrivals, ramp, preset).plan(mix, first)
    other = _other(compare)
    source = "a prompt" if requests_file is None else requests_file.name
    subject = Subject(url, model, asked, stream, source, name)
    endpoint = Endpoint(url, sent_headers(header or [], os.environ), float(timeout), target_ca)
    made = uvloop.run(_measured(subject, plan, endpoint, processes))
    if other is not None:
        made["comparison"] = as_json(made, other)
    if output is Output.JSON:
        import orjson  # noqa: PLC0415

        write(orjson.dumps(made, option=orjson.OPT_INDENT_2).decode())
    elif output is Output.YAML:
        write(as_yaml(made))
    else:
        show(*told(made, other))
    if html is not None:
        write_page(html, bench_page(made, other))
    if not made["good"]:
        raise typer.Exit(1)


def _mix(
    model: str,
    asked: Operation,
    prompt: str | None,
    file: Path | None,
    *,
    stream: bool,
    max_tokens: int | None,
) -> Mix:
    from control_plane.tools.load.mix import DEFAULT_PROMPT, PromptMix, WrongMix, read_mix  # noqa: PLC0415

    if file is None:
        return PromptMix(asked, model, prompt or DEFAULT_PROMPT, stream, max_tokens)
    if prompt is not None or max_tokens is not None:
        raise typer.BadParameter("the file says what to ask; leave --prompt and --max-tokens out")
    try:
        return read_mix(file.read_bytes(), model, stream=stream)
    except WrongMix as error:
        raise typer.BadParameter(f"{file} {error}", param_hint="--requests-file") from None
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        raise typer.BadParameter(f"{file} cannot be read ({reason})", param_hint="--requests-file") from None


def _other(path: Path | None) -> Report | None:
    from control_plane.tools.load.comparing import NoReport, read_report  # noqa: PLC0415

    if path is None:
        return None
    try:
        return read_report(path.read_bytes())
    except NoReport as error:
        raise typer.BadParameter(f"{path} {error}", param_hint="--compare") from None
    except OSError as error:
        reason = (error.strerror or "unreadable").lower()
        raise typer.BadParameter(f"{path} cannot be read ({reason})", param_hint="--compare") from None


async def _measured(subject: Subject, plan: Plan, endpoint: Endpoint, processes: int) -> Report:
    from control_plane.cli.failures import CommandFailed  # noqa: PLC0415
    from control_plane.cli.measuring import allow_connections, progress, stop_on_signals  # noqa: PLC0415
    from control_plane.tools.load.plan import OpenLoop  # noqa: PLC0415
    from control_plane.tools.load.report import report  # noqa: PLC0415
    from control_plane.tools.load.running import WorkerLost, run_load  # noqa: PLC0415
    from control_plane.tools.load.wire import CannotConnect  # noqa: PLC0415

    total: int | None = plan.bounds.requests
    if isinstance(plan.pace, OpenLoop):
        total = min(plan.bounds.requests, round(plan.pace.rate * plan.bounds.duration_s))
    at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    allow_connections()
    stop = stop_on_signals()
    with progress(subject.model, total) as watch:
        try:
            tally, ending = await run_load(plan, endpoint, stop, processes=processes, watch=watch)
        except (WorkerLost, CannotConnect) as error:
            raise CommandFailed(str(error)) from None
    return report(subject, plan, tally, ending, at=at, processes=processes)


def told(made: Report, other: Report | None = None) -> list[RenderableType]:
    """Return the report for a terminal."""
    from control_plane.cli.printing import table  # noqa: PLC0415
    from control_plane.tools.load.charts import number_text  # noqa: PLC0415
    from control_plane.tools.load.comparing import compared  # noqa: PLC0415
    from control_plane.tools.load.page import VIEWS, shape  # noqa: PLC0415

    names = ("p50", "p90", "p95", "p99", "p999", "mean", "max")
    views = [("latency, ms", made), *((label, made[view]) for view, label in VIEWS.items() if view in made)]
    lines: list[RenderableType] = [
        f"{made['target']['model']} at {made['target']['url']}: {shape(made['load'])}",
        f"{made['requests']} calls in {made['seconds']:.1f} s: {number_text(made['rps'])} good answers a "
        f"second, {made['errors']} errors ({made['error_rate']:.2%})",
        "",
        table(
            ["", "P50", "P90", "P95", "P99", "P99.9", "MEAN", "MAX"],
            [[label, *(number_text(view[name]) for name in names)] for label, view in views],
        ),
    ]
    results = [*made["results"].items(), *((f"cache {kind}", n) for kind, n in made["cache"].items())]
    lines += ["", "results: " + ", ".join(f"{kind} × {count}" for kind, count in results)]
    if batch := made["batch"]:
        lines.append(f"in batches: {batch['requests']} calls, {batch['mean_size']:g} together on average")
    if tokens := made["tokens"]:
        speed = number_text(tokens["completion_per_second"])
        lines.append(f"tokens: {tokens['prompt']} read, {tokens['completion']} written ({speed}/s)")
    if other is not None:
        rows = [
            [
                row.label,
                f"{number_text(row.other)} {row.unit}",
                f"{number_text(row.this)} {row.unit}",
                "–" if row.ratio is None else f"× {row.ratio:.3g}",
                {True: "better", False: "worse", None: ""}[row.better],
            ]
            for row in compared(made, other)
        ]
        lines += ["", table([f"BESIDE {other.get('name', 'that run')}", "THAT", "THIS", "RATIO", ""], rows)]
    return [*lines, *(f"note: {sentence}" for sentence in made["warnings"])]
