"""Tests of what is read from a Backend's URL."""

from __future__ import annotations

import pytest

from ext_proc.contract.endpoint import Endpoint, endpoint_of
from ext_proc.contract.snapshot import Backend


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("https://api.openai.com/v1", Endpoint("api.openai.com", 443, True, "/v1", "api.openai.com")),
        ("http://127.0.0.1:8000", Endpoint("127.0.0.1", 8000, False, "", "127.0.0.1:8000")),
        ("https://[::1]:9/a/", Endpoint("::1", 9, True, "/a", "[::1]:9")),
        ("http://h:80/v1", Endpoint("h", 80, False, "/v1", "h")),
    ],
)
def test_url_is_taken_apart(url: str, endpoint: Endpoint) -> None:
    """Host, port, base path and Host header are what the URL says, with the usual ports left out."""
    assert endpoint_of(Backend("b", url)) == endpoint


@pytest.mark.parametrize(
    "url", ["", "h/v1", "ftp://h", "http://", "http://h:70000", "http://h:x", "http://[::1"]
)
def test_nonsense_is_refused(url: str) -> None:
    """What is no http(s) URL with a possible port is a ValueError that says why."""
    with pytest.raises(ValueError, match=r".+"):
        endpoint_of(Backend("b", url))


def test_addresses_need_no_dns() -> None:
    """IP addresses of both families are told from names."""
    hosts = {"127.0.0.1": True, "[2001:db8::1]": True, "localhost": False, "1.example": False}
    for host, is_address in hosts.items():
        assert endpoint_of(Backend("b", f"http://{host}")).is_address is is_address
