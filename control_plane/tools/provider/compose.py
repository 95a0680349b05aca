"""What is answered: one completion a choice, from the call and the seed alone (pure)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import orjson

from control_plane.tools.provider.calls import Prompt, TextCall
from control_plane.tools.provider.schemas import sample
from control_plane.tools.provider.settings import ProviderSettings
from control_plane.tools.provider.words import digest, fraction, tokens

PIECE = re.compile(r"\s*\S+|\s+")
JSON_PIECE_CHARACTERS = 4
SAMPLE_WORDS = 64


@dataclass(frozen=True, slots=True)
class Completion:
    """One choice's answer. `pieces` are its tokens, which joined are the text.

    `finish_reason` is stop, length or tool_calls; for the last, the pieces are the tool's arguments.
    """

    pieces: tuple[str, ...]
    finish_reason: str
    tool_name: str = ""
    tool_call_id: str = ""

    @property
    def text(self) -> str:
        """The whole text, or the tool's arguments."""
        return "".join(self.pieces)


def compose(call: TextCall, settings: ProviderSettings) -> tuple[Completion, ...]:
    """Return the completions of `call`, in the order of their index."""
    return tuple(_one(call, prompt, place, settings) for prompt in call.prompts for place in range(call.n))


def mean_length(temperature: float, settings: ProviderSettings) -> float:
    """Return the mean number of tokens of an answer at `temperature`.

    Exponential, because the field report's lengths (42 tokens at 0.2, 78 at 0.8) grow faster than linearly.
    """
    return settings.output_tokens * math.exp(settings.temperature_growth * temperature)


def _one(call: TextCall, prompt: Prompt, place: int, settings: ProviderSettings) -> Completion:
    source = prompt.source if place == 0 else digest(prompt.source, str(place).encode())
    if call.tool is not None:
        arguments = orjson.dumps(sample(call.tool.parameters, _words(source))).decode()
        return Completion(
            _cut(arguments), "tool_calls", call.tool.name, f"call_{digest(source, b'tool').hex()[:24]}"
        )
    if call.schema is not None:
        echoed = _echoed_by_id(prompt.last_text) if settings.answers == "echo" else None
        if echoed is not None:
            return _limited(_cut(echoed), call)
        schema = call.schema or {"properties": {"answer": {"type": "string"}}}
        return _limited(_cut(orjson.dumps(sample(schema, _words(source))).decode()), call)
    if settings.answers == "echo":
        return _limited(tuple(PIECE.findall(prompt.last_text)), call)
    spread = settings.output_spread * (2 * fraction(source) - 1)
    length = max(1, round(mean_length(call.temperature, settings) * (1 + spread)))
    # One more than the limit is enough to tell whether the limit cut the answer short.
    wanted = length if call.max_tokens is None else min(length, call.max_tokens + 1)
    pieces = tuple(tokens(source, wanted))
    if call.echo:
        limit = len(pieces) if call.max_tokens is None else call.max_tokens
        reason = "length" if len(pieces) > limit else "stop"
        return Completion((prompt.last_text, *pieces[:limit]), reason)
    return _limited(pieces, call)


def _echoed_by_id(text: str) -> str | None:
    """Return the answers to questions packed as `[{id, question}, …]`; None if it is no such text."""
    try:
        questions = orjson.loads(text)
        answers = [{"id": one["id"], "answer": one["question"]} for one in questions]
    except (ValueError, TypeError, KeyError):
        return None
    return orjson.dumps({"answers": answers}).decode()


def _limited(pieces: tuple[str, ...], call: TextCall) -> Completion:
    reason = "stop"
    if call.max_tokens is not None and len(pieces) > call.max_tokens:
        pieces, reason = pieces[: call.max_tokens], "length"
    if call.stop:
        text = "".join(pieces)
        ends = [place for place in map(text.find, filter(None, call.stop)) if place >= 0]
        if ends:
            return Completion(_until(pieces, min(ends)), "stop")
    return Completion(pieces, reason)


def _until(pieces: tuple[str, ...], end: int) -> tuple[str, ...]:
    """Return the pieces of the first `end` characters."""
    kept: list[str] = []
    for piece in pieces:
        if end <= 0:
            break
        kept.append(piece[:end])
        end -= len(piece)
    return tuple(kept)


def _words(source: bytes) -> tuple[str, ...]:
    return tuple(token.strip() for token in tokens(source, SAMPLE_WORDS))


def _cut(text: str) -> tuple[str, ...]:
    return tuple(
        text[start : start + JSON_PIECE_CHARACTERS] for start in range(0, len(text), JSON_PIECE_CHARACTERS)
    )
