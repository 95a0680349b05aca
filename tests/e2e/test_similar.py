"""Similar questions through the real Envoy: learned, then served; by local vectors and by a provider's."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import pytest

from tests.e2e.governed import lent
from tests.harness.mesh import Mesh
from tests.harness.raw_http import Answer, post
from tests.harness.rude import Piece, RudeProvider, Seen, completion, reply

DOCUMENTS = """\
kind: Backend
metadata: {{name: rude}}
spec: {{url: "http://127.0.0.1:{rude}/v1", default: true}}
---
kind: Backend
metadata: {{name: vectors}}
spec: {{url: "http://127.0.0.1:{vectors}/v1"}}
---
kind: Model
metadata: {{name: here}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: there}}
spec: {{versions: [{{name: v1, backend: rude}}]}}
---
kind: Model
metadata: {{name: embedding}}
spec: {{versions: [{{name: v1, backend: vectors, upstreamModel: embedding-1}}]}}
---
kind: Policy
metadata: {{name: here}}
spec:
  target: {{models: [here]}}
  cache: {{enabled: true, semantic: {{enabled: true, maxErrorRate: 0.2}}}}
---
kind: Policy
metadata: {{name: there}}
spec:
  target: {{models: [there]}}
  cache: {{enabled: true, semantic: {{enabled: true, maxErrorRate: 0.2, embedder: embedding}}}}
"""
NAMES = """
router printer laptop tablet thermostat headset camera robot television phone lamp oven fridge freezer
toaster kettle mixer heater drill saw pump fan clock radio scanner projector speaker monitor keyboard
mouse modem bicycle scooter tractor piano guitar violin trumpet drum flute
"""
THINGS = NAMES.split()
ANSWER = "Hold the button until it blinks."


@pytest.fixture(scope="module")
def vectors() -> Iterator[RudeProvider]:
    """A provider of embeddings: questions about one thing have one vector, others another."""
    with RudeProvider() as provider:
        provider.script("", _embedded)
        yield provider


def _embedded(seen: Seen) -> list[Piece]:
    data = []
    for index, text in enumerate(seen.json()["input"]):
        thing = next((thing for thing in THINGS if thing in text), text)
        noise = zlib.crc32(thing.encode())
        vector = [(noise >> shift) % 61 - 30.5 for shift in range(0, 32, 2)]
        data.append({"index": index, "embedding": vector})
    return [reply(200, {"object": "list", "data": data})]


@pytest.fixture(scope="module")
def similar(mesh: Mesh, rude: RudeProvider, vectors: RudeProvider) -> Iterator[Mesh]:
    """A mesh with one Model for each embedder."""
    with lent(mesh, DOCUMENTS.format(rude=rude.port, vectors=vectors.port)):
        yield mesh


async def ask(mesh: Mesh, model: str, text: str, headers: dict[str, str], *, stream: bool = False) -> Answer:
    """Ask a question."""
    messages = [{"role": "user", "content": text}]
    answer = await post(mesh.proxy_port, {"model": model, "messages": messages, "stream": stream}, headers)
    assert answer.status == 200
    return answer


async def teach(mesh: Mesh, model: str, headers: dict[str, str]) -> list[str | None]:
    """Ask about each thing in one wording, then in others; return what the cache said of the latter.

    Where many vectors come too late, on a busy machine, more wordings have to be learned from.
    """
    for thing in THINGS:
        await ask(mesh, model, f"How do I reset my {thing}?", headers)
    said: list[str | None] = []
    for greeting in ("Hi", "Hey", "Good day"):
        for thing in THINGS:
            answer = await ask(mesh, model, f"{greeting}, how do I reset my {thing}?", headers)
            said.append(answer.get("x-outrigger-cache"))
        if "semantic-hit" in said:
            break
    return said


async def similar_hit(mesh: Mesh, model: str, headers: dict[str, str], *, stream: bool) -> Answer:
    """Ask in a third wording until one is answered from the cache.

    One in 25 is explored for good, and on a busy machine a vector may come too late.
    """
    for thing in THINGS:
        answer = await ask(mesh, model, f"Hello, how do I reset my {thing}?", headers, stream=stream)
        if answer.get("x-outrigger-cache") == "semantic-hit":
            return answer
    raise AssertionError("none was answered from the cache")


@pytest.mark.parametrize("model", ["here", "there"])
async def test_questions_in_other_words_are_answered_once_that_is_sure(
    similar: Mesh, rude: RudeProvider, script: str, model: str
) -> None:
    """First none is, then they are; as JSON and as a stream, and what differs in a detail never is."""
    headers = rude.script(script, reply(200, completion(ANSWER)))
    said = await teach(similar, model, headers)
    assert said[:10] == ["miss"] * 10
    assert "semantic-hit" in said
    hit = await similar_hit(similar, model, headers, stream=False)
    assert hit.json()["choices"][0]["message"]["content"] == ANSWER
    assert hit.get("age") is not None
    assert b"data: [DONE]" in (await similar_hit(similar, model, headers, stream=True)).body
    for other in ("not reset my router", "reset my 2 routers", "reset my Juniper"):
        assert (await ask(similar, model, f"How do I {other}?", headers)).get("x-outrigger-cache") == "miss"


async def test_another_tenant_finds_nothing(similar: Mesh, rude: RudeProvider, script: str) -> None:
    """Whose key it is parts the questions."""
    headers = rude.script(script, reply(200, completion(ANSWER)))
    await teach(similar, "here", {**headers, "authorization": "Bearer sk-one"})
    other = {**headers, "authorization": "Bearer sk-two"}
    said = [
        (await ask(similar, "here", f"Hello, how do I reset my {thing}?", other)).get("x-outrigger-cache")
        for thing in THINGS[:6]
    ]
    assert said == ["miss"] * 6


async def test_vectors_are_asked_for_with_no_key_of_the_caller(
    similar: Mesh, rude: RudeProvider, vectors: RudeProvider, script: str
) -> None:
    """The provider of vectors is another one than the key is for."""
    headers = rude.script(script, reply(200, completion(ANSWER)))
    await ask(similar, "there", "What is this?", {**headers, "authorization": "Bearer sk-secret"})
    assert any(b"What is this?" in seen.body for seen in vectors.seen())
    assert all(seen.get("authorization") is None for seen in vectors.seen())
    assert json.loads(vectors.seen()[-1].body)["model"] == "embedding-1"
