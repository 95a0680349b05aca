"""Consumer keys: shown once, kept as digests, rotated, ended."""

from datetime import UTC, datetime, timedelta

import pytest

from control_plane.registry.errors import NotFoundError
from control_plane.registry.registry import Registry
from control_plane.resources.problems import InvalidDocumentsError
from ext_proc.contract.keys import key_digest
from ext_proc.contract.snapshot import ConsumerKey
from tests.harness.registries import ACTOR, START, SetClock, consumer


@pytest.fixture
async def registry(registry: Registry) -> Registry:
    """A registry with one Consumer."""
    await registry.apply([consumer()], ACTOR)
    return registry


def live(registry: Registry, key: str) -> ConsumerKey | None:
    """Return what sidecars know of a key."""
    head = registry.in_force
    return head.consumer_keys.get(key_digest(key, head.key_salt))


async def test_a_key_is_in_force_by_its_digest(registry: Registry) -> None:
    """256 random bits after the prefix that requests know; only the last four characters are kept."""
    minted = await registry.create_key("c", ACTOR)
    assert minted.key.startswith("ork_")
    assert len(minted.key) == 47
    assert live(registry, minted.key) == ConsumerKey("c")
    (info,) = await registry.keys("c")
    assert (info.id, info.hint, info.created_at) == (minted.id, minted.key[-4:], START)
    assert registry.head.revision == 2
    assert (await registry.create_key("c", ACTOR)).key != minted.key


async def test_a_key_needs_a_consumer(registry: Registry) -> None:
    """For making and for listing."""
    with pytest.raises(NotFoundError, match="Consumer/nobody"):
        await registry.create_key("nobody", ACTOR)
    with pytest.raises(NotFoundError):
        await registry.keys("nobody")


async def test_the_key_is_in_no_row(registry: Registry) -> None:
    """History and audit tell that there was one, by its id."""
    minted = await registry.create_key("c", ACTOR)
    (row, *_), (revision, *_) = await registry.audit(), await registry.revisions()
    assert (row.action, row.target, row.detail) == ("key", "Consumer/c", f"key {minted.id} made")
    assert revision.detail == f"Consumer/c: key {minted.id} made"
    assert minted.key[-4:] not in f"{row}{revision}"


async def test_an_expiry_travels_with_the_key(registry: Registry) -> None:
    """It needs no later revision; one that is past already is refused."""
    minted = await registry.create_key("c", ACTOR, expires_at=START + timedelta(hours=1))
    known = live(registry, minted.key)
    assert known == ConsumerKey("c", (START + timedelta(hours=1)).timestamp())
    with pytest.raises(InvalidDocumentsError, match="must be in the future"):
        await registry.create_key("c", ACTOR, expires_at=START)


async def test_a_revoked_key_is_gone_at_once_and_for_good(registry: Registry) -> None:
    """Revoking again, or under another Consumer, is not found."""
    minted = await registry.create_key("c", ACTOR)
    await registry.apply([consumer("d")], ACTOR)
    with pytest.raises(NotFoundError):
        await registry.revoke_key("d", minted.id, ACTOR)
    await registry.revoke_key("c", minted.id, ACTOR)
    assert live(registry, minted.key) is None
    assert (await registry.keys("c"))[0].revoked_at == START
    with pytest.raises(NotFoundError):
        await registry.revoke_key("c", minted.id, ACTOR)


async def test_a_rotated_key_goes_on_for_the_overlap(registry: Registry) -> None:
    """Both hold until then; the old one never longer than it would have."""
    old = await registry.create_key("c", ACTOR)
    new = await registry.rotate_key("c", old.id, ACTOR, overlap=timedelta(hours=24))
    assert live(registry, new.key) == ConsumerKey("c")
    assert live(registry, old.key) == ConsumerKey("c", (START + timedelta(hours=24)).timestamp())
    short = await registry.rotate_key("c", old.id, ACTOR, overlap=timedelta(hours=48))
    assert short.expires_at == START + timedelta(hours=24)
    assert live(registry, old.key) == ConsumerKey("c", (START + timedelta(hours=24)).timestamp())


async def test_a_rotation_without_overlap_revokes(registry: Registry) -> None:
    """A leaked key is replaced in one step."""
    old = await registry.create_key("c", ACTOR)
    new = await registry.rotate_key("c", old.id, ACTOR, overlap=timedelta(0))
    assert (live(registry, old.key), live(registry, new.key)) == (None, ConsumerKey("c"))


async def test_the_new_key_lives_as_long_as_the_old_one_was_to(registry: Registry, clock: SetClock) -> None:
    """A rule of ninety days holds through rotations."""
    old = await registry.create_key("c", ACTOR, expires_at=START + timedelta(days=90))
    clock.move(days=80)
    new = await registry.rotate_key("c", old.id, ACTOR, overlap=timedelta(days=20))
    assert new.expires_at == START + timedelta(days=170)
    assert live(registry, old.key) == ConsumerKey("c", (START + timedelta(days=90)).timestamp())


async def test_a_key_that_ends_with_the_calendar_is_rotated(registry: Registry, clock: SetClock) -> None:
    """Its successor cannot live as long from later on; it ends when the old one was to."""
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    old = await registry.create_key("c", ACTOR, expires_at=last)
    clock.move(days=80)
    assert (await registry.rotate_key("c", old.id, ACTOR, overlap=timedelta(0))).expires_at == last


async def test_what_has_ended_is_not_rotated(registry: Registry, clock: SetClock) -> None:
    """Nor is an overlap taken that makes no sense."""
    expired = await registry.create_key("c", ACTOR, expires_at=START + timedelta(hours=1))
    revoked = await registry.create_key("c", ACTOR)
    await registry.revoke_key("c", revoked.id, ACTOR)
    clock.move(hours=2)
    for key_id in (expired.id, revoked.id, "k-nowhere"):
        with pytest.raises(NotFoundError):
            await registry.rotate_key("c", key_id, ACTOR, overlap=timedelta(0))
    for overlap in (timedelta(-1), timedelta(400)):
        with pytest.raises(InvalidDocumentsError, match="from 0s to 366 days"):
            await registry.rotate_key("c", expired.id, ACTOR, overlap=overlap)


async def test_deleting_a_consumer_ends_its_keys_and_nothing_revives_them(registry: Registry) -> None:
    """Neither a rollback nor a Consumer of the same name."""
    minted = await registry.create_key("c", ACTOR)
    await registry.apply([consumer("d")], ACTOR)
    other = await registry.create_key("d", ACTOR)
    await registry.delete("Consumer", "c", ACTOR)
    assert (live(registry, minted.key), live(registry, other.key)) == (None, ConsumerKey("d"))
    await registry.rollback(1, ACTOR)
    assert "c" in registry.in_force.documents.consumers
    assert (live(registry, minted.key), live(registry, other.key)) == (None, None)
    await registry.apply([consumer("d")], ACTOR)
    assert live(registry, other.key) is None


async def test_a_key_carries_no_expired_state_of_its_own(registry: Registry) -> None:
    """Keys of two installations have other digests: each has its salt."""
    assert len(bytes.fromhex(registry.head.key_salt)) == 32
