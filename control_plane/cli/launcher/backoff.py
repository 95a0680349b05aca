"""How long to wait before a process is started again (pure)."""

from __future__ import annotations

from typing import Final

# At once after a lone death: a killed Envoy has to serve again within 6 s. The cap keeps within that too.
DELAYS_S: Final = (0.0, 0.25, 0.5, 1.0, 2.0, 3.0)
HEALTHY_AFTER_S: Final = 10.0


class Backoff:
    """Counts the deaths of one process; a run of ten seconds forgives all earlier ones."""

    def __init__(self) -> None:
        self.deaths = 0

    def __repr__(self) -> str:
        return f"<Backoff after {self.deaths} deaths>"

    def delay_s(self, ran_for_s: float) -> float:
        """Return the wait after a run of `ran_for_s` seconds has ended."""
        if ran_for_s >= HEALTHY_AFTER_S:
            self.deaths = 0
        delay = DELAYS_S[min(self.deaths, len(DELAYS_S) - 1)]
        self.deaths += 1
        return delay
