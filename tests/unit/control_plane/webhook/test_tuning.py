"""What a pod asks of its own pair."""

from __future__ import annotations

import pytest

from control_plane.webhook.tuning import BadAnnotationError, tuning_of
from tests.unit.control_plane.webhook.pods import SETTINGS

P = "outrigger.dev/"


def test_without_annotations_the_settings_hold() -> None:
    """The operator's ports, images and resources."""
    tuning = tuning_of({}, SETTINGS)
    assert (tuning.proxy_port, tuning.workers, tuning.log_level) == (10000, 1, "warning")
    assert tuning.image == SETTINGS.image
    assert tuning.processor_resources == SETTINGS.processor_resources


def test_annotations_win() -> None:
    """Each has its own."""
    tuning = tuning_of(
        {
            P + "proxy-port": "12000",
            P + "workers": "2",
            P + "log-level": "debug",
            P + "sidecar-image": "a:1",
            P + "envoy-image": "b:1",
            P + "processor-cpu": "1",
            P + "envoy-memory-limit": "2Gi",
        },
        SETTINGS,
    )
    assert (tuning.proxy_port, tuning.workers, tuning.log_level) == (12000, 2, "debug")
    assert (tuning.image, tuning.envoy_image) == ("a:1", "b:1")
    assert tuning.processor_resources["requests"]["cpu"] == "1"
    assert tuning.envoy_resources["limits"] == {"memory": "2Gi"}


def test_a_default_gives_way_to_what_the_pod_asks() -> None:
    """A pod with a request above its limit would be refused: whichever of the two was not asked for moves."""
    low = tuning_of({P + "envoy-memory-limit": "32Mi"}, SETTINGS).envoy_resources
    assert (low["requests"]["memory"], low["limits"]["memory"]) == ("32Mi", "32Mi")
    high = tuning_of({P + "envoy-memory": "4Gi"}, SETTINGS).envoy_resources
    assert (high["requests"]["memory"], high["limits"]["memory"]) == ("4Gi", "4Gi")


@pytest.mark.parametrize(
    "annotations",
    [
        *(
            {P + "proxy-port": text}
            for text in ("", "0", "1023", "65536", "-1", "1e4", "abc", "٣٣٣٣", "9" * 99)
        ),
        {P + "workers": "0"},
        {P + "log-level": "loud"},
        {P + "sidecar-image": ""},
        {P + "envoy-image": "a b"},
        {P + "processor-cpu": "lots"},
        {P + "processor-memory": "2Gi", P + "processor-memory-limit": "1Gi"},
    ],
    ids=repr,
)
def test_a_bad_annotation_is_named(annotations: dict[str, str]) -> None:
    """The message says which one and what it takes."""
    with pytest.raises(BadAnnotationError, match=f"annotation {P}"):
        tuning_of(annotations, SETTINGS)
