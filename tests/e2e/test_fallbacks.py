"""Who answers when the one that was asked cannot: other Models, each attempt right for its provider."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.documents import PROVIDER_KEY
from tests.harness.mesh import Mesh
from tests.harness.processes import free_ports
from tests.harness.raw_http import Answer, post
from tests.harness.rude import (
    STREAM_HEAD,
    Act,
    Piece,
    RudeProvider,
    chunk,
    completion,
    delta,
    event,
    reply,
    stream_events,
    stream_reply,
)

COOLED_S = 0.2
"""After a refusal without a time a Backend is left alone for a tenth of a second here."""
DOCUMENTS = """\
kind: Backend
metadata: {{name: first}}
spec: {{url: "http://127.0.0.1:{one}/v1", default: true}}
---
kind: Backend
metadata: {{name: long}}
spec: {{url: "http://127.0.0.1:{one}/v1"}}
---
kind: Backend
metadata: {{name: second}}
spec: {{url: "http://127.0.0.1:{two}/other/base", credentials: {{env: E2E_PROVIDER_KEY}}}}
---
kind: Backend
metadata: {{name: azure}}
spec:
  url: "http://127.0.0.1:{two}"
  protocol: azure-openai
  apiVersion: "2024-10-21"
  credentials: {{env: E2E_PROVIDER_KEY}}
---
kind: Backend
metadata: {{name: gone}}
spec: {{url: "http://127.0.0.1:{dead}/v1", timeouts: {{connect: 1s}}}}
---
kind: Model
metadata: {{name: main}}
spec: {{versions: [{{name: v1, backend: first, upstreamModel: main-upstream}}], fallbacks: [spare]}}
---
kind: Model
metadata: {{name: spare}}
spec: {{versions: [{{name: s1, backend: second, upstreamModel: "spare-längst-模型"}}], fallbacks: [main]}}
---
kind: Model
metadata: {{name: deployed}}
spec: {{versions: [{{name: a1, backend: azure, upstreamModel: my-deployment}}]}}
---
kind: Model
metadata: {{name: chain}}
spec: {{versions: [{{name: v1, backend: gone}}], fallbacks: [away, deployed]}}
---
kind: Model
metadata: {{name: away}}
spec: {{versions: [{{name: v1, backend: gone}}]}}
---
kind: Model
metadata: {{name: strict}}
spec: {{versions: [{{name: v1, backend: first}}], fallbacks: [spare]}}
---
kind: Model
metadata: {{name: hinted}}
spec: {{versions: [{{name: v1, backend: long}}], fallbacks: [spare]}}
---
kind: Model
metadata: {{name: told}}
spec: {{versions: [{{name: v1, backend: first}}], fallbacks: [spare]}}
---
kind: Policy
metadata: {{name: quick}}
spec: {{retry: {{attempts: 2, base: 50ms, max: 100ms}}, hold: {{max: 3s}}, cache: {{enabled: true}}}}
---
kind: Policy
metadata: {{name: told}}
spec: {{target: {{models: [told]}}, retry: {{retryOn: ["5xx", context-length]}}}}
"""


@pytest.fixture(scope="module")
def two() -> Iterator[RudeProvider]:
    """The provider that stands in."""
    with RudeProvider() as running:
        yield running


@pytest.fixture(scope="module")
def pair(rude: RudeProvider, two: RudeProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mesh]:
    """A mesh over both."""
    documents = DOCUMENTS.format(one=rude.port, two=two.port, dead=free_ports(1)[0])
    folder: Path = tmp_path_factory.mktemp("pair")
    with Mesh(folder, documents, environment={"E2E_PROVIDER_KEY": PROVIDER_KEY}) as started:
        yield started


@pytest.fixture(autouse=True)
async def _cooled() -> None:
    """Begin when what the test before has made cool has cooled."""
    await asyncio.sleep(COOLED_S)


def chat(model: str, question: str, **more: object) -> dict[str, object]:
    """Return a request nobody asked before; a nested `model` must stay as it is."""
    return {
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"model": model}}}],
        "model": model,
        "messages": [{"role": "user", "content": f'{question} "model": "x"'}],
        **more,
    }


def served(answer: Answer) -> tuple[str | None, str | None, str | None]:
    """Return who the answer says it is from."""
    return (
        answer.get("x-outrigger-model"),
        answer.get("x-outrigger-version"),
        answer.get("x-outrigger-backend"),
    )


async def test_a_stand_in_answers_after_the_tries(
    pair: Mesh, rude: RudeProvider, two: RudeProvider, script: str
) -> None:
    """Two tries on the first, then the fallback: its host, path, model and key; the answer names it."""
    headers = rude.script(script, reply(503, "{}"))
    two.script(script, reply(200, completion("from the spare")))
    body = chat("main", script)
    answer = await post(pair.proxy_port, body, {**headers, "authorization": "Bearer callers-own"})
    assert answer.status == 200
    assert served(answer) == ("spare", "s1", "second")
    assert answer.get("x-outrigger-attempts") == "3"
    tried, (stood_in,) = rude.seen(script), two.seen(script)
    assert [one.json()["model"] for one in tried] == ["main-upstream"] * 2
    assert {one.get("authorization") for one in tried} == {"Bearer callers-own"}
    assert stood_in.target == "/other/base/chat/completions"
    assert stood_in.get("host") == f"127.0.0.1:{two.port}"
    assert stood_in.get("authorization") == f"Bearer {PROVIDER_KEY}"
    assert stood_in.json() == {**body, "model": "spare-längst-模型"}
    assert not [name for name, _ in stood_in.headers if name.startswith(("x-outrigger", "x-envoy"))]


async def test_what_a_stand_in_answered_is_not_the_models_own(
    pair: Mesh, rude: RudeProvider, two: RudeProvider, script: str
) -> None:
    """It is not kept as an answer of the version that failed: the next call goes up again."""
    headers = rude.script(script, reply(503, "{}"), reply(503, "{}"), reply(200, completion("own")))
    two.script(script, reply(200, completion("from the spare")))
    first = await post(pair.proxy_port, chat("main", script), headers)
    await asyncio.sleep(COOLED_S)
    second = await post(pair.proxy_port, chat("main", script), headers)
    third = await post(pair.proxy_port, chat("main", script), headers)
    contents = [one.json()["choices"][0]["message"]["content"] for one in (first, second, third)]
    assert contents == ["from the spare", "own", "own"]
    assert [one.get("x-outrigger-cache") for one in (first, second, third)] == ["miss", "miss", "hit"]
    assert served(second)[0] == served(third)[0] == "main"


async def test_streams_fall_back_before_any_content(
    pair: Mesh, rude: RudeProvider, two: RudeProvider, script: str
) -> None:
    """A break before the first byte is another's stream, and only that; after content there is neither."""
    events = stream_events("from", " the spare")
    headers = rude.script(script, [Act.RESET])
    two.script(script, stream_reply(events))
    answer = await post(pair.proxy_port, chat("main", script, stream=True), headers)
    assert answer.status == 200
    assert b"from" in answer.body and b" the spare" in answer.body
    assert served(answer) == ("spare", "s1", "second")
    broken = f"{script}-broken"
    begun: list[Piece] = [
        STREAM_HEAD,
        *(chunk(event(delta(text))) for text in ("a", "b", "c")),
        0.05,
        Act.RESET,
    ]
    headers = rude.script(broken, begun)
    two.script(broken, stream_reply(events))
    try:
        answer = await post(pair.proxy_port, chat("main", broken, stream=True), headers, seconds=5)
    except (ConnectionError, EOFError):
        pass
    else:
        assert b"spare" not in answer.body and b'finish_reason": "stop' not in answer.body
    assert (len(rude.seen(broken)), len(two.seen(broken))) == (1, 0)


@pytest.mark.parametrize("model", ["main", "chain"], ids=["it fails", "nobody is there"])
async def test_a_burst_goes_to_the_stand_in(
    pair: Mesh, rude: RudeProvider, two: RudeProvider, script: str, model: str
) -> None:
    """However many calls are under way when the first fails: none of them gets its error."""
    headers = rude.script(script, [0.3, reply(503, "{}")])
    two.script(script, reply(200, completion("from the spare")))
    answers = await asyncio.gather(
        *(
            post(pair.proxy_port, chat(model, f"{script} {number}"), headers, seconds=30)
            for number in range(150)
        )
    )
    assert [answer.status for answer in answers] == [200] * 150
    assert {served(answer)[0] for answer in answers} <= {"spare", "deployed"}


async def test_a_chain_ends_where_somebody_is_there(pair: Mesh, two: RudeProvider, script: str) -> None:
    """Refused connections pass over two Models; Azure's path and key header are its own."""
    headers = two.script(script, reply(200, completion("azure")))
    answer = await post(pair.proxy_port, chat("chain", script), {**headers, "authorization": "Bearer own"})
    assert answer.status == 200, answer.body
    assert served(answer) == ("deployed", "a1", "azure")
    (seen,) = two.seen(script)
    assert seen.target == "/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21"
    assert (seen.get("api-key"), seen.get("authorization")) == (PROVIDER_KEY, None)


async def test_a_long_hint_sends_the_call_on_at_once(
    pair: Mesh, rude: RudeProvider, two: RudeProvider, script: str
) -> None:
    """Nobody waits a minute for a provider while another one is there, and it is not asked again."""
    headers = rude.script(script, reply(429, "{}", [("retry-after", "60")]))
    two.script(script, reply(200, completion("from the spare")))
    began = time.monotonic()
    answer = await post(pair.proxy_port, chat("hinted", script), headers)
    assert (answer.status, served(answer)[0]) == (200, "spare")
    assert time.monotonic() - began < 2
    assert len(rude.seen(script)) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_the_callers_own_mistakes_are_nobody_elses(
    pair: Mesh, rude: RudeProvider, two: RudeProvider, script: str, status: int
) -> None:
    """They pass unchanged; no other provider sees them."""
    body = json.dumps(
        {"error": {"message": "no", "type": "t", "param": None, "code": "context_length_exceeded"}}
    )
    headers = rude.script(script, reply(status, body))
    answer = await post(pair.proxy_port, chat("strict", script), headers)
    assert (answer.status, answer.body.decode()) == (status, body)
    assert (len(rude.seen(script)), len(two.seen(script))) == (1, 0)


async def test_too_long_a_context_can_go_elsewhere(
    pair: Mesh, rude: RudeProvider, two: RudeProvider, script: str
) -> None:
    """`retryOn: [context-length]` says so: one try here, then the Model with more room."""
    error = {"error": {"message": "no", "type": "t", "param": None, "code": "context_length_exceeded"}}
    headers = rude.script(script, reply(400, json.dumps(error)))
    two.script(script, reply(200, completion("room enough")))
    answer = await post(pair.proxy_port, chat("told", script), headers)
    assert (answer.status, served(answer)[0]) == (200, "spare")
    assert len(rude.seen(script)) == 1
