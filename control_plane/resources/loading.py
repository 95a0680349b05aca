"""Files and texts to raw documents: YAML with many documents each, or JSON (one or a list).

Safe by construction: plain values only, no duplicate keys, bounded size, depth and alias expansion.
Dates and times stay text (`apiVersion: 2024-06-01` is a version, not a day).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from control_plane.resources.problems import InvalidDocumentsError, Problem

MAX_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 48
# What one text may hold once every alias is written out; 5,000 documents need about half of it.
MAX_VALUES = 400_000
SUFFIXES = (".yaml", ".yml", ".json")

FieldPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class RawDocument:
    """One document as read: any value, where it began, and the line of each of its fields."""

    value: Any
    source: str
    line: int = 0
    lines: Mapping[FieldPath, int] = field(default_factory=dict)

    def place(self, path: FieldPath = ()) -> str:
        """Return `file:line` of the field at `path`, or of the nearest thing around it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.lines:
                return f"{self.source}:{self.lines[path[:length]]}"
        return f"{self.source}:{self.line}" if self.line else self.source


class _Refused(Exception):
    """Why a text is refused, and at which line."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's safe loader without dates."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_constructor("tag:yaml.org,2002:timestamp", yaml.SafeLoader.construct_yaml_str)


def read_files(paths: Iterable[Path], stdin: bytes | None = None) -> list[RawDocument]:
    """Read every document of `paths`, in order; `-` stands for `stdin`.

    A folder stands for the `.yaml`, `.yml` and `.json` files in it and in those below, sorted by path; names
    that begin with a dot are passed over, and so are links to folders.

    Raises:
        InvalidDocumentsError: a file that cannot be read or parsed, or a folder without one; each is named.
    """
    documents: list[RawDocument] = []
    problems: list[Problem] = []
    for given in paths:
        unread: list[OSError] = []
        found = _files_below(given, unread.append) if _is_folder(given) else [given]
        problems.extend(_unreadable(str(error.filename), error) for error in unread)
        if not found and not unread:
            problems.append(Problem(str(given), "", "holds no .yaml, .yml or .json file"))
        for path in found:
            name = "stdin" if str(path) == "-" else str(path)
            try:
                content = (stdin or b"") if str(path) == "-" else _read(path)
                documents.extend(read_text(content, name))
            except InvalidDocumentsError as error:
                problems.extend(error.problems)
            except OSError as error:
                problems.append(_unreadable(name, error))
    if problems:
        raise InvalidDocumentsError(problems)
    return documents


def _is_folder(path: Path) -> bool:
    try:
        return str(path) != "-" and path.is_dir()
    except OSError:  # reading it says why
        return False


def _files_below(folder: Path, unread: Callable[[OSError], None]) -> list[Path]:
    """Return the files of documents below `folder`; `unread` takes what keeps a folder from being listed."""
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=unread):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in names if _is_of_documents(name)]
    return sorted(found)


def _is_of_documents(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(".")


def _unreadable(name: str, error: OSError) -> Problem:
    reason = (error.strerror or "unreadable").lower()
    return Problem(name, "", f"cannot be read ({reason}); name an existing file with -f")


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def read_text(content: bytes, source: str, max_bytes: int = MAX_BYTES) -> list[RawDocument]:
    """Parse `content`; a list at the top level is a list of documents, empty documents are left out.

    Raises:
        InvalidDocumentsError: not YAML or JSON, or beyond one of the bounds.
    """
    try:
        if len(content) > max_bytes:
            raise _Refused(f"is larger than {max_bytes >> 20} MiB")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise _Refused("is not UTF-8 text") from None
        if source.endswith(".json"):
            return list(_flatten(RawDocument(_parse_json(text), source)))
        return list(_parse_yaml(text, source))
    except _Refused as refused:
        place = f"{source}:{refused.line}" if refused.line else ""
        raise InvalidDocumentsError([Problem(source, "", str(refused), place)]) from None


def _flatten(document: RawDocument) -> Iterator[RawDocument]:
    if document.value is None:
        return
    if not isinstance(document.value, list):
        yield document
        return
    for index, item in enumerate(document.value):
        lines = {path[1:]: line for path, line in document.lines.items() if path and path[0] == index}
        yield RawDocument(item, document.source, lines.get((), document.line), lines)


def _parse_json(text: str) -> Any:
    def unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise _Refused(f'has the key "{key}" twice in one object')
            found[key] = value
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise _Refused(f"is not JSON: {error.msg} in column {error.colno}", error.lineno) from None
    except RecursionError:
        raise _Refused("is nested too deeply") from None
    except ValueError:
        # Python reads no whole number of more than 4,300 digits.
        raise _Refused("holds a number that is too long") from None


def _parse_yaml(text: str, source: str) -> Iterator[RawDocument]:
    try:
        _check_depth(text)
        loader = _Loader(text)
        budget = _Budget()
        try:
            while loader.check_node():
                node = loader.get_node()
                budget.sizes.clear()  # keyed by identity, and no alias reaches over documents
                budget.spend(node)
                lines: dict[FieldPath, int] = {}
                _inspect(node, (), lines)
                value = loader.construct_document(node)
                yield from _flatten(RawDocument(value, source, _line(node), lines))
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise _Refused(f"is not YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise _Refused(f"is not YAML: {reason}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        # A scalar that its tag cannot hold (`!!int x`), or a key that cannot be one.
        raise _Refused("holds a value that YAML cannot read") from None


def _check_depth(text: str) -> None:
    # Events come from a loop; composing recurses, in C, so the depth is bounded before.
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                line = event.start_mark.line + 1 if event.start_mark else 0
                raise _Refused(f"is nested more than {MAX_DEPTH} levels deep", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


@dataclass(slots=True)
class _Budget:
    """How many values the text may still hold, aliases written out. `sizes` is by identity of a node."""

    left: int = MAX_VALUES
    sizes: dict[int, int] = field(default_factory=dict)
    open: set[int] = field(default_factory=set)

    def spend(self, node: yaml.Node) -> None:
        """Take the whole of `node` off the budget."""
        self.left -= self._size(node)
        if self.left < 0:
            raise _Refused("holds too many values, or grows without bound through its aliases", _line(node))

    def _size(self, node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        known = self.sizes.get(id(node))
        if known is not None:
            return known
        if id(node) in self.open:
            raise _Refused("refers to itself through an alias", _line(node))
        self.open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            total = 1 + sum(1 + self._size(value) for _, value in node.value)
        else:
            total = 1 + sum(self._size(item) for item in node.value)
        self.open.discard(id(node))
        self.sizes[id(node)] = total
        return total


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _inspect(node: yaml.Node, path: FieldPath, lines: dict[FieldPath, int]) -> None:
    """Refuse duplicate keys and note the line of every field; the budget has bounded the work."""
    if len(path) > MAX_DEPTH:
        raise _Refused("is nested too deeply through aliases", _line(node))
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen and name != "<<":
                raise _Refused(f'has the key "{name}" twice in one mapping', _line(key))
            seen.add(name)
            lines[(*path, name)] = _line(key)
            _inspect(value, (*path, name), lines)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            lines[(*path, index)] = _line(item)
            _inspect(item, (*path, index), lines)
