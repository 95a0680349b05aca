"""Which database a URL names."""

from pathlib import Path

import pytest

from control_plane.registry.errors import StoreOpenError
from control_plane.store.opening import store_for


def test_without_a_url_it_is_a_file_in_the_data_folder(tmp_path: Path) -> None:
    """Made at once, so that a folder that cannot be written is told before anything starts."""
    assert store_for(None, tmp_path).name == "sqlite"
    assert (tmp_path / "outrigger.db").exists()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
def test_every_spelling_of_postgresql_is_understood(scheme: str, tmp_path: Path) -> None:
    """Nothing connects before `open`."""
    assert store_for(f"{scheme}://u:p@localhost/d", tmp_path).name == "postgresql"


def test_a_sqlite_url_names_a_file(tmp_path: Path) -> None:
    """Elsewhere than in the data folder."""
    assert store_for(f"sqlite:///{tmp_path}/other.db", tmp_path / "data").name == "sqlite"
    assert (tmp_path / "other.db").exists()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("url", ["mysql://root:hunter2@host/x", "sqlite:///", "hunter2", "sqlite://hunter2"])
def test_any_other_url_is_refused_and_not_quoted(url: str, tmp_path: Path) -> None:
    """It may hold a password; the sentence shows the forms there are."""
    with pytest.raises(StoreOpenError, match="postgresql://USER") as error:
        store_for(url, tmp_path)
    assert "hunter2" not in str(error.value)
