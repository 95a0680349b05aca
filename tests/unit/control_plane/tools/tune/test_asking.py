"""Questions and the calls that ask them."""

from itertools import islice

import orjson
import pytest

from control_plane.tools.load.calls import Operation
from control_plane.tools.load.mix import WrongMix
from control_plane.tools.tune.asking import from_file, from_prompt, natural_method
from control_plane.tools.tune.settings import Method


@pytest.mark.parametrize(
    ("operation", "field", "method"),
    [
        (Operation.CHAT, "messages", Method.ARRAY),
        (Operation.COMPLETIONS, "prompt", Method.NATIVE),
        (Operation.EMBEDDINGS, "input", Method.NATIVE),
    ],
)
def test_a_batch_is_a_list_of_what_single_calls_ask(operation: Operation, field: str, method: Method) -> None:
    """With the same parameters."""
    questions = from_prompt(operation, "m", "say {n}", 5)
    items = list(islice(questions.asked(3), 2))
    first = orjson.loads(questions.single(items[0]).content)
    call = questions.batch(items)
    batch = orjson.loads(call.content)
    assert batch[field] == items
    assert first[field] == items[0]
    assert {name: value for name, value in batch.items() if name != field} == {
        name: value for name, value in first.items() if name != field
    }
    assert (call.questions, call.operation) == (2, operation)
    assert b"say 3" in orjson.dumps(items[0])
    assert natural_method(operation) is method


def test_questions_of_a_file_come_in_turn() -> None:
    """With the parameters of their lines."""
    line = '{"messages":[{"role":"user","content":"%s"}],"temperature":0}'
    questions = from_file("\n".join([line % "a", "", line % "b"]).encode(), "m")
    texts = [item[0]["content"] for item in islice(questions.asked(0), 3)]
    assert texts == ["a", "b", "a"]
    assert questions.parameters == {"temperature": 0, "model": "m"}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "holds no request"),
        ("nonsense", "line 1 is no JSON"),
        ('{"model":"m"}', "line 1 has none of"),
        ('{"prompt":"a"}\n{"prompt":"b","temperature":1}', "line 2 has other parameters"),
        ('{"prompt":"a"}\n{"input":"b"}', "line 2 has other parameters"),
        ('{"prompt":"a","stream":true}', "line 1 has stream"),
        ('{"prompt":"a","n":2}', "line 1 has n"),
        ('{"input":["a","b"]}', "line 1 asks several questions"),
    ],
)
def test_what_cannot_share_a_call_is_told(text: str, told: str) -> None:
    """With its line."""
    with pytest.raises(WrongMix, match=told):
        from_file(text.encode(), "m")
