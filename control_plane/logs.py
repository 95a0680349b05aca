"""The control plane's log: one JSON object a line on stderr."""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger, Processor

LEVELS: Final = ("debug", "info", "warning", "error")


def configure_logging(process: str, level: str) -> FilteringBoundLogger:
    """Send this process's log, other libraries' too, to stderr and return the logger to use.

    JSON escapes every control character, so no value can forge a line.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", key="time"),
        structlog.processors.format_exc_info,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        cache_logger_on_first_use=False,
    )
    log: FilteringBoundLogger = structlog.get_logger("outrigger").bind(process=process)
    return log
