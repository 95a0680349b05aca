"""Envoy's command line without the program: the same beside a launcher and in a container of its own."""

from __future__ import annotations

from pathlib import PurePath


def envoy_options(config: PurePath, *, concurrency: int = 1, log_level: str = "warn") -> list[str]:
    """Return the options of an Envoy with the bootstrap at `config`.

    Args:
        config: the bootstrap's path, as Envoy sees it.
        concurrency: worker threads.
        log_level: one of Envoy's.
    """
    return [
        "--config-path",
        str(config),
        "--concurrency",
        str(concurrency),
        "--disable-hot-restart",
        "--log-level",
        log_level,
        # `ext_proc` would write a line for each request without a processor (the access log counts them),
        # `config` for each try to reach an agent that starts later, `misc` for each filter that is young,
        # `sse` for each event of a provider whose usage is odd, or that is long.
        "--component-log-level",
        "ext_proc:error,misc:error,config:error,sse:error",
        # Escaped, so that nothing a caller sends can begin a line of the log.
        "--log-format-escaped",
        "--log-format",
        "envoy %Y-%m-%dT%T.%e%z %l %n %v",
        "--drain-time-s",
        "5",
    ]
