"""Which variables each process of a mesh is given (pure).

A variable may hold a provider's key, and which ones do is known only once the policy has come. So the
processes that callers' bytes reach are given what is listed here and nothing else; the agent, which resolves
keys, has the launcher's own environment, and so has a control plane, which resolves webhooks' secrets.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from control_plane.cli.launcher.settings import LaunchSettings

DATABASE_VARIABLE: Final = "OUTRIGGER_DATABASE"
ADMIN_TOKEN_VARIABLE: Final = "OUTRIGGER_ADMIN_TOKEN"
TOKEN_VARIABLE: Final = "OUTRIGGER_TOKEN"
REDIS_VARIABLE: Final = "OUTRIGGER_REDIS"
CACHE_DATABASE_VARIABLE: Final = "OUTRIGGER_CACHE_DATABASE"
METRICS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
SECRET_KEY_VARIABLE: Final = "OUTRIGGER_SECRET_KEY"
# No process needs what another one is told by these, and several are secrets.
OURS: Final = frozenset(
    {
        ADMIN_TOKEN_VARIABLE,
        CACHE_DATABASE_VARIABLE,
        DATABASE_VARIABLE,
        REDIS_VARIABLE,
        SECRET_KEY_VARIABLE,
        TOKEN_VARIABLE,
        "OUTRIGGER_API_PORT",
        "OUTRIGGER_BIND",
        "OUTRIGGER_DATA_DIR",
        "OUTRIGGER_METRICS_PORT",
        "OUTRIGGER_PLAYGROUND_PROXY",
        "OUTRIGGER_PUSH_ADDRESS",
        "OUTRIGGER_PUSH_CERT",
        "OUTRIGGER_PUSH_CLIENT_CA",
        "OUTRIGGER_PUSH_KEY",
        "OUTRIGGER_PUSH_PORT",
        # Not for the control plane of `up`, which has no cluster.
        "OUTRIGGER_TOKEN_REVIEW",
        "OUTRIGGER_WEBHOOK_PORT",
        "OUTRIGGER_WEBHOOK_CERT",
        "OUTRIGGER_WEBHOOK_KEY",
    }
)
# What any program may need to run at all: where things are, the language, the time zone, the allocator.
SYSTEM: Final = (
    *("GLIBC_TUNABLES", "HOME", "HOSTNAME", "LANG", "LANGUAGE", "LOGNAME", "NO_COLOR", "PATH", "TEMP"),
    *("TERM", "TMP", "TMPDIR", "TZ", "TZDIR", "USER", "VIRTUAL_ENV", "OUTRIGGER_ENVOY"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD"),
)
SYSTEM_PREFIXES: Final = ("DYLD_", "LC_", "MALLOC_", "PYTHON")
# A processor verifies the certificates of Redis and PostgreSQL.
PROCESSOR: Final = ("SSL_CERT_DIR", "SSL_CERT_FILE")
PROCESSOR_PREFIXES: Final = ("GRPC_",)
# libpq's, which complete the URL of a database.
DATABASE_PREFIXES: Final = (
    *("PGAPPNAME", "PGCHANNELBINDING", "PGCLIENTENCODING", "PGCONNECT", "PGDATABASE", "PGGSS", "PGHOST"),
    *("PGKRB", "PGOPTIONS", "PGPASS", "PGPORT", "PGREQUIRE", "PGSERVICE", "PGSSL", "PGTARGET", "PGUSER"),
)


class Environments:
    """What of the launcher's `environment` each kind of process is given.

    `secrets` are variables known to hold providers' keys, which nothing but the agent is given.
    """

    def __init__(
        self, settings: LaunchSettings, environment: Mapping[str, str], secrets: frozenset[str]
    ) -> None:
        self._settings = settings
        self._environment = environment
        self._inherited = {name: value for name, value in environment.items() if name not in OURS}
        self._secrets = secrets

    def __repr__(self) -> str:
        return f"<Environments of {len(self._environment)} variables>"

    def plain(self) -> dict[str, str]:
        """Return what Envoy and the simulated provider need: what any program does."""
        return self._those(SYSTEM, SYSTEM_PREFIXES)

    def processor(self) -> dict[str, str]:
        """Return what a processor needs, with the addresses of what processors share.

        The URLs go by variables, since they may hold passwords and command lines show in ps.
        """
        shared = {
            REDIS_VARIABLE: self._settings.redis,
            CACHE_DATABASE_VARIABLE: self._settings.cache_database,
        }
        prefixes: tuple[str, ...] = (*SYSTEM_PREFIXES, *PROCESSOR_PREFIXES)
        if self._settings.cache_database:
            prefixes = (*prefixes, *DATABASE_PREFIXES)
        return {**self._those((*SYSTEM, *PROCESSOR), prefixes), **_set(shared)}

    def agent(self) -> dict[str, str]:
        """Return everything but what others are told, for any of it may hold a provider's key."""
        return {**self._inherited, **(self._only(TOKEN_VARIABLE) if self._settings.control_plane else {})}

    def control_plane(self) -> dict[str, str]:
        """Return everything but providers' keys, and what only the control plane is told."""
        given = {
            DATABASE_VARIABLE: self._settings.database,
            ADMIN_TOKEN_VARIABLE: self._settings.admin_token,
        }
        public = {name: value for name, value in self._inherited.items() if name not in self._secrets}
        return {**public, **self._only(SECRET_KEY_VARIABLE), **_set(given)}

    def _those(self, names: Collection[str], prefixes: tuple[str, ...]) -> dict[str, str]:
        return {
            name: value
            for name, value in self._inherited.items()
            if (name in names or name.startswith(prefixes)) and name not in self._secrets
        }

    def _only(self, name: str) -> dict[str, str]:
        return {name: self._environment[name]} if name in self._environment else {}


def _set(variables: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if value}
