"""The ports of the pair."""

from __future__ import annotations

from control_plane.webhook.ports import Ports, ports_for, ports_of


def test_the_usual_ports() -> None:
    """With nothing in the way each has its own."""
    assert ports_for(10000, frozenset()) == Ports(10000, 19001, 19002, 19003)


def test_ours_move_out_of_the_way() -> None:
    """The pod's ports and the proxy's stay; ours are four different ones."""
    ports = ports_for(19002, frozenset({19001, 19003}))
    assert ports == Ports(19002, 19004, 19005, 19006)


def test_ports_are_those_listened_on_probed_and_called() -> None:
    """Of every container; names of ports are found by their numbers."""
    container = {
        "ports": [{"containerPort": 1}, {"name": "odd"}],
        "startupProbe": {"httpGet": {"port": "named"}},
        "readinessProbe": {"tcpSocket": {"port": 2}},
        "livenessProbe": {"grpc": {"port": 3}},
        "lifecycle": {"postStart": {"tcpSocket": {"port": 5}}, "preStop": {"httpGet": {"port": 6}}},
    }
    assert ports_of({"containers": [container], "initContainers": [{"ports": [{"containerPort": 4}]}]}) == {
        1,
        2,
        3,
        4,
        5,
        6,
    }


def test_only_ports_of_tcp_are_in_the_way() -> None:
    """TCP is meant where no protocol is named; hooks that run a command reach no port."""
    ports = [
        {"containerPort": 1, "protocol": "UDP"},
        {"containerPort": 2, "protocol": "SCTP"},
        {"containerPort": 3, "protocol": "TCP"},
        {"containerPort": 4, "protocol": None},
    ]
    hooks = {"preStop": {"exec": {"command": ["true"]}}, "postStart": None}
    assert ports_of({"containers": [{"ports": ports, "lifecycle": hooks}]}) == {3, 4}
