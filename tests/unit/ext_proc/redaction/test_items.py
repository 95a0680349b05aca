"""Items in texts, and in texts that are JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ext_proc.redaction.items import items_in
from ext_proc.redaction.masks import Masks
from ext_proc.redaction.requests import mask_text

PHONE = "13800138000"
CARD = "4111111111111111"


def masked(text: str) -> str:
    """Return `text` as it goes up."""
    return mask_text(text, items_in(text), Masks())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"😀 {PHONE}, a@b.cn", "😀 [PHONE_1], [EMAIL_1]", id="prose"),
        pytest.param(f'{{ "p" : "{PHONE}" }}', '{ "p" : "[PHONE_1]" }', id="white space stays"),
        pytest.param(f'{{"p": {PHONE}}}', '{"p": "[PHONE_1]"}', id="a bare number becomes a text"),
        pytest.param(f"[-{PHONE}, 1]", '["[PHONE_1]", 1]', id="with its sign"),
        pytest.param('{"m": "x\\na@b.cn"}', '{"m": "x\\n[EMAIL_1]"}', id="behind an escape"),
        pytest.param(f'{{"c": "\\b{CARD}"}}', '{"c": "\\b[CARD_1]"}', id="behind one that looks hexadecimal"),
        pytest.param('{"p": "\\u00313800138000"}', '{"p": "[PHONE_1]"}', id="written in escapes"),
        pytest.param(
            '{"n": "\\ud83d\\ude00 a@b.cn"}', '{"n": "\\ud83d\\ude00 [EMAIL_1]"}', id="behind a pair"
        ),
        pytest.param(f'{{"{PHONE}": 1}}', '{"[PHONE_1]": 1}', id="a key"),
        pytest.param('{"api_key": "abcdef-12345"}', '{"api_key": "[KEY_1]"}', id="named by its key"),
        pytest.param(
            json.dumps({"a": json.dumps({"p": int(PHONE), "q": "\na@b.cn"})}),
            json.dumps({"a": json.dumps({"p": "[PHONE_1]", "q": "\n[EMAIL_1]"})}),
            id="JSON within JSON",
        ),
        pytest.param(f'{{"p": {PHONE}', '{"p": [PHONE_1]', id="no JSON after all"),
        pytest.param('["-----BEGIN PRIVATE KEY-----a", "b"]', '["[KEY_1]", "b"]', id="ends with its string"),
        pytest.param(
            f'[11010519491231002, "{CARD}"]', '[11010519491231002, "[CARD_1]"]', id="other numbers stay"
        ),
        pytest.param(f"[11010519491231002X{PHONE}]", "[[IDENTITY_1][PHONE_1]]", id="prose in brackets"),
    ],
)
def test_items_are_replaced_and_nothing_else(text: str, expected: str) -> None:
    """To the character; what was JSON can still be read as such."""
    assert masked(text) == expected


@settings(max_examples=100, deadline=None)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=8)
        | st.sampled_from([PHONE, f"\n{PHONE}", int(PHONE), f'"{CARD}"', "a@b.cn\\", f"電話{PHONE}"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3) | st.just(PHONE), inner, max_size=3)
            | inner.map(json.dumps)
        ),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_any_json_stays_json(document: object, ascii_only: bool) -> None:
    """However it is written; nothing that was to be masked is left in it."""
    text = json.dumps([document], ensure_ascii=ascii_only)
    result = json.loads(masked(text))
    assert isinstance(result, list)
    said = json.dumps(result, ensure_ascii=False)
    assert PHONE not in said
    assert CARD not in said


@pytest.mark.parametrize("unit", ["13800138000 ", "13800138000\n", "411111111111111113800138000 ", "a@b.cn@"])
@pytest.mark.parametrize("wrap", [str, lambda text: json.dumps({"a": text}), lambda text: json.dumps([text])])
def test_takes_linear_time(unit: str, wrap: Callable[[str], str]) -> None:
    """A JSON text full of items makes nobody wait, also one with escapes."""
    text = wrap(unit * (60_000 // len(unit)))
    started = time.perf_counter()
    assert len(items_in(text)) >= 60_000 // len(unit)
    assert time.perf_counter() - started < 10
