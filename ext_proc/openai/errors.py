"""Error bodies in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}` (pure)."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

import orjson

MAX_MESSAGE_CHARS: Final = 1_000
# C0, DEL and C1 controls, line and paragraph separators, and the marks that reorder text on a terminal.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


class ErrorType(StrEnum):
    """The `type` values that OpenAI's own API answers with.

    401, 403, 404, 413 and 415 are `invalid_request_error` there too, told apart by status and code;
    a rate limit names what ran out.
    """

    INVALID_REQUEST = "invalid_request_error"
    REQUESTS = "requests"
    TOKENS = "tokens"
    BUDGET = "insufficient_quota"
    SERVER = "server_error"


class ErrorCode(StrEnum):
    """The `code` values of our own answers."""

    INVALID_API_KEY = "invalid_api_key"
    MODEL_NOT_FOUND = "model_not_found"
    UNKNOWN_URL = "unknown_url"
    RATE_LIMIT_EXCEEDED = "rate_limit_exceeded"
    BUDGET_EXCEEDED = "budget_exceeded"
    SHED = "shed"
    INVALID_JSON = "invalid_json"
    DUPLICATE_KEY = "duplicate_key"
    INVALID_TYPE = "invalid_type"
    INVALID_VALUE = "invalid_value"
    MISSING_PARAMETER = "missing_required_parameter"
    UNSUPPORTED_PARAMETER = "unsupported_parameter"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    UNSUPPORTED_ENCODING = "unsupported_content_encoding"


def error_body(
    message: str, type: str = ErrorType.INVALID_REQUEST, param: str | None = None, code: str | None = None
) -> bytes:
    """Return one error as JSON. Control characters in the texts become spaces; long ones are cut."""
    error = {
        "message": plain_text(message),
        "type": str(type),
        "param": None if param is None else plain_text(param),
        "code": None if code is None else plain_text(code),
    }
    return orjson.dumps({"error": error})


def plain_text(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """Return `text` on one line, without control characters, at most `limit` characters long."""
    clean = _UNSAFE.sub(" ", text)
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
