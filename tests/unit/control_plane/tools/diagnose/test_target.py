"""What is diagnosed."""

import pytest

from control_plane.tools.diagnose.target import Target
from control_plane.tools.load.calls import WrongUrl


@pytest.mark.parametrize(
    ("url", "origin", "place", "endpoint", "tls"),
    [
        (
            "http://127.0.0.1:8001/v1",
            "http://127.0.0.1:8001",
            "127.0.0.1:8001",
            "/v1/chat/completions",
            False,
        ),
        (
            "https://api.openai.com",
            "https://api.openai.com",
            "api.openai.com:443",
            "/v1/chat/completions",
            True,
        ),
        ("http://[::1]:80/x/", "http://[::1]", "[::1]:80", "/x/chat/completions", False),
        ("https://h:8443/v1/chat/completions", "https://h:8443", "h:8443", "/v1/chat/completions", True),
    ],
    ids=["address", "no path", "IPv6", "whole endpoint"],
)
def test_url(url: str, origin: str, place: str, endpoint: str, tls: bool) -> None:
    """A base URL, however it is written."""
    target = Target.parse(url, "m")
    assert (target.origin, target.place, target.endpoint, target.tls) == (origin, place, endpoint, tls)
    assert target.url + "/chat/completions" == target.origin + target.endpoint


def test_embeddings() -> None:
    """A model for embeddings gets their calls."""
    assert Target.parse("http://h", "text-embedding-3-small").endpoint == "/v1/embeddings"


def test_no_text_holds_the_key() -> None:
    """Headers are in no repr."""
    target = Target.parse("http://h", "m", {"authorization": "Bearer sk-secret"})
    assert target.has_key
    assert "sk-secret" not in repr(target)


def test_password_in_the_url() -> None:
    """Refused, and not quoted."""
    with pytest.raises(WrongUrl) as refused:
        Target.parse("http://me:sk-secret@h/v1", "m")
    assert "sk-secret" not in str(refused.value)
