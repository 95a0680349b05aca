"""`outrigger sidecar`: its usage. What it runs is tested with the launcher and end to end."""

import pytest

from control_plane.cli.main import main


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ((), "--control-plane"),
        (("--control-plane", "x:1", "--external-envoy"), "--run-dir"),
        (("--control-plane", "x:1", "--client-cert", "c.pem"), "--client-key"),
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
