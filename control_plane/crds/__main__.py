"""`python -m control_plane.crds FOLDER`: write the definitions, a file each."""

from __future__ import annotations

import sys
from pathlib import Path

from control_plane.crds.definitions import files


def main(folder: Path) -> None:
    """Write every definition into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
