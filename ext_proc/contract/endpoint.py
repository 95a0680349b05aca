"""A Backend's URL, taken apart for Envoy (pure)."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from ext_proc.contract.snapshot import Backend

DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a Backend is. `host` is a name or an IP address (IPv6 without brackets); `base_path` has no
    trailing slash and is empty for a URL without a path; `authority` is what goes into the Host header."""

    host: str
    port: int
    tls: bool
    base_path: str
    authority: str

    @property
    def is_address(self) -> bool:
        """Whether `host` is an IP address, which needs no DNS."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True


def endpoint_of(backend: Backend) -> Endpoint:
    """Return the endpoint of `backend`.

    Raises:
        ValueError: the URL has no host, another scheme than http(s), or no possible port. The control
            plane refuses such URLs; a snapshot from elsewhere is refused here.
    """
    parts = urlsplit(backend.url)
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"Backend {backend.name}: {backend.url!r} is no http(s) URL")
    usual = DEFAULT_PORTS[parts.scheme]
    try:
        port = parts.port or usual
    except ValueError as error:
        raise ValueError(f"Backend {backend.name}: {backend.url!r} has no possible port") from error
    bracketed = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Endpoint(
        host=parts.hostname,
        port=port,
        tls=parts.scheme == "https",
        base_path=parts.path.rstrip("/"),
        authority=bracketed if port == usual else f"{bracketed}:{port}",
    )
