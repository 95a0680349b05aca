"""The settings of injection, and of the control plane's part in its cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.webhook.quantities import amount
from control_plane.webhook.settings import InjectionSettings, WebhookSettings
from tests.unit.control_plane.webhook.pods import SETTINGS


@pytest.mark.parametrize(
    ("port", "certificate", "own"),
    [(None, None, False), (9443, None, True), (9443, Path("tls.crt"), False)],
)
def test_without_files_the_certificate_is_our_own(
    port: int | None, certificate: Path | None, own: bool
) -> None:
    """Given files are left alone, registration and all."""
    assert WebhookSettings(SETTINGS, port=port, certificate=certificate).self_managed is own


def test_by_default_a_pod_can_be_scheduled() -> None:
    """Requests are not above limits."""
    settings = InjectionSettings("a:1")
    for resources in (settings.processor_resources, settings.envoy_resources):
        assert amount(resources["requests"]["memory"]) <= amount(resources["limits"]["memory"])
