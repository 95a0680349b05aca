"""`outrigger secret`."""

import io

import pytest

from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

SECRETS = "GET /api/v1/secrets"
PUT = "PUT /api/v1/secrets/openai"


@pytest.fixture(autouse=True)
def none_stored(stub: Stub) -> None:
    """Begin with no secret."""
    stub.answer(SECRETS, {"items": []})
    stub.answer(PUT, None, 201)


def pipe(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Put `content` on stdin."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


@pytest.mark.parametrize("content", [b"sk-1", b"sk-1\n", b"sk-1\r\n"])
def test_a_value_is_read_from_stdin(
    content: bytes, stub: Stub, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of the line is no part of it, and no word of it is printed."""
    pipe(monkeypatch, content)
    assert run("secret", "set", "openai", "api-key") == (0, "secret openai stored: api-key\n", "")
    assert stub.seen[-1].json == {"values": {"api-key": "sk-1"}}


def test_several_keys_take_a_line_each(stub: Stub, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the names."""
    pipe(monkeypatch, b"one\ntwo\n")
    assert run("secret", "set", "openai", "a", "b")[0] == 0
    assert stub.seen[-1].json == {"values": {"a": "one", "b": "two"}}


def test_other_keys_of_the_secret_are_not_lost(stub: Stub, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Storing replaces all of a secret, so all of it has to be named."""
    stub.answers[SECRETS] = []
    stub.answer(SECRETS, {"items": [{"name": "openai", "keys": ["api-key", "org"]}]})
    pipe(monkeypatch, b"sk-1\n")
    status, out, err = run("secret", "set", "openai", "api-key")
    assert (status, out) == (1, "")
    assert "secret openai holds org too, which would be lost" in err
    assert [seen.method for seen in stub.seen] == ["GET"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "stdin must hold 1 line with a value; it holds 0 lines"),
        (b"  \n", "stdin must hold 1 line with a value; it holds 0 lines"),
        (b"one\ntwo\n", "stdin must hold 1 line with a value; it holds 2 lines"),
        (b"\xff\xfe", "stdin is no UTF-8 text"),
        (b"x" * 70_000, "stdin holds more than 64 KiB"),
    ],
)
def test_what_is_no_value_is_told(
    content: bytes, sentence: str, stub: Stub, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored."""
    pipe(monkeypatch, content)
    status, _, err = run("secret", "set", "openai", "api-key")
    assert status == 1
    assert sentence in err
    assert [seen.method for seen in stub.seen] == ["GET"]


def test_secrets_are_listed_deleted_and_sealed_anew(stub: Stub, run: Run) -> None:
    """Never with a value."""
    stub.answers[SECRETS] = []
    stub.answer(SECRETS, {"items": [{"name": "openai", "keys": ["a", "b"]}]})
    stub.answer("DELETE /api/v1/secrets/openai", None, 204)
    stub.answer("POST /api/v1/secrets/rotate", None, 204)
    assert run("secret", "list")[1].splitlines()[1].split()[:3] == ["openai", "a,", "b"]
    assert run("secret", "delete", "openai") == (0, "secret openai deleted\n", "")
    assert run("secret", "rotate") == (0, "every stored value is sealed with the newest key\n", "")


@pytest.mark.parametrize("arguments", [("openai",), ("openai", "a", "a")])
def test_wrong_usage_ends_with_two(arguments: tuple[str, ...], stub: Stub, run: Run) -> None:
    """A value is no argument; a key is named once."""
    assert run("secret", "set", *arguments)[0] == 2
    assert stub.seen == []
