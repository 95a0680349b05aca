"""`outrigger controller`: its usage. What it runs is tested with the controller."""

from __future__ import annotations

import pytest

from control_plane.cli.main import main


def test_without_a_token_it_says_how_to_make_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it looks for any cluster."""
    monkeypatch.setenv("OUTRIGGER_TOKEN", " ")
    with pytest.raises(SystemExit) as ended:
        main(["controller"])
    assert ended.value.code == 1
    assert "outrigger token create --role admin" in capsys.readouterr().err


def test_an_authority_that_is_not_there_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told as such, not as a port that cannot be had."""
    monkeypatch.setenv("OUTRIGGER_TOKEN", "ork-token")
    with pytest.raises(SystemExit) as ended:
        main(["controller", "--ca", "/missing/ca.pem"])
    assert ended.value.code == 2
    assert "--ca" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--lease-namespace", "--kubeconfig"])
def test_outside_a_pod_it_has_to_be_told(
    option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the Lease is, and which cluster."""
    for name in ("POD_NAMESPACE", "KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OUTRIGGER_TOKEN", "ork-token")
    given = [] if option == "--lease-namespace" else ["--lease-namespace", "mesh"]
    with pytest.raises(SystemExit) as ended:
        main(["controller", *given])
    assert ended.value.code == (1 if given else 2)
    assert option in capsys.readouterr().err


def test_a_server_with_a_password_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would be in logs; the sentence does not repeat it."""
    monkeypatch.setenv("OUTRIGGER_TOKEN", "ork-token")
    with pytest.raises(SystemExit) as ended:
        main(["controller", "--lease-namespace", "mesh", "--server", "http://user:word@a"])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "--server" in told
    assert "word@" not in told
