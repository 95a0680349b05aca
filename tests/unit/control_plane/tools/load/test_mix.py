"""Where calls come from."""

from itertools import islice

import orjson
import pytest

from control_plane.tools.load.calls import Operation
from control_plane.tools.load.mix import PromptMix, WrongMix, read_mix


def test_every_question_of_a_prompt_differs() -> None:
    """By its number; generators number theirs apart."""
    mix = PromptMix(Operation.CHAT, "m", "say {n}", stream=True, max_tokens=4)
    bodies = [orjson.loads(one.content) for one in islice(mix.calls(7, 2), 2)]
    assert [body["messages"][0]["content"] for body in bodies] == ["say 7", "say 9"]
    assert bodies[0]["stream"] is True
    assert bodies[0]["max_tokens"] == 4


def test_the_lines_of_a_file_are_sent_in_turn() -> None:
    """As they are; a model is set only where a line names none."""
    text = b'{"model":"own","input":"a"}\n\n{"messages":[{"role":"user","content":"b"}],"x":1}\n'
    calls = list(islice(read_mix(text, "m").calls(1), 3))
    assert [one.operation for one in calls] == [Operation.CHAT, Operation.EMBEDDINGS, Operation.CHAT]
    assert orjson.loads(calls[0].content) == {
        "messages": [{"role": "user", "content": "b"}],
        "x": 1,
        "model": "m",
    }
    assert orjson.loads(calls[1].content)["model"] == "own"


def test_streams_are_asked_for_where_there_can_be_one() -> None:
    """Embeddings stay as they are."""
    mix = read_mix(b'{"input":"a"}\n{"prompt":"b"}', "m", stream=True)
    assert [one.stream for one in islice(mix.calls(0), 2)] == [False, True]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b"", "holds no request"),
        (b"\n \n", "holds no request"),
        (b'{"prompt":"a"}\nnonsense', "line 2 is no JSON"),
        (b"[]", "line 1 has none of messages, input and prompt"),
        (b'\n{"model":"m"}', "line 2 has none of messages, input and prompt"),
    ],
)
def test_what_is_no_mix_names_the_line(text: bytes, told: str) -> None:
    """Before a single call is made."""
    with pytest.raises(WrongMix, match=told):
        read_mix(text, "m")
