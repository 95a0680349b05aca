"""What a mirror's wish makes of the head, decided before anything is written (pure).

A mirror says all that it wants to exist, in any order, as often as it likes. For every wish it holds that

- the set afterwards is right as a whole, and what others wrote is as it was;
- each document that is wanted gets one verdict, and one that is refused stays as it was accepted last;
- the same wish again changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from control_plane.registry.planning import Plan, plan_change
from control_plane.registry.settling import settled
from control_plane.registry.values import DocumentKey, Head, StoredDocument
from control_plane.registry.verdicts import Judgement, Kept, Reason
from control_plane.resources.loading import RawDocument
from control_plane.resources.parsing import Document, field_text, parse_document
from control_plane.resources.problems import Problem
from control_plane.resources.references import NAMES_ITSELF, named_itself
from control_plane.resources.written import content_of, same_content

MAX_MESSAGE: Final = 1_000
_MAX_NAME: Final = 253


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """The change, a judgement of each document that is wanted, sorted, and what stays though it is not."""

    change: Plan
    judgements: tuple[Judgement, ...]
    kept: tuple[Kept, ...]


def plan_mirror(head: Head, raws: Sequence[RawDocument], owner: str) -> MirrorPlan:
    """Return what becomes of `head` when `raws` are all that `owner` wants to exist."""
    old = {key: head.parsed[key] for key, stored in head.stored.items() if stored.owner == owner}
    others = {key: document for key, document in head.parsed.items() if key not in old}
    new: dict[DocumentKey, Document] = {}
    judgements: list[Judgement] = []
    labels = [_label(raw.value) for raw in raws]
    times = Counter(labels)
    for raw, label in zip(raws, labels, strict=True):
        is_one = times[label] == 1 or not all(label)
        found = _wanted(head, raw, label, owner) if is_one else _twice(label)
        if isinstance(found, Judgement):
            judgements.append(found)
        else:
            new[label] = found
    stuck = {found.key for found in judgements if found.key in old}
    result = settled(others, old, new, stuck)
    for kind, name in new:
        reason, message = result.refused.get((kind, name), (Reason.ACCEPTED, ""))
        judgements.append(Judgement(kind, name, reason, message[:MAX_MESSAGE]))
    changed = [form for key, form in sorted(result.forms.items()) if form is not old.get(key)]
    deleted = sorted(old.keys() - result.forms.keys())
    return MirrorPlan(
        plan_change(head, changed, deleted, owner=owner),
        tuple(sorted(judgements, key=lambda found: (found.kind, found.name, found.message))),
        tuple(Kept(*key, message) for key, message in sorted(result.kept.items())),
    )


def _label(value: Any) -> DocumentKey:
    """Return kind and name as they are written, as far as they can be read."""
    if not isinstance(value, Mapping):
        return "", ""
    metadata = value.get("metadata")
    found = value.get("kind"), metadata.get("name") if isinstance(metadata, Mapping) else None
    kind, name = (_text(part) for part in found)
    return kind, name


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    # What is cut or escaped is no name any more, so it is never taken for another one.
    return _wire_text(value if len(value) <= _MAX_NAME else f"{value[:_MAX_NAME]}…")


def _twice(label: DocumentKey) -> Judgement:
    return Judgement(*label, Reason.INVALID, "is wanted twice; nobody knows which one is meant")


def _wanted(head: Head, raw: RawDocument, label: DocumentKey, owner: str) -> Document | Judgement:
    """Return the document that is wanted; the very one there is if it is the same."""
    stored = head.stored.get(label)
    if stored is not None and stored.owner != owner:
        whose = f"is mirrored from {stored.owner}" if stored.owner else "was made by the API or a file"
        return Judgement(*label, Reason.CONFLICT, f"a {label[0]} of this name {whose}; delete one of them")
    if stored is not None and _is_as_stored(stored, raw.value):
        return head.parsed[label]
    found = parse_document(raw)
    if not isinstance(found, Document):
        return Judgement(*label, Reason.INVALID, _sentence(found))
    for named in named_itself(found):
        field = field_text(("spec", *named.path))
        return Judgement(*label, Reason.INVALID, f"{field} {NAMES_ITSELF}")
    return found


def _is_as_stored(stored: StoredDocument, value: Mapping[str, Any]) -> bool:
    return same_content(stored.content, content_of(value))


def _sentence(problems: Sequence[Problem]) -> str:
    texts = [f"{problem.field} {problem.message}".strip() for problem in problems]
    return _wire_text("; ".join(texts))[:MAX_MESSAGE]


def _wire_text(text: str) -> str:
    """Return `text` with lone surrogates, which no wire takes, escaped."""
    return text.encode("utf-8", "backslashreplace").decode()
