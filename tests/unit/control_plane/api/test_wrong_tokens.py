"""What the log says of wrong tokens."""

import pytest
from structlog.testing import CapturingLogger

from control_plane.api.wrong_tokens import EVERY_S, TellingGate
from control_plane.auth.errors import TokenRefusedError
from control_plane.auth.identity import Identity
from control_plane.auth.roles import Role
from tests.unit.control_plane.auth.clocks import Clock

ALICE = Identity("t1", "alice", Role.VIEWER)


class Bouncer:
    """A gate that knows one token."""

    async def admit(self, token: bytes, source: str) -> Identity:
        """Let Alice in."""
        if token != b"right":
            raise TokenRefusedError
        return ALICE

    async def holder(self, token_id: str) -> Identity:
        """Know Alice."""
        return ALICE


async def test_the_source_is_told_and_the_token_is_not() -> None:
    """Once a minute for each address, with how many there were in between."""
    log, clock = CapturingLogger(), Clock()
    gate = TellingGate(Bouncer(), log, clock.seconds)
    assert await gate.admit(b"right", "10.0.0.1") == await gate.holder("t1") == ALICE
    assert log.calls == []
    for source in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        with pytest.raises(TokenRefusedError):
            await gate.admit(b"guess", source)
    clock.pass_s(EVERY_S)
    with pytest.raises(TokenRefusedError):
        await gate.admit(b"guess", "10.0.0.1")
    assert [call.kwargs for call in log.calls] == [
        {"source": "10.0.0.1"},
        {"source": "10.0.0.2"},
        {"source": "10.0.0.1", "suppressed": 1},
    ]
    assert "guess" not in str(log.calls)
