"""Paths: what is ours exactly, what is refused, what passes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ext_proc.openai.paths import PARSED, Operation, classify

GUARDED = [*PARSED, "/v1/models"]


@pytest.mark.parametrize(("path", "operation"), PARSED.items())
def test_exact_paths_with_post_are_ours(path: str, operation: Operation) -> None:
    """POST on an exact path is that operation, and nothing is refused."""
    assert classify("POST", path).operation is operation
    assert classify("POST", path).refused is None


@pytest.mark.parametrize("path", PARSED)
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS", "PUT", "PATCH"])
def test_other_methods_on_our_paths_pass(method: str, path: str) -> None:
    """Only POST is an operation of ours: `GET /v1/chat/completions` lists stored chats at the provider."""
    found = classify(method, path)
    assert (found.operation, found.refused) == (Operation.OTHER, None)


@pytest.mark.parametrize("method", ["post", "Post", "pOST"])
def test_other_spellings_of_post_are_refused(method: str) -> None:
    """A method that a lenient server might read as POST does not slip past the policies."""
    assert classify(method, "/v1/chat/completions").refused


@pytest.mark.parametrize(
    "path",
    [
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat//completions",
        "/v1/chat/completions/",
        "/v1/chat/completions//",
        "/v1/./chat/completions",
        "/v1/chat/./completions",
        "/v1/files/../chat/completions",
        "/../v1/chat/completions",
        "/v1/chat/completions/.",
        "/v1/chat/completions/x/..",
        "/%2e/v1/chat/completions",
        "/v1/%2e%2e/v1/chat/completions",
        "/v1/chat%2Fcompletions",
        "/v1/chat%2fcompletions",
        "/v1%2Fchat%2Fcompletions",
        "/v1/chat%5Ccompletions",
        "/v1/chat\\completions",
        "/v1/chat/completion%73",
        "/v1/%63hat/completions",
        "/v1/chat%252Fcompletions",
        "/v1/chat%25252Fcompletions",
        "/V1/chat/completions",
        "/v1/Chat/Completions",
        "/v1/CHAT/COMPLETIONS",
        "/v1/chat/completions;x=1",
        "/v1;x=1/chat/completions",
        "/v1/chat;/completions",
        "/v1/chat/completions%3Bx=1",
        "/v1/chat/completions%3Fx=1",
        "/v1/chat/completions#x",
        "/v1/chat/completions%23x",
        "/v1/chat/completions%20",
        "/v1/chat/completions%09",
        "/v1/chat/completions%00",
        "/v1/chat/completions%00.json",
        "/v1/chat/completions%0d%0a",
        "/v1/chat/completions\u200b",
        "/v1/chat/comple\u00adtions",
        "/v1/chat/completions%E2%80%8B",
        "/v1/\uff43hat/completions",
        "/v1\uff0fchat\uff0fcompletions",
        "/v1%EF%BC%8Fchat/completions",
        "/v1/chat/completion\u017f",
        "/v1/chat%c0%afcompletions",
        "/v1/%c0%ae%c0%ae/v1/chat/completions",
        "/v1/chat%u002fcompletions",
        "/v1/v1/chat/completions",
        "/v1/v1/v1/embeddings",
        "/v1/completions/",
        "/v1/Embeddings",
        "/v1/embedding%73",
        "/v1/models/",
        "/V1/models",
        "/v1//models",
        "/v1/files/a%2Fb",
        "/v1/a%5cb",
        "/v1/..%2F..%2Fadmin",
        "/v1/models/..%2fadmin",
        "/v1/models/a%2F..%2F..%2Fadmin",
        "/v1/models/a%2f.%2fb",
        "/v1/models/a%2F..",
        "/v1/models/a%2F%2e%2e%2Fadmin",
        "/v1/models/a%2F%252e%252e%2Fadmin",
        "/v1/models/a%2Fb%5C..%5Cc",
        "/v1/models/x%2F..;%2F..;%2Fadmin",
        "/v1/models/x%2F..%3b%2Fadmin",
        "/v1/models/x%2Fy%2F%c0%ae%c0%ae%2Fadmin",
        "/v1/models/x%2F%u002e%u002e%2Fadmin",
        "/v1/models/x%2F\uff0e\uff0e%2Fadmin",
        "/v1/models/x%2F.\u200b.%2Fadmin",
    ],
)
def test_foldable_spellings_are_refused(path: str) -> None:
    """What a lenient server might fold into a path of ours is neither ours nor passed on."""
    for method in ("POST", "GET", "DELETE"):
        found = classify(method, path)
        assert found.operation is Operation.OTHER
        assert found.refused


@pytest.mark.parametrize(
    "path", ["\udcda/../v1/completions", "/v1/\udcff/../completions", "/中/../v1/completions"]
)
def test_bytes_that_are_no_text_do_not_end_a_path(path: str) -> None:
    """What stands for them is no question mark."""
    assert classify("POST", path).refused


def test_a_path_given_as_latin_1_is_folded_too() -> None:
    """Raw bytes that were read as Latin-1 mean the same as the UTF-8 they are."""
    path = "/v1\uff0fchat/completions".encode().decode("latin-1")
    assert classify("POST", path).refused


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions/chatcmpl-1",
        "/v1/chat/completions/chatcmpl-1/messages",
        "/v1/files",
        "/v1/files/file-AbC123/content",
        "/v1/responses",
        "/v1/audio/transcriptions",
        "/v1/chat",
        "/v1/chat/completion",
        "/v1/chat/completionsx",
        "/v1/engines/gpt-4/completions",
        "/v1/images/generations",
        "/v1/threads/thread_%41bc",
        "/v1/chat/completions.json",
        "/v1",
        "/v1/",
        "/",
        "",
        "*",
    ],
)
def test_every_other_path_passes(path: str) -> None:
    """Paths that are not ours go on as they are."""
    found = classify("POST", path)
    assert (found.operation, found.refused, found.model_id) == (Operation.OTHER, None, None)


@pytest.mark.parametrize(
    ("path", "model_id"),
    [
        ("/v1/models/gpt-4o-mini", "gpt-4o-mini"),
        ("/v1/models/Qwen/Qwen2-7B", "Qwen/Qwen2-7B"),
        ("/v1/models/Qwen%2FQwen2-7B", "Qwen/Qwen2-7B"),
        ("/v1/models/a%2fb..c%2F.d%2F...", "a/b..c/.d/..."),
        ("/v1/models/ft:gpt-4o:acme::abc", "ft:gpt-4o:acme::abc"),
        ("/v1/models/%E6%A8%A1%E5%9E%8B", "模型"),
        ("/v1/models/%ff", "\ufffd"),
    ],
)
def test_one_model_is_named_percent_decoded(path: str, model_id: str) -> None:
    """A model's name may hold slashes and any text."""
    found = classify("GET", path)
    assert (found.operation, found.refused, found.model_id) == (Operation.MODEL, None, model_id)
    assert classify("DELETE", path).operation is Operation.OTHER


def test_the_list_of_models() -> None:
    """GET and HEAD list the models; anything else passes."""
    assert classify("GET", "/v1/models").operation is Operation.MODELS
    assert classify("HEAD", "/v1/models").operation is Operation.MODELS
    assert classify("POST", "/v1/models").operation is Operation.OTHER


@given(
    st.sampled_from(GUARDED),
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["upper", "percent", "slash", "dot", "double"]))),
)
def test_no_mix_of_foldings_slips_past(path: str, edits: list[tuple[int, str]]) -> None:
    """However case, percent signs, slashes and dots are mixed, a guarded path is exact or refused."""
    spelled = list(path)
    for position, edit in edits:
        at = position % len(spelled)
        char = spelled[at]
        if edit == "upper":
            spelled[at] = char.upper()
        elif edit == "slash" and char == "/":
            spelled[at] = "//"
        elif edit == "dot" and char == "/":
            spelled[at] = "/./"
        elif edit in {"percent", "double"} and len(char) == 1:
            spelled[at] = ("%25" if edit == "double" else "%") + f"{ord(char):02x}"
    written = "".join(spelled)
    found = classify("POST", written)
    assert written == path or found.refused


@given(st.text(max_size=60), st.sampled_from(["GET", "POST", "HEAD", "x"]))
def test_any_text_is_classified(path: str, method: str) -> None:
    """No path makes it raise."""
    classify(method, path)
    classify(method, "/v1/" + path)


def test_a_model_of_a_name_with_a_slash_can_be_deleted() -> None:
    """At the provider; OpenAI's client escapes the slash."""
    found = classify("DELETE", "/v1/models/ft%2Fmine")
    assert (found.operation, found.refused) == (Operation.OTHER, None)
    assert classify("POST", "/v1/models/ft%2Fmine").refused
