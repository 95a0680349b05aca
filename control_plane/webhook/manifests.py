"""Manifests with pods in them: every pod and template of a YAML stream gets its pair (pure).

Documents without one stay as they are written; of the others comments go, values do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import yaml

from control_plane.webhook.patch import Injection, Outcome, inject
from control_plane.webhook.scalars import Reader, write_yaml
from control_plane.webhook.settings import InjectionSettings
from control_plane.webhook.shape import NotAPodError, check_pod

TEMPLATES: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): (),
    ("", "ReplicationController"): ("spec", "template"),
    ("apps", "Deployment"): ("spec", "template"),
    ("apps", "ReplicaSet"): ("spec", "template"),
    ("apps", "StatefulSet"): ("spec", "template"),
    ("apps", "DaemonSet"): ("spec", "template"),
    ("batch", "Job"): ("spec", "template"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template"),
}
"""By group and kind, where a document has its pod."""
LIST: Final = "List"


class UnreadableManifestError(ValueError):
    """The text is no YAML, or a pod in it has no shape; the message says where."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What became of a YAML stream: its new text, how many pods got a pair, and what is to be told."""

    text: str
    injected: int
    warnings: tuple[str, ...]


def inject_manifests(text: str, settings: InjectionSettings, namespace: str = "") -> Manifest:
    """Return `text` with a pair in every pod and template.

    Args:
        text: any number of YAML documents.
        settings: what the pair is made of.
        namespace: where documents are made that name none.

    Raises:
        UnreadableManifestError: the text is no YAML, or a pod has no shape.
    """
    parts, warnings, injected = [], [], 0
    for written, document in _documents(text):
        work = _Work(settings, namespace)
        changed = work.on(document)
        warnings += work.warnings
        injected += work.injected
        parts.append(written if changed is document else _written(changed, written))
    return Manifest("".join(parts), injected, tuple(warnings))


class _Work:
    """The injection of one document."""

    def __init__(self, settings: InjectionSettings, namespace: str) -> None:
        self._settings = settings
        self._namespace = namespace
        self.injected = 0
        self.warnings: list[str] = []

    def on(self, document: Any) -> Any:
        """Return `document` with its pods injected; itself when none was."""
        if not isinstance(document, Mapping):
            return document
        group, _, _ = str(document.get("apiVersion") or "").rpartition("/")
        kind = str(document.get("kind") or "")
        if kind == LIST and not group and isinstance(document.get("items"), list):
            items = [self.on(item) for item in document["items"]]
            same = all(new is old for new, old in zip(items, document["items"], strict=True))
            return document if same else {**document, "items": items}
        place = TEMPLATES.get((group, kind))
        if place is None:
            return document
        metadata = document.get("metadata")
        own = metadata if isinstance(metadata, Mapping) else {}
        name = str(own.get("name") or own.get("generateName") or "")
        return self._at(document, place, f"{kind}/{name}", str(own.get("namespace") or self._namespace), name)

    def _at(self, value: Any, place: tuple[str, ...], what: str, namespace: str, owner: str) -> Any:
        """Return `value` with the pod at `place` in it injected."""
        if not place:
            return self._pod(value, what, namespace, owner)
        below = value.get(place[0]) if isinstance(value, Mapping) else None
        changed = self._at(below, place[1:], what, namespace, owner)
        return value if changed is below else {**value, place[0]: changed}

    def _pod(self, pod: Any, what: str, namespace: str, owner: str) -> Any:
        try:
            decided = inject(check_pod(pod), namespace, self._settings, owner=owner)
        except NotAPodError as error:
            raise UnreadableManifestError(f"{what} cannot be injected: {error}") from None
        if isinstance(decided, Injection):
            self.injected += decided.outcome is Outcome.INJECTED
            self.warnings += [f"{what}: {warning}" for warning in decided.warnings]
            return decided.pod if decided.patch else pod
        # Whoever runs the command asked for each of them: why not is told, asked for or not.
        self.warnings.append(f"{what}: no sidecar: {decided.reason}")
        return pod


def _documents(text: str) -> Iterator[tuple[str, Any]]:
    """Yield each document as it is written, from its `---` to the next one's, and what it says."""
    try:
        starts = [
            event.start_mark.index
            for event in yaml.parse(text, yaml.SafeLoader)
            if isinstance(event, yaml.DocumentStartEvent) and event.explicit and event.start_mark
        ]
        # What stands before the first line of dashes is a document too, or nothing but comments.
        edges = [0, *(start for start in starts if text[:start].strip()), len(text)]
        for begin, end in pairwise(edges):
            written = text[begin:end]
            for document in yaml.load_all(written, Reader):
                yield written, document
                break
            else:
                yield written, None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UnreadableManifestError(f"the text is no YAML: {_sentence(error)}") from None


def _written(document: Any, before: str) -> str:
    return ("---\n" if before.lstrip().startswith("---") else "") + write_yaml(document)


def _sentence(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    where = f" (line {mark.line + 1})" if mark is not None else ""
    return " ".join(str(getattr(error, "problem", None) or type(error).__name__).split()) + where
