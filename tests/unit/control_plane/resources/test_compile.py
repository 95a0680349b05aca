"""Documents to snapshots."""

import pytest

from control_plane.resources.compile import Progress, compile_snapshot
from control_plane.resources.documents import Documents, check_documents
from control_plane.resources.loading import read_text
from ext_proc.contract.policies import SemanticPolicy, resolve_policy
from ext_proc.contract.snapshot import (
    ConsumerKey,
    CredentialRef,
    Degrade,
    Limits,
    Prices,
    Purge,
    Quota,
    Rollout,
    Timeouts,
    Version,
    Warmup,
    content_digest,
    decode,
    encode,
)

EVERYTHING = """
kind: Backend
metadata: {name: openai}
spec:
  url: https://api.openai.com/v1/
  credentials: {env: OPENAI_API_KEY}
  quota: {requestsPerMinute: 3500, concurrency: 50}
  timeouts: {connect: 1s, request: 2s, streamIdle: 3s}
  http: "2"
---
kind: Backend
metadata: {name: azure}
spec: {url: 'https://x.openai.azure.com', protocol: azure-openai, apiVersion: 2024-06-01, credentials: {secretRef: {name: s, key: k}}}
---
kind: Model
metadata: {name: gpt-4o}
spec:
  aliases: [fast, best]
  versions:
    - {name: stable, backend: openai, weight: 95}
    - {name: next, backend: azure, upstreamModel: deployment-1, weight: 5}
  degrade: [{userAgent: '*Mobile*', model: small}, {load: 0.9, model: small}, {tier: gold, model: small}]
---
kind: Model
metadata: {name: small}
spec: {versions: [{name: only, backend: openai}]}
---
kind: Tier
metadata: {name: gold}
spec: {match: {header: {X-Plan: Gold}}, priority: 7, limits: {requestsPerMinute: 60, tokensPerDay: 9, countCached: true}}
---
kind: Consumer
metadata: {name: team}
spec: {tenant: acme, tier: gold}
---
kind: Policy
metadata: {name: everyone}
spec: {failOpen: false, cache: {enabled: true}}
---
kind: Policy
metadata: {name: shop}
spec: {target: {workloads: ['shop*']}, failOpen: true, cache: {ttl: 1m}}
"""  # noqa: E501 - one document a paragraph


EMBEDDER = """
---
kind: Backend
metadata: {name: b}
spec: {url: 'http://h'}
---
kind: Model
metadata: {name: m}
spec: {versions: [{name: v, backend: b}]}
"""


def documents(text: str) -> Documents:
    """Return `text` checked."""
    return check_documents(read_text(text.encode(), "p.yaml"))


def test_every_built_field_arrives() -> None:
    """Nothing that has an effect is lost on the way to the data plane."""
    snapshot = compile_snapshot(documents(EVERYTHING), "web", 7)
    openai, azure = snapshot.backends["openai"], snapshot.backends["azure"]
    assert openai.url == "https://api.openai.com/v1"
    assert openai.credential == CredentialRef("env", "OPENAI_API_KEY")
    assert openai.quota == Quota(3500, None, 50)
    assert openai.timeouts == Timeouts(1_000, 2_000, 3_000)
    assert (openai.http, openai.protocol) == ("2", "openai")
    assert (azure.protocol, azure.api_version) == ("azure-openai", "2024-06-01")
    assert azure.credential == CredentialRef("secret", "s", "k")
    assert snapshot.models["gpt-4o"].versions == (
        Version("stable", "openai", "gpt-4o", 95.0),
        Version("next", "azure", "deployment-1", 5.0),
    )
    assert snapshot.aliases == {"fast": "gpt-4o", "best": "gpt-4o"}
    assert snapshot.tiers["gold"].match_headers == {"x-plan": "Gold"}
    assert snapshot.tiers["gold"].priority == 7
    assert snapshot.tiers["gold"].limits == Limits(60, count_cached=True, tokens_per_day=9)
    assert (snapshot.consumers["team"].tenant, snapshot.consumers["team"].tier) == ("acme", "gold")
    assert (snapshot.workload, snapshot.revision) == ("web", 7)


def test_pins_and_prices_are_their_models() -> None:
    """By the exact last user message; of prices, what is not said costs nothing."""
    text = """
kind: Pin
metadata: {name: hi}
spec: {model: m, match: {lastUserMessage: hi}, answer: "Welcome!"}
---
kind: Pin
metadata: {name: none}
spec: {model: m, match: {lastUserMessage: ""}, answer: Ask me.}
"""
    priced = EMBEDDER.replace("spec: {versions", "spec: {prices: {outputPerMillion: 2.5}, versions")
    model = decode(encode(compile_snapshot(documents(text + priced), "web", 1))).models["m"]
    assert model.pins == {"hi": "Welcome!", "": "Ask me."}
    assert model.prices == Prices(0.0, 2.5)
    plain = compile_snapshot(documents(EMBEDDER), "web", 1).models["m"]
    assert (plain.pins, plain.prices) == ({}, None)


def test_purges_arrive_and_make_another_version() -> None:
    """A tenant's count for its Consumers too; a purge alone is a change for sidecars."""
    purge = Purge(5.0, "tenant:acme")
    plain = compile_snapshot(documents(EVERYTHING), "web", 1)
    purged = compile_snapshot(documents(EVERYTHING), "web", 1, purges=(purge,))
    assert decode(encode(purged)).purges == (purge, Purge(5.0, "consumer:team"))
    assert content_digest(plain.version) != content_digest(purged.version)


def test_every_condition_of_a_degrade_rule_arrives() -> None:
    """In the order in which they are tried."""
    model = compile_snapshot(documents(EVERYTHING), "web", 1).models["gpt-4o"]
    assert model.degrade == (
        Degrade("small", user_agent="*Mobile*"),
        Degrade("small", load=0.9),
        Degrade("small", tier="gold"),
    )


def test_a_warm_up_arrives() -> None:
    """With its defaults; without one nothing is warmed up."""
    for written, expected in (
        ("{requests: 3, prompt: Hi, idleAfter: 1m}", Warmup(3, "Hi", 60_000)),
        ("{}", Warmup(50, "Hello", 600_000)),
    ):
        text = f"kind: Backend\nmetadata: {{name: a}}\nspec: {{url: 'http://a/v1', warmup: {written}}}\n"
        assert compile_snapshot(documents(text), "w", 1).backends["a"].warmup == expected
    assert compile_snapshot(documents(EVERYTHING), "w", 1).backends["openai"].warmup is None


def test_policies_of_other_workloads_are_not_in_the_snapshot() -> None:
    """A workload gets its own Policies, ranked by how they name it, and its own failOpen."""
    web = compile_snapshot(documents(EVERYTHING), "web", 1)
    shop = compile_snapshot(documents(EVERYTHING), "shop-1", 1)
    assert [layer.name for layer in web.policies] == ["everyone"]
    assert [(layer.name, layer.workload_rank) for layer in shop.policies] == [
        ("everyone", (0, 0)),
        ("shop", (1, 4)),
    ]
    assert (web.fail_open, shop.fail_open) == (False, True)


def test_the_data_plane_understands_the_settings() -> None:
    """Names and types are those that `resolve_policy` knows."""
    text = """
kind: Policy
metadata: {name: p}
spec:
  unknownModels: refuse
  cache:
    {enabled: true, ttl: 1m, scope: global, memoryEntries: 5, memoryBytes: 1MiB, maxTemperature: 0.5, tiers: [memory],
    staleWhileRevalidate: 2s, staleIfError: 1h, streamPace: 20ms, semantic: {enabled: true, maxErrorRate: 0.05, mode: shadow, embedder: m}}
  retry: {attempts: 5, base: 10ms, max: 20ms, retryOn: [reset, 503], budget: 0.5}
  hold: {max: 1s}
  parameters: {temperature: {max: 0.3, default: 0.1}, topP: {max: 0.9}, maxTokens: {max: 5}, n: {max: 2}, forbid: [logprobs]}
"""  # noqa: E501
    snapshot = compile_snapshot(documents(text + EMBEDDER), "web", 1)
    policy = resolve_policy(decode(encode(snapshot)).policies, "m", "")
    assert policy.unknown_models == "refuse"
    assert (policy.cache.enabled, policy.cache.ttl_ms, policy.cache.scope) == (True, 60_000, "global")
    assert (policy.cache.memory_entries, policy.cache.memory_bytes) == (5, 1 << 20)
    assert (policy.cache.max_temperature, policy.cache.tiers) == (0.5, ("memory",))
    assert (policy.cache.stale_while_revalidate_ms, policy.cache.stale_if_error_ms) == (2_000, 3_600_000)
    assert policy.cache.stream_pace_ms == 20
    assert policy.cache.semantic == SemanticPolicy(True, 0.05, "shadow", "m")
    assert (policy.retry.attempts, policy.retry.base_ms, policy.retry.max_ms) == (5, 10, 20)
    assert (policy.retry.retry_on, policy.retry.budget) == (("reset", "503"), 0.5)
    assert policy.hold.max_ms == 1_000
    assert (policy.parameters.temperature.max, policy.parameters.temperature.default) == (0.3, 0.1)
    assert (policy.parameters.top_p.max, policy.parameters.max_tokens.max, policy.parameters.n.max) == (
        0.9,
        5,
        2,
    )
    assert policy.parameters.forbid == ("logprobs",)


BACKEND = "kind: Backend\nmetadata: {name: %s}\nspec: {url: 'http://h', %s}\n"


def test_a_sole_backend_is_the_default_unless_it_cannot_be() -> None:
    """One openai Backend needs no mark; an azure-openai one cannot take what nobody has read."""

    def default(*texts: str) -> str | None:
        return compile_snapshot(documents("---\n".join(texts)), "w", 1).default_backend

    assert default(BACKEND % ("a", "")) == "a"
    assert default(BACKEND % ("a", "protocol: azure-openai")) is None
    assert default(BACKEND % ("a", ""), BACKEND % ("b", "")) is None
    assert default(BACKEND % ("a", ""), BACKEND % ("b", "default: true")) == "b"
    assert default("") is None


def test_the_version_depends_on_content_and_revision_alone() -> None:
    """Two replicas that compile the same policy push the same version."""
    one, other = (compile_snapshot(documents(EVERYTHING), "web", 3) for _ in range(2))
    assert one.version == other.version
    assert one.version.startswith("r3-")
    changed = compile_snapshot(documents(EVERYTHING.replace("1m", "2m")), "shop", 3)
    assert changed.version != compile_snapshot(documents(EVERYTHING), "shop", 3).version


def test_no_documents_compile_to_an_empty_snapshot() -> None:
    """A fresh control plane pushes an empty policy, as such."""
    snapshot = compile_snapshot(Documents(), "web", 1)
    assert (snapshot.backends, snapshot.policies, snapshot.fail_open) == ({}, (), True)
    assert decode(encode(snapshot)) == snapshot


def test_keys_travel_by_digest_and_only_those_of_consumers_there_are() -> None:
    """A key of a Consumer that is no document (yet, or any more) is unknown to the data plane."""
    documents = check_documents(read_text(b"kind: Consumer\nmetadata: {name: c}\nspec: {tenant: t}\n", "p"))
    keys = {"aa": ConsumerKey("c", 12.5), "bb": ConsumerKey("gone")}
    snapshot = compile_snapshot(documents, "w", 1, consumer_keys=keys, key_salt="0f")
    assert (dict(snapshot.consumer_keys), snapshot.key_salt) == ({"aa": ConsumerKey("c", 12.5)}, "0f")
    assert snapshot.version != compile_snapshot(documents, "w", 1).version


def test_limits_that_limit_nothing_are_none() -> None:
    """So that no sidecar counts for them."""
    text = """
kind: Tier
metadata: {name: t}
spec: {limits: %s}
"""
    for written, expected in (
        ("{}", None),
        ("{countCached: true}", None),
        ("{tokensPerDay: 5, costPerDay: 2.5}", Limits(tokens_per_day=5, cost_per_day=2.5)),
        ("{concurrency: 2}", Limits(concurrency=2)),
    ):
        documents = check_documents(read_text((text % written).encode(), "t.yaml"))
        assert compile_snapshot(documents, "w", 1).tiers["t"].limits == expected


def test_a_release_reaches_its_model_with_its_share() -> None:
    """One that has not begun, or is for other workloads, is left out."""
    text = (
        EVERYTHING
        + """
---
kind: Release
metadata: {name: r}
spec:
  {model: gpt-4o, from: stable, to: next, match: {workloads: ['shop*'], headers: {X-Team: a}}, stickyBy: [ip],
   warmCache: 50, gates: {refusalRate: {maxIncrease: 0.02}}}
"""
    )
    shop = compile_snapshot(documents(text), "shop-1", 3, progress={"r": Progress(5.0)})
    assert shop.models["gpt-4o"].releases == (
        Rollout(
            "r",
            "stable",
            "next",
            0.05,
            "release:r",
            ("ip",),
            headers={"x-team": "a"},
            warm_cache=50,
            reads_answers=True,
        ),
    )
    assert decode(encode(shop)) == shop
    for workload, progress in (("web", {"r": Progress(5.0)}), ("shop-1", {})):
        left_out = compile_snapshot(documents(text), workload, 3, progress=progress)
        assert not left_out.models["gpt-4o"].releases


@pytest.mark.parametrize(
    ("progress", "testers", "shadow"),
    [
        (Progress(0.0, shadows=True), {"x-beta": "1"}, 0.2),
        (Progress(5.0), {"x-beta": "1"}, 0.0),
        (Progress(0.0, withdrawn=True), {}, 0.0),
    ],
    ids=["shadow", "step", "rolled back"],
)
def test_testers_and_shadow_hold_as_far_as_the_release_is(
    progress: Progress, testers: dict[str, str], shadow: float
) -> None:
    """The new version is asked beside the old one before the first step only; taken back, nobody has it."""
    spec = "{model: gpt-4o, from: stable, to: next, shadow: 0.2, testers: {headers: {X-Beta: '1'}}}"
    text = f"{EVERYTHING}\n---\nkind: Release\nmetadata: {{name: r}}\nspec: {spec}\n"
    (rollout,) = compile_snapshot(documents(text), "w", 3, progress={"r": progress}).models["gpt-4o"].releases
    assert (rollout.testers, rollout.shadow) == (testers, shadow)


def test_a_version_brings_what_it_says_itself() -> None:
    """Flat, as a Policy's settings are, and only what is set."""
    text = """
kind: Backend
metadata: {name: b}
spec: {url: 'http://h/v1'}
---
kind: Model
metadata: {name: m}
spec:
  versions:
    - {name: batch-10, backend: b}
    - {name: batch-20, backend: b, policy: {batch: {mode: native, maxSize: 20}, cache: {tiers: [memory]}}}
"""
    found = compile_snapshot(documents(text), "w", 3)
    plain, own = found.models["m"].versions
    assert plain.settings == {}
    assert own.settings == {"batch.mode": "native", "batch.max_size": 20, "cache.tiers": ("memory",)}
    assert decode(encode(found)) == found
