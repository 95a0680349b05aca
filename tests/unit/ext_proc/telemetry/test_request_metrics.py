from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from ext_proc.contract.snapshot import Backend, Model, Snapshot
from ext_proc.telemetry.record import Bypass, RequestRecord
from ext_proc.telemetry.request_metrics import RequestMetrics

SNAPSHOT = Snapshot(
    version="r1-a",
    revision=1,
    workload="shop",
    models={"gpt-4o": Model("gpt-4o", ())},
    backends={
        "openai": Backend("openai", "http://a"),
        "azure": Backend("azure", "http://b", protocol="azure-openai"),
    },
)
CHAT = RequestRecord(
    started_ns=0,
    duration_s=0.4,
    first_byte_s=0.1,
    status=200,
    attempts=1,
    backend="openai",
    operation="chat",
    model="gpt-4o",
    cache="miss",
    input_tokens=12,
    output_tokens=40,
)
ATTRIBUTES = {
    "gen_ai_operation_name": "chat",
    "gen_ai_provider_name": "openai",
    "gen_ai_request_model": "gpt-4o",
}


class Scrape:
    """The metrics under test and the values that a scrape of them gives."""

    def __init__(self) -> None:
        self.metrics = RequestMetrics("pod-1", frozenset({"unknown-model"}))
        self.metrics.use(SNAPSHOT)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self.metrics)

    def __call__(self, name: str, **labels: str) -> float:
        """Return one sample's value; a missing one is 0."""
        return self._registry.get_sample_value(name, labels) or 0.0

    def series(self) -> int:
        """Return how many series there are."""
        return sum(len(family.samples) for family in self._registry.collect())

    def statuses(self) -> float:
        """Return the sum over all series of `openai_request_total`."""
        families = self._registry.collect()
        return sum(s.value for f in families for s in f.samples if s.name == "openai_request_total")


@pytest.fixture
def scrape() -> Scrape:
    """Return metrics that know one model and two Backends."""
    return Scrape()


def test_one_call_moves_one_series_of_each_name(scrape: Scrape) -> None:
    """A chat is counted once: status, duration by model, GenAI duration and tokens, cache, Backend."""
    scrape.metrics.record(CHAT)
    assert scrape("openai_request_total", status="200") == 1
    assert scrape("openai_request_duration_count", model="gpt-4o") == 1
    assert scrape("openai_request_duration_sum", model="gpt-4o") == pytest.approx(0.4)
    assert scrape("gen_ai_client_operation_duration_seconds_count", **ATTRIBUTES, error_type="") == 1
    tokens = ATTRIBUTES
    assert scrape("gen_ai_client_token_usage_sum", **tokens, gen_ai_token_type="input") == 12
    assert scrape("gen_ai_client_token_usage_sum", **tokens, gen_ai_token_type="output") == 40
    assert scrape("outrigger_cache_requests_total", result="miss") == 1
    assert scrape("outrigger_backend_requests_total", backend="openai", status="200") == 1
    assert scrape("outrigger_upstream_attempts_total", backend="openai") == 1
    assert scrape("outrigger_upstream_retries_total", backend="openai") == 0


def test_aborted_call_is_no_success(scrape: Scrape) -> None:
    """A call whose answer was cut counts as aborted, whatever status had been sent."""
    scrape.metrics.record(CHAT._replace(aborted=True, failure="downstream-connection-termination"))
    assert scrape("openai_request_total", status="aborted") == 1
    assert scrape("openai_request_total", status="200") == 0
    assert scrape("outrigger_failures_total", reason="downstream-connection-termination") == 1
    name = "gen_ai_client_operation_duration_seconds_count"
    assert scrape(name, **ATTRIBUTES, error_type="aborted") == 1


def test_hit_moves_no_token_counter(scrape: Scrape) -> None:
    """The tokens of a cached answer were counted when it was bought."""
    scrape.metrics.record(CHAT._replace(cache="hit", attempts=0, backend=""))
    tokens = {
        **ATTRIBUTES,
        "gen_ai_provider_name": "none",
        "gen_ai_token_type": "input",
    }
    assert scrape("gen_ai_client_token_usage_count", **tokens) == 0
    assert scrape("outrigger_cache_requests_total", result="hit") == 1


def test_follower_moves_only_what_counts_calls(scrape: Scrape) -> None:
    """A follower of another call is one call, and none upstream: no try, no Backend, no token."""
    follower = CHAT._replace(cache="coalesced", attempts=0, backend="")
    scrape.metrics.record(follower)
    assert scrape("openai_request_total", status="200") == 1
    assert scrape("outrigger_cache_requests_total", result="coalesced") == 1
    assert scrape("outrigger_backend_requests_total", backend="openai", status="200") == 0
    assert scrape("outrigger_upstream_attempts_total", backend="openai") == 0
    for provider in ("openai", "none"):
        tokens = {**ATTRIBUTES, "gen_ai_provider_name": provider}
        for kind in ("input", "output"):
            assert scrape("gen_ai_client_token_usage_count", **tokens, gen_ai_token_type=kind) == 0


def test_bypass_is_counted_with_its_reason(scrape: Scrape) -> None:
    """A call that failed open is in the totals as any other, and in the bypass counter."""
    scrape.metrics.record(CHAT._replace(bypass=Bypass.TIMEOUT, model="", cache=""))
    assert scrape("outrigger_bypass_total", reason="processor-timeout") == 1
    assert scrape("openai_request_total", status="200") == 1
    assert scrape("openai_request_duration_count", model="none") == 1


def test_retries_are_tries_after_the_first(scrape: Scrape) -> None:
    """Three tries are three attempts and two retries of one call."""
    scrape.metrics.record(CHAT._replace(attempts=3))
    assert scrape("outrigger_upstream_attempts_total", backend="openai") == 3
    assert scrape("outrigger_upstream_retries_total", backend="openai") == 2


def test_azure_has_its_own_provider_name(scrape: Scrape) -> None:
    """The provider's name is the well-known value for the Backend's protocol."""
    scrape.metrics.record(CHAT._replace(backend="azure"))
    labels = {**ATTRIBUTES, "gen_ai_provider_name": "azure.ai.openai", "error_type": ""}
    assert scrape("gen_ai_client_operation_duration_seconds_count", **labels) == 1


def test_time_to_first_byte_is_that_of_streams(scrape: Scrape) -> None:
    """Only streams have a first byte worth a histogram."""
    scrape.metrics.record(CHAT)
    scrape.metrics.record(CHAT._replace(stream=True))
    assert scrape("outrigger_stream_first_byte_seconds_count", model="gpt-4o") == 1


def test_invented_names_make_no_series(scrape: Scrape) -> None:
    """Hundreds of invented models, Backends, tiers, versions and reasons share `other`."""
    record = CHAT._replace(model="x", backend="x", own_answer="x", tier="x", version="x")
    scrape.metrics.record(record)
    before = scrape.series()
    for number in range(500):
        name = f"invented-{number}"
        scrape.metrics.record(
            record._replace(model=name, backend=name, own_answer=name, tier=name, version=name, cache=name)
        )
    assert scrape.series() == before
    assert scrape("openai_request_duration_count", model="other") == 501
    assert scrape("outrigger_own_answers_total", reason="other") == 501


def test_unknown_model_is_other_and_no_model_is_none(scrape: Scrape) -> None:
    """A chat with a name that nobody configured is told from a path that has no model."""
    scrape.metrics.record(CHAT._replace(model=""))
    scrape.metrics.record(CHAT._replace(model="", operation=""))
    assert scrape("openai_request_duration_count", model="other") == 1
    assert scrape("openai_request_duration_count", model="none") == 1


def test_names_of_the_policy_before_stay_known(scrape: Scrape) -> None:
    """Calls that began under the policy before end under their own names."""
    scrape.metrics.use(Snapshot(version="r2-b", revision=2))
    scrape.metrics.record(CHAT)
    assert scrape("openai_request_duration_count", model="gpt-4o") == 1
    assert scrape("outrigger_sidecar_info", sidecar="pod-1", workload="default", version="r2-b") == 1
    assert scrape("outrigger_snapshot_revision") == 2


@given(
    st.lists(
        st.builds(
            CHAT._replace,
            status=st.integers(min_value=0, max_value=1000),
            aborted=st.booleans(),
            attempts=st.integers(min_value=0, max_value=3),
            model=st.text(max_size=3),
            cache=st.sampled_from(["hit", "miss", "bypass", "", "x"]),
            bypass=st.sampled_from([None, *Bypass]),
            operation=st.sampled_from(["chat", "embeddings", "", "x"]),
        ),
        max_size=20,
    )
)
def test_every_call_counts_exactly_once(records: list[RequestRecord]) -> None:
    """Whatever the calls are, the total over all statuses grows by one for each."""
    scrape = Scrape()
    for record in records:
        scrape.metrics.record(record)
    assert scrape.statuses() == len(records)
