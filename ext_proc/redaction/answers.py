"""A JSON answer with the values of its request put back (pure).

Every text of it is read but identifiers and the pieces that `logprobs` lists. What stands in the arguments of
a tool call goes into strings of a JSON text, and so does everything when the request asked for JSON.

A caller's client reads more than is JSON to the letter: half of a surrogate pair that stands alone, `NaN`, a
key that comes twice. So does this module, or the caller would read placeholders.
"""

from __future__ import annotations

import json
from typing import Any, Final

from ext_proc.openai.documents import InvalidDocument, WrittenNumber, decode, encode
from ext_proc.redaction.masks import PLACEHOLDER, Masks

UNREAD: Final = frozenset(
    (
        "created",
        "finish_reason",
        "id",
        "index",
        "logprobs",
        "model",
        "object",
        "role",
        "system_fingerprint",
        "type",
    )
)
"""Fields of an answer in which no value stands."""
_JSON_TEXTS: Final = frozenset(("arguments",))
_ANSWER_TEXTS: Final = frozenset(("content", "text"))


def is_quoted(masks: Masks, name: str) -> bool:
    """Whether the text at a field called `name` is JSON, so that what is put into it has to be escaped."""
    return name in _JSON_TEXTS or (masks.answers_json and name in _ANSWER_TEXTS)


def restore_body(masks: Masks, body: bytes) -> bytes:
    """Return the JSON answer `body` with its values; the same object when there are none in it.

    What no client can read as a JSON object passes as it is.
    """
    # Nobody escapes a bracket or a letter; most answers repeat nothing of what was masked.
    if b"_" not in body or PLACEHOLDER.search(body.decode("utf-8", "replace")) is None:
        return body
    try:
        document = decode(body)
    except InvalidDocument:
        try:
            document = read_leniently(body)
            return write(document) if restore_texts(masks, document) else body
        except (ValueError, RecursionError):
            return body
    return encode(document) if restore_texts(masks, document) else body


def read_leniently(text: bytes) -> dict[str, Any]:
    """Read a JSON object as a lenient client does. Of two equal keys the last one counts.

    Raises:
        ValueError: nobody reads an object in it, or it is nested too deeply.
    """
    try:
        document = json.loads(text, parse_float=WrittenNumber, parse_constant=WrittenNumber)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(document, dict):
        raise ValueError("no object")
    return document


def write(document: dict[str, Any]) -> bytes:
    """Write what was read, also what is no JSON to the letter in the way it came."""
    try:
        return encode(document)
    except TypeError:
        written = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        # What UTF-8 cannot say becomes what JSON has for it, too: `\\ud83d`.
        return written.encode("utf-8", "backslashreplace")


def restore_texts(masks: Masks, node: Any) -> bool:
    """Restore every text below `node`, a document or a part of one, in place; return whether one changed."""
    changed = False
    if node.__class__ is dict:
        for name, value in node.items():
            if name in UNREAD:
                continue
            if value.__class__ is str:
                node[name] = masks.restore(value, quoted=is_quoted(masks, name))
                changed = changed or node[name] != value
            else:
                changed = restore_texts(masks, value) or changed
    elif node.__class__ is list:
        for position, value in enumerate(node):
            if value.__class__ is str:
                node[position] = masks.restore(value)
                changed = changed or node[position] != value
            else:
                changed = restore_texts(masks, value) or changed
    return changed
