"""A stand-in for the API: real HTTP on loopback, answers by method and path, requests kept."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as a value."""
        return json.loads(self.body)


@dataclass
class Stub:
    """What to answer, by `GET /api/v1/models`; a list is answered one by one, its last for ever."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)

    def answer(self, request: str, value: Any = None, status: int = 200, **headers: str) -> None:
        """Answer `request` with a JSON value (None: no body; bytes: as they are)."""
        self.answers.setdefault(request, []).append((status, value, headers))

    def problem(
        self, request: str, status: int, detail: str, *errors: dict[str, str], **headers: str
    ) -> None:
        """Answer `request` with problem details."""
        body = {"title": "T", "status": status, "detail": detail, "errors": list(errors)}
        self.answer(request, body, status, **{"content-type": "application/problem+json", **headers})

    def take(self, seen: Seen) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers for a request."""
        self.seen.append(seen)
        path = seen.target.partition("?")[0]
        known = self.answers.get(f"{seen.method} {path}", [])
        if not known:
            return 404, b'{"title":"T","detail":"nothing here"}', {"content-type": "application/json"}
        status, value, headers = known.pop(0) if len(known) > 1 else known[0]
        body = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        return status, body, {"content-type": "application/json", **headers}


@contextmanager
def serving(certificate: trustme.LeafCert | None = None) -> Iterator[Stub]:
    """Serve a stub until the block ends, over TLS with a certificate."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, body, extra = stub.take(Seen(self.command, self.path, headers, self.rfile.read(length)))
            self.send_response(status)
            for name, value in {**extra, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = do

        def log_message(self, format: str, *args: Any) -> None:
            """Stay silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate.configure_cert(context)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    stub.url = f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
