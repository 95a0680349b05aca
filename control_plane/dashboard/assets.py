"""The files that browsers load: read once, each with the tag by which a browser knows it again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

MEDIA_TYPES: Final = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
"""What is served; any other file is left out."""


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. `etag` is quoted as in the header."""

    content: bytes
    media_type: str
    etag: str


def load_assets() -> Mapping[str, Asset]:
    """Return every file by its path below `static`, as `pages/overview.js`."""
    return dict(_below(resources.files("control_plane.dashboard").joinpath("static"), ""))


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found: list[tuple[str, Asset]] = []
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        path = prefix + item.name
        if item.is_dir():
            found += _below(item, path + "/")
        elif (media_type := MEDIA_TYPES.get(item.name[item.name.rfind(".") :])) is not None:
            content = item.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:24]
            found.append((path, Asset(content, media_type, f'"{digest}"')))
    return found
