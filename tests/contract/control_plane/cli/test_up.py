"""`outrigger up` as a real process: what it refuses, and that it leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.harness.preloaded import Preloaded, preloaded
from tests.harness.processes import free_ports

HOST = "127.0.0.1"


def ports() -> list[str]:
    """Return options with free ports."""
    names = ("--proxy-port", "--api-port", "--metrics-port", "--envoy-admin-port")
    return [word for name in names for word in (name, str(free_ports(1)[0]))]


@contextmanager
def up(folder: Path, *options: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run `outrigger up` with its data and temporary files in `folder`."""
    (folder / "tmp").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "control_plane", "up", "--data-dir", str(folder / "data"), *options]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), **environment},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def loaded() -> Iterator[Preloaded]:
    """The command with all that a launcher needs."""
    with preloaded(
        "control_plane.cli.up", "control_plane.cli.launcher.run", "control_plane.resources.documents"
    ) as started:
        yield started


def refused(
    loaded: Preloaded, folder: Path, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run an `outrigger up` that ends by itself, with its data and temporary files in `folder`."""
    (folder / "tmp").mkdir()
    words = ["up", "--data-dir", str(folder / "data"), *ports(), *options]
    return loaded.run(words, {"TMPDIR": str(folder / "tmp"), **environment})


POLICY = "kind: Backend\nmetadata: {name: b}\nspec: {url: 'http://h/v1', credentials: {env: NO_SUCH_KEY}}\n"


@pytest.mark.parametrize(
    ("policy", "environment", "sentence"),
    [
        (POLICY, {}, "Backend/b takes its key from the variable NO_SUCH_KEY, which is not set"),
        (
            POLICY.replace("url", "urll"),
            {},
            'Backend/b: spec.urll: is no field of Backend; did you mean "url"?',
        ),
        ("a: [", {}, "is not YAML"),
        (POLICY, {"NO_SUCH_KEY": "k", "OUTRIGGER_ENVOY": "/nowhere"}, "OUTRIGGER_ENVOY names /nowhere"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    policy: str, environment: dict[str, str], sentence: str, tmp_path: Path, loaded: Preloaded
) -> None:
    """Status 1 and a sentence on stderr; stdout stays empty and no folder is left."""
    (tmp_path / "p.yaml").write_text(policy)
    run = refused(loaded, tmp_path, "-f", str(tmp_path / "p.yaml"), **environment)
    assert (run.returncode, run.stdout) == (1, "")
    assert sentence in run.stderr
    assert "Traceback" not in run.stderr
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_token_is_not_repeated_and_a_wrong_redis_is_refused(tmp_path: Path, loaded: Preloaded) -> None:
    """Wrong usage, before anything starts; the URL may hold a password and is not quoted."""
    given = ("--redis", "http://u:top-secret@x", "--admin-token", "top-secret", "-f", "/nowhere.yaml")
    run = refused(loaded, tmp_path, *given)
    assert run.returncode == 2
    assert "redis://HOST:PORT/0" in run.stderr
    assert "top-secret" not in run.stderr


def test_a_reader_that_leaves_does_not_stop_the_mesh(tmp_path: Path) -> None:
    """`outrigger up | head -1` keeps running until it is told to stop."""
    with up(tmp_path, *ports()) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starting the mesh; Ctrl-C stops it\n"
        process.stdout.close()
        deadline = time.monotonic() + 60
        while not (tmp_path / "data" / "snapshot.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def children(pid: int) -> list[int]:
    """Return the processes below `pid`."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_ctrl_c_while_it_starts_ends_all_of_it(tmp_path: Path) -> None:
    """Status 0, no process and no folder left, well within 12 seconds."""
    with up(tmp_path, *ports()) as process:
        deadline = time.monotonic() + 30
        while len(below := children(process.pid)) < 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert time.monotonic() - began < 12
    assert process.returncode == 0
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in below)
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_second_mesh_on_the_same_folder_is_refused(tmp_path: Path, loaded: Preloaded) -> None:
    """The sentence names the folder and the option."""
    with up(tmp_path, *ports()) as first:
        lock = tmp_path / "data" / "lock"
        deadline = time.monotonic() + 30
        while not (lock.exists() and lock.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        words = ["up", "--data-dir", str(tmp_path / "data"), *ports()]
        second = loaded.run(words, {"TMPDIR": str(tmp_path / "tmp")})
        assert second.returncode == 1
        assert f"is in use by another outrigger (process {first.pid})" in second.stderr
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=30)
    assert first.returncode == 0


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("data/lock", signal.SIGHUP),
        ("tmp/outrigger-*", signal.SIGINT),
        ("data/snapshot.json", signal.SIGTERM),
    ],
)
def test_a_signal_at_any_moment_ends_it_in_peace(moment: str, number: signal.Signals) -> None:
    """Status 0 and no folder left, also before the loop runs and when the signal comes again and again."""
    # A short path: in a long one there is no room for sockets, and the run folder would be elsewhere.
    with TemporaryDirectory() as name, up(Path(name), *ports()) as process:
        deadline = time.monotonic() + 30
        while not list(Path(name).glob(moment)):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.001)
        while process.poll() is None:
            assert time.monotonic() < deadline
            process.send_signal(number)
            time.sleep(0.05)
        _, err = process.communicate(timeout=5)
        assert "Traceback" not in err
        assert process.returncode == 0
        assert list((Path(name) / "tmp").iterdir()) == []
