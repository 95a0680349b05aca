"""Which of OpenAI's operations a request line means (pure).

Only the exact spelling of a path is ours. Anything a lenient server could fold into one of our paths
(`//v1`, `%2e`, another case, `;x=1`, full-width letters) is refused, so that no spelling slips past the
policies. Every other path passes through unread.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote_to_bytes


class Operation(StrEnum):
    """What a call asks for. The values of the first three are OTel's `gen_ai.operation.name`."""

    CHAT = "chat"
    COMPLETIONS = "text_completion"
    EMBEDDINGS = "embeddings"
    MODELS = "models"
    MODEL = "model"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Classified:
    """The operation of a request line.

    `refused` is a sentence for the caller when the path must not go on (answer 404 with code
    `unknown_url`). `model_id` is set for `Operation.MODEL`, percent-decoded.
    """

    operation: Operation
    refused: str | None = None
    model_id: str | None = None


PARSED: Final = {
    "/v1/chat/completions": Operation.CHAT,
    "/v1/completions": Operation.COMPLETIONS,
    "/v1/embeddings": Operation.EMBEDDINGS,
}
_POST: Final = {path: Classified(operation) for path, operation in PARSED.items()}
_OTHER: Final = Classified(Operation.OTHER)
_MODELS_PATH: Final = "/v1/models"
_GUARDED: Final = frozenset({*PARSED, _MODELS_PATH})
# Lower-case plain segments below one `/v1`: nothing in them can be folded.
_NO_TEXT: Final = re.compile("[\ud800-\udfff]")
_NO_LATIN_1: Final = re.compile("[^\0-\xff]")
_PLAIN: Final = re.compile(r"/v1(?!/v1(?:/|$))(?:/[a-z0-9_-][a-z0-9_.-]*)*")
# A server that takes it for a slash may leave the place that our key is for (`/v1/..%2F..%2Fadmin`).
_ESCAPED_SLASH: Final = re.compile("%(?:2[fF]|5[cC])")
_OF_ONE_MODEL: Final = frozenset(("GET", "HEAD", "DELETE"))
_UNICODE_ESCAPE: Final = re.compile(rb"%u([0-9a-fA-F]{4})")
_OVERLONG: Final = re.compile(rb"[\xc0\xc1][\x80-\xbf]")
_DROPPED_CATEGORIES: Final = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_MAX_DECODES: Final = 8
_REFUSED: Final = "This spelling of the path is not accepted; write it exactly as in the API reference."


def classify(method: str, path: str) -> Classified:
    """Return the operation of `method` and `path` (no query, still with `/v1`).

    Only POST is an operation of ours on the parsed paths; other methods on them, and paths below them,
    are `OTHER`.
    """
    if path in PARSED:
        if method == "POST":
            return _POST[path]
        if method.upper() == "POST":
            return Classified(Operation.OTHER, refused="The method must be written POST.")
        return _OTHER
    if path == _MODELS_PATH:
        return Classified(Operation.MODELS) if method in {"GET", "HEAD"} else _OTHER
    if _ESCAPED_SLASH.search(path) and not (method in _OF_ONE_MODEL and _names_a_model(path)):
        return Classified(Operation.OTHER, refused=_REFUSED)
    if _PLAIN.fullmatch(path) is None and any(_fold(raw) in _GUARDED for raw in _readings(path)):
        return Classified(Operation.OTHER, refused=_REFUSED)
    if method in {"GET", "HEAD"} and path.startswith(_MODELS_PATH + "/"):
        model_id = unquote_to_bytes(path[len(_MODELS_PATH) + 1 :]).decode("utf-8", "replace")
        return Classified(Operation.MODEL, model_id=model_id)
    return _OTHER


def _names_a_model(path: str) -> bool:
    """Say whether an escaped slash can only be one in the name of a Model, as OpenAI's client writes it."""
    if not path.startswith(_MODELS_PATH + "/"):
        return False
    return not any(segment in {".", ".."} for raw in _readings(path) for segment in _segments(raw))


def _readings(path: str) -> Iterator[bytes]:
    """Yield the bytes that `path` may have been: it was decoded as UTF-8 or as Latin-1.

    What neither has stands for itself as `_`: a `?` would end the path.
    """
    yield _NO_TEXT.sub("_", path).encode()
    if not path.isascii():
        yield _NO_LATIN_1.sub("_", path).encode("latin-1")


def _segments(raw: bytes) -> list[str]:
    """Return the segments of a path as the most lenient of servers would read them, dots as they are."""
    for _ in range(_MAX_DECODES):
        decoded = _UNICODE_ESCAPE.sub(lambda m: chr(int(m[1], 16)).encode("utf-8", "replace"), raw)
        decoded = _OVERLONG.sub(
            lambda m: bytes([(m[0][0] & 1) << 6 | m[0][1] & 0x3F]), unquote_to_bytes(decoded)
        )
        if decoded == raw:
            break
        raw = decoded
    text = unicodedata.normalize("NFKC", raw.split(b"\0")[0].decode("utf-8", "replace")).casefold()
    text = re.split(r"[?#]", text.replace("\\", "/"), maxsplit=1)[0]
    text = "".join(char for char in text if unicodedata.category(char) not in _DROPPED_CATEGORIES)
    return [written.split(";", 1)[0] for written in text.split("/")]


def _fold(raw: bytes) -> str:
    """Return the path as the most lenient of servers would read it."""
    segments: list[str] = []
    for segment in _segments(raw):
        if segment == "..":
            del segments[-1:]
        elif segment not in {"", "."}:
            segments.append(segment)
    # A Backend whose URL has no /v1 of its own makes `/v1/v1/chat/completions` its real path.
    while segments[:2] == ["v1", "v1"]:
        del segments[0]
    return "/" + "/".join(segments)
