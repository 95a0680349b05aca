"""The command line against a stand-in for the API."""

from collections.abc import Callable, Iterator

import pytest

from control_plane.cli.main import main
from tests.unit.control_plane.cli.stub import Stub, serving

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    """The stand-in; commands of the test find it, with a token, by their variables."""
    with serving() as started:
        monkeypatch.setenv("OUTRIGGER_SERVER", started.url)
        monkeypatch.setenv("OUTRIGGER_TOKEN", "ort_1_secret")
        yield started


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line; returns exit status, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return call
