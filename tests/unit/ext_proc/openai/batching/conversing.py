"""Providers of one answer, for the tests of codecs: what is asked comes back in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from ext_proc.openai.batching.inputs import Codec, Parts, Share
from ext_proc.openai.paths import Operation
from ext_proc.openai.requests import Request


def parts_of(codec: Codec, operation: Operation, document: dict[str, Any]) -> Parts | None:
    """Take a request apart."""
    return codec.take_apart(Request(operation, document, "m", stream=False))


def dealt(codec: Codec, parts: Sequence[Parts], body: object) -> Sequence[Share | None]:
    """Return the shares of all inputs of `parts` in the answer `body`."""
    inputs = [one for part in parts for one in part.inputs]
    sent = codec.put_together(parts[0], inputs)
    return codec.deal_out(parts[0], inputs, sent, body if isinstance(body, bytes) else orjson.dumps(body))


def whole(shares: Sequence[Share | None]) -> list[Share]:
    """Return the shares; none may be missing."""
    assert all(share is not None for share in shares)
    return [share for share in shares if share is not None]
