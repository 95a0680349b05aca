"""Text, token counts and vectors made from a digest (pure): the provider's whole intelligence.

A token is a word with the space before it. Counting a prompt's tokens is the rule of thumb "four characters
of a Latin script, one character of any other", which is near enough to a real tokenizer to scale with it.
"""

from __future__ import annotations

import hashlib
import math
from array import array

# 64 words, so that one byte picks one; some hold more than one byte a character, to test who cuts UTF-8.
VOCABULARY = (
    "river stone harbor candle signal meadow copper lantern willow anchor summit velvet garden compass "
    "thunder ribbon orchard pebble silver canyon feather marble breeze cedar beacon island pocket winter "
    "ladder saddle mirror timber coral engine basket ocean planet button forest hammer kettle puzzle "
    "rocket spiral tunnel violet wagon yellow zephyr bridge carpet desert fabric guitar helmet jungle "
    "café naïve Zürich 你好 世界 东京 λόγος 🚣"
)
WORDS = tuple(VOCABULARY.split())
SPACED = tuple(f" {word}" for word in WORDS) * 4  # one for each value of a byte
IMAGE_TOKENS = 85
MESSAGE_TOKENS = 4
CHARACTERS_A_TOKEN = 4


def digest(*parts: bytes) -> bytes:
    """Return the seed of everything made for these parts; their boundaries count."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        hashed.update(len(part).to_bytes(8, "little"))
        hashed.update(part)
    return hashed.digest()


def tokens(seed: bytes, count: int) -> list[str]:
    """Return `count` tokens; their concatenation is the text. A longer answer begins with the shorter."""
    words = [SPACED[pick] for pick in hashlib.shake_128(seed).digest(count)]
    if words:
        words[0] = words[0][1:]
    return words


def fraction(seed: bytes) -> float:
    """Return a number in [0, 1) that is the same for the same seed."""
    return int.from_bytes(seed[:6], "little") / 2**48


def count_tokens(text: str) -> int:
    """Return about how many tokens `text` is, at least 1 for any text that is not empty."""
    if text.isascii():
        return -(-len(text) // CHARACTERS_A_TOKEN)
    latin = sum(character < "\u0250" for character in text)
    return len(text) - latin + -(-latin // CHARACTERS_A_TOKEN)


def vector(seed: int, model: str, text: str, dimensions: int) -> array[float]:
    """Return the embedding of `text`: `dimensions` 32-bit floats of Euclidean norm 1.

    It depends on these four values alone, never on a text's neighbours in one call.
    """
    source = digest(str(seed).encode(), model.encode(), text.encode("utf-8", "surrogatepass"))
    raw = array("h", hashlib.shake_128(source).digest(2 * dimensions))
    norm = math.sqrt(sum(value * value for value in raw)) or 1.0
    return array("f", [value / norm for value in raw])
