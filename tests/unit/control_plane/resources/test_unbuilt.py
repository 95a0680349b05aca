"""Notices about what has no effect yet."""

import pytest

from control_plane.resources.documents import check_documents
from control_plane.resources.kinds import KINDS
from control_plane.resources.loading import read_text
from control_plane.resources.parsing import known_fields
from control_plane.resources.unbuilt import UNBUILT


def fields(text: str) -> list[str]:
    """Return the fields of `text` that are named in notices."""
    return [notice.field for notice in check_documents(read_text(text.encode(), "p.yaml")).notices]


POLICY = "kind: Policy\nmetadata: {name: p}\nspec: %s"


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("{cache: {enabled: true, ttl: 1h}}", []),
        ("{}", []),
        ("{coalesce: {enabled: true}}", []),
        ("{cache: {semantic: {enabled: true}, staleIfError: 5s, staleWhileRevalidate: 5s}}", []),
        ("{batch: {mode: native, maxSize: 5}}", []),
        ("{redaction: {logs: true, prompts: true, entities: [phone, card]}}", []),
        (
            "{session: {enabled: true}, limits: {onRedisLoss: refuse}}",
            [],
        ),
    ],
)
def test_each_field_that_is_set_and_not_built_is_named(spec: str, named: list[str]) -> None:
    """What is not set, and what is built, is not mentioned."""
    assert fields(POLICY % spec) == named


def test_fields_of_other_kinds_are_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of everything that can be written, only what is not built."""
    monkeypatch.setitem(UNBUILT, "Release", frozenset({("shadow",)}))
    text = """
kind: Backend
metadata: {name: b}
spec: {url: 'http://h', quota: {requestsPerMinute: 5, concurrency: 2}, warmup: {requests: 2}}
---
kind: Model
metadata: {name: m}
spec:
  versions: [{name: v, backend: b}, {name: w, backend: b}]
  degrade: [{load: 0.5, model: n}, {userAgent: x, model: n}]
  prices: {inputPerMillion: 1}
---
kind: Model
metadata: {name: n}
spec: {versions: [{name: v, backend: b}], fallbacks: [m]}
---
kind: Tier
metadata: {name: t}
spec: {limits: {concurrency: 5, tokensPerDay: 5}}
---
kind: Consumer
metadata: {name: c}
spec: {tenant: t, limits: {tokensPerMinute: 5, costPerDay: 5}}
---
kind: Release
metadata: {name: r}
spec: {model: m, from: v, to: w, shadow: 0.1, notify: ['http://h'], gates: {minRequests: 5}}
---
kind: Pin
metadata: {name: p}
spec: {model: m, match: {lastUserMessage: hi}, answer: a}
"""
    assert fields(text) == ["spec.shadow"]


def test_the_list_names_existing_fields_only() -> None:
    """A renamed field does not silently leave the list."""
    for kind, paths in UNBUILT.items():
        for path in paths - {()}:
            assert path[-1] in known_fields(KINDS[kind], path[:-1]), (kind, path)
