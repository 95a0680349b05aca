"""What the registry's errors say."""

from control_plane.registry.errors import (
    InUseError,
    NotFoundError,
    PreconditionError,
    StorageFullError,
    StoreUnavailableError,
)
from control_plane.resources.problems import Problem


def test_each_error_is_a_sentence_that_says_what_to_do() -> None:
    """It is shown as it is."""
    users = [
        Problem("Model/m", "spec.a", "x"),
        Problem("Model/m", "spec.b", "x"),
        Problem("Pin/p", "spec", "x"),
    ]
    assert [
        str(error)
        for error in (
            NotFoundError("revision 7"),
            PreconditionError("Tier/t", '"r3"'),
            PreconditionError("Tier/t", None),
            InUseError("Backend/b", users),
            StoreUnavailableError("connection refused"),
            StorageFullError(),
        )
    ] == [
        "revision 7 does not exist",
        'Tier/t is at "r3"; read it again and repeat the change',
        "Tier/t does not exist; read it again and repeat the change",
        "Backend/b is in use by Model/m, Pin/p; change or delete them first",
        "the database cannot be used now (connection refused); nothing was changed",
        "the database's disk is full; nothing was changed, free some space and repeat",
    ]
