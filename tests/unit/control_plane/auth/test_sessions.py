"""How long a browser stays logged in, and where."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.auth.sessions import IDLE_S, LONGEST_S, MAX_COOKIE_CHARS, RENEW_S, Sessions
from tests.unit.control_plane.auth.clocks import Clock, counting_entropy

KEY = b"k" * 32


class Remembered(dict[str, float]):
    """What was logged out."""

    def add(self, session_id: str, until_s: float) -> None:
        """Remember one."""
        self[session_id] = until_s


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture
def ended() -> Remembered:
    """Return that nobody has logged out yet."""
    return Remembered()


@pytest.fixture
def sessions(clock: Clock, ended: Remembered) -> Sessions:
    """Return no sessions yet."""
    return Sessions(clock.seconds, counting_entropy(), KEY, ended)


def test_a_session_is_found_by_its_cookie_only(sessions: Sessions, ended: Remembered, clock: Clock) -> None:
    """Until it is ended; neither secret is in its repr."""
    session = sessions.begin("t1")
    assert sessions.find(session.cookie) == session
    for other in ("", "x", "\udcff", ".", f"{session.cookie}0", session.cookie[:-1], "a" * MAX_COOKIE_CHARS):
        assert sessions.find(other) is None
    assert session.cookie not in repr(session)
    assert session.csrf not in repr(session)
    sessions.end(session.cookie)
    sessions.end(session.cookie)
    sessions.end("x")
    assert sessions.find(session.cookie) is None
    assert list(ended.values()) == [clock.seconds() + LONGEST_S]


def test_another_replica_knows_it_by_the_same_key(
    sessions: Sessions, clock: Clock, ended: Remembered
) -> None:
    """With the same proof of changes; one with another key knows nothing of it."""
    session = sessions.begin("t1")
    elsewhere = Sessions(clock.seconds, counting_entropy(), KEY, Remembered())
    assert elsewhere.find(session.cookie) == session
    assert Sessions(clock.seconds, counting_entropy(), b"other", ended).find(session.cookie) is None


def test_use_keeps_a_session_but_not_for_ever(sessions: Sessions, clock: Clock) -> None:
    """It ends when it is idle, and when it is old; a new cookie says that it is used."""
    idle, busy = sessions.begin("t1"), sessions.begin("t1")
    cookie = busy.cookie
    for _ in range(int(LONGEST_S / (IDLE_S / 2)) - 1):
        clock.pass_s(IDLE_S / 2)
        found = sessions.find(cookie)
        assert found is not None
        assert found.csrf == busy.csrf
        assert found.renewed not in ("", cookie)
        cookie = found.renewed
    assert sessions.find(idle.cookie) is None
    clock.pass_s(IDLE_S / 2)
    assert sessions.find(cookie) is None


def test_a_cookie_is_renewed_now_and_then_only(sessions: Sessions, clock: Clock) -> None:
    """Pages load many files at once."""
    session = sessions.begin("t1")
    clock.pass_s(RENEW_S - 1)
    found = sessions.find(session.cookie)
    assert found is not None and found.renewed == ""
    clock.pass_s(1)
    found = sessions.find(session.cookie)
    assert found is not None and found.renewed
    assert sessions.find(session.cookie) is not None


def test_what_is_logged_out_stays_so_with_each_of_its_cookies(sessions: Sessions, clock: Clock) -> None:
    """One that was renewed meanwhile, too."""
    session = sessions.begin("t1")
    clock.pass_s(RENEW_S)
    found = sessions.find(session.cookie)
    assert found is not None
    sessions.end(session.cookie)
    assert sessions.find(found.renewed) is None


def test_only_its_own_token_confirms_a_change(sessions: Sessions) -> None:
    """Another session's token, or anything else, does not."""
    session, other = sessions.begin("t1"), sessions.begin("t1")
    assert session.confirms(session.csrf)
    assert not session.confirms(other.csrf)
    assert not session.confirms("")
    assert not session.confirms("é")


def test_a_cookie_of_another_build_is_none(sessions: Sessions) -> None:
    """Though it was signed with the same key."""
    content = "eyJ2IjogMn0"
    assert json.loads('{"v": 2}') == {"v": 2}
    assert sessions.find(f"{content}.{sessions._mac('cookie', content)}") is None


@given(st.text(max_size=80))
def test_whatever_a_browser_sends_is_no_session(text: str) -> None:
    """And breaks nothing."""
    sessions = Sessions(Clock().seconds, counting_entropy(), KEY, Remembered())
    assert sessions.find(text) is None
    sessions.end(text)
