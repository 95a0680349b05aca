"""One sentence for each way a call fails."""

import ssl
from typing import Any

import httpcore
import pytest

from control_plane.tools.diagnose.failures import (
    error_code,
    refused,
    seconds,
    stranger,
    unknown_host,
    unreachable,
)
from control_plane.tools.diagnose.target import Target

KEY = "sk-abcdef1234567890"
PLAIN = Target.parse("http://127.0.0.1:8001/v1", "gpt-9")
KEYED = Target.parse("http://127.0.0.1:8001/v1", "gpt-9", {"authorization": f"Bearer {KEY}"})


def error(code: str) -> dict[str, Any]:
    """Return an error as OpenAI answers it; its message tells the key."""
    return {"error": {"message": f"Incorrect API key: {KEY}", "type": "invalid_request_error", "code": code}}


@pytest.mark.parametrize(
    ("target", "status", "document", "parts"),
    [
        (KEYED, 401, error("invalid_api_key"), ["refuses the key", "401 invalid_api_key"]),
        (PLAIN, 401, None, ["wants a key", "OPENAI_API_KEY"]),
        (PLAIN, 404, error("model_not_found"), ["no model gpt-9", "--model"]),
        (PLAIN, 404, error("unknown_url"), ["no such call", "/v1"]),
        (PLAIN, 429, error("rate_limit_exceeded"), ["429", "later"]),
        (PLAIN, 307, None, ["somewhere else", "--url"]),
        (PLAIN, 503, None, ["answers 503"]),
    ],
    ids=["wrong key", "no key", "model", "path", "quota", "redirect", "server"],
)
def test_error_statuses(target: Target, status: int, document: Any, parts: list[str]) -> None:
    """Each names the status and what to do, and never the key."""
    failure = refused(target, status, document, None)
    assert failure.reason == str(status)
    assert all(part in str(failure) for part in parts)
    assert KEY not in str(failure)


@pytest.mark.parametrize("code", [KEY, "a" * 60, "x\x1b[31m", 7, None, "Two Words"])
def test_only_a_short_code_is_shown(code: Any) -> None:
    """Whatever else stands there may be a secret or drive the terminal."""
    assert error_code({"error": {"code": code}}, (f"Bearer {KEY}",)) == ""
    assert error_code({"error": {"code": "bearer", "type": "server_error"}}, ("bearer x",)) == "server_error"


@pytest.mark.parametrize(
    ("error", "reason", "part"),
    [
        (httpcore.ConnectError("refused"), "connect", "nobody listens on 127.0.0.1:8001"),
        (httpcore.ConnectTimeout(), "connect-timeout", "does not take a connection"),
        (httpcore.ReadTimeout(), "timeout", "within 30 s"),
        (httpcore.RemoteProtocolError("what"), "protocol", "does not speak HTTP"),
        (httpcore.RemoteProtocolError("Server disconnected"), "broken", "is it https://?"),
        (httpcore.ReadError(), "broken", "closes the connection"),
        (OSError(), "broken", "closes the connection"),
    ],
)
def test_broken_ways(error: Exception, reason: str, part: str) -> None:
    """Connection, time, protocol."""
    failure = unreachable(PLAIN, error, 30)
    assert failure.reason == reason
    assert part in str(failure)


def test_tls() -> None:
    """A certificate that is not trusted is told apart from a port that speaks no TLS."""
    for inner, part in (
        (ssl.SSLCertVerificationError(1, "CERTIFICATE_VERIFY_FAILED"), "--target-ca"),
        (ssl.SSLError(1, "WRONG_VERSION"), "http://"),
    ):
        outer = httpcore.ConnectError(str(inner))
        outer.__cause__ = inner
        assert part in str(unreachable(PLAIN, outer, 30))


def test_no_completion() -> None:
    """A page is told by its content type; nothing else of it is shown."""
    assert "answers text/html" in str(stranger(PLAIN, "text/html; charset=utf-8"))
    assert "something else" in str(stranger(PLAIN, "<script>"))
    assert "not known" in str(unknown_host(PLAIN))


@pytest.mark.parametrize(
    ("reason", "code", "passing"),
    [
        ("429", "", True),
        ("429", "insufficient_quota", False),
        ("503", "", True),
        ("broken", "", True),
        ("400", "", False),
        ("timeout", "", False),
    ],
)
def test_what_passes(reason: str, code: str, passing: bool) -> None:
    """Only what a little time heals is tried again."""
    failure = unreachable(PLAIN, OSError(), 1)
    failure.reason, failure.code = reason, code
    assert failure.passing is passing


@pytest.mark.parametrize(
    ("text", "value"), [("2", 2.0), ("0.5", 0.5), (None, None), ("soon", None), ("-1", None), ("inf", None)]
)
def test_retry_after(text: str | None, value: float | None) -> None:
    """A number of seconds, or nothing."""
    assert seconds(text) == value
