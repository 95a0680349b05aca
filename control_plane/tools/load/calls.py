"""Calls: what is sent, and where (pure). https://platform.openai.com/docs/api-reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit

import orjson


class Operation(StrEnum):
    """What is asked for."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    EMBEDDINGS = "embeddings"

    @property
    def path(self) -> str:
        """The path below the base URL."""
        return "chat/completions" if self is Operation.CHAT else self.value


@dataclass(frozen=True, slots=True)
class Call:
    """One request: `content` is its body, `questions` how many answers it must bring."""

    operation: Operation
    content: bytes
    stream: bool = False
    questions: int = 1


class WrongUrl(ValueError):
    """The URL cannot be called; the message says what to write."""


def base_url(text: str) -> str:
    """Return the base URL that `text` means, without a slash at its end.

    `http://HOST:PORT` gets `/v1`; the path of one of the operations is cut off.

    Raises:
        WrongUrl: it is no http(s) URL, or holds what would show in reports (a password, a query).
    """
    wrong = WrongUrl("is not http://HOST:PORT/v1 or https://HOST/v1")
    try:
        parts = urlsplit(text.strip())
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        raise wrong from None
    if not good or not text.isprintable() or " " in text.strip():
        raise wrong
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise WrongUrl("holds more than an address and a path; a key belongs into OPENAI_API_KEY")
    path = parts.path.rstrip("/")
    for operation in Operation:
        path = path.removesuffix(f"/{operation.path}")
    return f"{parts.scheme}://{parts.netloc}{path or '/v1'}"


def guessed_operation(model: str) -> Operation:
    """Return what a model of that name is for."""
    return Operation.EMBEDDINGS if "embed" in model.lower() else Operation.CHAT


def operation_of(body: Mapping[str, Any]) -> Operation | None:
    """Return what a request body asks for, None when no operation takes it."""
    if "messages" in body:
        return Operation.CHAT
    if "input" in body:
        return Operation.EMBEDDINGS
    return Operation.COMPLETIONS if "prompt" in body else None


def asking(operation: Operation, model: str, text: str, *, max_tokens: int | None = None) -> dict[str, Any]:
    """Return the body that asks one question."""
    body: dict[str, Any] = {"model": model}
    if operation is Operation.CHAT:
        body["messages"] = [{"role": "user", "content": text}]
    elif operation is Operation.COMPLETIONS:
        body["prompt"] = text
    else:
        body["input"] = text
    if max_tokens is not None and operation is not Operation.EMBEDDINGS:
        body["max_tokens"] = max_tokens
    return body


def call(operation: Operation, body: Mapping[str, Any], questions: int = 1) -> Call:
    """Return the call of a body."""
    return Call(operation, orjson.dumps(body), body.get("stream") is True, questions)
