"""The standard streams: every encoding, a full disk, nobody there."""

from __future__ import annotations

import errno
import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.cli.streams import HANDLER, for_programs, plain, settle, unwritable


def stream(encoding: str, errors: str = "strict") -> io.TextIOWrapper:
    """Return a stream to nowhere that is no terminal."""
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors=errors)


def written(out: io.TextIOWrapper) -> bytes:
    """Return what was written."""
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue()


@pytest.mark.parametrize(
    ("encoding", "text", "expected"),
    [
        ("latin-1", "– é → 东…", b"- \xe9 -> \\u4e1c..."),
        ("ascii", "– é µ 🚣", b"- \\xe9 u \\U0001f6a3"),
        ("cp1252", "– é ≤", b"\x96 \xe9 <="),
        ("utf-8", "– é \udcff", b"\xe2\x80\x93 \xc3\xa9 \\udcff"),
    ],
)
@pytest.mark.parametrize("errors", ["strict", "surrogateescape", "backslashreplace"])
def test_what_an_encoding_lacks_has_a_plain_form(
    encoding: str, errors: str, text: str, expected: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has stays, what is ours is spelt, the rest is escaped; on both streams."""
    monkeypatch.setattr(sys, "stdout", stream(encoding, errors))
    monkeypatch.setattr(sys, "stderr", stream(encoding, errors))
    settle()
    for out in (sys.stdout, sys.stderr):
        assert isinstance(out, io.TextIOWrapper)
        out.write(text)
        assert written(out) == expected


@given(st.text(st.characters()), st.sampled_from(["ascii", "latin-1", "utf-8", "gbk", "shift_jis", "utf-16"]))
def test_no_text_fails(text: str, encoding: str) -> None:
    """Halves of a character neither."""
    settle()
    assert isinstance(text.encode(encoding, HANDLER), bytes)


def test_only_what_is_written_is_put_right() -> None:
    """Bytes that cannot be read are somebody else's error."""
    wrong = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
    with pytest.raises(UnicodeDecodeError):
        plain(wrong)


def test_another_s_choice_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """`PYTHONIOENCODING=ascii:replace` says it."""
    monkeypatch.setattr(sys, "stdout", stream("ascii", "replace"))
    settle()
    assert isinstance(sys.stdout, io.TextIOWrapper)
    assert sys.stdout.errors == "replace"


def test_a_closed_stream_takes_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """`>&-` is somebody who does not want to know."""
    monkeypatch.setattr(sys, "stdout", None)
    settle()
    with sys.stdout as out:
        out.write("–")
        assert out.name == os.devnull


def test_programs_read_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """From there on; what was written before stays as it was."""
    out = stream("latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    settle()
    out.write("é–")
    for_programs()
    out.write("é–")
    assert written(out) == b"\xe9-" + "é–".encode()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_what_cannot_be_written_is_a_sentence(number: int) -> None:
    """With the file's name where there is one."""
    reason = os.strerror(number).lower()
    told = f"cannot be written ({reason}); make room, or write elsewhere"
    assert unwritable(OSError(number, os.strerror(number))) == f"the output {told}"
    assert unwritable(OSError(number, os.strerror(number), "/a")) == f"/a {told}"


def test_other_errors_are_none_of_a_disk() -> None:
    """They have their own sentences."""
    assert unwritable(OSError(errno.ENOENT, "No such file")) is None
    assert unwritable(ValueError("full")) is None
