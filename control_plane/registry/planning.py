"""What a change makes of the head, decided before anything is written (pure)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import TypeVar

from control_plane.registry.changes import field_changes
from control_plane.registry.errors import InUseError, NotFoundError, OwnedError
from control_plane.registry.values import ChangeAction, DocumentChange, DocumentKey, Head, StoredDocument
from control_plane.resources.documents import Documents, assemble, duplicates
from control_plane.resources.loading import RawDocument
from control_plane.resources.parsing import MAX_PROBLEMS_EACH, Document, parse_document, parse_documents
from control_plane.resources.problems import InvalidDocumentsError, Problem
from control_plane.resources.stand_ins import barred_fallbacks
from control_plane.resources.unbuilt import notices
from control_plane.resources.users import users_of
from control_plane.resources.written import same_content, written_content

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Plan:
    """A change of documents, checked as a whole: what becomes of each, and the set afterwards.

    `contents` has the JSON of each document that is written, None for a deletion; empty when nothing changes.
    `warnings` names what has no effect in the documents of this change. `owner` has those that are
    written from now on.
    """

    changes: tuple[DocumentChange, ...]
    contents: Mapping[DocumentKey, bytes | None]
    parsed: Mapping[DocumentKey, Document]
    documents: Documents
    warnings: tuple[Problem, ...] = ()
    owner: str = ""

    def actions(self) -> Mapping[DocumentKey, ChangeAction]:
        """Return what becomes of each document that is written."""
        return {(change.kind, change.name): change.action for change in self.changes}


def parse_all(raws: Sequence[RawDocument]) -> list[Document]:
    """Parse every document of one change.

    Raises:
        InvalidDocumentsError: one is wrong by itself, or named twice.
    """
    parsed, problems = parse_documents(raws)
    problems += duplicates(parsed)
    if problems:
        raise InvalidDocumentsError(problems)
    return parsed


def parse_one(kind: str, name: str, raw: RawDocument) -> Document:
    """Parse the document that is to be `kind` `name`.

    Raises:
        InvalidDocumentsError: it is wrong, or says to be another.
    """
    label = f"{kind}/{name}"
    value = raw.value
    problems: list[Problem] = []
    if isinstance(value, Mapping):
        metadata = value.get("metadata")
        if "kind" in value and value["kind"] != kind:
            problems.append(Problem(label, "kind", f"must be {kind}, as the path says", raw.place(("kind",))))
        if (
            isinstance(metadata, Mapping)
            and isinstance(metadata.get("name"), str)
            and metadata["name"] != name
        ):
            message = "must be the name that the path says"
            problems.append(Problem(label, "metadata.name", message, raw.place(("metadata", "name"))))
    if problems:
        raise InvalidDocumentsError(problems)
    found = parse_document(raw)
    if not isinstance(found, Document):
        raise InvalidDocumentsError(replace(problem, document=label) for problem in found[:MAX_PROBLEMS_EACH])
    return found


def parse_stored(documents: Iterable[StoredDocument]) -> dict[DocumentKey, Document]:
    """Parse documents as they were kept, by kind and name.

    Raises:
        InvalidDocumentsError: this build refuses one of them.
    """
    parsed, problems = parse_documents(RawDocument(item.value, "") for item in documents)
    if problems:
        raise InvalidDocumentsError(problems)
    return {(document.kind, document.name): document for document in parsed}


def plan_change(
    head: Head,
    written: Sequence[Document] = (),
    deleted: Iterable[DocumentKey] = (),
    *,
    owner: str = "",
) -> Plan:
    """Return what writing and deleting these, in the name of `owner`, makes of `head`.

    Raises:
        OwnedError: what would change has another owner.
        InvalidDocumentsError: the set as a whole would be wrong.
    """
    changes: list[DocumentChange] = []
    contents: dict[DocumentKey, bytes | None] = {}
    changed: dict[DocumentKey, Document] = {}
    for document in written:
        key = document.kind, document.name
        content = written_content(document)
        before = head.stored.get(key)
        if before is not None and same_content(before.content, content):
            changes.append(DocumentChange(*key, ChangeAction.UNCHANGED))
            continue
        value = json.loads(content)
        action = ChangeAction.CREATE if before is None else ChangeAction.UPDATE
        changes.append(DocumentChange(*key, action, field_changes(before.value if before else None, value)))
        contents[key] = content
        # A value of our own, without the lines it stood in, which are of no use later and large.
        changed[key] = replace(document, raw=RawDocument(value, ""))
    for key in deleted:
        fields = field_changes(head.stored[key].value, None)
        changes.append(DocumentChange(*key, ChangeAction.DELETE, fields))
        contents[key] = None
    _check_owner(head, contents, owner)
    if not contents:
        warnings = _warnings(written, head.documents)
        return Plan(tuple(changes), {}, head.parsed, head.documents, warnings, owner)
    kept = {key: document for key, document in head.parsed.items() if key not in contents}
    # What is being changed stands last: of two that contradict each other it is the one to blame.
    documents = assemble([*kept.values(), *changed.values()], {kind for kind, _ in contents})
    parsed = in_order(head.parsed, changed, {key for key, content in contents.items() if content is None})
    return Plan(tuple(changes), contents, parsed, documents, _warnings(written, documents), owner)


def _warnings(written: Sequence[Document], documents: Documents) -> tuple[Problem, ...]:
    return (*notices(written), *barred_fallbacks(written, documents.models, documents.backends))


def _check_owner(head: Head, keys: Iterable[DocumentKey], owner: str) -> None:
    known = [found for key in keys if (found := head.stored.get(key)) is not None]
    owned = [(f"{found.kind}/{found.name}", found.owner) for found in known if found.owner != owner]
    if owned:
        raise OwnedError(owned)


def in_order(
    before: Mapping[DocumentKey, V], changed: Mapping[DocumentKey, V], gone: Set[DocumentKey]
) -> dict[DocumentKey, V]:
    """Return `before`, which is sorted, with what changed and without what is gone, sorted."""
    after = {**before, **changed}
    for key in gone:
        del after[key]
    # Sorting thousands takes milliseconds, and most changes bring no new name.
    return after if changed.keys() <= before.keys() else dict(sorted(after.items()))


def plan_delete(head: Head, key: DocumentKey) -> Plan:
    """Return what deleting `key` makes of `head`.

    Raises:
        NotFoundError: there is no such document.
        OwnedError: it is mirrored.
        InUseError: others name it.
        InvalidDocumentsError: the others are wrong without it.
    """
    kind, name = key
    if key not in head.parsed:
        raise NotFoundError(f"{kind}/{name}")
    _check_owner(head, [key], "")
    users = users_of(head.documents, kind, name)
    if users:
        raise InUseError(f"{kind}/{name}", users)
    return plan_change(head, deleted=[key])


def plan_rollback(head: Head, target: Sequence[StoredDocument]) -> Plan:
    """Return what makes the documents of `head` what they are in `target`.

    What is mirrored, and what was then, is its owner's: it stays as it is, or gone.

    Raises:
        InvalidDocumentsError: this build refuses the documents of `target`, or they need what is gone.
    """
    mirrored = {key for key, item in head.stored.items() if item.owner}
    wanted = {item.key: item for item in target if not item.owner and item.key not in mirrored}
    differing = [
        item
        for key, item in wanted.items()
        if key not in head.stored or head.stored[key].content != item.content
    ]
    return plan_change(
        head,
        list(parse_stored(differing).values()),
        [key for key in head.parsed if key not in wanted and key not in mirrored],
    )
