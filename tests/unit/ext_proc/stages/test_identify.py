"""Who is calling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from ext_proc.contract.keys import key_digest
from ext_proc.contract.snapshot import Consumer, ConsumerKey, PolicyLayer, Tier
from ext_proc.exchange import Answer, Exchange, Forward, Reason
from ext_proc.stages.identify import Identify, presented_key
from tests.unit.ext_proc.exchanges import exchange, snapshot

KEY = "ork_known"
SALT = "5a17"
NOW_S = 1_000_000.0
POLICY = snapshot(
    consumers={"team": Consumer("team", "acme", "gold")},
    consumer_keys={key_digest(KEY, SALT): ConsumerKey("team")},
    key_salt=SALT,
    tiers={"free": Tier("free", {"x-outrigger-tier": "free"}), "gold": Tier("gold")},
)


async def identified(opened: Exchange) -> Answer | Forward | None:
    """Run the stage."""
    return await Identify(lambda: NOW_S).on_head(opened)


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer {KEY}"},
        {"authorization": f"BEARER   {KEY}  "},
        {"authorization": KEY},
        {"api-key": KEY},
        {"api-key": KEY, "authorization": "Bearer sk-other"},
    ],
)
async def test_one_key_is_one_caller_however_it_is_spelled(headers: dict[str, str]) -> None:
    """Scheme case and spaces give no fresh identity; the Consumer's tier beats the header."""
    opened = exchange(POLICY, headers={**headers, "x-outrigger-tier": "free"})
    assert await identified(opened) is None
    assert (opened.tenant, opened.tier) == ("tenant:acme", "gold")
    assert opened.consumer is not None


@pytest.mark.parametrize("key", ["ork_", "ork_knowm", "ork_know", KEY + "n", "ork_" + "x" * 6000, "ork_\x00"])
async def test_an_unknown_consumer_key_is_401_and_not_echoed(key: str) -> None:
    """All wrong keys get one same answer."""
    answer = await identified(exchange(POLICY, headers={"authorization": f"Bearer {key}"}))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.reason) == (401, Reason.UNKNOWN_KEY)
    error = orjson.loads(answer.body)["error"]
    assert error["code"] == "invalid_api_key"
    assert key not in error["message"] or key == "ork_"


@pytest.mark.parametrize(
    ("expires_at_s", "known"), [(None, True), (NOW_S + 1, True), (NOW_S, False), (NOW_S - 1, False)]
)
async def test_a_key_counts_until_it_expires(expires_at_s: float | None, known: bool) -> None:
    """From that second on it is an unknown key, without a push."""
    policy = snapshot(
        consumers={"team": Consumer("team", "acme")},
        consumer_keys={key_digest(KEY, SALT): ConsumerKey("team", expires_at_s)},
        key_salt=SALT,
    )
    answer = await identified(exchange(policy, headers={"authorization": f"Bearer {KEY}"}))
    assert (answer is None) is known


@pytest.mark.parametrize(
    "changes",
    [{"key_salt": "5a18"}, {"key_salt": ""}, {"consumers": {}}],
    ids=["another salt", "no salt", "consumer gone"],
)
async def test_a_digest_alone_opens_nothing(changes: dict[str, Any]) -> None:
    """Digests of another installation and keys whose Consumer is gone are unknown keys."""
    answer = await identified(exchange(replace(POLICY, **changes), headers={"api-key": KEY}))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.reason) == (401, Reason.UNKNOWN_KEY)


async def test_doubled_identity_headers_are_refused() -> None:
    """Two authorization headers could mean one caller here and another one upstream."""
    answer = await identified(exchange(POLICY, headers={"authorization+": "Bearer a, Bearer b"}))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.reason) == (400, Reason.DOUBLED_IDENTITY)


@pytest.mark.parametrize(
    ("authorization", "refused"),
    [
        ("Bearer sk-a,Bearer sk-b", True),
        ("Bearer sk-a, ork_b", True),
        ("Basic YTpi,bearer ork_b", True),
        ('Digest username="bearer of news", realm="a"', False),
        ("AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host, Signature=b", False),
    ],
)
async def test_joined_authorization_headers_are_doubled_ones(authorization: str, refused: bool) -> None:
    """Envoy joins two by a comma before we see them; the commas of other schemes are no second header."""
    answer = await identified(exchange(POLICY, headers={"authorization": authorization}))
    assert (isinstance(answer, Answer) and answer.status == 400) is refused


async def test_each_foreign_key_is_a_partition_of_its_own() -> None:
    """So is each organisation under one key; without any the workload is."""
    tenants = []
    for headers in (
        {},
        {"authorization": "Bearer sk-a"},
        {"authorization": "Bearer sk-b"},
        {"authorization": "Bearer sk-a", "openai-organization": "o"},
        {"authorization": "Bearer sk-a", "api-key": "k"},
        {"api-key": "k"},
        {"x-api-key": "k"},
        {"x-api-key": "l"},
    ):
        opened = exchange(POLICY, headers=headers)
        assert await identified(opened) is None
        tenants.append(opened.tenant)
    assert len(set(tenants)) == len(tenants)
    assert tenants[0] == "workload:default"
    assert not any("sk-" in tenant for tenant in tenants)


async def test_headers_of_the_caller_choose_no_tenant() -> None:
    """Only the key decides, whatever names a caller invents."""
    forged = {
        "authorization": "Bearer sk-a",
        "x-tenant": "acme",
        "x-outrigger-tenant": "acme",
        "user-agent": "acme",
    }
    opened = exchange(POLICY, headers=forged)
    plain = exchange(POLICY, headers={"authorization": "Bearer sk-a"})
    await identified(opened)
    await identified(plain)
    assert opened.tenant == plain.tenant


@pytest.mark.parametrize(("tier", "expected"), [("free", "free"), ("gold", ""), ("invented", "")])
async def test_a_header_chooses_only_a_tier_that_matches_it(tier: str, expected: str) -> None:
    """A tier without a header match is for Consumers; an unknown one is none."""
    opened = exchange(POLICY, headers={"x-outrigger-tier": tier})
    assert await identified(opened) is None
    assert opened.tier == expected


async def test_paths_we_do_not_read_need_a_consumer_too() -> None:
    """With requireConsumer the nameless model's policy guards them."""
    policy = snapshot(policies=(PolicyLayer("p", settings={"require_consumer": True}),))
    answer = await identified(exchange(policy, method="GET", path="/v1/files"))
    assert isinstance(answer, Answer)
    assert (answer.status, answer.reason) == (401, Reason.CONSUMER_REQUIRED)


def test_other_schemes_are_credentials_as_they_are() -> None:
    """Basic and bare values count whole."""
    assert presented_key({"authorization": "Basic abc"}) == "Basic abc"
    assert presented_key({}) == ""
