"""From options and environment to a client."""

from pathlib import Path

import pytest
import typer

from control_plane.cli.failures import CommandFailed
from control_plane.cli.session import base_url, connect, read_token


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        (" https://cp.example.com/base/ ", "https://cp.example.com/base"),
        ("http://[::1]:8080/", "http://[::1]:8080"),
    ],
)
def test_a_server_is_a_url(server: str, url: str) -> None:
    """A path before /api is kept, for an ingress that has one."""
    assert base_url(server) == url


@pytest.mark.parametrize(
    "server",
    [
        "",
        "localhost:8080",
        "ftp://h",
        "http://",
        "http://h:70000",
        "http://h:0",
        "http://u:p@h",
        "http://h?x=1",
    ],
)
def test_anything_else_is_wrong_usage(server: str) -> None:
    """It is not repeated: it may hold a password."""
    with pytest.raises(typer.BadParameter, match="is not http://HOST:PORT"):
        base_url(server)


def test_the_token_is_in_the_variable_or_in_a_file(tmp_path: Path) -> None:
    """The file counts more; the end of its line is no part of it; none is none."""
    (tmp_path / "token").write_text("ort_2_b\n")
    environment = {"OUTRIGGER_TOKEN": " ort_1_a\n"}
    assert read_token(None, environment) == "ort_1_a"
    assert read_token(tmp_path / "token", environment) == "ort_2_b"
    assert read_token(None, {}) == ""


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read (no such file or directory); name another with --token-file"),
        (b" \n", "is empty; put the token into it"),
        (b"\xff\xfe", "is no text"),
        (b"two\nwords", "holds more than one line"),
        (b"two\x00words", "holds more than one line"),
    ],
)
def test_a_file_without_a_token_is_told(content: bytes | None, sentence: str, tmp_path: Path) -> None:
    """With its name, and nothing of what it holds."""
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(CommandFailed) as failed:
        read_token(tmp_path / "token", {})
    assert sentence in str(failed.value)
    assert "words" not in str(failed.value)


def test_a_variable_without_a_token_is_told() -> None:
    """No header could carry it."""
    with pytest.raises(CommandFailed, match="OUTRIGGER_TOKEN holds more than one line"):
        read_token(None, {"OUTRIGGER_TOKEN": "a\x00b"})


def test_a_client_is_made_of_both() -> None:
    """The server without its last slash."""
    with connect("http://127.0.0.1:1/", None, None, environment={}) as client:
        assert client.server == "http://127.0.0.1:1"
