"""The registry over SQLite and PostgreSQL: changes, history, halts, replicas."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from control_plane.registry.errors import InUseError, NotFoundError, PreconditionError
from control_plane.registry.registry import Registry
from control_plane.registry.values import ChangeAction, Head, RevisionState
from control_plane.resources.loading import RawDocument
from control_plane.resources.problems import InvalidDocumentsError
from control_plane.resources.unbuilt import UNBUILT
from tests.contract.control_plane.registry.test_tokens import token
from tests.harness.registries import ACTOR, backend, consumer, model, raw

Replica = Callable[[], Registry]


def tenants(head: Head) -> dict[str, str]:
    """Return each Consumer's tenant, which these tests change."""
    return {name: spec.tenant for name, spec in head.documents.consumers.items()}


async def test_documents_are_applied_together_in_any_order(registry: Registry) -> None:
    """A Model may stand before its Backend; one revision holds both."""
    applied = await registry.apply([model(), backend()], ACTOR)
    assert applied.revision == 1
    assert [(item.document, item.action) for item in applied.changes] == [
        ("Model/m", ChangeAction.CREATE),
        ("Backend/b", ChangeAction.CREATE),
    ]
    assert list(registry.head.stored) == [("Backend", "b"), ("Model", "m")]
    assert registry.head.stored["Backend", "b"].value == backend().value
    assert registry.in_force.documents.models["m"].versions[0].backend == "b"


async def test_one_wrong_document_keeps_all_out(registry: Registry) -> None:
    """Nothing is written, nobody is told, and every problem is named."""
    heads: list[Head] = []
    registry.subscribe(heads.append)
    with pytest.raises(InvalidDocumentsError) as error:
        await registry.apply([backend(), model("m", "nowhere"), model("n", "nowhere")], ACTOR)
    assert [problem.document for problem in error.value.problems] == ["Model/m", "Model/n"]
    with pytest.raises(InvalidDocumentsError, match="defined twice"):
        await registry.apply([backend(), backend()], ACTOR)
    assert (registry.head.revision, len(registry.head.stored), heads) == (0, 0, [])
    assert await registry.revisions() == []


async def test_applying_the_same_again_is_no_revision(registry: Registry) -> None:
    """Whatever the order of fields; what differs is told field by field."""
    await registry.apply([backend(), consumer("c", "t")], ACTOR)
    turned = RawDocument(dict(reversed(consumer("c", "t").value.items())), "x")
    again = await registry.apply([backend(), turned], ACTOR)
    assert (again.revision, {item.action for item in again.changes}) == (1, {ChangeAction.UNCHANGED})
    changed = await registry.apply([backend(), consumer("c", "u")], ACTOR)
    assert changed.revision == 2
    (field,) = changed.changes[1].fields
    assert (field.field, field.before, field.after) == ("spec.tenant", "t", "u")
    assert registry.head.stored["Backend", "b"].revision == 1


async def test_a_dry_run_tells_the_same_and_changes_nothing(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the warnings that the real one would give."""
    monkeypatch.setitem(UNBUILT, "Backend", frozenset({("warmup",)}))
    await registry.apply([consumer("c", "t")], ACTOR)
    documents = [consumer("c", "u"), backend(warmup={"requests": 1})]
    dry = await registry.apply(documents, ACTOR, dry_run=True)
    assert (dry.revision, tenants(registry.head)) == (1, {"c": "t"})
    real = await registry.apply(documents, ACTOR)
    assert real.changes == dry.changes
    assert [warning.field for warning in real.warnings] == ["spec.warmup.requests"]
    assert real.warnings == dry.warnings


async def test_a_status_is_accepted_and_not_kept(registry: Registry) -> None:
    """What an answer carries beside the document may be sent back."""
    value = {**consumer().value, "status": {"phase": "anything", "at": float("nan")}}
    await registry.apply([RawDocument(value, "x")], ACTOR)
    assert registry.head.stored["Consumer", "c"].value == consumer().value


async def test_put_creates_and_replaces(registry: Registry) -> None:
    """With a new ETag for each change, and the old one when nothing changed."""
    first = await registry.put("Consumer", "c", consumer("c", "t"), ACTOR)
    same = await registry.put("Consumer", "c", consumer("c", "t"), ACTOR)
    second = await registry.put("Consumer", "c", consumer("c", "u"), ACTOR)
    assert [(put.created, put.stored.etag) for put in (first, same, second)] == [
        (True, '"r1"'),
        (False, '"r1"'),
        (False, '"r2"'),
    ]


async def test_put_refuses_another_name_or_kind_than_the_paths(registry: Registry) -> None:
    """Each problem carries the document of the path."""
    with pytest.raises(InvalidDocumentsError) as error:
        await registry.put("Consumer", "d", raw("Tier", "c"), ACTOR)
    assert {(item.document, item.field) for item in error.value.problems} == {
        ("Consumer/d", "kind"),
        ("Consumer/d", "metadata.name"),
    }
    with pytest.raises(NotFoundError):
        await registry.put("Thing", "d", raw("Thing", "d"), ACTOR)


async def test_of_two_writers_with_one_tag_one_wins(replica: Replica) -> None:
    """On one replica and across two; the other is told the tag there is now."""
    first, second = replica(), replica()
    await asyncio.gather(first.open(), second.open())
    tag = (await first.put("Consumer", "c", consumer("c", "t"), ACTOR)).stored.etag
    puts = [
        registry.put("Consumer", "c", consumer("c", f"writer-{number}"), ACTOR, if_match=tag)
        for number, registry in enumerate([first, second] * 5)
    ]
    results = await asyncio.gather(*puts, return_exceptions=True)
    (won,) = [result for result in results if not isinstance(result, BaseException)]
    refused = [result for result in results if isinstance(result, PreconditionError)]
    assert (won.stored.etag, len(refused)) == ('"r2"', 9)
    assert {error.current for error in refused} == {'"r2"'}


async def test_of_two_creators_one_wins(replica: Replica) -> None:
    """`If-None-Match: *` on two replicas at once."""
    first, second = replica(), replica()
    await asyncio.gather(first.open(), second.open())
    puts = [item.put("Consumer", "c", consumer(), ACTOR, if_none_match=True) for item in (first, second)]
    results = await asyncio.gather(*puts, return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["PreconditionError", "Put"]


async def test_delete_removes_once(registry: Registry) -> None:
    """A second time there is nothing; a stale tag deletes nothing."""
    await registry.apply([consumer()], ACTOR)
    with pytest.raises(PreconditionError):
        await registry.delete("Consumer", "c", ACTOR, if_match='"r9"')
    assert await registry.delete("Consumer", "c", ACTOR, if_match='"r1"') == 2
    assert ("Consumer", "c") not in registry.head.stored
    with pytest.raises(NotFoundError):
        await registry.delete("Consumer", "c", ACTOR)


async def test_what_is_in_use_is_not_deleted(registry: Registry) -> None:
    """Every user is named with the field that names it."""
    await registry.apply([backend(), model("m"), model("n")], ACTOR)
    with pytest.raises(InUseError) as error:
        await registry.delete("Backend", "b", ACTOR)
    assert [(item.document, item.field) for item in error.value.problems] == [
        ("Model/m", "spec.versions[0].backend"),
        ("Model/n", "spec.versions[0].backend"),
    ]
    assert registry.head.revision == 1


async def test_a_deletion_that_leaves_the_rest_wrong_is_refused(registry: Registry) -> None:
    """A Policy may be what makes another one safe."""
    closed = raw("Policy", "closed", failOpen=False)
    strict = raw("Policy", "strict", requireConsumer=True)
    await registry.apply([closed, strict], ACTOR)
    with pytest.raises(InvalidDocumentsError) as error:
        await registry.delete("Policy", "closed", ACTOR)
    assert error.value.problems[0].document == "Policy/strict"


async def test_a_rollback_is_a_new_revision_with_the_old_documents(registry: Registry) -> None:
    """Changed ones as they were, deleted ones back, new ones gone."""
    await registry.apply([consumer("c", "t"), consumer("d", "t")], ACTOR)
    await registry.apply([consumer("c", "u"), consumer("e", "t")], ACTOR)
    await registry.delete("Consumer", "d", ACTOR)
    rolled = await registry.rollback(1, ACTOR)
    assert (rolled.revision, tenants(registry.head)) == (4, {"c": "t", "d": "t"})
    assert sorted((item.name, item.action) for item in rolled.changes) == [
        ("c", ChangeAction.UPDATE),
        ("d", ChangeAction.CREATE),
        ("e", ChangeAction.DELETE),
    ]
    assert (await registry.revision(4)).rolled_back_to == 1
    assert [item.name for item in await registry.documents_at(2)] == ["c", "d", "e"]
    with pytest.raises(NotFoundError):
        await registry.rollback(9, ACTOR)


async def test_a_halted_revision_is_out_of_force_but_can_be_edited(replica: Replica) -> None:
    """Sidecars keep what they had; the next change builds on the head and is in force."""
    registry = replica()
    await registry.open()
    heads: list[Head] = []
    await registry.put("Consumer", "c", consumer("c", "good"), ACTOR)
    await registry.put("Consumer", "c", consumer("c", "bad"), ACTOR)
    registry.subscribe(heads.append)
    await registry.halt(2, "listener: no such thing\n\x1b[31m")
    await registry.halt(2, "again")
    assert (registry.head.revision, tenants(registry.head)) == (2, {"c": "bad"})
    assert (registry.in_force.revision, tenants(registry.in_force)) == (1, {"c": "good"})
    assert [head.revision for head in heads] == [1]
    found = await registry.revision(2)
    assert (found.state, found.reason) == (RevisionState.HALTED, "listener: no such thing??[31m")

    other = replica()
    await other.open()
    assert (other.head.revision, tenants(other.head)) == (2, {"c": "bad"})
    assert (other.in_force.revision, tenants(other.in_force)) == (1, {"c": "good"})

    await other.put("Consumer", "d", consumer("d", "new"), ACTOR)
    assert tenants(other.in_force) == {"c": "bad", "d": "new"}
    with pytest.raises(NotFoundError):
        await registry.halt(9, "")


async def test_the_first_revision_may_be_halted(registry: Registry) -> None:
    """Then nothing is in force."""
    await registry.put("Consumer", "c", consumer(), ACTOR)
    await registry.halt(1, "no")
    assert (registry.in_force.revision, tenants(registry.in_force)) == (0, {})


async def test_keys_and_revocations_reach_sidecars_while_documents_are_halted(replica: Replica) -> None:
    """What was refused does not come back with them, here and after a restart."""
    registry = replica()
    await registry.open()
    await registry.put("Consumer", "c", consumer("c", "good"), ACTOR)
    key = await registry.create_key("c", ACTOR)
    await registry.put("Consumer", "c", consumer("c", "bad"), ACTOR)
    await registry.halt(3, "no")
    await registry.revoke_key("c", key.id, ACTOR)
    restarted = replica()
    await restarted.open()
    for found in (registry, restarted):
        assert (found.in_force.revision, tenants(found.in_force)) == (4, {"c": "good"})
        assert not found.in_force.consumer_keys


async def test_another_replica_sees_each_change_within_a_second(replica: Replica) -> None:
    """Documents, deletions, keys, tokens, halts; listeners are told with each new head."""
    writer, reader = replica(), replica()
    await asyncio.gather(writer.open(), reader.open())
    seen: asyncio.Queue[Head] = asyncio.Queue()
    reader.subscribe(seen.put_nowait)

    async with asyncio.timeout(5):
        await writer.put("Consumer", "c", consumer("c", "t"), ACTOR)
        assert tenants(await seen.get()) == {"c": "t"}
        await writer.create_key("c", ACTOR)
        assert len((await seen.get()).consumer_keys) == 1
        await writer.put("Consumer", "c", consumer("c", "bad"), ACTOR)
        assert tenants(await seen.get()) == {"c": "bad"}
        await writer.halt(3, "no")
        assert tenants(await seen.get()) == {"c": "t"}
        await writer.delete("Consumer", "c", ACTOR)
        last = await seen.get()
        assert (tenants(last), dict(last.consumer_keys), last.revision) == ({}, {}, 4)
        await writer.add_token(token(), ACTOR)
        await reader.refresh()
        assert await reader.token("t1") == token()
    assert reader.head == writer.head


async def test_a_writer_builds_on_what_another_replica_wrote_a_moment_ago(replica: Replica) -> None:
    """Before any hint or poll arrived."""
    registries = [replica() for _ in range(2)]
    await asyncio.gather(*(item.open() for item in registries))
    applies = [registries[number % 2].apply([consumer(f"c{number}")], ACTOR) for number in range(20)]
    results = await asyncio.gather(*applies)
    assert sorted(result.revision for result in results) == list(range(1, 21))
    last = replica()
    await last.open()
    assert len(last.head.stored) == 20


async def test_a_restart_finds_everything(replica: Replica) -> None:
    """The same head, keys, secrets and tokens."""
    registry = replica()
    await registry.open()
    await registry.apply([backend(), model(), consumer()], ACTOR)
    await registry.create_key("c", ACTOR)
    await registry.put_secret("s", {"key": "sk-1"}, ACTOR)
    await registry.add_token(token(), ACTOR)
    again = replica()
    await again.open()
    assert again.head == registry.head
    assert again.head.secrets == {("s", "key"): b"sk-1"}
    assert again.head.key_salt
    assert await again.tokens() == [token()]


async def test_no_secret_is_in_a_representation(registry: Registry, tmp_path: Path) -> None:
    """A head or a key in a log line shows neither keys nor digests nor salts."""
    await registry.apply([consumer()], ACTOR)
    minted = await registry.create_key("c", ACTOR)
    await registry.put_secret("s", {"key": "sk-marker"}, ACTOR)
    text = f"{registry.head!r} {minted!r} {await registry.tokens()!r} {await registry.keys('c')!r}"
    for secret in ("sk-marker", minted.key, registry.head.key_salt, *registry.head.consumer_keys):
        assert secret not in text
