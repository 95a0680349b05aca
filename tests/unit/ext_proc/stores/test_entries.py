"""Stored answers as bytes: what goes in comes out, and nothing else is taken for an answer."""

from __future__ import annotations

import math
from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.answers import Clocks, StoredAnswer
from ext_proc.stores.entries import MAGIC, MAX_BODY_BYTES, decode_entry, encode_entry, is_keepable

KEY = bytes(range(32))
HERE = Clocks(wall=1_700_000_000.0, own=100.0)
ANSWER = StoredAnswer(b'{"a": 1}', "application/json", "m", "v1", stored_at=90.0, expires_at=160.0)


@given(st.text(max_size=5000), st.sampled_from([0.0, 5.0, 1e6]))
def test_what_goes_in_comes_out_in_another_process(text: str, own: float) -> None:
    """Times are told on the reader's own clock; a body of any length is exact."""
    body = b'{ "a" : ' + orjson.dumps(text) + b"}"
    answer = replace(ANSWER, body=body)
    there = Clocks(HERE.wall + 20, own)
    found = decode_entry(KEY, encode_entry(KEY, answer, HERE), there)
    assert found is not None
    assert (found.body, found.content_type, found.model, found.version) == (
        body,
        "application/json",
        "m",
        "v1",
    )
    assert found.stored_at == pytest.approx(own - 30)
    assert found.expires_at == pytest.approx(own + 40)


def test_a_long_body_is_packed() -> None:
    """It takes a fraction."""
    answer = replace(ANSWER, body=b'{"a": "%b"}' % (b"the same again " * 1000))
    entry = encode_entry(KEY, answer, HERE)
    assert len(entry) < len(answer.body) / 5
    found = decode_entry(KEY, entry, HERE)
    assert found is not None
    assert found.body == answer.body


def test_an_answer_to_another_question_is_none() -> None:
    """Whatever a broken connection brings: it is never given to somebody else."""
    assert decode_entry(bytes(32), encode_entry(KEY, ANSWER, HERE), HERE) is None


def test_an_old_answer_is_none() -> None:
    """Also when Redis has not removed it yet."""
    entry = encode_entry(KEY, ANSWER, HERE)
    assert decode_entry(KEY, entry, Clocks(HERE.wall + 60.1, 0)) is None


GOOD = encode_entry(KEY, ANSWER, HERE)
PACKED = encode_entry(KEY, replace(ANSWER, body=b'{"a": "%b"}' % (b"x" * 2991)), HERE)


def changed(**fields: object) -> bytes:
    """Return a good entry with other `fields` in its head."""
    head, _, body = GOOD[len(MAGIC) :].partition(b"\n")
    return MAGIC + orjson.dumps(orjson.loads(head) | fields) + b"\n" + body


def with_body(body: bytes) -> bytes:
    """Return an entry that is good but for its body."""
    return encode_entry(KEY, replace(ANSWER, body=body), HERE)


def test_the_entries_that_others_are_made_of_are_good() -> None:
    """So each of those below is refused for what it says of itself."""
    for entry in (GOOD, PACKED, changed(), changed(seconds=1, tokens=[3, 4], type="text/x.y+json; a=b")):
        assert decode_entry(KEY, entry, HERE) is not None


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"hello", id="of somebody else"),
        pytest.param(MAGIC, id="nothing else"),
        pytest.param(GOOD[:-1], id="cut"),
        pytest.param(GOOD + b"x", id="longer"),
        pytest.param(PACKED[:-5], id="cut in packed text"),
        pytest.param(PACKED.replace(b'"size":3000', b'"size":2999'), id="longer than it says"),
        pytest.param(GOOD.replace(b'"size":8', b'"size":-8'), id="negative size"),
        pytest.param(GOOD.replace(b'"size":8', b'"size":"8"'), id="size of another type"),
        pytest.param(GOOD.replace(b'"model":"m"', b'"model":7'), id="model of another type"),
        pytest.param(GOOD.replace(b'"model":"m"', b'"model":"a\\nb"'), id="a line break in a header"),
        pytest.param(GOOD.replace(b'"packed":false', b'"packed":true'), id="not packed"),
        pytest.param(changed(seconds="nan"), id="seconds that are a text"),
        pytest.param(changed(seconds=True), id="seconds that are true"),
        pytest.param(changed(seconds=-1), id="negative seconds"),
        pytest.param(changed(seconds=1e300), id="more seconds than any call takes"),
        pytest.param(changed(stored_at="nan"), id="stored at a text"),
        pytest.param(changed(stored_at="-inf"), id="stored before all time"),
        pytest.param(changed(stored_at=-1e308), id="stored long before all time"),
        pytest.param(changed(expires_at="inf"), id="never expires, by a text"),
        pytest.param(changed(expires_at=1e300), id="never expires"),
        pytest.param(changed(fresh_until="nan"), id="fresh until a text"),
        pytest.param(changed(fresh_until=None), id="fresh until nothing"),
        pytest.param(changed(tokens=["1", 2]), id="tokens that are a text"),
        pytest.param(changed(tokens=[1.5, 2]), id="half a token"),
        pytest.param(changed(tokens=[-1, 2]), id="negative tokens"),
        pytest.param(changed(tokens=[1, 2**63]), id="more tokens than there are"),
        pytest.param(changed(tokens=[1, 2, 3]), id="three numbers of tokens"),
        pytest.param(changed(type=""), id="no type"),
        pytest.param(changed(type="json"), id="half a type"),
        pytest.param(changed(type="text/" + "x" * 100_000), id="a type of 100 kB"),
        pytest.param(changed(type="文本/纯"), id="a Chinese type"),
        pytest.param(changed(type="text/x; a=文"), id="a Chinese parameter"),
        pytest.param(changed(model="m" * 2000), id="a long model"),
        pytest.param(changed(size=True), id="a size that is true"),
        pytest.param(with_body(b""), id="no body"),
        pytest.param(with_body(b"junk"), id="a body that is no JSON"),
        pytest.param(with_body(b"[1]"), id="a body that is no object"),
        pytest.param(with_body(b"x" * 3000), id="a packed body that is no JSON"),
        pytest.param(MAGIC + b"[]\n{}", id="a list"),
        pytest.param(MAGIC + b"{}\n{}", id="no fields"),
    ],
)
def test_anything_else_is_no_answer(entry: bytes) -> None:
    """And never an error."""
    assert decode_entry(KEY, entry, HERE) is None


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(entry: bytes) -> None:
    """Behind the right beginning, too."""
    assert decode_entry(KEY, entry, HERE) is None
    assert decode_entry(KEY, MAGIC + entry, HERE) is None


FIELDS = sorted(orjson.loads(GOOD[len(MAGIC) :].partition(b"\n")[0]))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.lists(st.integers(0, 9), max_size=3),
    st.dictionaries(st.text(max_size=2), st.integers(0, 9), max_size=2),
)


@given(st.sampled_from(FIELDS), VALUES)
def test_no_field_breaks_the_reader(field: str, value: object) -> None:
    """An answer that is read all the same is a sound one: its body whole, its texts and times such."""
    head, _, body = GOOD[len(MAGIC) :].partition(b"\n")
    document = orjson.loads(head) | {field: value}
    found = decode_entry(KEY, MAGIC + orjson.dumps(document) + b"\n" + body, HERE)
    if found is not None:
        assert found.body == ANSWER.body
        assert found.expires_at > HERE.own
        assert found.stored_at <= HERE.own
        assert all(map(math.isfinite, (found.stored_at, found.expires_at, found.fresh_until, found.seconds)))
        assert is_keepable(found)


@pytest.mark.parametrize(
    ("answer", "may"),
    [
        (ANSWER, True),
        (replace(ANSWER, body=b"x" * MAX_BODY_BYTES), True),
        (replace(ANSWER, body=b"x" * (MAX_BODY_BYTES + 1)), False),
        (replace(ANSWER, content_type="text/plain\r\nx: y"), False),
        (replace(ANSWER, content_type=""), False),
        (replace(ANSWER, content_type="text/x; charset=utf-8"), True),
        (replace(ANSWER, partition="a\x00"), False),
        (replace(ANSWER, model="\ud800"), False),
    ],
    ids=["ordinary", "long", "too long", "a line break", "no type", "a parameter", "NUL", "half a character"],
)
def test_what_could_not_be_read_again_is_not_kept(answer: StoredAnswer, may: bool) -> None:
    """It would be in the way."""
    assert is_keepable(answer) is may
