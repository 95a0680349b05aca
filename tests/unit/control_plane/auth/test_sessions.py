"""How long a browser stays logged in."""

import pytest

from control_plane.auth import sessions as module
from control_plane.auth.sessions import IDLE_S, LONGEST_S, Sessions
from tests.unit.control_plane.auth.clocks import Clock, counting_entropy


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    """Return no sessions yet."""
    return Sessions(clock.seconds, counting_entropy())


def test_a_session_is_found_by_its_cookie_only(sessions: Sessions) -> None:
    """Until it is ended; neither secret is in its repr."""
    session = sessions.begin("t1")
    assert sessions.find(session.cookie) == session
    assert sessions.find("x") is None
    assert sessions.find("\udcff") is None
    assert session.cookie not in repr(session)
    assert session.csrf not in repr(session)
    sessions.end(session.cookie)
    sessions.end(session.cookie)
    assert sessions.find(session.cookie) is None


def test_use_keeps_a_session_but_not_for_ever(sessions: Sessions, clock: Clock) -> None:
    """It ends when it is idle, and when it is old."""
    idle, busy = sessions.begin("t1"), sessions.begin("t1")
    for _ in range(int(LONGEST_S / (IDLE_S / 2)) - 1):
        clock.pass_s(IDLE_S / 2)
        assert sessions.find(busy.cookie) is not None
    assert sessions.find(idle.cookie) is None
    clock.pass_s(IDLE_S / 2)
    assert sessions.find(busy.cookie) is None
    assert len(sessions) == 0


def test_only_its_own_token_confirms_a_change(sessions: Sessions) -> None:
    """Another session's token, or anything else, does not."""
    session, other = sessions.begin("t1"), sessions.begin("t1")
    assert session.confirms(session.csrf)
    assert not session.confirms(other.csrf)
    assert not session.confirms("")
    assert not session.confirms("é")


def test_memory_is_bounded(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session that was used longest ago ends first."""
    monkeypatch.setattr(module, "MAX_SESSIONS", 2)
    first, second = sessions.begin("t1"), sessions.begin("t1")
    sessions.find(first.cookie)
    third = sessions.begin("t1")
    found = [sessions.find(session.cookie) is not None for session in (first, second, third)]
    assert found == [True, False, True]
