"""Certificate files that are read again when they change."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from control_plane.webhook.certificates import kept_now
from control_plane.webhook.keeping import Files
from control_plane.webhook.tls import CertificateFilesError, ReloadedTls


def files(folder: Path) -> Files:
    """Write a new certificate into `folder`."""
    made = Files(folder)
    made.write(kept_now(None, ("localhost",), datetime.now(UTC)))
    return made


def test_renewed_files_are_loaded_once(tmp_path: Path) -> None:
    """What has not changed is not read into the server again."""
    tls = ReloadedTls(files(tmp_path).certificate, tmp_path / "tls.key", structlog.get_logger())
    with capture_logs() as logs:
        tls.look()
        files(tmp_path)
        tls.look()
        tls.look()
    assert [line["event"] for line in logs] == ["the webhook's certificate was renewed"]


def test_files_that_do_not_fit_leave_the_last_pair(tmp_path: Path) -> None:
    """Half of a renewal, or junk, is told once and waited out."""
    tls = ReloadedTls(files(tmp_path).certificate, tmp_path / "tls.key", structlog.get_logger())
    key = (tmp_path / "tls.key").read_bytes()
    with capture_logs() as logs:
        files(tmp_path)
        (tmp_path / "tls.key").write_bytes(key)
        tls.look()
        tls.look()
        (tmp_path / "tls.key").unlink()
        tls.look()
        files(tmp_path)
        tls.look()
    assert [line["log_level"] for line in logs] == ["warning", "warning", "info"]


@pytest.mark.parametrize("content", [None, b"", b"junk"])
def test_unusable_files_are_told_at_the_start(tmp_path: Path, content: bytes | None) -> None:
    """The message names the files or the options."""
    if content is not None:
        (tmp_path / "c").write_bytes(content)
        (tmp_path / "k").write_bytes(content)
    with pytest.raises(CertificateFilesError, match=r"--webhook-cert|no certificate"):
        ReloadedTls(tmp_path / "c", tmp_path / "k", structlog.get_logger())
