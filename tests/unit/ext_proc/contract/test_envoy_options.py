"""Envoy's command line."""

from __future__ import annotations

from pathlib import Path

from ext_proc.contract.envoy_options import envoy_options


def test_the_options_name_the_bootstrap() -> None:
    """What is given stands in the options; nothing needs another Envoy on the machine."""
    options = envoy_options(Path("/run/or/envoy.yaml"), concurrency=2, log_level="info")
    assert options[:4] == ["--config-path", "/run/or/envoy.yaml", "--concurrency", "2"]
    assert options[options.index("--log-level") + 1] == "info"
    assert "--disable-hot-restart" in options
