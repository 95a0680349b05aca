"""What is found where it must not be."""

from __future__ import annotations

import os
from pathlib import Path

from tests.soak import canary

MARKERS = {"a key": "sk-marker-1", "a prompt": "prompt-marker"}


def test_a_marker_is_found_in_any_form(tmp_path: Path) -> None:
    """As it is, as hexadecimal digits, across two reads; in files below, but those left out."""
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "log").write_bytes(b"x sk-marker-1 y")
    (tmp_path / "coded").write_bytes(b"prompt-marker".hex().encode())
    (tmp_path / "long").write_bytes(b"." * (canary.CHUNK - 5) + b"prompt-marker")
    (tmp_path / "own").write_bytes(b"sk-marker-1")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    found = list(canary.in_files(tmp_path, MARKERS, [tmp_path / "own"]))
    assert found == ["below/log holds a key", "coded holds a prompt", "long holds a prompt"]


def test_this_very_process_was_started_without_them() -> None:
    """A process that is gone holds nothing."""
    assert list(canary.in_environment(os.getpid(), "test", MARKERS)) == []
    assert list(canary.in_environment(2**22 + 1, "nobody", MARKERS)) == []
    assert not canary.dumps_core(2**22 + 1)
