"""Tests of the snapshot on disk."""

from __future__ import annotations

import stat
from pathlib import Path

import structlog

from ext_proc.agent.disk import SnapshotFile
from ext_proc.contract.snapshot import Backend, Snapshot

SNAPSHOT = Snapshot("v1", backends={"b": Backend("b", "http://h/v1")})


def file_at(path: Path) -> SnapshotFile:
    """Return the snapshot file at `path`."""
    return SnapshotFile(path, structlog.get_logger())


def test_written_snapshot_is_read_back(tmp_path: Path) -> None:
    """What was written is read, by nobody but the owner, and no other file is left."""
    path = tmp_path / "data" / "snapshot.json"
    assert file_at(path).write(SNAPSHOT)
    assert file_at(path).read() == SNAPSHOT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(path.parent.iterdir()) == [path]


def test_nothing_and_rubbish_are_no_snapshot(tmp_path: Path) -> None:
    """A missing file and one that is no snapshot are None, not an error."""
    path = tmp_path / "snapshot.json"
    assert file_at(path).read() is None
    path.write_text('{"version": 1')
    assert file_at(path).read() is None


def test_failed_write_keeps_the_old_one(tmp_path: Path) -> None:
    """Where nothing can be written, the file from before stays whole and the caller goes on."""
    path = tmp_path / "snapshot.json"
    assert file_at(path).write(SNAPSHOT)
    (tmp_path / "snapshot.new").mkdir()
    assert not file_at(path).write(Snapshot("v2"))
    assert file_at(path).read() == SNAPSHOT
