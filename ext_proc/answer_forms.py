"""One answer in the form that a caller asked for: JSON, or a stream with or without the usage.

And which answers have a form that we can read at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from ext_proc.answers import StoredAnswer
from ext_proc.exchange import Exchange
from ext_proc.openai.replays import replay
from ext_proc.openai.requests import Request
from ext_proc.openai.responses import parse_completion

JSON: Final = "application/json"
STREAM_TYPE: Final = "text/event-stream"
EVENT_STREAM: Final = f"{STREAM_TYPE}; charset=utf-8"

# A longer answer is passed on unread: somebody would have to hold it whole.
READ_AT_MOST_BYTES: Final = 24 * 1024 * 1024


# One document, and not documents one after the other, which are shown as they come.
_DOCUMENT: Final = re.compile(r"[^;]*(?:/json|(?<!/stream)\+json)[ \t]*(?:;|$)")


@lru_cache(maxsize=256)
def is_document(media_type: str) -> bool:
    """Whether a body of that type (lower case) is one JSON document."""
    return _DOCUMENT.match(media_type) is not None


def is_readable(status: int, headers: Mapping[str, str]) -> bool:
    """Whether an answer can be read and shared: a 200 whose body is not coded."""
    return status == 200 and headers.get("content-encoding", "identity") == "identity"


class Form(Enum):
    """In which form a caller wants an answer."""

    JSON = auto()
    STREAM = auto()
    STREAM_WITH_USAGE = auto()


def form_of(exchange: Exchange) -> Form:
    """Return the form that the exchange's caller asked for."""
    request = exchange.parsed
    if not request.stream:
        return Form.JSON
    options = request.document.get("stream_options")
    asked = isinstance(options, dict) and options.get("include_usage")
    return Form.STREAM_WITH_USAGE if asked and not exchange.hides_usage else Form.STREAM


def is_answer(request: Request, stored: StoredAnswer) -> bool:
    """Whether what somebody has kept is an answer to `request` that may be kept."""
    completion = parse_completion(request.operation, stored.body)
    return completion is not None and completion.answers_all_of(request)


def in_form(
    exchange: Exchange, form: Form, body: bytes, content_type: str, *, pieces: int = 1
) -> tuple[bytes, str]:
    """Return body and content type of the JSON answer `body` in `form`; the text of a stream in `pieces`.

    Raises:
        NotJoinable: it is to be a stream, and is no completion.
    """
    if form is Form.JSON:
        return body, content_type
    usage = form is Form.STREAM_WITH_USAGE
    events = replay(exchange.parsed.operation, body, include_usage=usage, pieces=pieces)
    return b"".join(events), EVENT_STREAM
