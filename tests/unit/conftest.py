"""How property tests run here: the machine may be busy, so no example is failed for the time it took.

OUTRIGGER_EXAMPLES says how many examples each property is tried with.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("OUTRIGGER_EXAMPLES", "40"))

settings.register_profile(
    "unit", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unit")
