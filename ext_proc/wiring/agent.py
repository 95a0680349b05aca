"""The agent's process."""

from __future__ import annotations

import os
import random

import structlog
import uvloop

from ext_proc.settings import AgentSettings
from ext_proc.telemetry.logs import configure_logging


def run_agent(settings: AgentSettings) -> int:
    """Run the agent until it is told to stop; return its exit status."""
    # Imported here, so that a processor does not load the agent: 200 modules and 6 MB.
    from ext_proc.agent import run as agent  # noqa: PLC0415

    configure_logging("agent", settings.log_level)
    epoch = os.urandom(8).hex()
    log = structlog.get_logger("agent")
    uvloop.run(agent.run_agent(settings, os.environ, random.random, log, epoch=epoch))
    return 0
