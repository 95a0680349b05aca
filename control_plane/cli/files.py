"""The documents of `-f`: read, turned into a request's body, and found again when the API names one."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from control_plane.cli.client import FieldError, Refused
from control_plane.cli.failures import CommandFailed
from control_plane.resources.loading import FieldPath, RawDocument, read_files
from control_plane.resources.problems import InvalidDocumentsError, Problem

_PARTS: Final = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def read_documents(paths: Sequence[Path]) -> list[RawDocument]:
    """Read the documents of `paths` (`-`: stdin) in order.

    Raises:
        CommandFailed: a file cannot be read or parsed, there is no document in them, or one holds what JSON
            cannot carry.
    """
    stdin = sys.stdin.buffer.read() if Path("-") in paths else None
    try:
        raws = read_files(paths, stdin)
        if not raws:
            raise CommandFailed("there is no document in the files; give some with -f")
        if not all(_is_json(raw.value) for raw in raws):
            from control_plane.resources.documents import check_documents  # noqa: PLC0415 - slow to load

            check_documents(raws)  # names the field, and its line
            raise CommandFailed("a document holds a value or a key that JSON cannot carry; write it as text")
    except InvalidDocumentsError as refused:
        raise CommandFailed("\n".join(problem.sentence() for problem in refused.problems)) from None
    return raws


def _is_json(value: Any) -> bool:
    try:
        return bool(_keys_are_text(value) and json.dumps(value, allow_nan=False).encode())
    except (TypeError, ValueError):
        return False


def _keys_are_text(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _keys_are_text(item) for key, item in value.items())
    return all(map(_keys_are_text, value)) if isinstance(value, list) else True


def placed(refused: Refused, raws: Iterable[RawDocument]) -> CommandFailed:
    """Return the refusal with the file and line of each field that it names."""
    if not refused.errors:
        return refused
    by_id = {document_id(raw.value): raw for raw in raws}
    lines = [_sentence(error, by_id.get(error.document)) for error in refused.errors]
    return CommandFailed("\n".join([refused.sentence, *(f"  {line}" for line in lines)]))


def document_id(value: Any) -> str:
    """Return `Kind/name` of a document, "" when it has none."""
    if not isinstance(value, Mapping):
        return ""
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{value.get('kind')}/{name}" if name else ""


def _sentence(error: FieldError, raw: RawDocument | None) -> str:
    place = raw.place(field_path(error.field)) if raw is not None else ""
    return Problem(error.document, error.field, error.message, place).sentence()


def field_path(text: str) -> FieldPath:
    """Return the path that `spec.versions[0].weight` writes."""
    return tuple(int(index) if index else name for index, name in _PARTS.findall(text))
