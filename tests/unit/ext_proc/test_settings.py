"""Tests of settings and of the command line that gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ext_proc.__main__ import main, parser
from ext_proc.settings import Address, RunDir, SettingsError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:10000", Address("127.0.0.1", 10000)),
        ("[::1]:0", Address("::1", 0)),
        ("localhost:65535", Address("localhost", 65535)),
    ],
)
def test_addresses_are_read_and_written_alike(text: str, address: Address) -> None:
    """HOST:PORT is read, brackets of IPv6 included, and written the same way."""
    assert Address.parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "10000", ":1", "h:", "h:x", "h:65536", "h:-1", "h:١"])
def test_nonsense_is_no_address(text: str) -> None:
    """Anything else is an error that shows the form."""
    with pytest.raises(SettingsError, match="HOST:PORT"):
        Address.parse(text)


def test_sockets_must_fit() -> None:
    """A run folder too long for a socket is told at the first use."""
    assert RunDir(Path("/run/or")).agent_socket == Path("/run/or/agent.sock")
    with pytest.raises(SettingsError, match="--run-dir"):
        _ = RunDir(Path("/" + "x" * 100)).agent_socket


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["no-such-command"],
        ["processor"],
        ["envoy", "--run-dir", "/r", "--workers", "0"],
        ["envoy", "--run-dir", "/r", "--proxy-address", "here"],
        ["agent", "--run-dir", "/r", "--data-dir", "/d", "--control-plane", "h:1", "--label", "no-value"],
    ],
)
def test_wrong_usage_ends_with_2(arguments: list[str]) -> None:
    """Unknown commands, missing options and impossible values are wrong usage."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_bootstrap_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`bootstrap` prints what Envoy would be started with."""
    assert main(["bootstrap", "--run-dir", "/r", "--workers", "2"]) == 0
    assert "/r/processor-1.sock" in capsys.readouterr().out


def test_unusable_setting_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be used is one sentence on stderr."""
    assert main(["bootstrap", "--run-dir", "/" + "x" * 100]) == 1
    assert "shorter --run-dir" in capsys.readouterr().err


def test_half_a_client_certificate_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A certificate without its key, or the other way round, is a slip."""
    agent = ["agent", "--run-dir", "/r", "--data-dir", "/d", "--control-plane", "h:1"]
    assert main([*agent, "--client-cert", "c.pem"]) == 1
    assert "--client-key" in capsys.readouterr().err


def test_every_command_has_help() -> None:
    """The four processes have a command each."""
    for command in ("processor", "agent", "envoy", "bootstrap"):
        with pytest.raises(SystemExit) as ended:
            parser().parse_args([command, "--help"])
        assert ended.value.code == 0
