"""Parsed calls for tests, with what does not matter filled in."""

from __future__ import annotations

from typing import Any

from control_plane.tools.provider.calls import TextCall, parse_chat, parse_completion
from control_plane.tools.provider.wire.messages import Request


def chat(content: object = "hi", *, seed: int = 0, **more: Any) -> TextCall:
    """Return a chat call with one user message, or the messages in `more`."""
    body = {"model": "m", "messages": [{"role": "user", "content": content}], **more}
    return parse_chat(body, path_model="", seed=seed, conversations=True, most=0)


def completion(prompt: object = "hi", **more: Any) -> TextCall:
    """Return a completions call."""
    return parse_completion({"model": "m", "prompt": prompt, **more}, path_model="", seed=0)


def request(path: str = "/v1/chat/completions", *, method: str = "POST", **more: Any) -> Request:
    """Return an HTTP request."""
    values: dict[str, Any] = {"query": "", "headers": (), "body": b"", "http_version": "1.1", "connection": 1}
    return Request(method=method, path=path, **{**values, **more})
