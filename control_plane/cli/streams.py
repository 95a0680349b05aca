"""The standard streams of the command: no character and no full disk makes an error of ours out of them.

A terminal gets what its encoding has, and for the rest a plain form (`–` is `-`) or an escape. A result for
programs is UTF-8 in files and pipes, as JSON and manifests are, and as the commands read files.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import io
import os
import sys
from typing import Final, TextIO

PLAIN: Final = {
    **{"–": "-", "—": "-", "→": "->", "…": "...", "×": "x", "·": "-", "µ": "u", "≤": "<=", "≥": ">="},
    **{"‘": "'", "’": "'", "“": '"', "”": '"'},
}
"""What our own tables, sentences and help have beyond ASCII."""
HANDLER: Final = "outrigger-plain"
FAILING: Final = frozenset({"strict", "surrogateescape", "backslashreplace"})
"""Ways with what an encoding lacks that may fail, or know no plain form; any other is somebody's choice."""
UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def plain(error: UnicodeError) -> tuple[str, int]:
    """Return what is written in place of characters that an encoding lacks, and where to go on.

    Raises:
        UnicodeError: `error`, when it is none of encoding.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    return "".join(PLAIN.get(char) or ascii(char)[1:-1] for char in lacking), error.end


def settle() -> None:
    """Make the process's streams take every character; one that is closed takes everything, for nobody."""
    codecs.register_error(HANDLER, plain)
    sys.stdout, sys.stderr = _opened(sys.stdout), _opened(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in FAILING:
            stream.reconfigure(errors=HANDLER)


def _opened(stream: TextIO | None) -> TextIO:
    return stream if stream is not None else open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123


def for_programs() -> None:
    """Make stdout UTF-8 from here on, unless it is a terminal."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8", errors=HANDLER)


def abandon() -> None:
    """Drop what stdout still holds: Python would fail once more on it at the end of the process."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def unwritable(error: Exception) -> str | None:
    """Return the sentence for an error by which nothing more can be written, None for any other."""
    if not isinstance(error, OSError) or error.errno not in UNWRITABLE:
        return None
    what, reason = error.filename or "the output", (error.strerror or "no reason given").lower()
    return f"{what} cannot be written ({reason}); make room, or write elsewhere"
