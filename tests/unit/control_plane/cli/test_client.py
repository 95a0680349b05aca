"""Calls to the API, and every way in which they go wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from control_plane.cli.client import Client, FieldError, Refused
from control_plane.cli.failures import CommandFailed
from tests.unit.control_plane.cli.stub import Stub, serving

MODELS = "GET /api/v1/models"


def failure(client: Client, *path: str) -> str:
    """GET something that fails and return the sentence."""
    with client, pytest.raises(CommandFailed) as failed:
        client.get(*(path or ("models",)))
    return str(failed.value)


def test_an_answer_is_kept_as_it_came(stub: Stub) -> None:
    """Spaces and order included, beside its value; the token and a bodiless form go up."""
    stub.answer(MODELS, b'{ "items" : [] }')
    with Client(stub.url, "ort_1_secret") as client:
        answer = client.get("models", query={"limit": 5, "after": None})
    assert answer.text == '{ "items" : [] }'
    assert answer.items() == []
    (seen,) = stub.seen
    assert seen.target == "/api/v1/models?limit=5"
    assert seen.headers["authorization"] == "Bearer ort_1_secret"
    assert seen.headers["accept"] == "application/json"


def test_names_are_escaped(stub: Stub) -> None:
    """A name is one part of the path, whatever is in it."""
    stub.answer("PUT /api/v1/models/a%2Fb%3Fc%20..", {"x": "東京"}, 201)
    with Client(stub.url) as client:
        client.put("models", "a/b?c ..", body={"x": "東京"})
    assert stub.seen[0].json == {"x": "東京"}
    assert "authorization" not in stub.seen[0].headers


def test_no_body_is_no_value(stub: Stub) -> None:
    """204 of a DELETE."""
    stub.answer("DELETE /api/v1/models/m", None, 204)
    with Client(stub.url) as client:
        assert client.delete("models", "m").value is None


def test_problem_details_name_each_field(stub: Stub) -> None:
    """And nothing of them can drive the terminal."""
    error = {"document": "Model/m", "field": "spec.versions[0].backend", "message": "no \x1b[2J Backend"}
    stub.problem("POST /api/v1/apply", 422, "1 document is refused", error)
    with Client(stub.url) as client, pytest.raises(Refused) as refused:
        client.post("apply", body=[])
    assert refused.value.status == 422
    assert refused.value.errors == (FieldError("Model/m", "spec.versions[0].backend", r"no \x1b[2J Backend"),)
    assert str(refused.value).splitlines() == [
        "1 document is refused",
        r"  Model/m: spec.versions[0].backend: no \x1b[2J Backend",
    ]


@pytest.mark.parametrize(
    ("status", "token", "sentence"),
    [
        (401, "", "wants a token: export OUTRIGGER_TOKEN=… or --token-file"),
        (401, "ort_1_secret", "the token is refused; check OUTRIGGER_TOKEN or --token-file"),
        (403, "ort_1_secret", "it needs the role editor"),
        (429, "ort_1_secret", "it needs the role editor; try again in 7 s"),
    ],
)
def test_a_refused_token_is_told(status: int, token: str, sentence: str, stub: Stub) -> None:
    """Without any piece of it."""
    headers = {"retry-after": "7"} if status == 429 else {}
    stub.problem(MODELS, status, "it needs the role editor", **headers)
    told = failure(Client(stub.url, token))
    assert told.endswith(sentence)
    assert "ort_" not in told


@pytest.mark.parametrize(
    ("body", "status", "kind", "what"),
    [
        (b"<html>", 200, "text/html; charset=utf-8", "a web page (status 200)"),
        (b"<html>", 502, "text/html", "a web page (status 502)"),
        (b"OK", 200, "text/plain", "something else (status 200)"),
        (b'{"error": {"message": "no"}}', 404, "application/json", "something else (status 404)"),
        (b"", 302, "text/html", "a redirect (status 302)"),
    ],
)
def test_another_server_is_told(body: bytes, status: int, kind: str, what: str, stub: Stub) -> None:
    """A page, a proxy port, a redirect: whatever is no answer of the API."""
    stub.answer(MODELS, body, status, **{"content-type": kind})
    told = failure(Client(stub.url))
    assert told == (
        f"{stub.url} answers {what}, not Outrigger's API; "
        "give the API's address with --server or OUTRIGGER_SERVER"
    )


@pytest.mark.parametrize("value", [[], {"items": 5}, {"items": ["x"]}, {}])
def test_an_answer_of_another_form_is_told(value: object, stub: Stub) -> None:
    """JSON is not enough."""
    stub.answer(MODELS, value)
    with Client(stub.url) as client, pytest.raises(CommandFailed, match="is --server the API's address"):
        client.get("models").items()


def test_nobody_there(stub: Stub) -> None:
    """A refused connection and an unknown host say what to start or name."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{free.getsockname()[1]}"
        told = failure(Client(server))
    assert told.startswith(f"no control plane at {server} (connection refused); start it (outrigger up)")
    assert "(unknown host)" in failure(Client("http://no-such-host.invalid"))


@contextmanager
def answering(first: bytes, hold: threading.Event | None = None) -> Iterator[str]:
    """Accept one connection, read a little, send `first`, close; `hold` is waited for before that."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                if hold is not None:
                    hold.wait(10)
                connection.sendall(first)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


def test_what_is_no_http_is_told() -> None:
    """The push port, for instance, or a port that closes at once."""
    for first in (b"SSH-2.0-x\r\n", b""):
        with answering(first) as address:
            told = failure(Client(f"http://{address}"))
        assert told.startswith(f"http://{address} does not answer as HTTP; is it the API's port?")


def test_a_silent_server_is_told() -> None:
    """After the time for an answer."""
    hold = threading.Event()
    with answering(b"", hold) as address:
        told = failure(Client(f"http://{address}", timeout_s=0.2))
        hold.set()
    assert told == f"http://{address} took the call and does not answer; look at the control plane's log"


def test_tls_without_tls_is_told(stub: Stub) -> None:
    """https:// to a port that speaks HTTP."""
    server = stub.url.replace("http", "https")
    assert failure(Client(server)) == (
        f"{server} does not speak TLS as expected; is it http://, or another port?"
    )


def test_a_certificate_is_verified(tmp_path: Path) -> None:
    """Against the machine's authorities, or those of --ca."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    with serving(authority.issue_cert("127.0.0.1")) as stub:
        stub.answer(MODELS, {"items": []})
        told = failure(Client(stub.url))
        assert told.startswith(f"the certificate of {stub.url} is refused (")
        assert told.endswith("give its authority with --ca")
        with Client(stub.url, ca=tmp_path / "ca.pem") as client:
            assert client.get("models").items() == []


@pytest.mark.parametrize(("text", "reason"), [("nonsense", "holds no certificate"), (None, "cannot be read")])
def test_a_file_that_is_no_authority_is_told(text: str | None, reason: str, tmp_path: Path) -> None:
    """With its name."""
    path = tmp_path / "ca.pem"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CommandFailed, match=reason):
        Client("https://127.0.0.1:1", ca=path)


def test_a_proxy_of_the_environment_is_not_for_this_machine(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere it counts."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    stub.answer(MODELS, {"items": []})
    with Client(stub.url) as client:
        client.get("models")
    assert "no control plane at http://203.0.113.7" in failure(Client("http://203.0.113.7"))
