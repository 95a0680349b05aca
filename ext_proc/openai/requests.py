"""Reading a caller's chat, completions or embeddings request, and its identity for the cache (pure).

Strict about what every policy relies on (one JSON object, no key twice, `model`, `stream`), silent about
the rest: that is the provider's business. The document never changes a value the caller wrote.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from ext_proc.openai.documents import InvalidDocument, decode, encode
from ext_proc.openai.errors import ErrorCode
from ext_proc.openai.paths import Operation

__all__ = ["BadRequest", "Request", "cache_key", "encode", "parse_request", "read_number"]

MAX_MODEL_CHARS: Final = 512
# Top-level fields that change neither the answer nor what it costs; every other field splits the key.
IRRELEVANT: Final = ("model", "user", "stream", "stream_options", "metadata", "store")


class BadRequest(Exception):
    """A request that is answered with an error instead of being sent on.

    `status`, `message`, `param` and `code` are those of OpenAI's error (`errors.error_body`).
    """

    def __init__(
        self, status: int, message: str, param: str | None = None, code: ErrorCode = ErrorCode.INVALID_VALUE
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code


@dataclass(slots=True)
class Request:
    """One parsed request. `document` may be changed in place; send `encode(document)` then."""

    operation: Operation
    document: dict[str, Any]
    model: str
    stream: bool


def parse_request(
    operation: Operation, body: bytes, content_type: str | None, content_encoding: str | None
) -> Request:
    """Read the body of a chat, completions or embeddings request.

    Args:
        operation: which of the three.
        body: the whole body as it came.
        content_type: the header's value, None when absent.
        content_encoding: the header's value, None when absent.

    Raises:
        BadRequest: 415 for another media type or a coded body, 400 for anything that is not one JSON object
            with a usable `model` and `stream`. Its message holds no text of the caller's prompt.
    """
    if content_encoding is not None:
        _check_encoding(content_encoding)
    if content_type != "application/json":
        _check_type(content_type)
    try:
        document = decode(body)
    except InvalidDocument as error:
        raise BadRequest(400, error.message, error.key, error.code) from error
    model = document.get("model")
    if model.__class__ is not str or not model or len(model) > MAX_MODEL_CHARS or not model.isprintable():
        raise _bad_model(model, "model" in document)
    stream = document.get("stream")
    if stream is not None and stream is not True and stream is not False:
        raise BadRequest(400, "'stream' must be true or false.", "stream", ErrorCode.INVALID_TYPE)
    # Embeddings are never streamed, whatever the caller says; the field goes up as it is.
    return Request(operation, document, model, stream is True and operation is not Operation.EMBEDDINGS)


def read_number(document: dict[str, Any], name: str) -> float | None:
    """Return the number at the top-level field `name`; None when it is absent or null.

    For a policy that bounds it: a text such as "0.9" that a lenient provider would read as a number must
    not slip past the bound.

    Raises:
        BadRequest: 400, the field is not a number.
    """
    value = document.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest(400, f"'{name}' must be a number.", name, ErrorCode.INVALID_TYPE)
    return value


def cache_key(tenant: str, model_version: str, request: Request) -> bytes:
    """Return the identity of the request's answer: 32 bytes.

    Args:
        tenant: who may share the answer ("" for all).
        model_version: what gives the answer; stands in the place of `model`.
        request: as it goes upstream, after every change a policy makes.

    Key order and white space do not matter; `1`, `1.0` and `true` differ.
    """
    document = request.document.copy()
    for name in IRRELEVANT:
        document.pop(name, None)
    scope = f"{len(tenant)}:{tenant}{len(model_version)}:{model_version}{request.operation}".encode(
        "utf-8", "surrogatepass"
    )
    return hashlib.sha256(scope + encode(document, sort_keys=True)).digest()


def _check_encoding(content_encoding: str) -> None:
    codings = {part.strip().lower() for part in content_encoding.split(",")}
    if codings - {"", "identity"}:
        raise BadRequest(
            415,
            "A coded request body (Content-Encoding) is not accepted; send it without.",
            code=ErrorCode.UNSUPPORTED_ENCODING,
        )


def _check_type(content_type: str | None) -> None:
    media_type, _, parameters = (content_type or "").partition(";")
    main, _, sub = media_type.strip().lower().partition("/")
    if main != "application" or not (sub == "json" or (sub.endswith("+json") and len(sub) > len("+json"))):
        raise BadRequest(
            415, "The Content-Type must be application/json.", code=ErrorCode.UNSUPPORTED_MEDIA_TYPE
        )
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in {"utf-8", "utf8"}:
            raise BadRequest(
                415, "The charset of the body must be utf-8.", code=ErrorCode.UNSUPPORTED_MEDIA_TYPE
            )


def _bad_model(model: object, given: bool) -> BadRequest:
    if not given:
        return BadRequest(400, "You must provide a 'model'.", "model", ErrorCode.MISSING_PARAMETER)
    if not isinstance(model, str):
        return BadRequest(400, "'model' must be a text.", "model", ErrorCode.INVALID_TYPE)
    if not model:
        return BadRequest(400, "'model' must not be empty.", "model")
    if len(model) > MAX_MODEL_CHARS:
        return BadRequest(400, f"'model' is longer than {MAX_MODEL_CHARS} characters.", "model")
    return BadRequest(400, "'model' holds characters that cannot be printed.", "model")
