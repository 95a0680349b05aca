"""`GET /metrics`: the agent's own series and those of the processors' files, on one small server.

Questions of the kubelet are answered on the same port: see `Questions`.

The server is `prometheus_client`'s WSGI application in threads of its own, so that a scrape, even a slow
one, never holds up the agent's event loop. It speaks the Prometheus text format and OpenMetrics.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn
from types import MappingProxyType
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from ext_proc.telemetry.metric_files import TornFileError, check
from ext_proc.telemetry.throttle import Logger, Throttled

PATH: Final = "/metrics"
ALIVE_PATH: Final = "/healthz"
REQUEST_TIMEOUT_S: Final = 10.0
MAX_CONNECTIONS: Final = 64
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
Questions = Mapping[str, Callable[[], bool]]
"""By path, what is asked there, from any thread."""
NO_QUESTIONS: Final[Questions] = MappingProxyType({})


class FolderCollector(Collector):
    """Adds up the metric files of all processors; a torn file is left out and told, not fatal."""

    def __init__(self, folder: Path, log: Logger, now: Callable[[], float]) -> None:
        self._folder = folder
        self._warnings = Throttled(log, now, 60)

    def collect(self) -> Iterator[Metric]:
        """Yield the merged families; nothing when there is no folder yet."""
        files = sorted(str(path) for path in self._folder.glob("*.db") if self._whole(path))
        yield from MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call]

    def _whole(self, path: Path) -> bool:
        try:
            if path.stat().st_size == 0:
                # A processor is just making it.
                return False
            check(path)
        except FileNotFoundError:
            return False
        except TornFileError as error:
            self._warnings.warning(
                "a metrics file cannot be read", key=path.name, file=path.name, error=error
            )
            return False
        return True


class MetricsServer:
    """Serves until closed. Use `serve_metrics` to start one."""

    def __init__(self, server: WSGIServer) -> None:
        self._server = server
        self._thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Stop listening. Blocks for at most half a second."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def serve_metrics(
    host: str, port: int, collectors: Iterable[Collector], questions: Questions = NO_QUESTIONS
) -> MetricsServer:
    """Answer `GET /metrics` on `host:port` (port 0: a free one) with everything that `collectors` yield.

    `GET /healthz` is 200 as long as the process lives; each of `questions` is 200 or 503.

    Raises:
        OSError: the address cannot be listened on.
    """
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    kind = _ServerV6 if ":" in host else _Server
    server = kind((host, port), _Quiet)
    server.set_app(_application(make_wsgi_app(registry), questions))
    return MetricsServer(server)


def _application(metrics: Application, questions: Questions) -> Application:
    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path not in {PATH, ALIVE_PATH, *questions}:
            return _say(start_response, "404 Not Found", [])
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return _say(start_response, "405 Method Not Allowed", [("Allow", "GET, HEAD")])
        if path == PATH:
            return metrics(environ, start_response)
        good = path == ALIVE_PATH or questions[path]()
        return _say(start_response, "200 OK" if good else "503 Service Unavailable", [])

    return application


def _say(start_response: Callable[..., Any], status: str, headers: list[tuple[str, str]]) -> Iterable[bytes]:
    body = f"{status}\n".encode()
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body))), *headers])
    return [body]


class _Quiet(WSGIRequestHandler):
    # A connection that sends nothing is closed after this many seconds.
    timeout = REQUEST_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not news."""

    def handle(self) -> None:
        """Answer one request; a scraper that hangs up early is no error."""
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            BaseHTTPRequestHandler.finish(self)


class _Server(ThreadingMixIn, WSGIServer):
    """Has at most so many connections, each with its thread; too many make the oldest give way, so that
    nobody who opens some and says nothing keeps the kubelet out.
    """

    daemon_threads = True

    def __init__(self, *given: Any) -> None:
        self._open: dict[socket.socket, None] = {}
        self._opening = threading.Lock()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer the request of one connection in a thread of its own."""
        oldest = None
        with self._opening:
            if len(self._open) >= MAX_CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
            self._open[request] = None
        if oldest is not None:
            with contextlib.suppress(OSError):  # it has just ended
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._opening:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Keep tracebacks of broken connections off stderr."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6
