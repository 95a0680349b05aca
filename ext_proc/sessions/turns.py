"""A conversation put together from its session, and the turn that it adds (pure).

Messages: https://platform.openai.com/docs/api-reference/chat/create. They go up again as they came, except
the assistant's: of those only what a request may hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final

from ext_proc.openai.documents import InvalidDocument, decode, encode
from ext_proc.openai.usage import estimate_tokens
from ext_proc.sessions.records import MAX_BYTES, Opened

Message = dict[str, Any]
Messages = tuple[Message, ...]

# Tuples: a role may be anything, also what no set can be asked for.
_SYSTEM: Final = ("system", "developer")
_RESULTS: Final = ("tool", "function")
# What answers hold besides (annotations, reasoning, log probabilities) some providers refuse in a request.
_SENT_BACK: Final = ("content", "refusal", "name", "tool_calls", "function_call")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, `system` being the prompt that it was asked under. Open: it waits for results of tools."""

    number: int
    system: Messages
    messages: Messages

    @property
    def awaits(self) -> frozenset[str]:
        """The tool calls that the turn ends with, by their ids; a function's has only its name."""
        return _called(self.messages[-1]) if self.messages else frozenset()


@dataclass(frozen=True, slots=True)
class Conversation:
    """One request within its session: what the session adds before it, and its turn so far."""

    number: int
    system: Messages
    past: Messages
    turn: Messages

    @property
    def messages(self) -> list[Message]:
        """What goes up."""
        return [*self.system, *self.past, *self.turn]

    def record(self, answer: Message) -> bytes:
        """Return the turn with its answer as it is kept; one that is too long is empty."""
        record = encode({"system": list(self.system), "messages": [*self.turn, answer]})
        return record if len(record) <= MAX_BYTES else b""


def read_messages(document: Message) -> Messages | None:
    """Return the messages of a chat request; None when they are no conversation that we can read."""
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(one, dict) for one in messages):
        return None
    return tuple(messages)


def continued(opened: Opened, asked: Messages, turns: int, max_tokens: int | None) -> Conversation:
    """Return the conversation that `asked`, the new messages, goes on with.

    Up go the system prompt (theirs, else the session's), the last `turns` turns and the new messages. Where
    that is more than `max_tokens`, by estimate, turns are left out whole, the oldest first. Results of tools
    go on with the turn that called them.
    """
    earlier = [read_turn(number, record) for number, record in opened.records]
    own = tuple(takewhile(lambda message: message.get("role") in _SYSTEM, asked))
    system = own or next((turn.system for turn in reversed(earlier) if turn.system), ())
    number, turn = opened.number, asked[len(own) :]
    results = _answered(turn)
    for open_turn in reversed(earlier):
        if results & open_turn.awaits:
            number, turn = open_turn.number, _joined(open_turn.messages, turn)
            break
    past = [one for one in earlier if one.number != number and not one.awaits]
    chosen = _latest(past, turns, max_tokens, (*system, *turn))
    return Conversation(number, system, chosen, turn)


def answer_message(body: bytes) -> Message | None:
    """Return the message of a completion's first choice as a later request may hold it; None without one."""
    try:
        choices = decode(body).get("choices")
    except InvalidDocument:
        return None
    if not isinstance(choices, list):
        return None
    first = next((one for one in choices if isinstance(one, dict) and not one.get("index")), None)
    message = first.get("message") if first is not None else None
    if not isinstance(message, dict):
        return None
    kept = {name: value for name in _SENT_BACK if (value := message.get(name))}
    audio = message.get("audio")
    if isinstance(audio, dict) and audio.get("id"):
        kept["audio"] = {"id": audio["id"]}
    if "tool_calls" not in kept and "function_call" not in kept and "audio" not in kept:
        kept.setdefault("content", "" if "refusal" not in kept else None)
    return {"role": "assistant", "content": None, **kept}


def read_turn(number: int, record: bytes) -> Turn:
    """Return what `record` holds; a turn without messages when it is none that we can read."""
    try:
        document = decode(record)
    except InvalidDocument:
        return Turn(number, (), ())
    system, messages = document.get("system"), read_messages(document)
    if messages is None or not isinstance(system, list) or not all(isinstance(one, dict) for one in system):
        return Turn(number, (), ())
    return Turn(number, tuple(system), messages)


def _latest(past: Sequence[Turn], turns: int, max_tokens: int | None, always: Messages) -> Messages:
    room = None if max_tokens is None else max_tokens - _tokens(always)
    chosen: list[Turn] = []
    for turn in reversed(past[-turns:]):
        if not turn.messages:
            break  # without it, what came before would be answered by what came after
        if room is not None:
            room -= _tokens(turn.messages)
            if room < 0:
                break
        chosen.append(turn)
    return tuple(message for turn in reversed(chosen) for message in turn.messages)


def _tokens(messages: Iterable[Message]) -> int:
    return sum(estimate_tokens(len(encode(message))) for message in messages)


def _joined(earlier: Messages, asked: Messages) -> Messages:
    """Return a turn that goes on: a caller may say its calls again, or all of it from the start."""
    first = asked[0].get("role")
    if first in _RESULTS:
        return earlier + asked
    return earlier[:-1] + asked if first == "assistant" else asked


def _called(message: Message) -> frozenset[str]:
    if message.get("role") != "assistant":
        return frozenset()
    calls, function = message.get("tool_calls"), message.get("function_call")
    ids = [one.get("id") for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    if isinstance(function, dict):
        ids.append(_function(function.get("name")))
    return frozenset(one for one in ids if isinstance(one, str))


def _answered(messages: Messages) -> frozenset[str]:
    ids = [
        message.get("tool_call_id") if message.get("role") == "tool" else _function(message.get("name"))
        for message in messages
        if message.get("role") in _RESULTS
    ]
    return frozenset(one for one in ids if isinstance(one, str))


def _function(name: object) -> str:
    return f"function:{name}"
