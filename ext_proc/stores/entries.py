"""A stored answer as bytes, for stores outside the process (pure).

An entry names the question that it answers: one that comes back for another is no answer, whatever went wrong
on the way. Times are those of the day, since the clocks of processes begin anywhere.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.openai.usage import MAX_TOKENS

MAGIC: Final = b"outrigger/2\n"
# Shorter bodies gain nothing by it.
COMPRESS_FROM_BYTES: Final = 2048
_LEVEL: Final = 1
# Longer ones are not written.
MAX_BODY_BYTES: Final = 8 * 1024 * 1024
MAX_TYPE_CHARS: Final = 200
MAX_NAME_CHARS: Final = 1024
_MEDIA_TYPE: Final = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+ *(;[ -~]*)?", re.ASCII)
# What no clock tells and no call takes, in seconds.
_MAX_TIME_S: Final = 1e11
_MAX_CALL_S: Final = 1e7


def is_keepable(answer: StoredAnswer) -> bool:
    """Say whether `answer` may be an entry at all: its body is not too long and its texts are such."""
    names = answer.model, answer.version, answer.partition
    return (
        len(answer.body) <= MAX_BODY_BYTES
        and _is_media_type(answer.content_type)
        and all(map(_is_name, names))
    )


def encode_entry(key: bytes, answer: StoredAnswer, clocks: Clocks) -> bytes:
    """Return `answer` to the question `key` as bytes."""
    body = answer.body
    packed = zlib.compress(body, _LEVEL) if len(body) >= COMPRESS_FROM_BYTES else body
    head = orjson.dumps(
        {
            "key": key.hex(),
            "type": answer.content_type,
            "model": answer.model,
            "version": answer.version,
            "stored_at": answer.stored_at - clocks.own + clocks.wall,
            "expires_at": answer.expires_at - clocks.own + clocks.wall,
            "fresh_until": min(answer.fresh_until, answer.expires_at) - clocks.own + clocks.wall,
            "seconds": answer.seconds,
            "tokens": [answer.prompt_tokens, answer.completion_tokens],
            "partition": answer.partition,
            "size": len(body),
            "packed": packed is not body,
        }
    )
    return MAGIC + head + b"\n" + packed


def decode_entry(key: bytes, entry: bytes, clocks: Clocks) -> StoredAnswer | None:
    """Return the answer in `entry`; None when it is none, answers another question, or is too old.

    Never raises: anybody may have written it.
    """
    if not entry.startswith(MAGIC):
        return None
    head, newline, packed = entry[len(MAGIC) :].partition(b"\n")
    try:
        document = orjson.loads(head)
        if not newline or document["key"] != key.hex():
            return None
        return _answer(document, packed, clocks)
    except (ValueError, TypeError, KeyError, zlib.error):
        return None


def _answer(document: Mapping[str, Any], packed: bytes, clocks: Clocks) -> StoredAnswer | None:
    content_type, partition = document["type"], document["partition"]
    model, version = document["model"], document["version"]
    if not _is_media_type(content_type) or not all(map(_is_name, (model, version, partition))):
        return None
    expires_at = _number(document["expires_at"], _MAX_TIME_S)
    if expires_at <= clocks.wall:
        return None
    prompt_tokens, completion_tokens = (_whole(tokens, MAX_TOKENS) for tokens in document["tokens"])
    return StoredAnswer(
        _body(document, packed),
        content_type,
        model,
        version,
        stored_at=min(_number(document["stored_at"], _MAX_TIME_S) - clocks.wall, 0.0) + clocks.own,
        expires_at=expires_at - clocks.wall + clocks.own,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        seconds=_number(document["seconds"], _MAX_CALL_S),
        fresh_until=min(_number(document["fresh_until"], _MAX_TIME_S), expires_at) - clocks.wall + clocks.own,
        partition=partition,
    )


def _is_media_type(text: object) -> bool:
    return isinstance(text, str) and len(text) <= MAX_TYPE_CHARS and _MEDIA_TYPE.fullmatch(text) is not None


def _is_name(text: object) -> bool:
    return isinstance(text, str) and len(text) <= MAX_NAME_CHARS and text.isprintable()


def _number(value: object, most: float) -> float:
    # Neither a text ("nan") nor true is a number, and what is not finite is not in the range.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError("it is no number, or none that can be")
    return float(value)


def _whole(value: object, most: int) -> int:
    if value.__class__ is not int:
        raise ValueError("it is no whole number")
    return int(_number(value, most))


def _body(document: Mapping[str, Any], packed: bytes) -> bytes:
    size = _whole(document["size"], MAX_BODY_BYTES)
    body = _unpacked(packed, size) if document["packed"] else packed
    if len(body) != size or not isinstance(orjson.loads(body), dict):
        raise ValueError("the body is cut, or no answer")
    return body


def _unpacked(packed: bytes, size: int) -> bytes:
    # One byte more than there should be: a longer one is seen to be longer, and never unpacked whole.
    unpacking = zlib.decompressobj()
    body = unpacking.decompress(packed, size + 1)
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("the packed body is cut, or longer than it says")
    return body
