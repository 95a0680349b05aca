"""The wire form of a snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ext_proc.contract.snapshot import (
    Backend,
    Consumer,
    ConsumerKey,
    CredentialRef,
    Degrade,
    Model,
    PolicyLayer,
    Snapshot,
    Tier,
    Version,
    content_digest,
    content_version,
    decode,
    encode,
    encode_content,
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
    consumer_keys={"00": ConsumerKey("team"), "01": ConsumerKey("team", 1.5)},
    key_salt="00ff",
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


@pytest.mark.parametrize("salt", ["0", "xy", "00" * 65])
def test_a_salt_that_no_digest_can_be_made_with_is_refused(salt: str) -> None:
    """So the processor never meets one."""
    with pytest.raises(ValueError, match="key_salt"):
        decode(encode(replace(FULL, key_salt=salt)))


def test_the_version_follows_the_content() -> None:
    """Equal content has an equal version, whatever it was called and whoever is to obey it."""
    version = content_version(FULL)
    assert version == content_version(replace(FULL, version="other", workload="other"))
    assert version.startswith("r3-")
    assert version != content_version(replace(FULL, fail_open=False))


def test_the_content_is_told_from_the_revision() -> None:
    """A revision that changes nothing has another version, the same digest and the same bytes."""
    later = replace(FULL, revision=4, version="r4", workload="other")
    assert content_version(later) != content_version(FULL)
    assert content_digest(content_version(later)) == content_digest(content_version(FULL))
    assert encode_content(later) == encode_content(FULL)
    assert decode(encode_content(FULL)) == replace(FULL, version="", revision=0, workload="")


@pytest.mark.parametrize(
    ("version", "digest"),
    [("r12-abc", "abc"), ("abc", "abc"), ("", ""), ("x1-abc", "x1-abc"), ("r-a", "r-a")],
)
def test_a_version_of_another_form_stands_for_itself(version: str, digest: str) -> None:
    """Nothing is cut off that may not be a revision."""
    assert content_digest(version) == digest
