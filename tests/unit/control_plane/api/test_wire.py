"""Values as JSON."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from enum import StrEnum
from types import MappingProxyType

import pytest

from control_plane.api.wire import timestamp, to_json


class Colour(StrEnum):
    """An enum."""

    RED = "red"


@dataclass(frozen=True, slots=True)
class Inner:
    """A part."""

    first_byte_ms: int
    hidden_key: str = field(default="secret", repr=False)


@dataclass(frozen=True, slots=True)
class Outer:
    """A whole."""

    connected_at: datetime
    parts: tuple[Inner, ...]
    by_name: Mapping[int, Colour]
    nothing: None = None


def test_dataclasses_become_objects_with_camel_case() -> None:
    """Keys of mappings stay; what has no place in a repr has none in an answer."""
    at = datetime(2026, 1, 31, 8, 0, 0, 123, tzinfo=UTC)
    assert json.loads(to_json(Outer(at, (Inner(5),), MappingProxyType({1: Colour.RED})))) == {
        "connectedAt": "2026-01-31T08:00:00.000123Z",
        "parts": [{"firstByteMs": 5}],
        "byName": {"1": "red"},
        "nothing": None,
    }


def test_times_are_utc() -> None:
    """Whatever zone they came in."""
    at = datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=8)))
    assert timestamp(at) == "2026-01-31T00:00:00Z"


def test_plain_values_stay() -> None:
    """And lists of them."""
    assert to_json([1, 2.5, True, None, "x", {"a": (1,)}]) == b'[1,2.5,true,null,"x",{"a":[1]}]'


@pytest.mark.parametrize("value", [b"secret", object(), Inner])
def test_what_has_no_place_in_an_answer_is_a_bug(value: object) -> None:
    """Bytes first of all: they are digests and keys."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        to_json({"a": value})
