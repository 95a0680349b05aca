"""`outrigger cache`."""

from __future__ import annotations

import json

import pytest

from control_plane.api.cache_wire import LISTED, PURGED, READ, SHOWN
from tests.unit.control_plane.cli.conftest import Run
from tests.unit.control_plane.cli.stub import Stub

BASE = "/api/v1/cache"
KEY = str(READ["key"])


def test_statistics_are_a_table_or_what_the_api_answers(stub: Stub, run: Run) -> None:
    """As everywhere."""
    stub.answer(f"GET {BASE}", SHOWN)
    status, out, err = run("cache", "stats")
    assert (status, err) == (0, "")
    assert out.startswith("hit ratio 40.0%: 40 of 100 questions\n")
    assert json.loads(run("cache", "stats", "-o", "json")[1]) == SHOWN


def test_an_answer_is_shown_by_its_key(stub: Stub, run: Run) -> None:
    """In whatever letters."""
    stub.answer(f"GET {BASE}/entries/{KEY}", READ)
    assert KEY in run("cache", "get", KEY.upper())[1]
    assert json.loads(run("cache", "get", KEY, "-o", "json")[1]) == READ


def test_the_beginning_of_a_key_will_do(stub: Stub, run: Run) -> None:
    """If there is one answer only; else it says what is wrong."""
    stub.answer(f"GET {BASE}/entries", LISTED)
    stub.answer(f"GET {BASE}/entries", {"items": []})
    stub.answer(f"GET {BASE}/entries", {"items": [{"key": "9f00"}, {"key": "9f01"}]})
    stub.answer(f"GET {BASE}/entries/{KEY}", READ)
    assert run("cache", "get", "9f2c")[0] == 0
    assert "keyPrefix=9f2c&limit=2" in stub.seen[0].target
    status, _, err = run("cache", "get", "9f2c")
    assert (status, "no cached answer's key begins with 9f2c" in err) == (1, True)
    status, _, err = run("cache", "get", "9f")
    assert (status, "several keys begin with 9f: 9f00, 9f01" in err) == (1, True)
    assert run("cache", "get", "x")[0] == 2


def test_a_purge_sends_what_was_said(stub: Stub, run: Run) -> None:
    """And tells what is void."""
    stub.answer(f"POST {BASE}/purge", PURGED)
    status, out, _ = run("cache", "purge", "--model", "gpt-4o-mini", "--tenant", "team-a")
    assert status == 0
    assert out.startswith("revision 14 voids every answer of Model gpt-4o-mini, tenant:team-a")
    run("cache", "purge", "--all", "-o", "json")
    run("cache", "purge", "--key", KEY.upper())
    run("cache", "purge", "--key-prefix", "9F", "--model", "m", "--version", "v")
    assert [seen.json for seen in stub.seen] == [
        {"model": "gpt-4o-mini", "tenant": "team-a"},
        {"all": True},
        {"key": KEY},
        {"model": "m", "version": "v", "keyPrefix": "9f"},
    ]


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--all", "--model", "m"),
        ("--version", "v"),
        ("--key", "9f"),
        ("--key-prefix", "xyz"),
        ("--key", KEY, "--key-prefix", "9f"),
    ],
)
def test_an_unclear_purge_is_wrong_usage(stub: Stub, run: Run, options: tuple[str, ...]) -> None:
    """Nothing is sent."""
    status, out, err = run("cache", "purge", *options)
    assert (status, out, stub.seen) == (2, "", [])
    assert err


def test_a_refused_purge_says_why(stub: Stub, run: Run) -> None:
    """Status 1."""
    error = {"document": "", "field": "model", "message": "names no Model and no alias"}
    stub.problem(f"POST {BASE}/purge", 422, "nothing was changed", error)
    status, out, err = run("cache", "purge", "--model", "nobody")
    assert (status, out) == (1, "")
    assert "names no Model and no alias" in err


def test_a_purge_can_be_waited_for(stub: Stub, run: Run) -> None:
    """Until every connected sidecar has it in force."""
    stub.answer(f"POST {BASE}/purge", PURGED)
    stub.answer("GET /api/v1/revisions", {"items": [{"revision": 14, "state": "accepted"}]})
    stub.answer("GET /api/v1/sidecars", {"items": [{"id": "one", "connected": True, "inForce": True}]})
    assert run("cache", "purge", "--all", "--wait")[0] == 0
    assert len(stub.seen) > 1


def test_export_goes_through_every_page(stub: Stub, run: Run) -> None:
    """One object a line; who was silent is said on stderr."""
    (item,) = LISTED["items"]
    last = {**item, "key": "ff" * 32}
    stub.answer(f"GET {BASE}/entries", {"items": [item], "unanswered": [], "next": KEY})
    stub.answer(f"GET {BASE}/entries", {"items": [last], "unanswered": ["old"]})
    status, out, err = run("cache", "export", "--model", "m", "--tenant", "key:0a", "-o", "json")
    assert status == 0
    assert [json.loads(line)["key"] for line in out.splitlines()] == [KEY, "ff" * 32]
    assert err == "warning: not all of it: old did not answer\n"
    assert "model=m&tenant=key%3A0a" in stub.seen[0].target
    assert stub.seen[1].target.endswith(f"after={KEY}")
    assert out.splitlines() != run("cache", "export")[1].splitlines()


def test_export_is_a_table_for_people(stub: Stub, run: Run) -> None:
    """With the beginnings of keys, by which they are shown and purged."""
    stub.answer(f"GET {BASE}/entries", LISTED)
    head, row = run("cache", "export")[1].splitlines()
    assert head.split()[:4] == ["KEY", "MODEL", "VERSION", "TENANT"]
    assert row.split() == [
        KEY[:16], "gpt-4o-mini", "stable", "tenant:team-a", "12s", "24h", "812", "B", "4",
    ]  # fmt: skip


def test_an_empty_cache_says_so(stub: Stub, run: Run) -> None:
    """On stderr; a program gets nothing."""
    stub.answer(f"GET {BASE}/entries", {"items": [], "unanswered": []})
    assert run("cache", "export") == (0, "", "no cached answers\n")
    assert run("cache", "export", "-o", "json") == (0, "", "")
