"""Who is let in, who is not, and what it costs."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from control_plane.auth import gate as module
from control_plane.auth.errors import TokenRefusedError, TooManyFailuresError
from control_plane.auth.gate import REFUSED_FOR_S, Gate
from control_plane.auth.roles import Role
from control_plane.auth.throttle import Throttle
from control_plane.auth.tokens import NewToken, TokenParts, matches, new_token
from control_plane.registry.values import TokenRow
from tests.unit.control_plane.auth.books import Book
from tests.unit.control_plane.auth.clocks import Clock, counting_entropy

HERE = "10.0.0.1"
WORK = 2


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands still."""
    return Clock()


@pytest.fixture
def book() -> Book:
    """Return no tokens yet."""
    return Book()


def gate_of(
    book: Book,
    clock: Clock,
    *,
    given: str | None = None,
    burst: int = 100,
    check: Callable[[TokenParts, TokenRow | None], bool] = partial(matches, work=WORK),  # noqa: B008
) -> Gate:
    """Return a gate over `book`."""
    throttle = Throttle(clock.seconds, burst=burst)
    return Gate(
        book, given=given, key=b"k", throttle=throttle, clock=clock.seconds, now=clock.now, check=check
    )


async def keep(
    book: Book, clock: Clock, role: Role = Role.EDITOR, expires_s: float | None = None
) -> NewToken:
    """Make a token and keep its row."""
    expires_at = clock.now() + timedelta(seconds=expires_s) if expires_s else None
    made = new_token(
        "ci", role, (), now=clock.now(), expires_at=expires_at, entropy=counting_entropy(), work=WORK
    )
    book.rows[made.row.id] = made.row
    return made


async def test_a_right_token_is_hashed_once(book: Book, clock: Clock) -> None:
    """The second time it is known; its row is looked at all the same."""
    hashed = []

    def check(parts: TokenParts, row: TokenRow | None) -> bool:
        hashed.append(parts.id)
        return matches(parts, row, WORK)

    made, gate = await keep(book, clock), gate_of(book, clock, check=check)
    for _ in range(3):
        identity = await gate.admit(made.token.encode(), HERE)
        assert (identity.token_id, identity.name, identity.role) == (made.row.id, "ci", Role.EDITOR)
    assert len(hashed) == 1
    assert book.asked == 4


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"wrong",
        b"x" * 6_000,
        "ört_".encode("latin-1"),
        b"ork_" + b"a" * 40,
        b"ort_000000000009_" + b"a" * 43,
        b"ort_000000000001_" + b"a" * 43,
    ],
)
async def test_every_wrong_token_is_refused_alike(book: Book, clock: Clock, token: bytes) -> None:
    """Whatever is wrong: no form, another kind of key, no row, another secret. Nothing of it is told."""
    await keep(book, clock)
    with pytest.raises(TokenRefusedError) as refused:
        await gate_of(book, clock, given="the operator's").admit(token, HERE)
    assert str(refused.value) == ""


async def test_a_revoked_or_expired_token_is_refused_at_once(book: Book, clock: Clock) -> None:
    """Also when it was let in a moment ago."""
    made, gate = await keep(book, clock, expires_s=60), gate_of(book, clock)
    await gate.admit(made.token.encode(), HERE)
    book.rows[made.row.id] = replace(made.row, revoked_at=clock.now())
    with pytest.raises(TokenRefusedError):
        await gate.admit(made.token.encode(), HERE)
    book.rows[made.row.id] = made.row
    assert await gate.admit(made.token.encode(), HERE)
    clock.pass_s(60)
    with pytest.raises(TokenRefusedError):
        await gate.admit(made.token.encode(), HERE)


async def test_the_operators_token_is_valid_while_it_is_given(book: Book, clock: Clock) -> None:
    """Any text; blanks around it do not count; nothing of it is kept."""
    gate = gate_of(book, clock, given=" pass wörd ")
    identity = await gate.admit("pass wörd".encode(), HERE)
    assert (identity.name, identity.role) == ("admin", Role.ADMIN)
    assert await gate.holder(identity.token_id) == identity
    with pytest.raises(TokenRefusedError):
        await gate_of(book, clock).holder(identity.token_id)
    with pytest.raises(TokenRefusedError):
        await gate_of(book, clock, given=" ").admit(b"", HERE)
    assert book.rows == {}


async def test_guessing_is_slowed_down_per_source(book: Book, clock: Clock) -> None:
    """A known token and other addresses are never held up by it."""
    made, gate = await keep(book, clock), gate_of(book, clock, burst=2)
    await gate.admit(made.token.encode(), HERE)
    for guess in (b"one", b"two"):
        with pytest.raises(TokenRefusedError):
            await gate.admit(guess, HERE)
    with pytest.raises(TooManyFailuresError) as held:
        await gate.admit(b"three", HERE)
    assert held.value.retry_after_s == 2
    assert await gate.admit(made.token.encode(), HERE)
    with pytest.raises(TokenRefusedError):
        await gate.admit(b"three", "10.0.0.2")


async def test_repeating_one_wrong_token_is_no_guessing(book: Book, clock: Clock) -> None:
    """A caller with an old token is refused again and again, and its neighbours are not held up."""
    gate = gate_of(book, clock, burst=2)
    for _ in range(10):
        with pytest.raises(TokenRefusedError):
            await gate.admit(b"old", HERE)
        clock.pass_s(REFUSED_FOR_S / 2)
    with pytest.raises(TokenRefusedError):
        await gate.admit(b"another", HERE)


async def test_a_token_that_is_known_here_only_now_is_let_in(book: Book, clock: Clock) -> None:
    """Another replica has made it: refused at first, tried again a second later."""
    made, gate = await keep(book, clock), gate_of(book, clock)
    row = book.rows.pop(made.row.id)
    with pytest.raises(TokenRefusedError):
        await gate.admit(made.token.encode(), HERE)
    book.rows[row.id] = row
    with pytest.raises(TokenRefusedError):
        await gate.admit(made.token.encode(), HERE)
    clock.pass_s(REFUSED_FOR_S)
    assert await gate.admit(made.token.encode(), HERE)


async def test_right_tokens_cost_their_source_nothing(book: Book, clock: Clock) -> None:
    """Many programs behind one address can log in."""
    gate = gate_of(book, clock, burst=1)
    entropy = counting_entropy()
    for _ in range(3):
        made = new_token("x", Role.VIEWER, (), now=clock.now(), expires_at=None, entropy=entropy, work=WORK)
        book.rows[made.row.id] = made.row
        assert await gate.admit(made.token.encode(), HERE)


async def test_memory_is_bounded(book: Book, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong token seen longest ago is forgotten, and counted again when it comes back."""
    monkeypatch.setattr(module, "MAX_KNOWN", 1)
    gate = gate_of(book, clock, burst=3)
    for guess in (b"one", b"two", b"one"):
        with pytest.raises(TokenRefusedError):
            await gate.admit(guess, HERE)
    with pytest.raises(TooManyFailuresError):
        await gate.admit(b"two", HERE)


@pytest.mark.parametrize(
    ("role", "joins"),
    [(Role.SIDECAR, True), (Role.ADMIN, True), (Role.EDITOR, False), (Role.VIEWER, False)],
)
async def test_sidecars_and_admins_join_the_push_stream(
    book: Book, clock: Clock, role: Role, joins: bool
) -> None:
    """An editor changes policy but is no sidecar; a wrong token joins nothing."""
    made, gate = await keep(book, clock, role), gate_of(book, clock, burst=1)
    assert await gate.may_join(made.token, HERE) is joins
    assert not await gate.may_join("wrong", HERE)
    assert not await gate.may_join("wronger", HERE)
