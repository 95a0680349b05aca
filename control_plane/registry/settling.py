"""Which of the forms that a mirror wants can be in force together (pure).

Every mirrored document is in the form that is wanted, or in the one that was accepted last, or not at all.
All start as wanted. What breaks the set goes back to the form from before, one after the other, until the set
is right: at the latest when all have gone back, since what was in force was right. Documents of others never
change.

Three things break a set: a document that names what is not there, documents that claim the same, and a Policy
that another one undoes. What was in force before has the better claim: whoever newly names something that is
missing is refused, but a reference that was in force already keeps what it names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Final

from control_plane.registry.values import DocumentKey
from control_plane.registry.verdicts import Reason
from control_plane.resources.claims import Claims
from control_plane.resources.kinds.model import ModelSpec
from control_plane.resources.parsing import Document, field_text
from control_plane.resources.policies import DOOR, OPEN_DOOR, Ties, open_doors
from control_plane.resources.references import Named, named_by

Forms = Mapping[DocumentKey, Document]
MAX_ROUNDS: Final = 20
"""Each refusal may bring back what refuses another one. So long a chain is no slip of the pen."""
TANGLED: Final = "contradicts others that contradict others in turn; change fewer at once"
_POLICY: Final = "Policy"


@dataclass(frozen=True, slots=True)
class Settled:
    """The mirrored documents that are right together, why others are not as wanted, what stays unwanted."""

    forms: Forms
    refused: Mapping[DocumentKey, tuple[Reason, str]]
    kept: Mapping[DocumentKey, str]


def settled(others: Forms, old: Forms, new: Forms, stuck: Iterable[DocumentKey]) -> Settled:
    """Return what is in force when `new` is wanted where `old` was, beside the documents of `others`.

    `old` and `others` are right together. `stuck` names those of `old` that are wanted in a form that is
    wrong by itself: they stay. What is neither in `new` nor stuck is not wanted any more. Where nothing
    changes, a form of `new` is the very object of `old`.
    """
    stuck = frozenset(stuck)
    if _same({**{key: old[key] for key in stuck}, **new}, old):
        return Settled(old, {}, {})
    while True:
        settling = _Settling(others, old, new, stuck)
        settling.run()
        found = Settled(settling.forms, settling.refused, settling.kept)
        # What was refused beside a form that could not stay either may be right by now. Each round accepts
        # more, so there is a last one; then the same wish brings the same set.
        if not (found.refused or found.kept) or _same(found.forms, old):
            return found
        old = found.forms


def _same(one: Forms, other: Forms) -> bool:
    return one.keys() == other.keys() and all(form is other[key] for key, form in one.items())


class _Settling:
    """One round, from all as wanted to a set that is right."""

    def __init__(self, others: Forms, old: Forms, new: Forms, stuck: frozenset[DocumentKey]) -> None:
        self.forms: dict[DocumentKey, Document] = {**{key: old[key] for key in stuck}, **new}
        self.refused: dict[DocumentKey, tuple[Reason, str]] = {}
        self.kept: dict[DocumentKey, str] = {}
        self._others, self._old, self._new = others, old, new
        self._back = set(stuck)  # in the form that was accepted last, whatever comes
        self._unwanted = old.keys() - new.keys() - stuck
        self._held = {
            key: {(named.kind, named.name, named.version) for named in named_by(document)}
            for key, document in old.items()
        }
        self._users: dict[DocumentKey, set[DocumentKey]] = {}
        for forms in (others, old, new):
            for key, document in forms.items():
                for named in named_by(document):
                    self._users.setdefault((named.kind, named.name), set()).add(key)

    def run(self) -> None:
        """Settle."""
        moved = sorted({*self._others, *self.forms})
        for rounds in count(1):
            self._settle_references(moved)
            moved = self._settle_claims() or self._settle_doors()
            if not moved:
                return
            if rounds % MAX_ROUNDS == 0:
                moved += self._give_up({kind for kind, _ in moved})

    # Names of what is not there.

    def _settle_references(self, moved: Iterable[DocumentKey]) -> None:
        pending = deque(moved)
        suspects: list[DocumentKey] = []  # they name what is not there; refused when nothing else moves
        while pending or suspects:
            if pending:
                key = pending.popleft()
                for named, _ in self._broken(key):
                    target = named.kind, named.name
                    if self._is_held(key, named) and target in self._old and target not in self._back:
                        self._bring_back(target, key, named)
                        pending.extend(self._touched(target))
                    elif self._is_free(key):
                        heappush(suspects, key)
                continue
            key = heappop(suspects)
            broken = next(self._broken(key), None) if self._is_free(key) else None
            if broken is not None:
                named, why = broken
                self._refuse(key, Reason.UNKNOWN_REFERENCE, f"{field_text(('spec', *named.path))} {why}")
                pending.extend(self._touched(key))

    def _broken(self, key: DocumentKey) -> Iterator[tuple[Named, str]]:
        """Yield each reference of a document that leads nowhere, with the words for it."""
        document = self._others.get(key) or self.forms.get(key)
        if document is None:
            return
        is_free = self._is_free(key)
        for named in named_by(document):
            target = named.kind, named.name
            found = self._others.get(target) or self.forms.get(target)
            if is_free and target in self._unwanted:
                yield named, f'names the {named.kind} "{named.name}", which is to be deleted'
            elif found is None:
                gone = "which is not accepted" if target in self.refused else "which does not exist"
                yield named, f'names the {named.kind} "{named.name}", {gone}'
            elif named.version is not None and not _has_version(found, named.version):
                lacking = f'which the Model "{named.name}" does not have'
                yield named, f'names the version "{named.version}", {lacking}'

    def _is_free(self, key: DocumentKey) -> bool:
        """Say whether a document is in the form that is wanted."""
        return key in self._new and key not in self._back

    def _is_held(self, key: DocumentKey, named: Named) -> bool:
        """Say whether what `key` names has to stay as it was for it."""
        if not self._is_free(key):
            return True
        in_force = (named.kind, named.name, named.version) in self._held.get(key, ())
        return in_force and (named.kind, named.name) not in self._unwanted

    def _bring_back(self, key: DocumentKey, user: DocumentKey, named: Named) -> None:
        who = f"{user[0]}/{user[1]}"
        if key in self._unwanted:
            self._keep(key, f"{who} still names it")
        else:
            self._refuse(key, Reason.INVALID, f'spec.versions must keep "{named.version}", which {who} names')

    # Claims of the same.

    def _settle_claims(self) -> list[DocumentKey]:
        claims, ties = Claims(), Ties()
        moved: list[DocumentKey] = []
        for key, document in self._by_right():
            register = ties if document.kind == _POLICY else claims
            anyway = not self._may_move(key)
            broken = register.take(document, anyway=anyway)
            if broken and not anyway:
                self._refuse(key, Reason.INVALID, _sentence(broken))
                moved.extend(self._touched(key))
        return moved

    def _by_right(self) -> list[tuple[DocumentKey, Document]]:
        """Return all documents, those with the better right first."""
        return [
            *sorted(self._others.items()),
            *sorted(self.forms.items(), key=lambda item: self._right(item[0])),
        ]

    def _right(self, key: DocumentKey) -> tuple[int, DocumentKey]:
        if not self._may_move(key):
            return 0, key
        return (1 if key in self._old else 2), key

    def _may_move(self, key: DocumentKey) -> bool:
        """Say whether a document is in a wanted form that is not the one that was accepted last."""
        return self._is_free(key) and self._new[key] is not self._old.get(key)

    # Policies that let callers in unseen.

    def _settle_doors(self) -> list[DocumentKey]:
        policies = {key: document for key, document in self._by_right() if document.kind == _POLICY}
        undone = _undone(policies)
        if not undone:
            return []
        moved = sorted(key for key in undone if self._may_move(key))
        for key in moved:
            self._refuse(key, Reason.INVALID, f"{field_text(DOOR)} {OPEN_DOOR}")
        if moved:
            return moved
        # They were right before, so another one that has changed, or is gone, opens the door for them.
        whose = f"Policy/{min(undone)[1]} needs failOpen: false for the same workloads"
        openers = [key for key in reversed(policies) if self._may_move(key)]
        openers += sorted(key for key in self._unwanted - self.kept.keys() if key[0] == _POLICY)
        for key in openers:
            if len(_undone(self._with_old(policies, key))) < len(undone):
                break
        else:
            # Only several of them together: one at a time.
            key = openers[0]
        if key in self._unwanted:
            self._keep(key, whose)
        else:
            self._refuse(key, Reason.INVALID, whose)
        return [key]

    def _with_old(self, forms: Forms, key: DocumentKey) -> dict[DocumentKey, Document]:
        rest = {other: form for other, form in forms.items() if other != key}
        return {**rest, key: self._old[key]} if key in self._old else rest

    # Moves. Each document makes one at most.

    def _give_up(self, kinds: Set[str]) -> list[DocumentKey]:
        """Refuse all documents of these kinds that may move."""
        moved = sorted(key for key in self.forms if key[0] in kinds and self._may_move(key))
        for key in moved:
            self._refuse(key, Reason.INVALID, TANGLED)
        return [touched for key in moved for touched in self._touched(key)]

    def _refuse(self, key: DocumentKey, reason: Reason, message: str) -> None:
        self.refused[key] = reason, message
        self._go_back(key)

    def _keep(self, key: DocumentKey, message: str) -> None:
        self.kept[key] = message
        self._go_back(key)

    def _go_back(self, key: DocumentKey) -> None:
        if key in self._old:
            self.forms[key] = self._old[key]
            self._back.add(key)
        else:
            del self.forms[key]

    def _touched(self, key: DocumentKey) -> list[DocumentKey]:
        """Return what has to be looked at again when `key` has moved."""
        return [key, *sorted(self._users.get(key, ()))]


def _has_version(document: Document, version: str) -> bool:
    return isinstance(document.spec, ModelSpec) and any(
        known.name == version for known in document.spec.versions
    )


def _undone(policies: Forms) -> set[DocumentKey]:
    return {(document.kind, document.name) for document in open_doors(list(policies.values()))}


def _sentence(broken: Iterable[tuple[tuple[str | int, ...], str]]) -> str:
    return "; ".join(f"{field_text(path)} {message}" for path, message in broken)
