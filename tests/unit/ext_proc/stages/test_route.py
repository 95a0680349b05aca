"""Where a request goes and as what."""

from __future__ import annotations

import orjson
import pytest

from ext_proc.contract.routes import CallShape
from ext_proc.contract.snapshot import Backend, Consumer, CredentialRef, Version
from ext_proc.exchange import Answer, Exchange, Forward
from ext_proc.stages.route import Route, azure_path
from tests.unit.ext_proc.exchanges import HELLO, exchange, snapshot

AZURE = Backend("az", "https://x.openai.azure.com", protocol="azure-openai", api_version="2024-10-21")


def placed(upstream: str = "m", backend: str = "b", **arguments: object) -> Exchange:
    """Return an exchange that has a version and a Backend."""
    opened = exchange(**arguments)  # type: ignore[arg-type]
    opened.version = Version("v1", backend, upstream)
    opened.backend = opened.loaded.snapshot.backends[backend]
    opened.policy = opened.loaded.policy("m", "")
    return opened


async def test_an_unchanged_request_goes_byte_for_byte() -> None:
    """No body in the decision: Envoy sends the one it has."""
    decision = await Route().on_request(placed())
    assert isinstance(decision, Forward)
    assert decision.body is None
    assert decision.path is None
    assert decision.route.startswith("b.json.")


async def test_the_providers_name_of_the_model_is_written_in() -> None:
    """Everything else of the body stays, unknown fields too."""
    decision = await Route().on_request(placed("m-2024", document={**HELLO, "x_future": [1.50]}))
    assert isinstance(decision, Forward)
    assert decision.body is not None
    assert orjson.loads(decision.body) == {**HELLO, "x_future": [1.5], "model": "m-2024"}


async def test_streams_have_routes_of_their_own() -> None:
    """They may last hours."""
    decision = await Route().on_request(placed(document={**HELLO, "stream": True}))
    assert isinstance(decision, Forward)
    assert decision.route.startswith(f"b.{CallShape.STREAM}.")


async def test_a_consumer_key_never_leaves() -> None:
    """It is removed before the request goes on, on every path."""
    opened = placed()
    opened.consumer = Consumer("team", "acme")
    decision = await Route().on_request(opened)
    assert isinstance(decision, Forward)
    assert decision.remove == ("authorization", "api-key")
    raw = exchange(method="GET", path="/v1/files")
    raw.consumer = Consumer("team", "acme")
    decision = await Route().on_head(raw)
    assert isinstance(decision, Forward)
    assert decision.remove == ("authorization", "api-key")


async def test_whose_key_passes_is_told() -> None:
    """A digest of it; a Backend's own key is everybody's, and a Consumer's is for us."""
    told: list[object] = []
    passing, own = (
        Backend("b", "http://x/v1"),
        Backend("b", "http://x/v1", credential=CredentialRef("env", "K")),
    )
    for backend, tenant in ((passing, f"key:{'0' * 64}"), (own, f"key:{'0' * 64}"), (passing, "tenant:acme")):
        opened = placed()
        opened.backend, opened.tenant = backend, tenant
        decision = await Route().on_request(opened)
        assert isinstance(decision, Forward)
        told.append(dict(decision.metadata).get("key"))
    assert told == ["0" * 16, None, None]


ASKED = {"include_usage": True}


@pytest.mark.parametrize(
    ("wrote", "sent", "told"),
    [
        pytest.param({}, ASKED, True, id="nothing"),
        pytest.param({"stream_options": {"include_usage": False}}, ASKED, None, id="that it wants none"),
        pytest.param({"stream_options": ASKED}, ASKED, None, id="that it wants it"),
        pytest.param({"user": "stream_options"}, ASKED, None, id="the same word"),
        pytest.param({"user": "\u0001"}, ASKED, None, id="an escape that may be it"),
    ],
)
async def test_a_streams_usage_is_asked_for(wrote: dict[str, object], sent: object, told: object) -> None:
    """Where a stage reads the stream. A field that is ours alone ends the body, and that is told."""
    opened = placed(document={**HELLO, "stream": True, **wrote})
    opened.wants_stream = True
    decision = await Route().on_request(opened)
    assert isinstance(decision, Forward)
    assert opened.parsed.document["stream_options"] == sent
    assert opened.hides_usage is (wrote.get("stream_options") != ASKED)
    assert dict(decision.metadata).get("asks_usage") is told
    if told:
        assert decision.body is not None
        assert decision.body.endswith(b',"stream_options":{"include_usage":true}}')


async def test_who_refuses_to_be_asked_is_not() -> None:
    """The stream goes up as it came; another Backend is asked."""
    refusing = placed(document={**HELLO, "stream": True})
    refusing.wants_stream = True
    decision = await Route(lambda backend: backend == refusing.backend).on_request(refusing)
    assert isinstance(decision, Forward)
    assert (decision.body, refusing.hides_usage) == (None, False)
    assert "asks_usage" not in dict(decision.metadata)


async def test_other_paths_go_to_the_default_backend_unread() -> None:
    """Neither their body nor their response is asked for."""
    decision = await Route().on_head(exchange(method="GET", path="/v1/files"))
    assert isinstance(decision, Forward)
    assert decision.route.startswith("b.raw.")
    assert not decision.wants_response


async def test_without_a_default_backend_other_paths_are_503() -> None:
    """With one clear sentence."""
    answer = await Route().on_head(exchange(snapshot(default_backend=None), method="GET", path="/v1/files"))
    assert isinstance(answer, Answer)
    assert answer.status == 503


@pytest.mark.parametrize(
    ("url", "query", "expected"),
    [
        (
            "https://x.openai.azure.com",
            "",
            "/openai/deployments/d%2F1/chat/completions?api-version=2024-10-21",
        ),
        (
            "https://gw/base/openai",
            "",
            "/base/openai/deployments/d%2F1/chat/completions?api-version=2024-10-21",
        ),
        ("https://x", "a=1", "/openai/deployments/d%2F1/chat/completions?api-version=2024-10-21&a=1"),
        ("https://x", "api-version=mine", "/openai/deployments/d%2F1/chat/completions?api-version=mine"),
    ],
)
def test_azure_puts_the_deployment_in_the_path(url: str, query: str, expected: str) -> None:
    """A caller's own api-version stands; the rest of the query is kept."""
    backend = Backend("az", url, protocol="azure-openai", api_version="2024-10-21")
    assert azure_path(backend, "/v1/chat/completions", query, "d/1") == expected


async def test_an_azure_backend_gets_azures_path() -> None:
    """The processor sets it: Envoy's route has no rewrite."""
    policy = snapshot(backends={"b": Backend("b", "http://h"), "az": AZURE})
    decision = await Route().on_request(placed("dep", "az", policy=policy))
    assert isinstance(decision, Forward)
    assert decision.path == "/openai/deployments/dep/chat/completions?api-version=2024-10-21"
