"""Request bodies: bounded while they are read, of a known type, parsed without holding up the loop."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import parse_qs

from fastapi import Request
from pydantic import BaseModel, ValidationError

from control_plane.api.errors import RefusedRequestError
from control_plane.resources.loading import MAX_BYTES, RawDocument, read_text
from control_plane.resources.problems import InvalidDocumentsError, Problem

M = TypeVar("M", bound=BaseModel)

JSON_TYPES: Final = frozenset({"application/json"})
YAML_TYPES: Final = frozenset(
    {"application/yaml", "application/x-yaml", "application/vnd.yaml", "text/yaml", "text/x-yaml"}
)
FORM_TYPE: Final = "application/x-www-form-urlencoded"
MAX_ORDER_BYTES: Final = 1024 * 1024
MAX_FORM_BYTES: Final = 64 * 1024
# Up to here parsing is quicker than a change of threads.
_INLINE_BYTES: Final = 32 * 1024
_PARSING_AT_ONCE: Final = 2
_PLAIN: Final = re.compile(r"[A-Za-z]{1,32}")


class Bodies:
    """Reads the bodies of one application; few large ones at the same time."""

    def __init__(self) -> None:
        self._parsing = asyncio.Semaphore(_PARSING_AT_ONCE)

    async def documents(self, request: Request) -> list[RawDocument]:
        """Return the documents of a JSON or YAML body: one, a list, or a YAML stream of many.

        Raises:
            RefusedRequestError: too large (413), another type (415), unparsable or empty (400).
        """
        media = media_type(request)
        if media is not None and media not in JSON_TYPES | YAML_TYPES:
            raise _wrong_type("application/json or application/yaml")
        content = await read_body(request, MAX_BYTES)
        source = "body.json" if media in JSON_TYPES else "body"
        found = await self._parse(content, source)
        if not found:
            raise RefusedRequestError(400, "the body holds no document")
        return found

    async def order(
        self,
        request: Request,
        model: type[M],
        *,
        optional: bool = False,
        max_bytes: int = MAX_ORDER_BYTES,
    ) -> M:
        """Return a JSON body as `model`; with `optional` no body is an empty one.

        Raises:
            RefusedRequestError: too large (413), another type (415), unparsable (400), wrong (422).
        """
        content = await read_body(request, max_bytes)
        if optional and not content.strip():
            return _validated(model, {})
        if media_type(request) not in JSON_TYPES:
            raise _wrong_type("application/json")
        try:
            found = await self._parse(content, "body.json", _read_object)
        except RecursionError:
            raise RefusedRequestError(400, "the body is nested too deeply") from None
        return _validated(model, found[0].value if found else None)

    async def _parse(
        self, content: bytes, source: str, read: Callable[[bytes, str], list[RawDocument]] = read_text
    ) -> list[RawDocument]:
        try:
            if len(content) <= _INLINE_BYTES:
                return read(content, source)
            async with self._parsing:
                return await asyncio.to_thread(read, content, source)
        except InvalidDocumentsError as refused:
            errors = [Problem("", "", item.message, item.place) for item in refused.problems]
            where = f" (line {line})" if (line := errors[0].place.rpartition(":")[2]).isdigit() else ""
            raise RefusedRequestError(400, f"the body {errors[0].message}{where}", errors) from None


def _read_object(content: bytes, source: str) -> list[RawDocument]:
    """Read one JSON value; a list at its top is refused, since `read_text` would take it apart.

    How large it may be is said by who has read it.
    """
    if content.lstrip()[:1] == b"[":
        return [RawDocument([], source)]
    return read_text(content, source, len(content))


def _validated(model: type[M], value: Any) -> M:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        errors = [
            Problem("", _place(item["loc"]), _message(item["type"], item["msg"]))
            for item in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise RefusedRequestError(
            422, "the body does not have the form that /docs describes; each error is in `errors`", errors
        ) from None


def _place(path: tuple[str | int, ...]) -> str:
    """Return where an error is; what is no name of ours is not repeated, it may be a pasted secret."""
    parts = (str(part) if isinstance(part, int) or _PLAIN.fullmatch(part) else "?" for part in path)
    return ".".join(parts)


def _message(kind: str, message: str) -> str:
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "is no field of this body"
    text = message.removeprefix("Value error, ").replace("Input should", "must", 1)
    return text[:1].lower() + text[1:]


async def form(request: Request) -> dict[str, str]:
    """Return the fields of a submitted form.

    Raises:
        RefusedRequestError: too large (413), another type (415).
    """
    if media_type(request) != FORM_TYPE:
        raise _wrong_type(FORM_TYPE)
    content = await read_body(request, MAX_FORM_BYTES)
    try:
        found = parse_qs(content.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        raise RefusedRequestError(400, "the form has too many fields") from None
    return {name: values[-1] for name, values in found.items()}


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body, of which no more than `limit` bytes are ever kept.

    Raises:
        RefusedRequestError: it is longer (413), or coded (415).
    """
    coding = request.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("identity", ""):
        raise RefusedRequestError(
            415,
            "the body must not be compressed: send it without content-encoding",
            headers={"accept-encoding": "identity"},
        )
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit:
        raise _too_large(limit)
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limit:
            raise _too_large(limit)
    return bytes(content)


def media_type(request: Request) -> str | None:
    """Return the body's media type in lower case, None when none is named.

    Raises:
        RefusedRequestError: it names a character set that is not UTF-8 (415).
    """
    header = request.headers.get("content-type")
    if header is None or not header.strip():
        return None
    kind, *parameters = (part.strip().lower() for part in header.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "charset" and value.strip(' "') not in ("utf-8", "utf8", "us-ascii"):
            raise RefusedRequestError(415, "the body must be UTF-8")
    return kind


def _wrong_type(wanted: str) -> RefusedRequestError:
    return RefusedRequestError(
        415,
        f"the body must be {wanted}; say so in content-type",
        headers={"accept": wanted.replace(" or ", ", ")},
    )


def _too_large(limit: int) -> RefusedRequestError:
    # The rest is not read: whoever sends it finds the connection closed.
    text = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit >> 10} KiB"
    return RefusedRequestError(413, f"the body is larger than {text}", headers={"connection": "close"})
