"""The options of injection: what cannot be used is wrong usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.cli.main import main
from tests.unit.control_plane.cli.test_inject import POD


def ran(file: Path, *options: str) -> int:
    """Inject `file` with `options`; return the exit status."""
    with pytest.raises(SystemExit) as ended:
        main(["inject", "-f", str(file), *options])
    return int(ended.value.code or 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one pod."""
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    return path


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--sidecar-control-plane", "nowhere"),
        ("--sidecar-control-plane", "a:0"),
        ("--sidecar-redis", "redis://:hunter2@cache:6379/0"),
        ("--sidecar-redis", "http://cache"),
        ("--sidecar-redis-secret", "Not A Name"),
        ("--sidecar-variables", "A B"),
        ("--sidecar-pull-secrets", "a,B_"),
        ("--sidecar-processor-resources", "{"),
        ("--sidecar-processor-resources", '{"requests": {"cpu": "lots"}}'),
        ("--sidecar-envoy-resources", '{"request": {"cpu": "1"}}'),
        ("--sidecar-control-plane-ca", "/nowhere.pem"),
        ("--sidecar-proxy-port", "80"),
        ("--sidecar-mode", "modern"),
    ],
)
def test_what_cannot_be_used_is_status_2(
    file: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The option is named; a password is not repeated."""
    assert ran(file, option, value) == 2
    told = capsys.readouterr().err
    assert option in told
    assert "hunter2" not in told


def test_an_authority_with_a_key_is_refused(file: Path, tmp_path: Path) -> None:
    """What stands in pods is public: a file with a private key was mistaken for another."""
    pem = tmp_path / "both.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
    assert ran(file, "--sidecar-control-plane-ca", str(pem)) == 2


def test_options_reach_the_pod(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By flag and by variable alike."""
    pem = tmp_path / "ca.pem"
    pem.write_text("-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n")
    options = ("--sidecar-variables", "A, B", "--sidecar-pull-secrets", "pull", "--sidecar-mode", "classic")
    resources = ("--sidecar-envoy-resources", '{"limits": {"memory": "3Gi"}}')
    assert ran(file, *options, *resources, "--sidecar-control-plane-ca", str(pem)) == 0
    printed = capsys.readouterr().out
    for expected in ("name: A\n", "name: B\n", "name: pull\n", "memory: 3Gi", "ca.pem", "preStop"):
        assert expected in printed
