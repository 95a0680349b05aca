"""Whether the URL of a Backend or a webhook can work at all; what is refused here would be a NACK or a black
hole later.
"""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import SplitResult, unquote, urlsplit

_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_PATH = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*")
_QUERY = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/?]|%[0-9A-Fa-f]{2})*")
_MAX_HOST = 253
_MAX_URL = 2048


def check_url(value: str) -> str:
    """Return `value` without trailing slashes, if it is an http(s) URL that Envoy can be given.

    Raises:
        ValueError: what is wrong with it, in words that do not quote it (it may hold a password).
    """
    if len(value) > _MAX_URL:
        raise ValueError(f"is longer than {_MAX_URL} characters")
    if not value.isascii() or any(char.isspace() or ord(char) < 0x21 for char in value):
        raise ValueError("holds blanks or characters outside ASCII (write international names as punycode)")
    if not re.match(r"https?://", value, re.IGNORECASE):
        raise ValueError("must begin with http:// or https://")
    try:
        parts = urlsplit(value)
    except ValueError:
        raise ValueError("is no URL (an IPv6 address stands in brackets: http://[::1]:8000/v1)") from None
    if "@" in parts.netloc:
        raise ValueError("must hold no user or password; use credentials")
    if parts.query or parts.fragment or "?" in value or "#" in value:
        raise ValueError("must end with its path: no query, no fragment")
    _check_port(parts)
    _check_host(parts)
    # A provider may read `%2e` as the dot that it stands for.
    segments = unquote(parts.path).rstrip("/").split("/")[1:]
    if not _PATH.fullmatch(parts.path) or any(segment in {"", ".", ".."} for segment in segments):
        raise ValueError("has a path with characters or segments that no API uses")
    return f"{parts.scheme.lower()}://{parts.netloc}{parts.path.rstrip('/')}"


def check_webhook_url(value: str) -> str:
    """Return `value`, if it is an http(s) URL that can be posted to; unlike a Backend's it may have a query.

    Raises:
        ValueError: what is wrong with it, in words that do not quote it (its path may be a secret).
    """
    base, _, query = value.partition("?")
    check_url(base)
    if len(value) > _MAX_URL:
        raise ValueError(f"is longer than {_MAX_URL} characters")
    if not _QUERY.fullmatch(query):
        raise ValueError("has a query with characters that must be written as %XX")
    return value


def _check_port(parts: SplitResult) -> None:
    try:
        port = parts.port
    except ValueError:
        raise ValueError(
            "has no usable port: 1 to 65535 (an IPv6 address stands in brackets: http://[::1]:8000/v1)"
        ) from None
    if port == 0 or parts.netloc.endswith(":"):
        raise ValueError("has no usable port: 1 to 65535")


def _check_host(parts: SplitResult) -> None:
    host = parts.hostname or ""
    if not host:
        raise ValueError("names no host")
    if parts.netloc.startswith("["):
        try:
            zone = ipaddress.IPv6Address(host).scope_id
        except ValueError:
            raise ValueError("has no IPv6 address between its brackets") from None
        if zone is not None:
            raise ValueError("has an IPv6 address with a zone (%...), which Envoy does not know")
        return
    if ":" in parts.netloc.replace(f":{parts.port}", "", 1):
        raise ValueError("has more than one colon (an IPv6 address stands in brackets: http://[::1]:8000/v1)")
    if len(host) > _MAX_HOST:
        raise ValueError(f"has a host name longer than {_MAX_HOST} characters")
    labels = host.removesuffix(".").split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("has a host name with a wrong label (1 to 63 of letters, digits, hyphens each)")
    if labels[-1].isdigit():
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError("has no valid IPv4 address") from None
