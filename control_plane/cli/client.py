"""HTTP to the control plane's API: an answer, or one sentence about what to do.

Knows how the API tells an error (problem details, https://www.rfc-editor.org/rfc/rfc9457) and no command.
"""

from __future__ import annotations

import ipaddress
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import httpx

from control_plane.cli.failures import CommandFailed
from control_plane.cli.text import printable

API: Final = "/api/v1"
CONNECT_TIMEOUT_S: Final = 5.0
# An apply of thousands of documents takes seconds; a database that is gone is told by the API sooner.
ANSWER_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class FieldError:
    """One entry of a problem's `errors`: `Kind/name`, the field's path ("" for all of it), what is wrong."""

    document: str
    field: str
    message: str


class Refused(CommandFailed):
    """The API refused the call. `errors` is empty when the sentence says it all."""

    def __init__(self, status: int, sentence: str, errors: tuple[FieldError, ...] = ()) -> None:
        super().__init__("\n".join([sentence, *map(_line, errors)]))
        self.status = status
        self.sentence = sentence
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Answer:
    """A good answer: its body as it came, and as a value (None when there is no body); its `ETag`, if any."""

    text: str
    value: Any
    etag: str = ""

    def items(self) -> list[dict[str, Any]]:
        """Return the `items` of a list.

        Raises:
            CommandFailed: the answer is no list.
        """
        items = self.value.get("items") if isinstance(self.value, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise CommandFailed("the answer is no list as the API gives it; is --server the API's address?")
        return items

    def fields(self) -> dict[str, Any]:
        """Return the answer's fields.

        Raises:
            CommandFailed: the answer is no object.
        """
        if not isinstance(self.value, dict):
            raise CommandFailed("the answer is not what the API gives; is --server the API's address?")
        return self.value


class Client:
    """Calls to one control plane. Close it, or use it as a context manager.

    Args:
        server: the base URL, `http://HOST:PORT`.
        token: the bearer token, "" for none. It is in no message.
        ca: PEM file of the authorities that the server's certificate is verified against.
        timeout_s: how long to wait for an answer.
    """

    def __init__(
        self, server: str, token: str = "", *, ca: Path | None = None, timeout_s: float = ANSWER_TIMEOUT_S
    ) -> None:
        self.server = server
        self._has_token = bool(token)
        headers = {b"accept": b"application/json", b"user-agent": b"outrigger"}
        if token:
            headers[b"authorization"] = b"Bearer " + token.encode()
        self._http = httpx.Client(
            headers=headers,
            verify=_authorities(ca) if server.startswith("https:") else False,
            timeout=httpx.Timeout(timeout_s, connect=min(CONNECT_TIMEOUT_S, timeout_s)),
            trust_env=not _is_local(server),  # a proxy that the environment names is not for this machine
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, *path: str, query: Mapping[str, str | int | None] | None = None) -> Answer:
        """GET the resource at `path` (each part is escaped); entries of `query` that are None are left out.

        Raises:
            CommandFailed: nobody answers, or not as the API does; `Refused` when the API refuses.
        """
        return self._call("GET", path, query=query)

    def post(
        self, *path: str, body: Any = None, query: Mapping[str, str | int | None] | None = None
    ) -> Answer:
        """POST `body` as JSON; None sends none. Raises as `get`."""
        return self._call("POST", path, query=query, body=body)

    def put(self, *path: str, body: Any, if_match: str = "") -> Answer:
        """PUT `body` as JSON, with `if_match` only in the place of what has that ETag. Raises as `get`."""
        return self._call("PUT", path, body=body, if_match=if_match)

    def delete(self, *path: str) -> Answer:
        """DELETE the resource. Raises as `get`."""
        return self._call("DELETE", path)

    def _call(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Mapping[str, str | int | None] | None = None,
        body: Any = None,
        if_match: str = "",
    ) -> Answer:
        url = f"{self.server}{API}/{'/'.join(quote(part, safe='') for part in path)}"
        content = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        headers = {"content-type": "application/json"} if content is not None else {}
        if if_match:
            headers["if-match"] = if_match
        try:
            answer = self._http.request(
                method,
                url,
                params={name: value for name, value in (query or {}).items() if value is not None},
                content=content,
                headers=headers,
            )
            text = answer.text
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise CommandFailed(unreachable(self.server, error)) from None
        if not answer.is_success:
            raise self._refused(answer)
        if not text.strip():
            return Answer("", None)
        try:
            return Answer(text, json.loads(text), answer.headers.get("etag", ""))
        except ValueError:
            raise CommandFailed(self._stranger(answer)) from None

    def _refused(self, answer: httpx.Response) -> CommandFailed:
        problem = _problem(answer)
        status = answer.status_code
        if status == 401:
            if not self._has_token:
                return Refused(
                    status, f"{self.server} wants a token: export OUTRIGGER_TOKEN=… or --token-file"
                )
            return Refused(status, "the token is refused; check OUTRIGGER_TOKEN or --token-file")
        if problem is None:
            return CommandFailed(self._stranger(answer))
        sentence = printable(str(problem.get("detail") or problem.get("title") or f"refused with {status}"))
        if wait := answer.headers.get("retry-after"):
            sentence += f"; try again in {printable(wait)} s"
        found = problem.get("errors")
        errors = tuple(
            FieldError(*(printable(str(entry.get(name) or "")) for name in ("document", "field", "message")))
            for entry in (found if isinstance(found, list) else [])
            if isinstance(entry, dict)
        )
        return Refused(status, sentence, errors)

    def _stranger(self, answer: httpx.Response) -> str:
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        what = "a web page" if kind == "text/html" else "something else"
        if answer.is_redirect:
            what = "a redirect"
        return (
            f"{self.server} answers {what} (status {answer.status_code}), not Outrigger's API; "
            "give the API's address with --server or OUTRIGGER_SERVER"
        )


def _line(error: FieldError) -> str:
    return "  " + ": ".join(part for part in (error.document, error.field, error.message) if part)


def _problem(answer: httpx.Response) -> dict[str, Any] | None:
    """Return the problem details of an answer, None when it holds none."""
    try:
        value = answer.json()
    except ValueError:
        return None
    return value if isinstance(value, dict) and "title" in value else None


def _authorities(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        reason = "holds no certificate" if isinstance(error, ssl.SSLError) else "cannot be read"
        raise CommandFailed(f"the file {ca} {reason}; give a PEM file with --ca") from None


def _is_local(server: str) -> bool:
    host = httpx.URL(server).host
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def unreachable(server: str, error: Exception) -> str:
    """Return the sentence for a call that got no answer."""
    text = str(error)
    name_it = "name it with --server or OUTRIGGER_SERVER"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("CERTIFICATE_VERIFY_FAILED] ")[2].partition(" (")[0] or "not trusted"
        reason = reason.removeprefix("certificate verify failed: ")
        return f"the certificate of {server} is refused ({reason}); give its authority with --ca"
    if "SSL" in text:
        return f"{server} does not speak TLS as expected; is it http://, or another port?"
    if isinstance(error, httpx.ConnectTimeout):
        return f"{server} does not answer in time; is it the right address? {name_it}"
    if isinstance(error, httpx.TimeoutException):
        return f"{server} took the call and does not answer; look at the control plane's log"
    if isinstance(error, httpx.ConnectError):
        reason = "unknown host" if "Name or service" in text or "name resolution" in text else _strerror(text)
        return f"no control plane at {server} ({reason}); start it (outrigger up), or {name_it}"
    if isinstance(error, httpx.ProxyError):
        return f"the proxy before {server} refuses; set NO_PROXY, or unset HTTPS_PROXY and HTTP_PROXY"
    if isinstance(error, httpx.ProtocolError | httpx.ReadError | httpx.WriteError | httpx.CloseError):
        return f"{server} does not answer as HTTP; is it the API's port? {name_it}"
    return f"{server} cannot be called ({type(error).__name__}); {name_it}"


def _strerror(text: str) -> str:
    return printable(text.partition("] ")[2] or text or "no reason given").lower()
