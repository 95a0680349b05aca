"""Growth of processes, and of whom it is told."""

from __future__ import annotations

import os
import socket

import pytest

from tests.harness.processes import Child, free_ports
from tests.soak.watching import MIB, Sample, Watch, growth, slope


def test_a_straight_line() -> None:
    """Through its points; of one point it is flat."""
    assert slope([0.0, 1.0, 2.0], [1.0, 3.0, 5.0]) == pytest.approx(2.0)
    assert slope([1.0], [7.0]) == 0.0


def test_what_a_process_takes_at_first_is_no_growth() -> None:
    """A minute to settle, then each MiB counts."""
    rss = [*(10 + at for at in range(30)), *[40] * 60, *[41] * 60]
    samples = [Sample(at * 2.0, mib * MIB, {"pipes": 20}) for at, mib in enumerate(rss)]
    found = growth("processor", 1, samples)
    assert found.rss_mib_more == pytest.approx(1.0)
    assert (found.descriptors, found.descriptors_more) == (20, 0)
    assert found.rss_mib_per_hour > 0


def test_it_is_told_of_what_there_are_more_descriptors() -> None:
    """By the port that they go to; what there are fewer of is left out, and what others opened."""
    kinds = [{"to port 6379": 2, "pipes": 5, "at port 10000": 1}] * 90
    kinds += [{"to port 6379": 40, "pipes": 4, "at port 10000": 500}] * 60
    samples = [Sample(at * 2.0, MIB, one) for at, one in enumerate(kinds)]
    found = growth("processor", 1, samples)
    assert (found.descriptors_more, found.kinds_more) == (37, {"to port 6379": 38})


def test_descriptors_are_told_apart() -> None:
    """A connection by its port, whatever else there is by what it is."""
    (port,) = free_ports(1)
    watch = Watch(lambda: [Child(os.getpid(), "agent", "")])
    with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
        watch.sample()
    (life,) = watch.lives.values()
    assert life.samples[0].kinds[f"to port {port}"] == 1


def test_this_very_process_is_sampled() -> None:
    """Its memory and its descriptors; one that is gone is left out, a short life says nothing."""
    watch = Watch(lambda: [Child(os.getpid(), "agent", ""), Child(2**22 + 1, "agent", "")])
    watch.sample()
    (life,) = watch.lives.values()
    assert life.samples[0].rss_bytes > MIB
    assert life.samples[0].descriptors > 0
    assert watch.grown() == []
