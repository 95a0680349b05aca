"""`outrigger get`."""

import io
import sys

import pytest
import yaml

from control_plane.cli.main import main
from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

MODELS = "GET /api/v1/models"
M = {
    "apiVersion": "outrigger.dev/v1alpha1",
    "kind": "Model",
    "metadata": {"name": "m"},
    "spec": {"aliases": ["fast"], "versions": [{"name": "stable", "backend": "b"}]},
}
N = {**M, "metadata": {"name": "n"}}


def test_a_kind_is_a_table(stub: Stub, run: Run) -> None:
    """One row a document, whatever the word for the kind."""
    stub.answer(MODELS, {"items": [M, N]})
    status, out, err = run("get", "Model")
    assert (status, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["NAME", "ALIASES", "VERSIONS", "FALLBACKS"],
        ["m", "fast", "stable", "→", "b", "–"],
        ["n", "fast", "stable", "→", "b", "–"],
    ]


@pytest.mark.parametrize(
    ("output", "expected"),
    [("text", b"m     fast     stable -> b  -\n"), ("yaml", "name: 东é\n".encode())],
)
def test_a_terminal_of_another_encoding_is_no_error(
    output: str, expected: bytes, stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table has a plain form of what the encoding lacks; a document is UTF-8, as it is read again."""
    stub.answer(MODELS, {"items": [M, {**N, "metadata": {"name": "东é"}}]})
    out = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    with pytest.raises(SystemExit) as ended:
        main(["get", "models", "-o", output])
    assert ended.value.code == 0
    assert isinstance(out.buffer, io.BytesIO)
    printed = out.buffer.getvalue()
    assert b" ".join(expected.split()) in b" ".join(printed.split())


def test_one_document_is_a_row_too(stub: Stub, run: Run) -> None:
    """Its name may hold what paths must not."""
    stub.answer("GET /api/v1/models/org%2Fm", M)
    status, out, _ = run("get", "models", "org/m")
    assert status == 0
    assert out.splitlines()[1].startswith("m ")


def test_json_is_what_the_api_answers(stub: Stub, run: Run) -> None:
    """To the letter."""
    stub.answer(MODELS, b'{"items": [ ] }')
    assert run("get", "models", "-o", "json") == (0, '{"items": [ ] }\n', "")


def test_yaml_can_be_applied_again(stub: Stub, run: Run) -> None:
    """Documents, not a list of them."""
    stub.answer(MODELS, {"items": [M, N]})
    _, out, _ = run("get", "models", "-o", "yaml")
    assert list(yaml.safe_load_all(out)) == [M, N]


def test_other_lists_are_whole_in_yaml(stub: Stub, run: Run) -> None:
    """They are no documents."""
    stub.answer("GET /api/v1/audit", {"items": [{"id": 1}]})
    assert yaml.safe_load(run("get", "audit", "-o", "yaml")[1]) == {"items": [{"id": 1}]}


@pytest.mark.parametrize(("output", "out"), [("text", ""), ("json", '{"items": []}\n'), ("yaml", "")])
def test_nothing_is_told_on_stderr(output: str, out: str, stub: Stub, run: Run) -> None:
    """Stdout stays the result."""
    stub.answer(MODELS, {"items": []})
    status, printed, err = run("get", "models", "-o", output)
    assert (status, printed) == (0, out)
    assert err == ("no models\n" if output == "text" else "")


def test_a_missing_document_ends_with_one(stub: Stub, run: Run) -> None:
    """And the API's sentence."""
    stub.problem("GET /api/v1/models/x", 404, "Model/x does not exist")
    assert run("get", "models", "x") == (1, "", "outrigger: Model/x does not exist\n")


@pytest.mark.parametrize("arguments", [("get",), ("get", "modles"), ("get", "sidecars", "x")])
def test_wrong_usage_ends_with_two(arguments: tuple[str, ...], stub: Stub, run: Run) -> None:
    """Without a call."""
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert err
    assert stub.seen == []
