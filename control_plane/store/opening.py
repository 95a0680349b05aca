"""Which database: what `--database` and `--data-dir` say."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from control_plane.registry.errors import StoreOpenError
from control_plane.store.sql_store import SqlStore
from control_plane.store.sqlite import Sqlite

FILE_NAME: Final = "outrigger.db"
_POSTGRES: Final = ("postgresql://", "postgres://", "postgresql+asyncpg://")
_SQLITE: Final = "sqlite:///"


def store_for(database: str | None, data_dir: Path) -> SqlStore:
    """Return the store at the URL `database`, or the SQLite file in `data_dir` without one.

    A URL is `postgresql://user:password@host/name` (with libpq's options, `?sslmode=require`) or
    `sqlite:///PATH`.

    Raises:
        StoreOpenError: no such URL (which is not quoted, it may hold a password), or no such file.
    """
    if not database:
        return SqlStore(Sqlite(data_dir / FILE_NAME))
    for scheme in _POSTGRES:
        if database.startswith(scheme):
            # Its driver takes a while to load; whoever keeps a SQLite file does without.
            from control_plane.store.postgres import Postgres  # noqa: PLC0415

            return SqlStore(Postgres(f"postgresql://{database.removeprefix(scheme)}"))
    if database.startswith(_SQLITE) and len(database) > len(_SQLITE):
        return SqlStore(Sqlite(Path(database.removeprefix(_SQLITE))))
    raise StoreOpenError(
        "the database's URL must be postgresql://USER:PASSWORD@HOST/NAME or sqlite:///PATH; "
        "without --database a SQLite file in the data folder is used"
    )
