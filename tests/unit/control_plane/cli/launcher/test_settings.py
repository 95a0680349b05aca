"""Addresses as they are written."""

from dataclasses import replace
from pathlib import Path

import pytest

from control_plane.cli.launcher.settings import LaunchSettings, address, reachable


def test_an_ipv6_host_stands_in_brackets() -> None:
    """`::1:80` would be another address."""
    assert (address("127.0.0.1", 80), address("::1", 80)) == ("127.0.0.1:80", "[::1]:80")


@pytest.mark.parametrize(
    ("bind", "host"),
    [("0.0.0.0", "127.0.0.1"), ("::", "::1"), ("10.0.0.5", "10.0.0.5"), ("127.0.0.1", "127.0.0.1")],
)
def test_what_listens_everywhere_is_reached_on_loopback(bind: str, host: str) -> None:
    """The wildcard is no address to call."""
    assert reachable(bind) == host


def test_a_mesh_without_files_is_the_demo() -> None:
    """A sidecar never is: its policy comes from elsewhere."""
    base = LaunchSettings(data_dir=Path("d"), proxy_port=1, metrics_port=2, envoy_admin_port=3, api_port=4)
    assert base.demo
    assert not replace(base, files=(Path("f"),)).demo
    assert not replace(base, api_port=None, control_plane="x:1").demo
