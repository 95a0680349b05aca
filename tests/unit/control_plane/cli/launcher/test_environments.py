"""Which variables each process of a mesh is given."""

from dataclasses import replace
from pathlib import Path

from control_plane.cli.launcher.environments import Environments
from control_plane.cli.launcher.settings import LaunchSettings

SETTINGS = LaunchSettings(
    data_dir=Path("/data"),
    proxy_port=10000,
    metrics_port=9102,
    envoy_admin_port=9901,
    control_plane="cp:9900",
)
SYSTEM = {"PATH": "/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONPATH": "/src", "OUTRIGGER_ENVOY": "/envoy"}
KEYS = {"OPENAI_API_KEY": "sk-1", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=x", "PGPASSWORD": "pw"}
GIVEN = {**SYSTEM, **KEYS, "SSL_CERT_FILE": "/ca.pem", "OUTRIGGER_TOKEN": "ort_x"}


def environments(
    settings: LaunchSettings = SETTINGS, secrets: frozenset[str] = frozenset(), **more: str
) -> Environments:
    """Return what the processes of `settings` are given of an environment with keys in it."""
    return Environments(settings, {**GIVEN, **more}, secrets)


def test_what_callers_reach_holds_no_key_even_before_the_policy_is_known() -> None:
    """A sidecar cannot know which variables its policy will name: they get what they need only."""
    assert environments().plain() == SYSTEM
    assert environments().processor() == {**SYSTEM, "SSL_CERT_FILE": "/ca.pem"}


def test_an_agent_keeps_everything_that_may_be_a_key() -> None:
    """It resolves them, and sends traces to a collector that may want one."""
    assert environments(OUTRIGGER_REDIS="redis://:pw@h").agent() == GIVEN
    assert "OUTRIGGER_TOKEN" not in environments(replace(SETTINGS, control_plane=None)).agent()


def test_processors_are_told_what_they_share() -> None:
    """By the launcher's settings; libpq's variables complete the URL of a database, where there is one."""
    settings = replace(SETTINGS, redis="redis://h", cache_database="postgresql://h/db")
    assert environments(settings, OUTRIGGER_REDIS="redis://other").processor() == {
        **SYSTEM,
        "SSL_CERT_FILE": "/ca.pem",
        "PGPASSWORD": "pw",
        "OUTRIGGER_REDIS": "redis://h",
        "OUTRIGGER_CACHE_DATABASE": "postgresql://h/db",
    }


def test_a_control_plane_keeps_what_webhooks_may_be_signed_with() -> None:
    """But no provider's key, as far as the files name them, and no token of a sidecar."""
    settings = replace(SETTINGS, control_plane=None, api_port=8080, database="postgresql://h/db")
    found = environments(settings, frozenset({"OPENAI_API_KEY"}), HOOK_SECRET="s", OUTRIGGER_SECRET_KEY="k")
    held = found.control_plane()
    assert (held["HOOK_SECRET"], held["OUTRIGGER_SECRET_KEY"]) == ("s", "k")
    assert held["OUTRIGGER_DATABASE"] == "postgresql://h/db"
    assert {"OPENAI_API_KEY", "OUTRIGGER_TOKEN"}.isdisjoint(held)


def test_a_key_in_a_variable_of_the_system_stays_with_the_agent() -> None:
    """Wherever a Backend says its key is."""
    found = environments(secrets=frozenset({"LC_KEY"}), LC_KEY="sk-2")
    assert "LC_KEY" in found.agent()
    assert "LC_KEY" not in {**found.plain(), **found.processor(), **found.control_plane()}


def test_no_value_shows_in_a_repr() -> None:
    """It may be printed by a failure."""
    assert "sk-1" not in repr(environments())
