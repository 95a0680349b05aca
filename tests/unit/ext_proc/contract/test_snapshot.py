"""The wire form of a snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext_proc.contract.snapshot import (
    Backend,
    Consumer,
    CredentialRef,
    Degrade,
    Model,
    PolicyLayer,
    Snapshot,
    Tier,
    Version,
    content_version,
    decode,
    encode,
)

FULL = Snapshot(
    version="r3-abc",
    revision=3,
    workload="shop",
    default_backend="b",
    backends={"b": Backend("b", "https://h/v1", credential=CredentialRef("env", "KEY"))},
    models={"m": Model("m", (Version("v", "b", "up"),), (Degrade("m", user_agent="*Mobile*"),))},
    aliases={"fast": "m"},
    tiers={"gold": Tier("gold", {"x-outrigger-tier": "gold"}, 10)},
    consumers={"team": Consumer("team", "t", "gold")},
    consumer_keys={"00": "team"},
    policies=(PolicyLayer("p", settings={"retry.retry_on": ("429",), "parameters.top_p.max": 0.5}),),
)


def test_what_is_written_is_read_back() -> None:
    """Every field survives the wire."""
    assert decode(encode(FULL)) == FULL


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"version": 3, "backends": []}'])
def test_what_is_no_snapshot_is_refused(content: bytes) -> None:
    """Anything else is a ValueError, never a half-read policy."""
    with pytest.raises(ValueError, match="validation error"):
        decode(content)


def test_the_version_follows_the_content() -> None:
    """Equal content has an equal version whatever it was called; a change or a revision has another."""
    version = content_version(FULL)
    assert version == content_version(replace(FULL, version="other"))
    assert version.startswith("r3-")
    assert version != content_version(replace(FULL, fail_open=False))
    assert version != content_version(replace(FULL, revision=4))
