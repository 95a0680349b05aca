"""Consumer: a known caller."""

from __future__ import annotations

from control_plane.resources.kinds.spec import Limits, Spec, Text


class ConsumerSpec(Spec):
    """`spec` of a Consumer. Its keys are made by the API and are in no document."""

    tenant: Text
    tier: Text | None = None
    limits: Limits | None = None
