"""Whether a metrics file of `prometheus_client`'s multiprocess mode can be used.

A file is torn when its disk was full or its writer was killed in the middle of the first write.
"""

from __future__ import annotations

import struct
from pathlib import Path

from prometheus_client.multiprocess import MultiProcessCollector


class TornFileError(Exception):
    """The file cannot be read back."""


def check(path: Path) -> None:
    """Read the whole file once.

    Raises:
        TornFileError: it cannot be read back, or is empty.
    """
    try:
        content = path.read_bytes()
        (used,) = struct.unpack_from("<i", content)
        # 0: made, nothing counted yet. The library reads other wrong lengths as 0 and then writes past them.
        if used and not 8 <= used <= len(content):
            raise TornFileError(f"{used} bytes used of {len(content)}")
        MultiProcessCollector.merge([str(path)])  # type: ignore[no-untyped-call]
    except TornFileError:
        raise
    except Exception as error:
        # The library documents no errors; a torn file has been seen to raise several.
        raise TornFileError(f"{type(error).__name__}: {error}") from error
