"""What a pod asks of its own pair by annotations (pure): the proxy's port, resources, images."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from control_plane.webhook.names import PREFIX
from control_plane.webhook.quantities import amount
from control_plane.webhook.settings import InjectionSettings, Resources

PROXY_PORT: Final = PREFIX + "proxy-port"
WORKERS: Final = PREFIX + "workers"
LOG_LEVEL: Final = PREFIX + "log-level"
SIDECAR_IMAGE: Final = PREFIX + "sidecar-image"
ENVOY_IMAGE: Final = PREFIX + "envoy-image"
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
RESOURCES: Final = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "cpu-limit": ("limits", "cpu"),
    "memory-limit": ("limits", "memory"),
}
"""What stands behind `outrigger.dev/processor-` and `outrigger.dev/envoy-`."""
TAKEN: Final = frozenset(
    {PROXY_PORT, WORKERS, LOG_LEVEL, SIDECAR_IMAGE, ENVOY_IMAGE}
    | {f"{PREFIX}{container}-{what}" for container in ("processor", "envoy") for what in RESOURCES}
)
"""Every annotation that tunes a pair."""
MAX_WORKERS: Final = 64
MAX_IMAGE: Final = 512


class BadAnnotationError(ValueError):
    """An annotation cannot be used; the message names it and says what it takes."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """One pod's pair, after its annotations."""

    proxy_port: int
    workers: int
    log_level: str
    image: str
    envoy_image: str
    processor_resources: Resources
    envoy_resources: Resources


def tuning_of(annotations: Mapping[str, Any], settings: InjectionSettings) -> Tuning:
    """Return what `settings` come to for a pod with `annotations`.

    Raises:
        BadAnnotationError: one has a value that it does not take.
    """
    return Tuning(
        proxy_port=_whole(annotations, PROXY_PORT, settings.proxy_port, 1024, 65535),
        workers=_whole(annotations, WORKERS, 1, 1, MAX_WORKERS),
        log_level=_level(annotations),
        image=_image(annotations, SIDECAR_IMAGE, settings.image),
        envoy_image=_image(annotations, ENVOY_IMAGE, settings.envoy_image),
        processor_resources=_resources(annotations, "processor", settings.processor_resources),
        envoy_resources=_resources(annotations, "envoy", settings.envoy_resources),
    )


def _whole(annotations: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    if name not in annotations:
        return default
    text = str(annotations[name])
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and low <= int(text) <= high):
        raise BadAnnotationError(f"annotation {name} must be a whole number from {low} to {high}")
    return int(text)


def _level(annotations: Mapping[str, Any]) -> str:
    level = str(annotations.get(LOG_LEVEL, "warning"))
    if level not in LOG_LEVELS:
        raise BadAnnotationError(f"annotation {LOG_LEVEL} must be one of {', '.join(LOG_LEVELS)}")
    return level


def _image(annotations: Mapping[str, Any], name: str, default: str) -> str:
    image = str(annotations.get(name, default))
    if not image or len(image) > MAX_IMAGE or not image.isprintable() or " " in image:
        raise BadAnnotationError(f"annotation {name} must be the reference of an image")
    return image


def _resources(annotations: Mapping[str, Any], container: str, defaults: Resources) -> Resources:
    """Return `defaults` with what the pod asks for; a default gives way where the two would contradict."""
    asked = dict(_asked(annotations, container))
    merged = {kind: dict(defaults.get(kind) or {}) for kind in ("requests", "limits")}
    for (kind, resource), value in asked.items():
        merged[kind][resource] = value
    for resource in ("cpu", "memory"):
        request, limit = merged["requests"].get(resource), merged["limits"].get(resource)
        if request is None or limit is None or amount(request) <= amount(limit):
            continue
        if ("requests", resource) not in asked:
            merged["requests"][resource] = limit
        elif ("limits", resource) not in asked:
            merged["limits"][resource] = request
        else:
            raise BadAnnotationError(
                f"annotation {PREFIX}{container}-{resource} must not be above its -{resource}-limit"
            )
    return {kind: amounts for kind, amounts in merged.items() if amounts}


def _asked(annotations: Mapping[str, Any], container: str) -> Iterator[tuple[tuple[str, str], str]]:
    for what, place in RESOURCES.items():
        name = f"{PREFIX}{container}-{what}"
        if name not in annotations:
            continue
        value = str(annotations[name])
        try:
            amount(value)
        except ValueError as error:
            raise BadAnnotationError(f"annotation {name}: {error}") from None
        yield place, value
