"""`outrigger diagnose`: where latency comes from, and what gains it back."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Annotated, Any

import typer

from control_plane.cli.apply import seconds
from control_plane.cli.measuring import Headers, ModelName, TargetCa, Timeout, Url
from control_plane.cli.options import Format, Output

if TYPE_CHECKING:
    from rich.console import RenderableType

    from control_plane.tools.diagnose.diagnosis import Diagnosing, Diagnosis


def diagnose(
    *,
    url: Url,
    model: ModelName,
    concurrency: Annotated[int, typer.Option(min=1, max=256, help="Calls at once, in bursts.")] = 8,
    requests: Annotated[
        int,
        typer.Option("--requests", "--max-requests", min=1, max=10_000, help="At most so many calls."),
    ] = 110,
    max_tokens: Annotated[
        int, typer.Option(min=1, max=100_000_000, help="At most so many tokens, of prompts and answers.")
    ] = 100_000,
    prompt_tokens: Annotated[
        int, typer.Option(min=64, max=1_000_000, help="Length of the longest prompt.")
    ] = 4000,
    answer_tokens: Annotated[
        int, typer.Option(min=8, max=16_384, help="Bound of the answers whose length is measured.")
    ] = 256,
    pause: Annotated[
        Any,
        typer.Option(metavar="DURATION", parser=seconds, help="Stay silent so long, then call once more."),
    ] = None,
    header: Headers = None,
    timeout: Timeout = "60s",
    target_ca: TargetCa = None,
    output: Format = Output.TEXT,
) -> None:
    """Measure where the latency of a model's calls comes from, and name the policy that gains it back.

    DNS, TCP, TLS, first byte, whole call; kept against new connections, HTTP/2 against HTTP/1.1, cold against
    warm; by length of the prompt, by temperature; streams. About 110 small calls; with few --requests it
    measures less and says what. The key is taken from OPENAI_API_KEY. Ctrl-C ends with what was measured.
    """
    import uvloop  # noqa: PLC0415 - keeps --help quick

    from control_plane.cli.failures import CommandFailed  # noqa: PLC0415
    from control_plane.cli.measuring import sent_headers  # noqa: PLC0415
    from control_plane.cli.printing import as_yaml, show, write  # noqa: PLC0415
    from control_plane.tools.diagnose.diagnosis import Bounds, Diagnosing  # noqa: PLC0415
    from control_plane.tools.diagnose.failures import DiagnoseFailed  # noqa: PLC0415
    from control_plane.tools.diagnose.target import Target  # noqa: PLC0415

    bounds = Bounds(
        requests=requests,
        tokens=max_tokens,
        concurrency=concurrency,
        prompt_tokens=prompt_tokens,
        answer_tokens=answer_tokens,
        timeout_s=float(timeout),
        pause_s=float(pause or 0),
    )
    target = Target.parse(url, model, sent_headers(header or [], os.environ))
    try:
        made = uvloop.run(
            _made(Diagnosing(target, bounds, ca=target_ca, randomness=random.Random()), target.model)
        )
    except DiagnoseFailed as error:
        raise CommandFailed(str(error)) from None
    if output is Output.TEXT:
        show(*told(made))
    elif output is Output.YAML:
        write(as_yaml(made.as_json()))
    else:
        import orjson  # noqa: PLC0415

        write(orjson.dumps(made.as_json(), option=orjson.OPT_INDENT_2).decode())


async def _made(diagnosing: Diagnosing, model: str) -> Diagnosis:
    from control_plane.cli.measuring import progress, stop_on_signals  # noqa: PLC0415
    from control_plane.tools.diagnose.probes import Probe  # noqa: PLC0415

    ended = 0
    with progress(model, diagnosing.calls) as watch:

        def answered(_: Probe) -> None:
            nonlocal ended
            ended += 1
            if watch is not None:
                watch(ended, 0)

        return await diagnosing.run(stop_on_signals(), answered)


def told(made: Diagnosis) -> list[RenderableType]:
    """Return the diagnosis for a terminal: what was measured, what can be gained, what is not known."""
    from control_plane.cli.printing import table  # noqa: PLC0415
    from control_plane.cli.text import counted, printable  # noqa: PLC0415
    from control_plane.tools.diagnose.report import gains, gaps, measured, reasons  # noqa: PLC0415

    spent, readings, found = made.spent, made.readings, made.findings
    lines: list[RenderableType] = [
        f"{printable(spent.model)} at {spent.url}: {counted(spent.requests, 'call')}, "
        f"{spent.tokens:,} tokens, {spent.seconds:.1f} s",
        "",
        table(["MEASURED", "MEDIAN", "95 % INTERVAL", "N"], measured(readings)),
        "",
    ]
    rows = gains(found)
    if rows:
        lines += [
            table(["", "TO GAIN", "95 % INTERVAL", "BY EACH", "SET", "HOW SURE"], rows),
            "",
            *reasons(found),
        ]
    else:
        lines += ["nothing to gain was found"]
    lines += ["", *(f"no gain seen: {sentence}" for sentence in found.nothing)] if found.nothing else []
    if readings.gaps:
        lines += ["", *(f"not measured: {sentence}" for sentence in gaps(readings))]
    return lines
