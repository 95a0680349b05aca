"""If-Match and If-None-Match on a document (RFC 9110, 13.1; pure)."""

from __future__ import annotations

from control_plane.registry.errors import PreconditionError
from control_plane.registry.values import StoredDocument


def check_preconditions(
    target: str, stored: StoredDocument | None, if_match: str | None, *, if_none_match: bool = False
) -> None:
    """Pass when `stored` is what the caller counts on.

    `if_match` is the header's text: `*` (there is one) or entity tags, of which one must be the document's.
    Weak tags match nothing. `if_none_match`: there is none yet.

    Raises:
        PreconditionError: it is not.
    """
    current = stored.etag if stored else None
    if if_none_match and stored is not None:
        raise PreconditionError(target, current)
    if if_match is None:
        return
    tags = [tag.strip() for tag in if_match.split(",")]
    if current is None or (tags != ["*"] and current not in tags):
        raise PreconditionError(target, current)
