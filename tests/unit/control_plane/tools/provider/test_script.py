"""Scripted behaviours: which request gets which, and what is in them."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest
from pydantic import ValidationError

from control_plane.tools.provider.script import BEHAVIOURS, Behaviour, Script
from tests.unit.control_plane.tools.provider.requests import request


def taken(script: Script, path: str = "/v1/chat/completions", model: str | None = "m") -> int | None:
    """Return the status of the behaviour that the next request gets, or None."""
    behaviour = script.take(request(path), model)
    return behaviour.status if behaviour else None


def test_in_order_and_used_up() -> None:
    """Behaviours are played in order, each as often as it says, then the model answers again."""
    script = Script()
    script.add([Behaviour(status=429, times=2), Behaviour(status=500)])
    assert [taken(script) for _ in range(4)] == [429, 429, 500, None]


def test_forever() -> None:
    """`times` 0 is for every request until the reset."""
    script = Script()
    script.add([Behaviour(status=500, times=0)])
    assert [taken(script) for _ in range(3)] == [500, 500, 500]
    script.clear()
    assert taken(script) is None


def test_match() -> None:
    """A behaviour is kept for the requests it matches; others pass it by."""
    script = Script()
    script.add(
        BEHAVIOURS.validate_python([{"status": 500, "match": {"path": "/v1/embeddings", "model": "e"}}])
    )
    assert taken(script) is None
    assert taken(script, "/v1/embeddings", "m") is None
    assert taken(script, "/v1/embeddings", "e") == 500
    assert len(script) == 0


@pytest.mark.parametrize(
    ("given", "pieces"),
    [
        pytest.param({}, [b""], id="nothing"),
        pytest.param({"body": "text"}, [b"text"], id="text"),
        pytest.param({"body": {"a": 1}}, [b'{"a":1}'], id="json"),
        pytest.param({"body_base64": base64.b64encode(b"\xff").decode()}, [b"\xff"], id="bytes"),
        pytest.param({"chunks": ["a", "é"]}, [b"a", "é".encode()], id="chunks"),
        pytest.param({"chunks_base64": ["w6k=", "qQ=="]}, [b"\xc3\xa9", b"\xa9"], id="byte-chunks"),
    ],
)
def test_pieces(given: dict[str, Any], pieces: list[bytes]) -> None:
    """A body is given as text, JSON, bytes, or in pieces that are kept apart."""
    assert Behaviour(**given).pieces() == pieces


def test_gzip() -> None:
    """A coded body is real gzip and is labelled."""
    behaviour = Behaviour(body="text", gzip=True)
    assert gzip.decompress(b"".join(behaviour.pieces())) == b"text"
    assert ("content-encoding", "gzip") in behaviour.all_headers()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"body": {}}, "application/json"),
        ({"chunks": ["data: 1\n\n"]}, "text/event-stream"),
        ({"body": "x", "headers": {"Content-Type": "text/plain"}}, "text/plain"),
    ],
)
def test_content_type(given: dict[str, Any], kind: str) -> None:
    """JSON and chunks get the type they most likely have; a given one, however spelled, stays alone."""
    headers = Behaviour(**given).all_headers()
    assert [value for name, value in headers if name.lower() == "content-type"] == [kind]


def test_repeated_headers() -> None:
    """Headers as pairs may repeat a name and keep their order and case."""
    pairs = [["Set-Cookie", "a"], ["set-cookie", "b"]]
    assert BEHAVIOURS.validate_python([{"headers": pairs}])[0].headers == (
        ("Set-Cookie", "a"),
        ("set-cookie", "b"),
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"body": "a", "chunks": ["b"]},
        {"body_base64": "###"},
        {"status": 99},
        {"close": "sometimes"},
        {"colour": "red"},
    ],
)
def test_refused(wrong: dict[str, Any]) -> None:
    """Two bodies, bad base64, odd values and unknown fields are errors."""
    with pytest.raises(ValidationError):
        BEHAVIOURS.validate_python([wrong])


@pytest.mark.parametrize(
    ("given", "silent"),
    [
        ({"close": "before-headers"}, True),
        ({"close": "reset"}, True),
        ({"close": "reset", "chunks": ["a"]}, False),
        ({"close": "mid-stream"}, False),
        ({}, False),
    ],
)
def test_silent(given: dict[str, Any], silent: bool) -> None:
    """A break before the headers sends nothing; a reset after chunks sends them first."""
    assert Behaviour(**given).silent is silent
