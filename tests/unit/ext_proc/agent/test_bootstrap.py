"""Tests of the bootstrap's text."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.agent.bootstrap import (
    FORGED_PREFIXES,
    MAX_HEALTH_CONNECTIONS,
    envoy_arguments,
    find_envoy,
    forged_headers_regex,
    render_bootstrap,
    write_bootstrap,
)
from ext_proc.agent.local_replies import render_local_replies
from ext_proc.contract import headers
from ext_proc.settings import Address, EnvoySettings, RunDir, SettingsError

FORGED = re.compile(forged_headers_regex(headers.PREFIX, headers.INBOUND))


def is_forged(name: str) -> bool:
    """Return whether a caller's header of that name is removed."""
    return FORGED.fullmatch(name) is not None or name.startswith(FORGED_PREFIXES)


def settings(run_dir: str = "/run/or", workers: int = 1) -> EnvoySettings:
    """Return settings with addresses of their own."""
    return EnvoySettings(RunDir(Path(run_dir)), workers, Address("127.0.0.1", 1), Address("::1", 2))


def test_every_processor_is_an_endpoint() -> None:
    """The cluster of processors has one socket a worker; every placeholder is filled in."""
    text = render_bootstrap(settings(workers=3))
    assert "${" not in text
    clusters = {item["name"]: item for item in yaml.safe_load(text)["static_resources"]["clusters"]}
    (group,) = clusters["outrigger_processor"]["load_assignment"]["endpoints"]
    paths = [item["endpoint"]["address"]["pipe"]["path"] for item in group["lb_endpoints"]]
    assert paths == [f"/run/or/processor-{number}.sock" for number in range(3)]


def test_too_long_a_folder_is_told() -> None:
    """A run folder whose sockets would not fit is an error that says what to do."""
    with pytest.raises(SettingsError, match="shorter --run-dir"):
        render_bootstrap(settings("/" + "x" * 100))


@pytest.mark.parametrize("name", headers.INBOUND)
def test_callers_own_headers_are_kept(name: str) -> None:
    """The headers that callers may set are not forged ones."""
    assert not is_forged(name)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "x-outrigger-route",
            "x-outrigger-",
            "x-outrigger-ti",
            "x-outrigger-tiers",
            "x-outrigger-cache-key",
        ),
        *("x_outrigger_route", "x_outrigger-tier", "x-outrigger_tier", "x-outrigger-tier_", "x-outrigger-c"),
    ],
)
def test_forged_headers_are_recognised(name: str) -> None:
    """Everything else below the prefix is, with hyphens or underscores, the prefixes of kept names too."""
    assert is_forged(name)


@pytest.mark.parametrize("name", ["x-envoy-retry-on", "x_envoy_retry_on", "x-envoy_retry", "x_envoy-retry"])
def test_envoys_own_headers_are_not_the_callers_to_set(name: str) -> None:
    """In any spelling."""
    assert is_forged(name)


@given(st.text("abcehinorst-_", max_size=12))
def test_only_kept_names_are_kept(suffix: str) -> None:
    """For any name below the prefix: it is kept exactly when it is one of the four."""
    name = headers.PREFIX + suffix
    assert is_forged(name) == (name not in headers.INBOUND)


@given(st.text(max_size=20))
def test_other_headers_are_no_business_of_ours(name: str) -> None:
    """Names outside the prefixes, read with underscores as hyphens, are never removed."""
    if not name.replace("_", "-").startswith((headers.PREFIX, "x-envoy-")):
        assert not is_forged(name)


def test_named_envoy_must_be_a_program(tmp_path: Path) -> None:
    """A variable that names no program is an error that says so; one that does is used."""
    with pytest.raises(SettingsError, match="OUTRIGGER_ENVOY"):
        find_envoy({"OUTRIGGER_ENVOY": str(tmp_path / "none")})
    program = tmp_path / "envoy"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert find_envoy({"OUTRIGGER_ENVOY": str(program)}) == program


def test_envoy_logs_escaped() -> None:
    """Envoy starts without hot restart and escapes what it logs."""
    arguments = envoy_arguments(Path("/envoy"), settings())
    assert {"--disable-hot-restart", "--log-format-escaped"} <= set(arguments)


def test_without_a_health_address_nothing_answers_probes() -> None:
    """Beside a launcher Envoy waits for its policy as long as it takes, on two listeners."""
    document = yaml.safe_load(render_bootstrap(settings()))
    assert [item["name"] for item in document["static_resources"]["listeners"]] == ["proxy", "inner"]
    assert document["dynamic_resources"]["cds_config"]["initial_fetch_timeout"] == "0s"


def test_what_envoy_says_of_our_own_calls_is_json_too() -> None:
    """Callers get it passed on. Their request's id is not that call's."""
    document = yaml.safe_load(render_bootstrap(settings()))
    (inner,) = (one for one in document["static_resources"]["listeners"] if one["name"] == "inner")
    manager = inner["filter_chains"][0]["filters"][0]["typed_config"]
    assert manager["local_reply_config"]["mappers"] == render_local_replies(named=False)


@pytest.mark.parametrize(("host", "both"), [("::", True), ("0.0.0.0", None)])
def test_a_pod_s_envoy_answers_probes(host: str, both: bool | None) -> None:
    """On every address of the pod, of both families; and it listens after a while without a policy."""
    document = yaml.safe_load(render_bootstrap(replace(settings(), health_address=Address(host, 3))))
    listeners = {item["name"]: item for item in document["static_resources"]["listeners"]}
    address = listeners["health"]["address"]["socket_address"]
    assert (address["address"], address["port_value"], address.get("ipv4_compat")) == (host, 3, both)
    assert listeners["proxy"]["address"]["socket_address"]["address"] == "127.0.0.1"
    assert document["dynamic_resources"]["cds_config"]["initial_fetch_timeout"] == "15s"


def test_connections_to_the_port_of_probes_are_bounded() -> None:
    """In number, before anything is read of them, and in time, but above what `/wait` takes."""
    document = yaml.safe_load(render_bootstrap(replace(settings(), health_address=Address("::", 3))))
    (health,) = (one for one in document["static_resources"]["listeners"] if one["name"] == "health")
    limit, manager = (one["typed_config"] for one in health["filter_chains"][0]["filters"])
    assert limit["max_connections"] == MAX_HEALTH_CONNECTIONS
    assert manager["common_http_protocol_options"]["idle_timeout"] == "10s"
    assert manager["request_timeout"] == "20s"


def test_the_bootstrap_is_written_into_the_run_folder(tmp_path: Path) -> None:
    """For an Envoy elsewhere; a folder that cannot be written is told."""
    write_bootstrap(settings(str(tmp_path / "run")))
    assert yaml.safe_load((tmp_path / "run" / "envoy.yaml").read_text())["admin"]
    with pytest.raises(SettingsError, match="cannot write"):
        write_bootstrap(settings("/proc/nowhere"))
