"""What single attempts came to, from Envoy's log of them: the processors see only the last one of a call.

Envoy logs the attempts that were refused (`bootstrap.py`). Good answers, which may say that nothing is left,
are read by the processors themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from envoy.data.accesslog.v3 import accesslog_pb2

from ext_proc.contract import push_pb2
from ext_proc.contract.headers import KEY, RETRY


class AttemptLog:
    """Hands each attempt on by `tell`, once that is known."""

    def __init__(self) -> None:
        self.tell: Callable[[push_pb2.Snapshot], None] | None = None

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
