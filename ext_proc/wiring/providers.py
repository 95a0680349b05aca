"""What a processor knows of providers, and with whom it shares that."""

from __future__ import annotations

import random
import secrets
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass

from structlog.typing import FilteringBoundLogger

from ext_proc.providers.cooling import Cooling
from ext_proc.providers.pacing import Spread
from ext_proc.providers.quota import MemoryQuotas
from ext_proc.providers.watch import Nobody, Watch
from ext_proc.settings import ProcessorSettings, SettingsError
from ext_proc.stages.hold import Quotas
from ext_proc.wiring.sessions import clocks


@dataclass(frozen=True, slots=True)
class Providers:
    """Which Backends are to be left alone, and who counts what is drawn from their quotas."""

    watch: Watch
    quotas: Quotas


def alone() -> Providers:
    """Return what a processor knows by itself."""
    watch = Watch(Cooling(random.random), Spread(), Nobody(), time.monotonic, time.time)
    return Providers(watch, MemoryQuotas(lambda: time.monotonic_ns() // 1000))


async def open_providers(
    settings: ProcessorSettings, log: FilteringBoundLogger, owned: AsyncExitStack
) -> Providers:
    """Return what is known of providers, shared if the settings name a Redis; `owned` closes it."""
    if settings.redis is None:
        return alone()
    # A megabyte of modules.
    from ext_proc.stores.redis import connect  # noqa: PLC0415
    from ext_proc.stores.shared_cooling import RedisCooling  # noqa: PLC0415
    from ext_proc.stores.shared_quota import RedisQuotas  # noqa: PLC0415

    try:
        client = connect(settings.redis)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    owned.push_async_callback(client.aclose)
    owner = secrets.token_hex(8)
    others, quotas = RedisCooling(client, clocks, log, owner), RedisQuotas(client, clocks, log, owner)
    owned.push_async_callback(others.close)
    owned.push_async_callback(quotas.close)
    watch = Watch(Cooling(random.random), Spread(), others, time.monotonic, time.time)
    others.listen(watch.heard)
    quotas.on_freed = watch.changed
    return Providers(watch, quotas)
