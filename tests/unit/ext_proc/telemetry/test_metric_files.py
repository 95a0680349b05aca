from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict

from ext_proc.telemetry.metric_files import TornFileError, check


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 100, b"\x10", b"\x40\x00\x00\x00\x00\x00\x00\x00\x20\x00\x00\x00" + b"x" * 64]
)
def test_torn_file_is_told(tmp_path: Path, content: bytes) -> None:
    """Nonsense in the length, a cut head, nonsense in a key, and an empty file are found."""
    path = tmp_path / "counter_w0.db"
    path.write_bytes(content)
    with pytest.raises(TornFileError):
        check(path)


def test_real_files_pass(tmp_path: Path) -> None:
    """A file as the library writes it is whole, before its first value and after."""
    path = tmp_path / "counter_w0.db"
    written = MmapedDict(str(path))  # type: ignore[no-untyped-call]
    check(path)
    written.write_value('["a", "a_total", {}, ""]', 1.0, 0.0)  # type: ignore[no-untyped-call]
    written.close()  # type: ignore[no-untyped-call]
    check(path)
