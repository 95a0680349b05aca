"""What drivers raise, and what it means."""

import errno
import socket
import sqlite3

import asyncpg  # type: ignore[import-untyped]  # has no type information
import pytest
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from control_plane.registry.errors import (
    RegistryError,
    StorageFullError,
    StoreOpenError,
    StoreUnavailableError,
)
from control_plane.store.failures import fatal_at_open, translated


def meaning(error: Exception) -> RegistryError:
    """Return what `error` becomes."""
    with pytest.raises(RegistryError) as found, translated():
        raise error
    return found.value


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (TimeoutError(), "no answer in time"),
        (PoolTimeoutError(), "no answer in time"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "connection refused"),
        (socket.gaierror(-2, "marker"), "its host name is not known"),
        (ConnectionError("marker"), "the connection is lost"),
        (asyncpg.CannotConnectNowError("marker"), "it is starting or stopping"),
        (asyncpg.TooManyConnectionsError("marker"), "it has too many connections"),
        (asyncpg.LockNotAvailableError("marker"), "another change holds the lock"),
        (asyncpg.ReadOnlySQLTransactionError("marker"), "it is read-only, as a standby is"),
        (asyncpg.UniqueViolationError("marker"), "another change came between"),
        (asyncpg.UndefinedTableError("marker"), "it answered with SQLSTATE 42P01"),
        (asyncpg.InterfaceError("marker"), "it failed"),
        (sqlite3.OperationalError("database is locked"), "another process holds it"),
        (sqlite3.OperationalError("attempt to write a readonly database"), "it is read-only"),
        (sqlite3.DatabaseError("database disk image is malformed"), "its file is damaged"),
        (sqlite3.OperationalError("disk I/O error"), "its disk does not answer"),
        (sqlite3.OperationalError("marker"), "it failed"),
        (
            DBAPIError("SELECT marker", None, sqlite3.OperationalError("database is locked")),
            "another process",
        ),
        (DBAPIError("SELECT marker", None, Exception("marker")), "it failed"),
        (
            DBAPIError("SELECT 1", None, Exception("marker"), connection_invalidated=True),
            "connection is lost",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_failure_has_a_plain_reason(error: Exception, reason: str) -> None:
    """In words of our own, which quote nothing."""
    found = meaning(error)
    assert isinstance(found, StoreUnavailableError)
    assert reason in found.reason
    assert "marker" not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.DiskFullError("marker"),
        sqlite3.OperationalError("database or disk is full"),
        OSError(errno.ENOSPC, "No space left on device"),
        DBAPIError("INSERT marker", None, sqlite3.OperationalError("database or disk is full")),
    ],
)
def test_a_full_disk_is_told_as_such(error: Exception) -> None:
    """Somebody has to make room; waiting does not help."""
    assert isinstance(meaning(error), StorageFullError)


def test_the_registrys_own_errors_pass() -> None:
    """They are translated already."""
    error = StoreOpenError("x")
    assert meaning(error) is error


def test_a_lack_of_rights_at_the_start_says_what_to_grant() -> None:
    """Later it is one reason among others."""
    with pytest.raises(StoreOpenError, match="grant it CREATE"), fatal_at_open(), translated():
        raise asyncpg.InsufficientPrivilegeError("marker")
    with pytest.raises(StoreUnavailableError), fatal_at_open(), translated():
        raise TimeoutError
