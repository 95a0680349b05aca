"""The agent's way to its control plane. Certificates: contract tests of the control plane's `listening`."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from ext_proc.agent.dial import ControlPlaneDial
from ext_proc.push_client import DialError
from ext_proc.settings import Joining


def dial(target: str = "127.0.0.1:1", joining: Joining | None = None, **environment: str) -> ControlPlaneDial:
    """Return a dial."""
    return ControlPlaneDial(target, joining or Joining(), environment, structlog.get_logger())


def test_the_token_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    """A file beats the variable, and is read at each call."""
    file = tmp_path / "token"
    file.write_text("ort_file\n")
    assert dial(OUTRIGGER_TOKEN=" ort_env ").metadata() == (("authorization", "Bearer ort_env"),)
    both = dial(joining=Joining(token_file=file), OUTRIGGER_TOKEN="ort_env")
    assert both.metadata() == (("authorization", "Bearer ort_file"),)
    file.write_text("ort_renewed")
    assert both.metadata() == (("authorization", "Bearer ort_renewed"),)


def test_a_socket_needs_no_token() -> None:
    """Whoever reaches it is in; the token stays at home."""
    assert dial("unix:/run/push.sock", OUTRIGGER_TOKEN="ort_env").metadata() == ()
    assert dial().metadata() == ()


@pytest.mark.parametrize("content", ["ort_钥匙", "two\nlines", "esc\x1b"])
def test_what_no_header_can_hold_is_no_token(tmp_path: Path, content: str) -> None:
    """The message does not repeat it."""
    (tmp_path / "token").write_text(content)
    with pytest.raises(DialError, match="characters") as refused:
        dial(joining=Joining(token_file=tmp_path / "token")).metadata()
    assert content not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """With the option that names it."""
    with pytest.raises(DialError, match=r"--token-file .*none"):
        dial(joining=Joining(token_file=tmp_path / "none")).metadata()
    with pytest.raises(DialError, match=r"--control-plane-ca .*none"):
        dial(joining=Joining(ca=tmp_path / "none")).channel(())


@pytest.mark.parametrize(
    ("target", "warned"),
    [
        ("10.0.0.1:9900", True),
        ("control-plane:9900", True),
        ("127.0.0.1:9900", False),
        ("[::1]:9900", False),
        ("localhost:9900", False),
    ],
)
def test_a_token_that_goes_over_the_network_in_clear_is_told_once(target: str, warned: bool) -> None:
    """Anybody on the way could read it."""
    with capture_logs() as lines:
        calling = dial(target, OUTRIGGER_TOKEN="ort_env")
        calling.metadata()
        calling.metadata()
    assert len(lines) == int(warned)
    assert "ort_env" not in repr((lines, calling))


def test_a_secured_stream_is_no_cause_for_a_warning(tmp_path: Path) -> None:
    """The token is for the control plane's eyes only."""
    with capture_logs() as lines:
        dial("10.0.0.1:1", Joining(ca=tmp_path / "ca.pem"), OUTRIGGER_TOKEN="ort_env").metadata()
    assert lines == []
