"""What a database's errors mean for the registry. No reason quotes an address, a password or SQL."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sqlite3
import sys
from collections.abc import Iterator
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from control_plane.registry.errors import StorageFullError, StoreOpenError, StoreUnavailableError

NO_ANSWER: Final = "no answer in time"
LOST: Final = "the connection is lost"
_FULL: Final = "53100"
# By SQLSTATE, or its class.
_REASONS: Final = {
    "28": "the user name or password is refused",
    "3D": "there is no database of that name",
    "42501": "the database's user lacks a right",
    "25006": "it is read-only, as a standby is",
    "53": "it is out of resources",
    "53300": "it has too many connections",
    "55P03": "another change holds the lock",
    "57": "it is starting or stopping",
    "57014": NO_ANSWER,
    "08": LOST,
    "23": "another change came between",
    "40": "another change came between",
}
_SQLITE_REASONS: Final = (
    ("locked", "another process holds it"),
    ("readonly", "it is read-only"),
    ("unable to open", "its file cannot be opened"),
    ("malformed", "its file is damaged"),
    ("not a database", "its file is no database"),
    ("disk i/o", "its disk does not answer"),
)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn what drivers raise into the registry's errors.

    Raises:
        StorageFullError: there is no room.
        StoreUnavailableError: anything else that is not the registry's own.
    """
    try:
        yield
    except _raised_by_drivers() as error:
        raise _meaning(error) from error


@contextlib.contextmanager
def fatal_at_open() -> Iterator[None]:
    """Turn a lack of rights into one sentence for whoever starts the process.

    Raises:
        StoreOpenError: the database's user may not make tables.
    """
    try:
        yield
    except StoreUnavailableError as error:
        if _sqlstate(error.__cause__) == "42501":
            raise StoreOpenError(
                "the database's user may not make tables; grant it CREATE on the schema, or make it the owner"
            ) from error
        raise


def _raised_by_drivers() -> tuple[type[BaseException], ...]:
    # PostgreSQL's driver is a tenth of a second of imports, which a process without PostgreSQL saves.
    asyncpg = sys.modules.get("asyncpg")
    theirs = () if asyncpg is None else (asyncpg.PostgresError, asyncpg.InterfaceError)
    return (SQLAlchemyError, sqlite3.Error, OSError, *theirs)


def _meaning(error: BaseException) -> StorageFullError | StoreUnavailableError:
    state = _sqlstate(error)
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    if state == _FULL:
        return StorageFullError()
    if state:
        reason = _REASONS.get(state) or _REASONS.get(state[:2]) or f"it answered with SQLSTATE {state}"
        return StoreUnavailableError(reason)
    text = str(cause).lower()
    if "disk is full" in text or (isinstance(cause, OSError) and cause.errno == errno.ENOSPC):
        return StorageFullError()
    if isinstance(cause, sqlite3.Error):
        return StoreUnavailableError(
            next((said for part, said in _SQLITE_REASONS if part in text), "it failed")
        )
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return StoreUnavailableError(LOST)
    return StoreUnavailableError(_connection_reason(cause))


def _connection_reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError | PoolTimeoutError):
        return NO_ANSWER
    if isinstance(error, socket.gaierror):
        return "its host name is not known"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return LOST if isinstance(error, OSError) else "it failed"


def _sqlstate(error: BaseException | None) -> str:
    """Return the SQLSTATE somewhere below `error`, "" without one."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        state = getattr(error, "sqlstate", None)
        if isinstance(state, str) and state:
            return state
        error = error.orig if isinstance(error, DBAPIError) else error.__cause__
    return ""
