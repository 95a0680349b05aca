"""A stored answer as bytes, for stores outside the process (pure).

An entry names the question that it answers: one that comes back for another is no answer, whatever went wrong
on the way. Times are those of the day, since the clocks of processes begin anywhere.
"""

from __future__ import annotations

import zlib
from typing import Final

import orjson

from ext_proc.answers import Clocks, StoredAnswer

MAGIC: Final = b"outrigger/2\n"
# Shorter bodies gain nothing by it.
COMPRESS_FROM_BYTES: Final = 2048
_LEVEL: Final = 1
# Longer ones are not written.
MAX_BODY_BYTES: Final = 8 * 1024 * 1024


def is_keepable(answer: StoredAnswer) -> bool:
    """Say whether `answer` may be an entry at all: its body is not too long and its texts are such."""
    texts = answer.content_type + answer.model + answer.version + answer.partition
    return len(answer.body) <= MAX_BODY_BYTES and texts.isprintable()


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
        if not newline or document["key"] != key.hex() or not document["expires_at"] > clocks.wall:
            return None
        size = document["size"]
        if not 0 <= size <= MAX_BODY_BYTES:
            return None
        body = _unpacked(packed, size) if document["packed"] else packed
        if len(body) != size:
            return None
        texts = document["type"], document["model"], document["version"]
        partition = document["partition"]
        if not all(isinstance(text, str) and text.isprintable() for text in (*texts, partition)):
            return None
        prompt_tokens, completion_tokens = map(int, document["tokens"])
        return StoredAnswer(
            body,
            *texts,
            stored_at=min(float(document["stored_at"]) - clocks.wall, 0.0) + clocks.own,
            expires_at=float(document["expires_at"]) - clocks.wall + clocks.own,
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            seconds=max(float(document["seconds"]), 0.0),
            fresh_until=float(document["fresh_until"]) - clocks.wall + clocks.own,
            partition=partition,
        )
    except (ValueError, TypeError, KeyError, zlib.error):
        return None


def _unpacked(packed: bytes, size: int) -> bytes:
    # One byte more than there should be: a longer one is seen to be longer, and never unpacked whole.
    unpacking = zlib.decompressobj()
    body = unpacking.decompress(packed, size + 1)
    if not unpacking.eof or unpacking.unused_data:
        raise ValueError("the packed body is cut, or longer than it says")
    return body
