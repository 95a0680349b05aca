"""Pin: a fixed answer, served with no model call."""

from __future__ import annotations

from control_plane.resources.kinds.spec import Prose, Spec, Text


class PinMatch(Spec):
    """The exact last user message that is answered."""

    last_user_message: Prose


class PinSpec(Spec):
    """`spec` of a Pin."""

    model: Text
    match: PinMatch
    answer: Prose
