"""Tests of the rules of xDS: conversations, message by message."""

from __future__ import annotations

from ext_proc.agent.render.clusters import CLUSTER_TYPE
from ext_proc.agent.render.routes import ROUTES_NAME, ROUTES_TYPE
from ext_proc.agent.render.secrets import SECRET_TYPE
from ext_proc.agent.resources import ResourceSet, resource_set
from ext_proc.agent.subscriptions import Request, Response, Subscriptions


def served(*clusters: str, timeout: str = "1s", **secrets: str) -> ResourceSet:
    """Return a set with these clusters and secrets and a route table."""
    return resource_set(
        {
            CLUSTER_TYPE: {name: {"name": name, "connect_timeout": timeout} for name in clusters},
            SECRET_TYPE: {
                name: {"name": name, "generic_secret": {"secret": {"inline_string": value}}}
                for name, value in secrets.items()
            },
            ROUTES_TYPE: {ROUTES_NAME: {"name": ROUTES_NAME}},
        }
    )


def only(responses: list[Response]) -> Response:
    """Return the one response there is."""
    (response,) = responses
    return response


def test_nothing_is_sent_unasked() -> None:
    """A type is sent when Envoy subscribes to it, not before."""
    subscriptions = Subscriptions()
    assert subscriptions.due(served("a")) == []
    subscriptions.on_request(Request(CLUSTER_TYPE))
    response = only(subscriptions.due(served("a", "b")))
    assert (response.type_url, response.names, response.nonce) == (CLUSTER_TYPE, ("a", "b"), "1")


def test_empty_set_is_sent_as_such() -> None:
    """A wildcard subscription to nothing is answered with nothing, so that Envoy does not wait."""
    subscriptions = Subscriptions()
    subscriptions.on_request(Request(CLUSTER_TYPE))
    assert only(subscriptions.due(served())).names == ()
    assert subscriptions.due(served()) == []


def test_acknowledged_version_is_not_sent_again() -> None:
    """After an ACK nothing is due until the content changes; then it is accepted only after its own ACK."""
    subscriptions, old, new = Subscriptions(), served("a"), served("a", timeout="2s")
    subscriptions.on_request(Request(CLUSTER_TYPE))
    first = only(subscriptions.due(old))
    assert not subscriptions.accepted(CLUSTER_TYPE, old.types[CLUSTER_TYPE])
    subscriptions.on_request(Request(CLUSTER_TYPE, nonce=first.nonce))
    assert subscriptions.accepted(CLUSTER_TYPE, old.types[CLUSTER_TYPE])
    assert subscriptions.due(old) == []
    second = only(subscriptions.due(new))
    assert second.version != first.version
    assert not subscriptions.accepted(CLUSTER_TYPE, new.types[CLUSTER_TYPE])
    subscriptions.on_request(Request(CLUSTER_TYPE, nonce=second.nonce))
    assert subscriptions.accepted(CLUSTER_TYPE, new.types[CLUSTER_TYPE])


def test_stale_nonce_is_ignored() -> None:
    """An answer to a response before the last one acknowledges nothing."""
    subscriptions, old, new = Subscriptions(), served("a"), served("b")
    subscriptions.on_request(Request(CLUSTER_TYPE))
    first = only(subscriptions.due(old))
    second = only(subscriptions.due(new))
    subscriptions.on_request(Request(CLUSTER_TYPE, nonce=first.nonce, error="stale"))
    assert not subscriptions.accepted(CLUSTER_TYPE, new.types[CLUSTER_TYPE])
    assert subscriptions.refusal(CLUSTER_TYPE, second.version) is None


def test_refused_version_is_not_sent_again() -> None:
    """A NACK keeps its reason; the version stays unsent, the one before and later ones are sent."""
    subscriptions, good, bad, later = Subscriptions(), served("a"), served("bad"), served("c")
    subscriptions.on_request(Request(CLUSTER_TYPE))
    subscriptions.on_request(Request(CLUSTER_TYPE, nonce=only(subscriptions.due(good)).nonce))
    refused = only(subscriptions.due(bad))
    subscriptions.on_request(Request(CLUSTER_TYPE, nonce=refused.nonce, error="no such thing"))
    assert subscriptions.refusal(CLUSTER_TYPE, refused.version) == "no such thing"
    assert subscriptions.due(bad) == []
    assert only(subscriptions.due(good)).names == ("a",)
    assert subscriptions.due(bad) == []
    assert only(subscriptions.due(later)).names == ("c",)


def test_new_names_are_a_new_subscription() -> None:
    """A request with other names is answered although the version is the same."""
    subscriptions, current = Subscriptions(), served(a="1", b="2")
    subscriptions.on_request(Request(SECRET_TYPE, ("a",)))
    first = only(subscriptions.due(current))
    assert first.names == ("a",)
    subscriptions.on_request(Request(SECRET_TYPE, ("b", "a"), first.nonce))
    assert not subscriptions.accepted(SECRET_TYPE, current.types[SECRET_TYPE])
    second = only(subscriptions.due(current))
    assert (second.names, second.version) == (("a", "b"), first.version)


def test_unknown_names_are_waited_for() -> None:
    """A name that nobody serves yet is not answered; when it is there, it is."""
    subscriptions = Subscriptions()
    subscriptions.on_request(Request(SECRET_TYPE, ("a",)))
    assert subscriptions.due(served()) == []
    assert only(subscriptions.due(served(a="1"))).names == ("a",)


def test_abandoned_type_holds_nothing_up() -> None:
    """A type of which Envoy wants nothing any more counts as accepted, whatever its version."""
    subscriptions = Subscriptions()
    subscriptions.on_request(Request(SECRET_TYPE, ("a",)))
    first = only(subscriptions.due(served(a="1")))
    subscriptions.on_request(Request(SECRET_TYPE, (), first.nonce))
    assert subscriptions.due(served(b="2")) == []
    assert subscriptions.accepted(SECRET_TYPE, served(b="2").types[SECRET_TYPE])


def test_new_stream_gets_everything() -> None:
    """A first request that carries the nonce of a stream before it is answered."""
    subscriptions = Subscriptions()
    subscriptions.on_request(Request(ROUTES_TYPE, (ROUTES_NAME,), nonce="17"))
    assert only(subscriptions.due(served())).names == (ROUTES_NAME,)
