"""API tokens as rows."""

import pytest

from control_plane.registry.errors import NotFoundError
from control_plane.registry.registry import Registry
from control_plane.registry.values import TokenRow
from tests.harness.registries import ACTOR, START


def token() -> TokenRow:
    """Return a token's row."""
    return TokenRow("t1", "ci", "editor", ("models",), b"digest", b"salt", START)


async def test_tokens_are_read_from_memory_and_revoked(registry: Registry) -> None:
    """A revoked one is still listed, with its end."""
    await registry.add_token(token(), ACTOR)
    assert await registry.token("t1") == token()
    assert await registry.token("t2") is None
    await registry.revoke_token("t1", ACTOR)
    (ended,) = await registry.tokens()
    assert ended.revoked_at == START
    for name in ("t1", "t2"):
        with pytest.raises(NotFoundError):
            await registry.revoke_token(name, ACTOR)
    actions = [(row.action, row.target, row.detail) for row in await registry.audit()]
    assert actions == [
        ("revoke token", "token t1", "editor ci"),
        ("create token", "token t1", "editor ci"),
    ]
    assert registry.head.revision == 0
