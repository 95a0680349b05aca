"""Which answers are good."""

import orjson
import pytest

from control_plane.tools.load.calls import Operation
from control_plane.tools.load.verdicts import NO_ANSWER, judged, used
from tests.unit.control_plane.tools.load.runs import question


def test_a_whole_answer_is_good() -> None:
    """Its tokens are read."""
    body = orjson.dumps({"choices": [{}], "usage": {"prompt_tokens": 3, "completion_tokens": 7}})
    verdict = judged(question(), 200, body)
    assert (verdict.good, verdict.result, verdict.prompt_tokens, verdict.completion_tokens) == (
        True,
        "200",
        3,
        7,
    )


def test_another_status_is_its_own_result() -> None:
    """Whatever the body says."""
    assert judged(question(), 429, b'{"choices":[{}]}').result == "429"


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"choices":[]}', b'{"choices":{}}', b'{"choices":[1]}']
)
def test_a_200_without_an_answer_is_none(body: bytes) -> None:
    """A proxy's friendly page is no success."""
    verdict = judged(question(), 200, body)
    assert (verdict.good, verdict.result) == (False, NO_ANSWER)


@pytest.mark.parametrize(
    ("indexes", "good"), [([0, 1], True), ([1, 0], False), ([0], False), ([0, 1, 2], False), ([0, 0], False)]
)
def test_a_batch_must_match_by_index_and_number(indexes: list[int], good: bool) -> None:
    """Else somebody would get another's answer."""
    call = question(Operation.EMBEDDINGS, questions=2)
    body = orjson.dumps({"data": [{"index": index} for index in indexes]})
    assert judged(call, 200, body).good is good


@pytest.mark.parametrize("usage", [None, [], {"prompt_tokens": "7", "completion_tokens": True}, {}])
def test_usage_that_is_none_counts_nothing(usage: object) -> None:
    """Whatever stands there."""
    assert used(usage) == (0, 0)
