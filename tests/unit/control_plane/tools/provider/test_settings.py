"""Settings refuse what makes no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from control_plane.tools.provider.settings import ProviderSettings


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"tls_cert": Path("c.pem")}, id="certificate-without-key"),
        pytest.param({"error_rate": 1.1}, id="rate-above-one"),
        pytest.param({"error_statuses": (200,)}, id="success-as-error"),
        pytest.param({"error_statuses": ()}, id="no-error-status"),
        pytest.param({"rtt_ms": -1}, id="negative-time"),
        pytest.param({"base_path": "v1/"}, id="base-path-without-slash"),
        pytest.param({"colour": "red"}, id="unknown-setting"),
    ],
)
def test_refused(wrong: dict[str, Any]) -> None:
    """A value out of range, half of a pair, or an unknown name is an error and not a surprise later."""
    with pytest.raises(ValidationError):
        ProviderSettings(**wrong)


def test_defaults_cost_nothing() -> None:
    """Without options the provider takes no time and refuses nobody."""
    settings = ProviderSettings()
    assert (settings.rtt_ms, settings.decode_ms_per_token, settings.cold_start_ms) == (0, 0, 0)
    assert (settings.requests_per_minute, settings.slots, settings.error_rate) == (None, 0, 0)
