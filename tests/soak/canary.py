"""Looks for what must be nowhere: keys, prompts, phone numbers, sessions' names.

In files, in what ports tell, and in the environments of processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

CHUNK: Final = 1 << 20


def found_in(data: bytes, markers: Mapping[str, str]) -> list[str]:
    """Return the names of the markers in `data`, written as they are or coded."""
    return [name for name, marker in markers.items() if any(form in data for form in _forms(marker))]


def _forms(marker: str) -> tuple[bytes, ...]:
    plain = marker.encode()
    return plain, plain.hex().encode(), marker.replace("-", "%2D").encode()


def in_files(folder: Path, markers: Mapping[str, str], but: Iterable[Path] = ()) -> Iterator[str]:
    """Yield a line for each file below `folder` that holds a marker."""
    left_out = set(but)
    longest = max(2 * len(marker) for marker in markers.values())
    for path in sorted(folder.rglob("*")):
        if path in left_out or path.is_symlink() or not path.is_file():
            continue
        names: set[str] = set()
        with path.open("rb") as file:
            kept = b""
            while chunk := file.read(CHUNK):
                names.update(found_in(kept + chunk, markers))
                kept = chunk[-longest:]
        yield from (f"{path.relative_to(folder)} holds {name}" for name in sorted(names))


def in_environment(pid: int, role: str, markers: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each marker in what a process was started with."""
    for name in ("environ", "cmdline"):
        try:
            data = Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            continue
        yield from (f"{name} of the {role} holds {marker}" for marker in found_in(data, markers))


def dumps_core(pid: int) -> bool:
    """Whether a process that dies may leave its memory, with keys and prompts, in a file."""
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return False
    (line,) = (line for line in lines if line.startswith("Max core file size"))
    return line.split()[4] != "0"
