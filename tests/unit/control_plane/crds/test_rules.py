"""The rules by themselves: each is about something that there is, and says what to do."""

from __future__ import annotations

import re

import pytest

from control_plane.crds.definitions import files
from control_plane.crds.rules import FIELDS, RULES
from control_plane.resources.kinds import KINDS
from control_plane.resources.kinds.spec import Spec

CLASSES: dict[str, type[Spec]] = {}
_left = list(Spec.__subclasses__())
while _left:
    _spec = _left.pop()
    CLASSES[_spec.__name__] = _spec
    _left += _spec.__subclasses__()


@pytest.mark.parametrize("name", RULES)
def test_the_rules_of_a_class_are_about_its_fields(name: str) -> None:
    """A field that was renamed would leave a rule that the API server refuses."""
    fields = {item.alias for item in CLASSES[name].model_fields.values()}
    for rule in RULES[name]:
        assert set(re.findall(r"self\.(\w+)", rule.rule)) <= fields
        assert rule.message


@pytest.mark.parametrize("path", FIELDS)
def test_what_is_added_to_a_field_is_of_one_that_there_is(path: str) -> None:
    """Nothing is left over from a field that went."""
    name, _, field = path.partition(".")
    assert field in {item.alias for item in CLASSES[name].model_fields.values()}


def test_every_kind_is_written() -> None:
    """No kind is without a definition."""
    assert len(files()) == len(KINDS)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1", True),
        ("HTTP://[::1]:8000", True),
        ("http://a?x=1", True),
        ("https://user:word@a/v1", False),
        ("https://", False),
        ("https:///v1", False),
        ("ftp://a", False),
        (" https://a", False),
    ],
)
def test_a_url_is_of_http_and_without_a_password(url: str, expected: bool) -> None:
    """As the API server matches it; the rest is the control plane's to say."""
    (rule,) = FIELDS["BackendSpec.url"]["x-kubernetes-validations"]
    pattern = rule.rule.removeprefix("self.matches('").removesuffix("')")
    assert (re.search(pattern, url) is not None) is expected
