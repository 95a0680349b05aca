"""Why the registry refuses; what a document is refused for is `resources.problems.InvalidDocumentsError`.

No message quotes a value, a key, a URL or SQL.
"""

from __future__ import annotations

from collections.abc import Iterable

from control_plane.resources.problems import Problem


class RegistryError(Exception):
    """Base of what this package raises; its text is a sentence for the user."""


class NotFoundError(RegistryError):
    """What was named does not exist. `target` is `Kind/name`, `revision 7`, `key k1`."""

    def __init__(self, target: str) -> None:
        self.target = target
        super().__init__(f"{target} does not exist")


class PreconditionError(RegistryError):
    """The document is not as the caller counted on. `current` is its ETag, None when there is none."""

    def __init__(self, target: str, current: str | None) -> None:
        self.target = target
        self.current = current
        found = f"is at {current}" if current else "does not exist"
        super().__init__(f"{target} {found}; read it again and repeat the change")


class InUseError(RegistryError):
    """What was to be deleted is named by others; `problems` has one entry for each place that names it."""

    def __init__(self, target: str, problems: Iterable[Problem]) -> None:
        self.target = target
        self.problems = tuple(problems)
        users = ", ".join(dict.fromkeys(problem.document for problem in self.problems))
        super().__init__(f"{target} is in use by {users}; change or delete them first")


class OwnedError(RegistryError):
    """What was to be changed is mirrored from elsewhere; `problems` has one entry for each such thing."""

    def __init__(self, owned: Iterable[tuple[str, str]]) -> None:
        """`owned`: what it is (`Kind/name`), and the name of its owner."""
        found = dict(owned)
        self.problems = tuple(
            Problem(target, "", f"is mirrored from {owner}; change it there")
            for target, owner in found.items()
        )
        owners = " and ".join(sorted(set(found.values())))
        some = len(found) > 1
        super().__init__(
            f"{', '.join(found)} {'are' if some else 'is'} mirrored from {owners}; "
            f"change {'them' if some else 'it'} there"
        )


class ReleaseConflictError(RegistryError):
    """A Release cannot do what was asked: it has ended, or somebody else was first."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"Release/{name} {reason}")


class StoreUnavailableError(RegistryError):
    """The database does not answer; nothing was changed. `reason` says why, without address or password."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the database cannot be used now ({reason}); nothing was changed")


class StorageFullError(RegistryError):
    """There is no room for the change; nothing was changed."""

    def __init__(self) -> None:
        super().__init__("the database's disk is full; nothing was changed, free some space and repeat")


class StoreOpenError(RegistryError):
    """The database cannot be used by this build or with this configuration; the text says what to do."""


class SecretKeyError(RegistryError):
    """The key that encrypts stored secrets is missing or wrong; the text says what to do."""
