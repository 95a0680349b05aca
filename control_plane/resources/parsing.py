"""Raw documents to checked specs: envelope, kind, name, fields; every problem found, not just the first."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import ValidationError

from control_plane.resources.kinds import KINDS
from control_plane.resources.kinds.spec import Spec
from control_plane.resources.loading import FieldPath, RawDocument
from control_plane.resources.names import check_model_name, check_name
from control_plane.resources.problems import Problem

API_VERSION: Final = "outrigger.dev/v1alpha1"
_ENVELOPE: Final = ("apiVersion", "kind", "metadata", "spec")
STATUS: Final = "status"
"""What an answer may carry beside the document; accepted and ignored, so that an answer can be sent back."""

# More would help nobody, and hints cost time.
MAX_PROBLEMS: Final = 1_000
MAX_PROBLEMS_EACH: Final = 20
_MAX_SHOWN: Final = 64
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")

# pydantic's words where ours are plainer.
_MESSAGES: Final = {
    "missing": "is required",
    "model_type": "must be a mapping of fields",
    "model_attributes_type": "must be a mapping of fields",
    "dict_type": "must be a mapping",
    "tuple_type": "must be a list",
    "string_type": "must be text (put it in quotes)",
    "string_too_short": "must not be empty",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "too_short": "must not be empty",
}


@dataclass(frozen=True, slots=True)
class Document:
    """A document whose own fields are right; what it refers to is not looked at yet."""

    kind: str
    name: str
    spec: Spec
    raw: RawDocument

    @property
    def id(self) -> str:
        """`Kind/name`."""
        return f"{self.kind}/{self.name}"

    def problem(self, path: FieldPath, message: str) -> Problem:
        """Return a problem with the field at `path`, with its place in the file."""
        return Problem(self.id, field_text(path), message, self.raw.place(path))


def field_text(path: FieldPath) -> str:
    """Return `path` as written in messages: `spec.versions[0].weight`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part[:_MAX_SHOWN])}]"
    return text


def parse_documents(raws: Iterable[RawDocument]) -> tuple[list[Document], list[Problem]]:
    """Check each document alone. Returns the right ones and every problem of the others."""
    documents: list[Document] = []
    problems: list[Problem] = []
    for position, raw in enumerate(raws, 1):
        found = parse_document(raw, position)
        if isinstance(found, Document):
            documents.append(found)
        else:
            problems.extend(found[:MAX_PROBLEMS_EACH])
        if len(problems) >= MAX_PROBLEMS:
            problems.append(
                Problem("", "", f"has {MAX_PROBLEMS} problems or more; the rest is not looked at")
            )
            break
    return documents, problems


def near(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to `name`, None when none is near."""
    folded = {candidate.replace("_", "").lower(): candidate for candidate in known}
    wanted = name[:_MAX_SHOWN].replace("_", "").lower()
    close = difflib.get_close_matches(wanted, list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the known name nearest to `name`, or all of them when none is near."""
    names = list(known)
    found = near(name, names)
    return f"known here: {', '.join(names)}" if found is None else f'did you mean "{found}"?'


def parse_document(raw: RawDocument, position: int = 1) -> Document | list[Problem]:
    """Check one document alone: the document, or everything that is wrong with it.

    `position` names it in messages when it has no usable name.
    """
    label = f"document {position}"
    value = raw.value
    if not isinstance(value, Mapping):
        return [Problem(label, "", "must be a mapping with kind, metadata and spec", raw.place())]
    kind = value.get("kind")
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if isinstance(kind, str) and kind and isinstance(name, str) and name:
        label = f"{kind[:64]}/{name[:253]}"

    def problem(path: FieldPath, message: str) -> Problem:
        return Problem(label, field_text(path), message, raw.place(path))

    problems = [
        problem((str(key),), f"is no field of a document; {nearest(str(key), _ENVELOPE)}")
        for key in islice(value, MAX_PROBLEMS_EACH)
        if key not in _ENVELOPE and key != STATUS
    ]
    if value.get("apiVersion", API_VERSION) != API_VERSION:
        problems.append(problem(("apiVersion",), f"must be {API_VERSION}, or left out"))
    problems += [problem(("metadata", *path), message) for path, message in _check_metadata(kind, metadata)]
    if not isinstance(kind, str) or kind not in KINDS:
        hint = nearest(kind, KINDS) if isinstance(kind, str) else f"known: {', '.join(KINDS)}"
        problems.append(problem(("kind",), f"is no kind of document; {hint}"))
        return problems
    if "spec" not in value:
        problems.append(problem(("spec",), "is required"))
        return problems
    try:
        spec = KINDS[kind].model_validate(value["spec"])
    except ValidationError as error:
        problems += [problem(("spec", *path), message) for path, message in _explain(error, KINDS[kind])]
        return problems
    except RecursionError:
        problems.append(problem(("spec",), "refers to itself"))
        return problems
    return problems or Document(kind, str(name), spec, raw)


def _check_metadata(kind: object, metadata: object) -> Iterable[tuple[FieldPath, str]]:
    if not isinstance(metadata, Mapping):
        yield (), "must be a mapping with name"
        return
    for key in islice(metadata, MAX_PROBLEMS_EACH):
        if key != "name":
            yield (str(key),), f"is no field of metadata; {nearest(str(key), ('name',))}"
    name = metadata.get("name")
    if name is None:
        yield ("name",), "is required"
    elif not isinstance(name, str):
        yield ("name",), "must be text (put it in quotes)"
    else:
        try:
            (check_model_name if kind == "Model" else check_name)(name)
        except ValueError as error:
            yield ("name",), str(error)


def _explain(error: ValidationError, spec: type[Spec]) -> Iterable[tuple[FieldPath, str]]:
    found = error.errors(include_url=False)[:MAX_PROBLEMS_EACH]
    for item in found:
        path: FieldPath = tuple(item["loc"])
        kind = item["type"]
        if kind == "too_short" and any(other["loc"][:-1][: len(path)] == path for other in found):
            continue  # pydantic counts the wrong items of a list as absent
        if kind == "extra_forbidden":
            known = known_fields(spec, path[:-1])
            yield path, f"is no field of {spec_name(spec, path[:-1])}; {nearest(str(path[-1]), known)}"
        elif kind == "value_error":
            yield path, str(item["ctx"]["error"])
        elif kind == "literal_error":
            yield path, _literal_message(item["ctx"]["expected"], item["input"])
        else:
            message = _MESSAGES.get(kind) or item["msg"].replace("Input should", "must", 1)
            yield path, message[:1].lower() + message[1:]


def _literal_message(expected: str, value: object) -> str:
    # The value is compared, never quoted: it may be a secret pasted into the wrong field.
    found = near(value, re.findall(r"'([^']*)'", expected)) if isinstance(value, str) else None
    return f"must be {expected}" if found is None else f'must be {expected}; did you mean "{found}"?'


def spec_name(spec: type[Spec], path: FieldPath) -> str:
    """Return what messages call the mapping at `path`: its own field's name, or the kind."""
    names = [part for part in path if isinstance(part, str)]
    return names[-1] if names else spec.__name__.removesuffix("Spec")


def known_fields(spec: type[Spec], path: FieldPath) -> list[str]:
    """Return the written names of the fields that the mapping at `path` within `spec` may have."""
    current: type[Spec] | None = spec
    for part in path:
        if current is None or isinstance(part, int):
            continue
        current = next(
            (spec_in(item.annotation) for item in current.model_fields.values() if item.alias == part), None
        )
    return [item.alias or "" for item in current.model_fields.values()] if current else []


def spec_in(annotation: Any) -> type[Spec] | None:
    """Return the Spec class inside an annotation (`Spec | None`, a list of Specs), if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return annotation
    if get_origin(annotation) in (Union, UnionType, Annotated, tuple):
        for argument in get_args(annotation):
            found = spec_in(argument)
            if found is not None:
                return found
    return None
