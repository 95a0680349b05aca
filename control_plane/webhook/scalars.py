"""YAML as Kubernetes reads it (pure): unlike with PyYAML, `12:30` is a text and `1e3` a number.

What is written here is read back as it was by readers of YAML 1.1 and of 1.2.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

WIDTH: Final = 110
BREAKS: Final = frozenset("\x85\u2028\u2029")
"""Ends of a line to YAML 1.1 (https://yaml.org/spec/1.1/#id871136): bare, a reader makes blanks of them."""


class Reader(yaml.SafeLoader):
    """Reads scalars as Kubernetes does."""


class _Writer(yaml.SafeDumper):
    """Quotes what a reader would take for something else than the text, and writes no anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write everything in full."""
        return True


_INT: Final = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)$")
_FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$|[-+]?\.(inf|Inf|INF)$|\.(nan|NaN|NAN)$"
)
_UNLIKE: Final = frozenset(
    {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp"}
)


def write_yaml(value: Any) -> str:
    """Return `value` as one document, its fields in their own order."""
    return str(
        yaml.dump(
            value,
            Dumper=_Writer,
            sort_keys=False,
            allow_unicode=True,
            width=WIDTH,
            default_flow_style=False,
        )
    )


def _teach() -> None:
    Reader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _UNLIKE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    numbers = list("-+.0123456789")
    for kind in (Reader, _Writer):
        kind.add_implicit_resolver("tag:yaml.org,2002:int", _INT, numbers)
        kind.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, numbers)
    _Writer.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]$"), list("yYnN"))
    _Writer.add_representer(str, _text)


def _text(writer: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if not BREAKS.isdisjoint(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_teach()
