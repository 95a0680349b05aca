"""Signatures that any library of Standard Webhooks checks."""

from __future__ import annotations

import pytest

from control_plane.bulletins.signing import headers_of, key_of

SECRET = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_published_example_is_met() -> None:
    """The vector that the libraries of Standard Webhooks test with."""
    body = b'{"test": 2432232314}'
    headers = headers_of("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, SECRET)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_without_a_secret_there_is_no_signature() -> None:
    """The id is there all the same, to know a second attempt by."""
    assert headers_of("m", 1, b"{}", None) == {"webhook-id": "m", "webhook-timestamp": "1"}


@pytest.mark.parametrize(
    ("secret", "key"),
    [(b"plain\n", b"plain"), (b"whsec_AAEC", b"\x00\x01\x02"), (b"whsec_!", b"whsec_!")],
)
def test_a_secret_is_base64_or_any_text(secret: bytes, key: bytes) -> None:
    """Blanks around it are none of it."""
    assert key_of(secret) == key
