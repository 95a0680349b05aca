"""Masking a request: which of its texts are read, and what is put in their place (pure).

Read are messages with all their parts, tool calls and results, `prompt`, `suffix`, `input`, predictions, stop
sequences, descriptions of tools and formats, and what names the user. Left alone are identifiers, names of
functions, and addresses and contents of images, sounds and files.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from ext_proc.contract.entities import ENTITIES
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import Request
from ext_proc.redaction.items import Item, items_in
from ext_proc.redaction.masks import PLACEHOLDER, Masks

_IDENTIFIERS: Final = ("user", "safety_identifier", "prompt_cache_key", "metadata")
_TEXTS: Final = {
    Operation.CHAT: ("messages", "prediction", "stop", *_IDENTIFIERS),
    Operation.COMPLETIONS: ("prompt", "suffix", "stop", *_IDENTIFIERS),
    Operation.EMBEDDINGS: ("input", *_IDENTIFIERS),
}
_DESCRIBED: Final = ("tools", "functions", "response_format")
_NO_TEXTS: Final = frozenset(
    (
        "audio_url",
        "cache_control",
        "call_id",
        "file_data",
        "file_id",
        "id",
        "image_url",
        "input_audio",
        "role",
        "tool_call_id",
        "type",
        "video_url",
    )
)
# The content of a file or an image, in a field that is not known here.
_DATA: Final = re.compile(r"data:[\w.+-]+/[^\s,]*;base64,[A-Za-z0-9+/=_%-]*")
# A tuple: a role may be anything, also what no set can be asked for.
_NAMELESS: Final = ("function", "tool")

Path = tuple[str | int, ...]
"""Where a text stands in the document."""


def mask_request(request: Request, entities: Collection[str] | None = None) -> Masks | None:
    """Mask `request`; None when there is nothing in it to be masked.

    Args:
        request: its document is changed, what stands in it is not: others may hold messages of it.
        entities: what is masked, None for all. Names that are not known count for nothing.
    """
    wanted = frozenset(ENTITIES if entities is None else entities)
    texts = _texts(request)
    found: list[tuple[Path, str, list[Item]]] = []
    for path, text in texts:
        items = [item for item in items_in(text) if item.entity in wanted]
        if items:
            found.append((path, text, items))
    if not found:
        return None
    taken = {placeholder for _, text in texts for placeholder in PLACEHOLDER.findall(text)}
    masks = Masks(taken, answers_json=_answers_json(request.document))
    copies: set[int] = set()
    for path, text, items in found:
        _put(request.document, path, mask_text(text, items, masks), copies)
    return masks


def mask_text(text: str, items: list[Item], masks: Masks) -> str:
    """Return `text` with placeholders for its `items`."""
    parts: list[str] = []
    at = 0
    for item in items:
        parts += (text[at : item.start], item.quote, masks.mask(item.entity, item.value), item.quote)
        at = item.end
    parts.append(text[at:])
    return "".join(parts)


def _answers_json(document: dict[str, Any]) -> bool:
    form = document.get("response_format")
    return isinstance(form, dict) and form.get("type") in ("json_object", "json_schema")


def _put(document: dict[str, Any], path: Path, text: str, copies: set[int]) -> None:
    """Put `text` in its place; what it stands in is copied unless it is one of the `copies`."""
    node: Any = document
    for step in path[:-1]:
        if id(node[step]) not in copies:
            node[step] = node[step].copy()
            copies.add(id(node[step]))
        node = node[step]
    node[path[-1]] = text


def _texts(request: Request) -> list[tuple[Path, str]]:
    document = request.document
    texts: list[tuple[Path, str]] = []
    # Who is named last numbers nothing: those names are no part of the question.
    first, *others = _TEXTS[request.operation]
    _walk(document.get(first), (first,), texts)
    for name in _DESCRIBED:
        if name in document:
            _walk_descriptions(document[name], (name,), texts)
    for name in others:
        if name in document:
            _walk(document[name], (name,), texts, skipped=frozenset() if name == "metadata" else _NO_TEXTS)
    return texts


def _walk(value: Any, path: Path, texts: list[tuple[Path, str]], skipped: frozenset[str] = _NO_TEXTS) -> None:
    if value.__class__ is str:
        if not (value.startswith("data:") and _DATA.fullmatch(value)):
            texts.append((path, value))
    elif value.__class__ is int:
        # The provider will refuse it, but then it has seen it.
        texts.append((path, str(value)))
    elif value.__class__ is dict:
        # The name of a function is one of a closed set; that of a participant is text.
        nameless = skipped and ("arguments" in value or "input" in value or value.get("role") in _NAMELESS)
        for name, item in value.items():
            if name not in skipped and not (name == "name" and nameless):
                _walk(item, (*path, name), texts, skipped)
    elif value.__class__ is list:
        for position, item in enumerate(value):
            # Tokens are many, and no text.
            if item.__class__ is not int:
                _walk(item, (*path, position), texts, skipped)


def _walk_descriptions(value: Any, path: Path, texts: list[tuple[Path, str]]) -> None:
    if value.__class__ is dict:
        for name, item in value.items():
            if name == "description" and item.__class__ is str:
                texts.append(((*path, name), item))
            else:
                _walk_descriptions(item, (*path, name), texts)
    elif value.__class__ is list:
        for position, item in enumerate(value):
            _walk_descriptions(item, (*path, position), texts)
