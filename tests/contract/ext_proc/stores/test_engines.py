"""The engines of a cache's database."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from ext_proc.stores.engines import engines_for


@pytest.mark.parametrize(
    "url", ["", "sqlite://", "sqlite:///", "mysql://user:secret@host/name", "answers.db"]
)
def test_a_wrong_url_is_refused_and_not_quoted(url: str) -> None:
    """It may hold a password."""
    with pytest.raises(ValueError, match="postgresql://USER") as refused:
        engines_for(url)
    assert "secret" not in str(refused.value)


async def test_the_file_and_its_folder_are_their_owners_alone(tmp_path: Path) -> None:
    """They hold answers; the write-ahead log beside the file does, too."""
    path = tmp_path / "cache" / "answers.db"
    engines = engines_for(f"sqlite:///{path}")
    assert not path.exists()
    await asyncio.to_thread(engines.prepare)
    async with engines.writing.begin() as connection:
        await connection.exec_driver_sql("CREATE TABLE t (a)")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()] == [0o600] * 3
    await engines.writing.dispose()


async def test_readers_do_not_wait_for_a_writer(tmp_path: Path) -> None:
    """They see what was there before."""
    engines = engines_for(f"sqlite:///{tmp_path / 'answers.db'}")
    engines.prepare()
    async with engines.writing.begin() as connection:
        await connection.exec_driver_sql("CREATE TABLE t (a)")
    async with engines.writing.begin() as connection:
        await connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        async with asyncio.timeout(1), engines.reading.connect() as reading:
            assert (await reading.exec_driver_sql("SELECT count(*) FROM t")).scalar_one() == 0
    await engines.reading.dispose()
    await engines.writing.dispose()


async def test_an_address_that_is_not_understood_is_not_quoted() -> None:
    """The driver's own words would."""
    engines = engines_for("postgresql://user:secret@host:port/name")
    with pytest.raises(ValueError, match="not understood") as refused:
        await engines.reading.connect()
    assert "secret" not in str(refused.value)


async def test_a_server_that_refuses_says_so_at_once() -> None:
    """No retries: whoever asks goes on without it."""
    engines = engines_for("postgresql://user:secret@127.0.0.1:1/name")
    with pytest.raises(OSError, match="failed"):
        await engines.reading.connect()
