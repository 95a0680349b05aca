"""`outrigger tune`: what it refuses before a call is made, and how a report reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer

from control_plane.cli.tune import durations, told, whole_numbers
from control_plane.tools.load.calls import Operation
from control_plane.tools.tune.report import Subject
from control_plane.tools.tune.settings import Method
from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub
from tests.unit.control_plane.cli.test_bench import shown
from tests.unit.control_plane.tools.tune.test_report import tuned

NOBODY = ("tune", "--url", "http://127.0.0.1:1/v1", "--model", "m")


def test_lists_are_read() -> None:
    """Of sizes and of durations."""
    assert whole_numbers("5, 10,20") == (5, 10, 20)
    assert durations("50ms,1s") == (50, 1000)


@pytest.mark.parametrize("text", ["", "5,", "0", "-1", "5;10", "1e3", "99999", "٣"])
def test_what_is_no_list_of_sizes_is_wrong_usage(text: str) -> None:
    """The message shows one."""
    with pytest.raises(typer.BadParameter, match="5,10,20,50"):
        whole_numbers(text)


@pytest.mark.parametrize("text", ["", "50", "50ms,", "0s", "soon"])
def test_what_is_no_list_of_durations_is_wrong_usage(text: str) -> None:
    """The message shows one."""
    with pytest.raises(typer.BadParameter, match="50ms,200ms"):
        durations(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--apply",), "--policy"),
        (("--method", "policy"), "--policy"),
        (("--windows", "50ms"), "--windows"),
        (("--sizes", ",".join(map(str, range(1, 70)))), "60 are the most"),
        (("--requests-file", "none.jsonl"), "cannot be read"),
        (("--html", "none/page.html"), "--html"),
        (("--svg", "none/page.svg"), "none/page.svg"),
    ],
)
def test_wrong_usage_is_told(run: Run, options: tuple[str, ...], said: str) -> None:
    """With status 2, before a call is made."""
    status, out, err = run(*NOBODY, *options)
    assert (status, out) == (2, "")
    assert said in err


def test_a_file_of_other_requests_is_wrong_usage(run: Run, tmp_path: Path) -> None:
    """Only equal parameters share a call."""
    path = tmp_path / "f"
    path.write_text('{"prompt": "a"}\n{"prompt": "b", "n": 2}')
    assert run(*NOBODY, "--requests-file", str(path))[0] == 2
    path.write_text('{"prompt": "a"}')
    assert run(*NOBODY, "--requests-file", str(path), "--prompt", "b")[0] == 2


def test_a_policy_that_is_not_there_ends_it_before_a_call(run: Run, stub: Stub) -> None:
    """The API says so."""
    status, out, err = run(*NOBODY, "--policy", "batching")
    assert (status, out) == (1, "")
    assert "nothing here" in err


def test_nobody_there_is_status_1_with_the_report(run: Run) -> None:
    """Why is in it; little of the budget is spent."""
    status, out, err = run(*NOBODY, "--requests", "1000", "-o", "json")
    made = json.loads(out)
    assert (status, err) == (1, "")
    assert (made["best"], made["ended"]) == (None, "failed")
    assert made["results"] == {"connect": made["budget"]["asked"]}
    assert made["budget"]["asked"] <= 50
    status, out, _ = run(*NOBODY, "--requests", "20")
    assert status == 1
    assert "no size had a good answer: connect × 1" in out


def test_a_report_reads_well() -> None:
    """How it was tried, each size, the best and how sure it is, the gain."""
    text = shown(*told(tuned()))
    for part in (
        "made by this tool",
        "best for throughput: 10 (",
        "% sure",
        "beside size 1: throughput ×",
        "worse",
    ):
        assert part in text
    assert "Policy" not in text


def test_what_became_of_the_policy_is_told() -> None:
    """Applied field by field, or as it was."""
    made = tuned(subject=Subject("u", "m", Operation.CHAT, Method.POLICY, "batching"), windows=(50, 100))
    assert "Policy/batching is as it was; --apply" in shown(*told(made))
    change = {"field": "spec.batch.maxSize", "before": None, "after": 10}
    made["applied"] = {"policy": "batching", "changes": [change]}
    assert "Policy/batching: spec.batch.maxSize: the default → 10" in shown(*told(made))
    made["applied"]["changes"] = []
    assert "Policy/batching: was so already" in shown(*told(made))
