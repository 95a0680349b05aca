"""Where results go and how they look."""

import io
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from control_plane.cli.client import Answer
from control_plane.cli.options import Output
from control_plane.cli.printing import as_yaml, console, emit, say, show, table, write
from control_plane.resources.loading import read_text


def test_a_table_elsewhere_than_on_a_terminal_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """A row is a line, however long, so that `| grep` finds it; an empty cell has a sign."""
    show(table(["NAME", "URL"], [["a", "x" * 500], ["b", ""]]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines] == [["NAME", "URL"], ["a", "x" * 500], ["b", "–"]]


def test_a_table_on_a_terminal_folds() -> None:
    """Nothing is cut off; the first column, which is copied, stays on one line."""
    out = io.StringIO()
    Console(file=out, width=40).print(table(["NAME", "URL"], [["name-of-it", "x" * 60]]))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert "".join(lines).count("x") == 60
    assert lines[1].startswith("name-of-it")


def test_states_have_colours_and_cells_no_control_characters() -> None:
    """Markup in a name is text."""
    out = io.StringIO()
    shown = Console(file=out, force_terminal=True, width=80)
    shown.print(table(["NAME", "STATE"], [["[red]a\x1b[2J", "in force"]]))
    assert r"[red]a\x1b[2J" in out.getvalue()
    assert "\x1b[32min force" in out.getvalue()


def test_lines_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """No markup, no highlighting, no folding."""
    show("[bold]" + "x" * 300)
    assert capsys.readouterr().out == "[bold]" + "x" * 300 + "\n"
    assert console().color_system is None


def test_sentences_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """Stdout holds the result alone."""
    say("one", "two\x1b")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "one\ntwo\\x1b\n")


@pytest.mark.parametrize(
    ("output", "printed"),
    [(Output.TEXT, "text\n"), (Output.JSON, '{ "b":1, "a":2 }\n'), (Output.YAML, "b: 1\na: 2\n")],
)
def test_an_answer_is_printed_as_asked(
    output: Output, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON to the letter as the API wrote it."""
    emit(Answer('{ "b":1, "a":2 }', {"b": 1, "a": 2}), output, lambda _: show("text"))
    assert capsys.readouterr().out == printed


@pytest.mark.parametrize("output", [Output.JSON, Output.YAML])
def test_an_answer_without_a_body_prints_nothing(output: Output, capsys: pytest.CaptureFixture[str]) -> None:
    """204."""
    emit(Answer("", None), output, lambda _: show("text"))
    write("")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("value", [{"retryOn": ["429", "5xx"], "v": "2024-06-01", "on": "yes", "东": "é"}])
def test_yaml_reads_back_as_it_was(value: Any) -> None:
    """Texts that look like numbers or days stay texts; other scripts can be read."""
    assert yaml.safe_load(as_yaml(value)) == value
    assert "东: é" in as_yaml(value)


@given(st.text(), st.text(st.sampled_from("\x85\u2028\u2029\x80\x9f\r\n\t -#:'\"\ufeff"), max_size=10))
@example("\x85", "a\u2028b\n")
def test_any_text_reads_back_as_it_was(name: str, text: str) -> None:
    """Ends of lines that only YAML knows, too; by the reader of documents as by others."""
    value = {"text": text, "names": {name: [name, text]}}
    written = as_yaml(value)
    assert yaml.safe_load(written) == value
    assert read_text(written.encode(), "a.yaml")[0].value == value
