"""Answers come from the request and the seed, as long as temperature and limits make them."""

from __future__ import annotations

import json
import statistics

import pytest

from control_plane.tools.provider.compose import compose, mean_length
from control_plane.tools.provider.settings import ProviderSettings
from tests.unit.control_plane.tools.provider.requests import chat, completion

SETTINGS = ProviderSettings()


@pytest.mark.parametrize(("temperature", "length"), [(0.2, 42), (0.8, 78)])
def test_length_grows_with_temperature(temperature: float, length: int) -> None:
    """The field report's lengths: 42 tokens at 0.2, 78 at 0.8, around which answers spread."""
    assert round(mean_length(temperature, SETTINGS)) == length
    lengths = [
        len(compose(chat(f"question {number}", temperature=temperature), SETTINGS)[0].pieces)
        for number in range(300)
    ]
    assert abs(statistics.mean(lengths) - length) < 1
    assert 0.89 * length <= min(lengths) < max(lengths) <= 1.11 * length


def test_deterministic_by_seed() -> None:
    """The same request and seed give the same answer, streamed or not; another seed another."""
    assert compose(chat(), SETTINGS) == compose(chat(stream=True), SETTINGS)
    assert compose(chat(), SETTINGS) != compose(chat(seed=1), SETTINGS)


def test_choices_differ() -> None:
    """Several choices of one request are different answers, and the first is the one of n = 1."""
    choices = compose(chat(n=3), SETTINGS)
    assert len({choice.text for choice in choices}) == 3


def test_limit() -> None:
    """max_tokens cuts the answer and says so."""
    whole = compose(chat(max_tokens=1000), SETTINGS)[0]
    cut = compose(chat(max_tokens=1000, stop=None), ProviderSettings(output_tokens=5000))[0]
    assert whole.finish_reason == "stop"
    assert (cut.finish_reason, len(cut.pieces)) == ("length", 1000)


def test_stop_sequence() -> None:
    """The answer ends before a stop sequence, wherever in a token that is."""
    text = compose(chat(stop="\0"), SETTINGS)[0].text
    echo = ProviderSettings(answers="echo")
    stopped = compose(chat("one two three", stop="wo"), echo)[0]
    assert text
    assert (stopped.text, stopped.finish_reason) == ("one t", "stop")


def test_tool_call() -> None:
    """A demanded tool call has arguments that fit the schema, and is the same each time."""
    tool = {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    }
    call = chat(tools=[tool], tool_choice="required")
    answer = compose(call, SETTINGS)[0]
    assert (answer.finish_reason, answer.tool_name) == ("tool_calls", "weather")
    assert set(json.loads(answer.text)) == {"city", "days"}
    assert answer == compose(call, SETTINGS)[0]


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        ({"type": "json_object"}, {"answer"}),
        ({"type": "json_schema", "json_schema": {"schema": {"properties": {"a": {}, "b": {}}}}}, {"a", "b"}),
    ],
)
def test_json(wanted: object, keys: set[str]) -> None:
    """JSON that was asked for parses."""
    assert set(json.loads(compose(chat(response_format=wanted), SETTINGS)[0].text)) == keys


def test_echo() -> None:
    """In echo mode the answer is the last user message, so a test sees whose answer it got."""
    echo = ProviderSettings(answers="echo")
    text = "  who\n am I? 你好"
    assert compose(chat(text), echo)[0].text == text


def test_completion_echo() -> None:
    """`echo` of completions puts the prompt first and keeps the limit for what follows."""
    answer = compose(completion("begin", echo=True, max_tokens=2), SETTINGS)[0]
    assert answer.pieces[0] == "begin"
    assert len(answer.pieces) == 3
    assert answer.finish_reason == "length"


def test_prompts_keep_their_order() -> None:
    """Choice p * n + i is answer i to prompt p."""
    both = compose(completion(["a", "b"], n=2), SETTINGS)
    assert both == (*compose(completion("a", n=2), SETTINGS), *compose(completion("b", n=2), SETTINGS))


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ('[{"id": "a", "question": "one"}, {"id": "b", "question": "two"}]', {"a": "one", "b": "two"}),
        ("[]", {}),
    ],
)
def test_packed_questions_are_echoed_each_by_its_id(text: str, answers: dict[str, str]) -> None:
    """Several questions in one chat are repeated one by one, so that it shows whose answer is whose."""
    call = chat(text, response_format={"type": "json_schema", "json_schema": {"schema": {}}})
    said = json.loads(compose(call, ProviderSettings(answers="echo"))[0].text)["answers"]
    assert {entry["id"]: entry["answer"] for entry in said} == answers


@pytest.mark.parametrize("text", ["plain", "3", '["a"]', '[{"id": "a"}]', '{"id": "a"}'])
def test_what_is_not_packed_gets_what_fits_the_schema(text: str) -> None:
    """Any other text that asks for a structure is answered with one, echo or not."""
    call = chat(text, response_format={"type": "json_object"})
    assert set(json.loads(compose(call, ProviderSettings(answers="echo"))[0].text)) == {"answer"}
