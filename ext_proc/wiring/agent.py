"""The agent's process."""

from __future__ import annotations

import os
import random

import structlog
import uvloop

from ext_proc.agent.run import run_agent as run
from ext_proc.quick_start import started
from ext_proc.settings import AgentSettings
from ext_proc.telemetry.logs import configure_logging


def run_agent(settings: AgentSettings) -> int:
    """Run the agent until it is told to stop; return its exit status."""
    configure_logging("agent", settings.log_level)
    epoch = os.urandom(8).hex()
    log = structlog.get_logger("agent")
    started()
    uvloop.run(run(settings, os.environ, random.random, log, epoch=epoch))
    return 0
