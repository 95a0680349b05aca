"""The options of the control plane's own serving: what cannot be used is wrong usage."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from control_plane.cli.serving import check_together, prometheus_url, proxy_origin

FILE = Path("/f.pem")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ((FILE, None, None, None, None), "--push-cert"),
        ((None, FILE, None, None, None), "--push-cert"),
        ((None, None, FILE, None, None), "--push-client-ca"),
        ((FILE, FILE, FILE, FILE, None), "--webhook-cert"),
        ((None, None, None, None, FILE), "--webhook-cert"),
    ],
)
def test_a_certificate_needs_its_key(given: tuple[Path | None, ...], named: str) -> None:
    """And an authority of clients a certificate of ours; the option is named."""
    with pytest.raises(typer.BadParameter) as refused:
        check_together(*given)
    assert refused.value.param_hint == named


def test_pairs_and_none_at_all_pass() -> None:
    """Nothing is read of them here."""
    check_together(FILE, FILE, FILE, FILE, FILE)
    check_together(None, None, None, None, None)


def test_urls_are_read_before_anything_starts() -> None:
    """Left out or empty, there is none; what is no URL names its option."""
    assert (proxy_origin(None), prometheus_url("")) == (None, None)
    assert proxy_origin("http://127.0.0.1:10000") == "http://127.0.0.1:10000"
    assert prometheus_url("http://prometheus:9090") == "http://prometheus:9090"
    for read, named in ((proxy_origin, "--playground-proxy"), (prometheus_url, "--prometheus")):
        with pytest.raises(typer.BadParameter) as refused:
            read("nowhere")
        assert refused.value.param_hint == named
