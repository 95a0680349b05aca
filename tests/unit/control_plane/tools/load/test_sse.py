"""Reading streams."""

from itertools import pairwise

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from control_plane.tools.load.sse import StreamReader


def event(**choice: object) -> bytes:
    """Return one event with a choice."""
    return b"data: " + orjson.dumps({"choices": [choice]}) + b"\n\n"


ROLE = event(delta={"role": "assistant", "content": ""})
ONE, TWO = event(delta={"content": "a"}), event(delta={"content": "b"})
END = event(delta={}, finish_reason="stop")
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":2,"completion_tokens":9}}\r\n\r\n'
DONE = b"data: [DONE]\n\n"


def test_the_first_text_and_the_gaps_behind_it() -> None:
    """The role alone is no text; the end is no piece."""
    reader = StreamReader()
    for moment, data in enumerate([ROLE, ONE, TWO, TWO, END, USAGE, DONE]):
        reader.feed(data, float(moment))
    verdict = reader.verdict()
    assert (reader.first, reader.gaps) == (1.0, [1.0, 1.0])
    assert (verdict.good, verdict.prompt_tokens, verdict.completion_tokens) == (True, 2, 9)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 300), max_size=12))
def test_it_does_not_matter_how_bytes_are_split(cuts: list[int]) -> None:
    """Pieces and tokens are the same however the network cuts."""
    whole = b": hello\n\n" + ROLE + ONE + TWO + END + USAGE + DONE
    reader = StreamReader()
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    for start, end in pairwise(edges):
        reader.feed(whole[start:end], 1.0)
    assert reader.verdict().good
    assert (len(reader.gaps), reader.verdict().completion_tokens) == (1, 9)


@pytest.mark.parametrize(
    ("data", "good"),
    [
        (ONE + END, True),
        (event(text="a") + DONE, True),
        (ONE, False),
        (b"", False),
        (ONE + b'data: {"error":{"message":"x"}}\n\n' + DONE, False),
        (ONE + b"data: nonsense\n\n" + DONE, False),
        (b'data: {"choices":[1]}\n\n' + DONE, True),
        (b'data: {"choices":1}\n\n' + DONE, True),
        (b'data: {"choices":[{"delta":[1]}]}\n\n' + DONE, True),
    ],
)
def test_a_stream_is_good_when_it_came_to_its_end(data: bytes, good: bool) -> None:
    """A cut one is none, nor one that holds an error."""
    reader = StreamReader()
    reader.feed(data, 0.0)
    assert reader.verdict().good is good
