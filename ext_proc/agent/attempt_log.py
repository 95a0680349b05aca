"""What single attempts came to, from Envoy's log of them: the processors see only the last one of a call.

Speaks `envoy.service.accesslog.v3.AccessLogService`. Envoy logs the attempts that were refused
(`bootstrap.py`). Good answers, which may say that nothing is left, are read by the processors themselves. See
https://www.envoyproxy.io/docs/envoy/latest/api-v3/data/accesslog/v3/accesslog.proto.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
from envoy.data.accesslog.v3 import accesslog_pb2
from envoy.service.accesslog.v3 import als_pb2, als_pb2_grpc

from ext_proc.contract import push_pb2
from ext_proc.contract.headers import KEY, RETRY
from ext_proc.telemetry.throttle import Throttled


class AttemptLog(als_pb2_grpc.AccessLogServiceServicer):  # type: ignore[misc]
    """Hands each attempt on by `tell`, once that is known. What cannot be read is told to `warnings`."""

    def __init__(self, warnings: Throttled) -> None:
        self.tell: Callable[[push_pb2.Snapshot], None] | None = None
        self._warnings = warnings

    def register(self, server: grpc.aio.Server) -> None:
        """Add the service to `server`."""
        als_pb2_grpc.add_AccessLogServiceServicer_to_server(self, server)

    async def StreamAccessLogs(
        self,
        request_iterator: AsyncIterator[als_pb2.StreamAccessLogsMessage],
        context: grpc.aio.ServicerContext[Any, Any],
    ) -> als_pb2.StreamAccessLogsResponse:
        """Read entries until Envoy ends the stream; it would drop some while it connects again."""
        async for message in request_iterator:
            for entry in message.http_logs.log_entry:
                try:
                    self.take(entry)
                except Exception as error:
                    self._warnings.warning("an attempt's entry cannot be read", error=error)
        return als_pb2.StreamAccessLogsResponse()

    def take(self, entry: accesslog_pb2.HTTPAccessLogEntry) -> None:
        """Take one entry. A refusal that no wait can change is none of the provider's load."""
        response = entry.response
        status, headers = response.response_code.value, dict(response.response_headers)
        backend = entry.common_properties.upstream_cluster.rpartition(".")[0]
        if (
            self.tell is None
            or not backend
            or (status >= 400 and headers.pop(RETRY, "") == "0" and not _says_when(headers))
        ):
            return
        key = headers.pop(KEY, "")
        attempt = push_pb2.Attempt(backend=backend, status=status, headers=headers, key=key)
        self.tell(push_pb2.Snapshot(attempt=attempt))


def _says_when(headers: dict[str, str]) -> bool:
    return any(
        name.startswith(("retry-after", "x-ms-retry", "x-ratelimit", "anthropic-")) for name in headers
    )
