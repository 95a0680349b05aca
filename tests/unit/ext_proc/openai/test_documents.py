"""JSON in and out: no key twice, no number changed."""

from __future__ import annotations

import contextlib
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.documents import InvalidDocument, decode, encode
from ext_proc.openai.errors import ErrorCode

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBER = st.one_of(
    st.integers(),
    st.integers(min_value=-(10**300), max_value=10**300),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUE = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
OBJECT = st.dictionaries(TEXT, VALUE, max_size=5)


class Pairs(list[tuple[str, Any]]):
    """An object's members as written, doubles included."""


def exact(body: bytes) -> Any:
    """Read with the standard library, numbers as they are."""
    return json.loads(body, parse_float=Decimal, parse_int=Decimal)


def members(body: bytes) -> Any:
    """Read with the standard library, objects as Pairs."""
    return json.loads(body, object_pairs_hook=Pairs)


def has_double(value: Any) -> bool:
    """Return whether some object in `value` has a key twice."""
    if isinstance(value, Pairs):
        names = [name for name, _ in value]
        return len(set(names)) < len(names) or any(has_double(inner) for _, inner in value)
    return isinstance(value, list) and any(has_double(inner) for inner in value)


def beside_a_long_text(body: bytes, piece: str = "\\n iVBORw0KGgo: ") -> bytes:
    """Put a picture's worth of text, `piece` by `piece`, before the first member of the object `body`."""
    text = piece * (20_000 // len(piece))
    return b'{"picture" : "' + text.encode() + b'"' + (b"," if body != b"{}" else b"") + body[1:]


@given(OBJECT, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_every_value_survives(document: dict[str, Any], ascii_only: bool, indent: int | str | None) -> None:
    """Whatever JSON a caller writes, escaped or spaced: encode(decode(x)) has its exact values."""
    body = json.dumps(document, ensure_ascii=ascii_only, indent=indent).encode()
    for written in (body, beside_a_long_text(body)):
        assert exact(encode(decode(written))) == exact(written)


@given(
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
    st.sampled_from(['{"x":%s}', '{"x": %s}', '{"\\u0061":%s}', '{"s":"\\/", "x":[%s]}']),
)
def test_every_number_survives(number: str, template: str) -> None:
    """A number keeps its value to the last digit."""
    body = (template % number).encode()
    for written in (body, beside_a_long_text(body)):
        assert exact(encode(decode(written))) == exact(written)


@pytest.mark.parametrize(
    "number",
    [
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "123456789012345678901234567890",
        "1" * 300,
        "0.1000000000000000055511151231257827",
        "9007199254740993.0",
        "1.2345678e-320",
        "1e-400",
        "1E-5",
        "1.50",
        "1e+22",
    ],
)
@pytest.mark.parametrize("template", ['{"x":%s}', '{ "x" : %s }', '{"é\\u00e9":"%%","x":%s}'])
def test_numbers_at_the_edges(number: str, template: str) -> None:
    """Numbers that neither 64 bits nor a float can hold go on as they were written."""
    body = (template % number).encode()
    for written in (body, beside_a_long_text(body)):
        assert exact(encode(decode(written))) == exact(written)


@pytest.mark.parametrize("number", ["0e" + "5" * 24, "1e-" + "9" * 24, "-0.0e" + "9" * 24])
def test_an_exponent_that_no_library_holds_goes_on_as_it_was_written(number: str) -> None:
    """It must not end an exchange: that would fail open, past every policy."""
    body = f'{{"x":{number}}}'.encode()
    assert encode(decode(body)) == body


def test_a_huge_number_is_still_a_number_for_policies() -> None:
    """A cap on a parameter can compare it."""
    document = decode(b'{"max_tokens": 123456789012345678901234567890}')
    assert document["max_tokens"] > 4096
    assert isinstance(document["max_tokens"], int | float)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (b'{"model":"a","model":"b"}', "model"),
        (b'{"model":"a", "model":"a"}', "model"),
        (b'{"a":{"b":[{"c":1,"c":1}]}}', "c"),
        (b'{"model":"a","\\u006dodel":"b"}', "model"),
        (b'{"a":1,"b":2,"a":{"b":3}}', "a"),
        (b'{"":1,"":2}', ""),
        # Texts that look like the end of a key must not make up for the one that was lost.
        (b'{"m":"a","m":"b","x":"\\u003a"}', "m"),
        (b'{"m":"a","m":"b","x":"\\u003A"}', "m"),
        (b'{"m":"a","m":"b","x":"\\u0020:"}', "m"),
        (b'{"m":"a","m":"b","x":"\\u005c\\u0022:"}', "m"),
        (b'{"m":"a","m":"b","x":"\\u005c:"}', "m"),
        (b'{"m":"a","m":"b","x":"\\\\:"}', "m"),
        (b'{"m":"a","m":"b","x\\\\":"\\/\\":"}', "m"),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_a_key_given_twice_is_named(body: bytes, key: str, large: bool) -> None:
    """One of two servers would read the first and the other the last: neither is right."""
    with pytest.raises(InvalidDocument) as caught:
        decode(beside_a_long_text(body) if large else body)
    assert caught.value.key == key
    assert caught.value.code is ErrorCode.DUPLICATE_KEY


def test_a_long_key_given_twice_is_found() -> None:
    """A key is no text to pass over, however long it is and whatever stands before its colon."""
    key = b'"' + b"k" * 20_000 + b'"'
    with pytest.raises(InvalidDocument):
        decode(b"{" + key + b" \n:1," + key + b":2}")


PIECE = st.sampled_from(
    [
        "a",
        ":",
        " ",
        "\\u0020",
        "\\u003a",
        "\\u003A",
        '\\"',
        "\\\\",
        "\\/",
        "\\u005c",
        "\\u0022",
        "\\u0009",
        "é",
    ]
)
STRING = st.lists(PIECE, max_size=4).map(lambda pieces: '"' + "".join(pieces) + '"')
WRITTEN = st.recursive(
    STRING,
    lambda inner: st.lists(st.tuples(STRING, inner), max_size=3).map(
        lambda pairs: "{" + ", ".join(f"{key} :{value}" for key, value in pairs) + "}"
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(STRING, WRITTEN), min_size=1, max_size=4), st.sampled_from([":", ": "]))
def test_doubles_are_found_whatever_the_texts_hold(pairs: list[tuple[str, str]], colon: str) -> None:
    """decode refuses exactly the bodies in which the standard library finds a key twice."""
    body = ("{" + ",".join(key + colon + value for key, value in pairs) + "}").encode()
    if has_double(members(body)):
        with pytest.raises(InvalidDocument):
            decode(body)
    else:
        assert decode(body) == json.loads(body)


@given(st.lists(st.tuples(STRING, WRITTEN), min_size=1, max_size=4), PIECE)
def test_doubles_are_found_beside_a_long_text(pairs: list[tuple[str, str]], piece: str) -> None:
    """So it is in a large body, whose long texts are not looked into, whatever they are made of."""
    small = ("{" + ",".join(f"{key}:{value}" for key, value in pairs) + "}").encode()
    body = beside_a_long_text(small, piece)
    if has_double(members(body)):
        with pytest.raises(InvalidDocument):
            decode(body)
    else:
        assert decode(body) == json.loads(body)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 31, 32, 33, 20_000, 20_001])
def test_backslashes_before_the_end_of_a_text(count: int) -> None:
    """An even number of them ends the text, an odd one goes on with it: a double behind it is found."""
    text = "\\" * count + '"' + (":1,\\" + '"' if count % 2 else "")
    start = '{"picture":"' + "x" * 20_000 + '","t":"' + text + '"' * (count % 2)
    body = (start + ',"m":1,"m":2}').encode()
    json.loads(body)
    with pytest.raises(InvalidDocument) as caught:
        decode(body)
    assert caught.value.key == "m"


def nested(levels: int) -> bytes:
    """Return an object with `levels` levels."""
    return b'{"a":' * (levels - 1) + b"{}" + b"}" * (levels - 1)


@pytest.mark.parametrize("levels", [1, 100, 200])
def test_deep_nesting_works(levels: int) -> None:
    """A hundred levels are well-formed JSON, spaced too."""
    assert encode(decode(nested(levels))) == nested(levels)
    assert encode(decode(nested(levels).replace(b":", b" : "))) == nested(levels)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"  \n", id="blank"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'"text"', id="text"),
        pytest.param(b"null", id="null"),
        pytest.param(b"{", id="cut"),
        pytest.param(b'{"a":1}x', id="garbage-after"),
        pytest.param(b'{"a":1}{"a":2}', id="two-documents"),
        pytest.param(b'{"a":1,}', id="comma"),
        pytest.param(b"{'a':1}", id="apostrophes"),
        pytest.param(b'{"a":NaN}', id="nan"),
        pytest.param(b'{"a":Infinity}', id="infinity"),
        pytest.param(b'{"a":1e400}', id="too-large-float"),
        pytest.param(b'{"a":' + b"1" * 400 + b"}", id="400-digits"),
        pytest.param(b'{"a":01}', id="leading-zero"),
        pytest.param(b"\xef\xbb\xbf{}", id="bom"),
        pytest.param('{"a":1}'.encode("utf-16"), id="utf-16"),
        pytest.param('{"a":1}'.encode("utf-16-le"), id="utf-16-le"),
        pytest.param(b'{"a":"\xff"}', id="not-utf-8"),
        pytest.param(b'{"a":"\xed\xa0\x80"}', id="surrogate-bytes"),
        pytest.param(b'{"a":"\\ud800"}', id="lone-surrogate"),
        pytest.param(b'{"a":"\\udc00\\ud800"}', id="swapped-surrogates"),
        pytest.param(b'{"a":"\n"}', id="raw-newline"),
        pytest.param(b'{"a":"\0"}', id="raw-nul"),
        pytest.param(nested(500), id="500-levels"),
        pytest.param(nested(5_000), id="5000-levels"),
        pytest.param(b'{"a":' + b"[" * 100_000, id="100000-open"),
    ],
)
def test_what_is_no_document(body: bytes) -> None:
    """Each is one clear sentence, on one line."""
    with pytest.raises(InvalidDocument) as caught:
        decode(body)
    assert caught.value.code is ErrorCode.INVALID_JSON
    assert caught.value.message.endswith(".")
    assert "\n" not in caught.value.message


def test_the_message_holds_no_text_of_the_prompt() -> None:
    """A log of the error leaks nothing."""
    with pytest.raises(InvalidDocument) as caught:
        decode(b'{"messages":[{"content":"my secret is 42\n"}]}')
    assert "secret" not in caught.value.message


def test_the_double_key_is_shown_cut_and_clean() -> None:
    """A caller's key of a megabyte or with controls does no harm."""
    key = "k\\u001b" + "x" * 10_000
    with pytest.raises(InvalidDocument) as caught:
        decode(f'{{"{key}":1,"{key}":2}}'.encode())
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 200


@given(st.binary(max_size=80))
def test_bytes_are_a_document_or_invalid(body: bytes) -> None:
    """No other exception comes out."""
    for candidate in (body, b'{"a":' + body + b"}"):
        with contextlib.suppress(InvalidDocument):
            assert isinstance(decode(candidate), dict)
