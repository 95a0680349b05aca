"""`outrigger bench`: what it refuses before a call is made, and how a report reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from control_plane.cli.bench import told
from control_plane.tools.load.plan import OpenLoop
from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.tools.load.runs import finished

NOBODY = ("bench", "--url", "http://127.0.0.1:1/v1", "--model", "m")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--url", "127.0.0.1"), "http://HOST:PORT/v1"),
        (("--concurrency", "0"), "--concurrency"),
        (("--header", "secret"), "--header"),
        (("--duration", "soon"), "no duration"),
        (("--requests-file", "none.jsonl"), "cannot be read"),
        (("--compare", "none.json"), "cannot be read"),
        (("--html", "none/page.html"), "--html"),
        (("--stream", "--operation", "embeddings"), "embeddings are not streamed"),
    ],
)
def test_wrong_usage_is_told(run: Run, options: tuple[str, ...], said: str) -> None:
    """With status 2, before a call is made; values of headers are not repeated."""
    status, out, err = run(*NOBODY, *options)
    assert (status, out) == (2, "")
    assert said in err
    assert "secret" not in err


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--requests-file", "nonsense", "line 1 is no JSON"),
        ("--compare", "{}", "no report"),
    ],
)
def test_files_are_checked_first(run: Run, tmp_path: Path, option: str, text: str, said: str) -> None:
    """The message names what is wrong in them."""
    path = tmp_path / "f"
    path.write_text(text)
    status, _, err = run(*NOBODY, option, str(path))
    assert status == 2
    assert said in " ".join(err.replace("│", " ").split())


def test_a_prompt_beside_a_file_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    """The file says what to ask."""
    path = tmp_path / "f"
    path.write_text('{"prompt": "a"}')
    assert run(*NOBODY, "--requests-file", str(path), "--prompt", "b")[0] == 2


def test_all_failed_is_status_1_with_the_report(run: Run) -> None:
    """Errors by their kind, and no traceback."""
    status, out, err = run(*NOBODY, "--requests", "3", "-o", "json")
    made = json.loads(out)
    assert (status, err) == (1, "")
    assert (made["errors"], made["results"], made["rps"]) == (3, {"connect": 3}, 0)


def shown(*lines: object) -> str:
    """Return lines as a terminal shows them."""
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        for line in lines:
            console.print(line, markup=False, highlight=False)
    return captured.get()


def test_a_report_reads_well() -> None:
    """Shape, figures, results, tokens, notes."""
    text = shown(*told(finished(*[0.1] * 10, errors=2)))
    for part in (
        "m at http://127.0.0.1:1/v1: closed loop, 2 callers",
        "10 good answers a second, 2 errors (16.67%)",
        "corrected for coordinated omission",
        "results: 200 × 10, 503 × 2",
        "50 written",
        "note: fewer than 100",
    ):
        assert part in text


def test_another_run_stands_beside() -> None:
    """With ratios, and which is better."""
    slow = {**finished(*[0.2] * 10), "name": "direct"}
    text = shown(*told(finished(*[0.1] * 10, pace=OpenLoop(10.0)), slow))
    assert "BESIDE direct" in text
    assert "× 0.5" in text
    assert "better" in text
