"""Prompts that no cache knows, of a wanted length (pure).

Each begins with a fresh number, so that neither a cache of answers nor a provider's cache of prefixes has it.
"""

from __future__ import annotations

import random
from typing import Final

CHARACTERS_A_TOKEN: Final = 4
FRAME_TOKENS: Final = 4  # of a message, whatever it says
_VOCABULARY: Final = (
    "river stone harbor candle signal meadow copper lantern willow anchor summit velvet garden compass "
    "thunder ribbon orchard pebble silver canyon feather marble breeze cedar beacon island pocket winter"
)
_WORDS: Final = tuple(_VOCABULARY.split())


def short(randomness: random.Random) -> str:
    """Return a prompt of a few tokens."""
    return f"{_number(randomness)} Reply with one word."


def long(tokens: int, randomness: random.Random) -> str:
    """Return a prompt of about `tokens` tokens that asks for next to nothing."""
    filler = " ".join(randomness.choices(_WORDS, k=max(1, tokens * CHARACTERS_A_TOKEN // 5)))
    room = max(0, tokens * CHARACTERS_A_TOKEN - 48)
    return f"{_number(randomness)} {filler[:room]}\nReply with one word."


def telling(randomness: random.Random) -> str:
    """Return a prompt whose answer takes as many words as the model likes."""
    one, other = randomness.sample(_WORDS, k=2)
    return f"{_number(randomness)} Write a short paragraph about a {one} and a {other}."


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a message with `text` is."""
    return -(-len(text) // CHARACTERS_A_TOKEN) + FRAME_TOKENS


def _number(randomness: random.Random) -> str:
    return f"{randomness.getrandbits(48):012x}"
