"""Chat completions of our own making, and what of a conversation they answer (pure).

Shape: https://platform.openai.com/docs/api-reference/chat/object
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import orjson

MAX_CHOICES: Final = 128
"""OpenAI's own bound for `n`."""


def last_user_text(document: dict[str, Any]) -> str | None:
    """Return the text that a chat request ends with; None when its last message is not a user's, or not text.

    Text parts of one message are joined without anything between them.
    """
    messages = document.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    if not isinstance(last, dict) or last.get("role") != "user":
        return None
    content = last.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not content:
        return None
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    whole = [text for text in texts if isinstance(text, str)]
    return "".join(whole) if len(whole) == len(content) else None


def completion_body(model: str, text: str, *, created: int, choices: int = 1) -> bytes:
    """Return a complete chat completion that says `text`, `choices` times. No tokens were used for it.

    `created` is in seconds since the epoch.
    """
    digest = hashlib.blake2b(f"{model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=12)
    return orjson.dumps(
        {
            "id": f"chatcmpl-{digest.hexdigest()}",
            "object": "chat.completion",
            "created": created,
            "model": model,
            "choices": [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": text, "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop",
                }
                for index in range(choices)
            ],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        }
    )
