"""`outrigger sidecar`: its usage. What it runs is tested with the launcher and end to end."""

from pathlib import Path

import pytest

from control_plane.cli.main import main


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ((), "--control-plane"),
        (("--control-plane", "x:1", "--external-envoy"), "--run-dir"),
        (("--control-plane", "x:1", "--client-cert", "c.pem"), "--client-key"),
        (("--control-plane", "x:1", "--health-port", "19001"), "--external-envoy"),
    ],
)
def test_what_is_missing_is_wrong_usage(
    options: tuple[str, ...], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sidecar needs a control plane; an Envoy elsewhere a shared folder; a certificate its key."""
    with pytest.raises(SystemExit) as ended:
        main(["sidecar", *options])
    assert ended.value.code == 2
    assert word in capsys.readouterr().err


def test_a_file_that_holds_no_redis_url_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in the file is not repeated: it may be a password."""
    file = tmp_path / "url"
    file.write_text("secret-password")
    with pytest.raises(SystemExit) as ended:
        main(["sidecar", "--control-plane", "x:1", "--redis-file", str(file)])
    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert "--redis-file" in told
    assert "secret-password" not in told
