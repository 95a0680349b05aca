"""Options that several commands share: their types, and the choices they take."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer


class LogLevel(StrEnum):
    """From which level on the log is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


DEFAULT_DATA_DIR: Final = Path(".outrigger")

ProxyPort = Annotated[int, typer.Option(min=1, max=65535, metavar="PORT", help="Where applications call.")]
MetricsPort = Annotated[int, typer.Option(min=1, max=65535, metavar="PORT", help="Prometheus metrics.")]
AdminPort = Annotated[
    int, typer.Option(min=1, max=65535, metavar="PORT", help="Envoy's admin; always on loopback.")
]
DataDir = Annotated[
    Path, typer.Option(metavar="DIR", help="What is kept over restarts; one mesh at a time may use it.")
]
Workers = Annotated[int, typer.Option(min=1, max=256, help="Number of processors.")]
Database = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="OUTRIGGER_DATABASE",
        help="Where policy is stored: postgresql://…; else SQLite in the data folder.",
    ),
]
AdminToken = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        envvar="OUTRIGGER_ADMIN_TOKEN",
        help="A token that is admin of the API (better by the variable: options show in ps).",
    ),
]


class Output(StrEnum):
    """How a result is printed: for people, as the API answers it, or as YAML."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


DEFAULT_SERVER: Final = "http://127.0.0.1:8080"

Server = Annotated[
    str, typer.Option("--server", metavar="URL", envvar="OUTRIGGER_SERVER", help="The control plane's API.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="File of the token; else OUTRIGGER_TOKEN holds it."),
]
Ca = Annotated[
    Path | None,
    typer.Option("--ca", metavar="FILE", help="Authority of the server's certificate (PEM)."),
]
Format = Annotated[Output, typer.Option("--output", "-o", help="How to print the result.")]
Files = Annotated[
    list[Path],
    typer.Option(
        "--file", "-f", help="File or folder of documents (- is stdin); may be repeated.", metavar="FILE"
    ),
]


def redis_url(url: str | None) -> str | None:
    """Return the URL of a Redis, None for none.

    Raises:
        typer.BadParameter: redis-py knows no such URL; it is not quoted, since it may hold a password.
    """
    if url and not (url.startswith(("redis://", "rediss://", "unix://")) and _is_readable(url)):
        raise typer.BadParameter(
            "is redis://HOST:PORT/0, rediss://… or unix://PATH; / and # in a password are %2F and %23"
        )
    return url or None


def _is_readable(url: str) -> bool:
    """Whether the address in `url` has a port that is one, and a database that is a number."""
    parts = urlsplit(url)
    try:
        known = parts.port is None or parts.port > 0
    except ValueError:
        return False
    database = parts.path.removeprefix("/")
    return known and (parts.scheme == "unix" or not database or database.isdecimal())


def cache_database_url(url: str | None) -> str | None:
    """Return the URL of the cache's database, None for none.

    Raises:
        typer.BadParameter: it is no such URL; it is not quoted, since it may hold a password.
    """
    if url and not url.startswith(("postgresql://", "postgres://", "sqlite:///")):
        raise typer.BadParameter("is postgresql://USER:PASSWORD@HOST/NAME or sqlite:///PATH")
    return url or None


CacheDatabase = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="OUTRIGGER_CACHE_DATABASE",
        show_envvar=True,
        callback=cache_database_url,
        help="Database that keeps cached answers: postgresql://… or sqlite:///PATH.",
    ),
]

Redis = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar="OUTRIGGER_REDIS",
        show_envvar=True,
        callback=redis_url,
        help="Redis for what processors share: redis://HOST:PORT/0.",
    ),
]
