"""How a webhook knows that it was us: the headers of Standard Webhooks (pure).

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
_PREFIX: Final = b"whsec_"


def headers_of(message_id: str, timestamp_s: int, body: bytes, secret: bytes | None) -> dict[str, str]:
    """Return the headers of one attempt; without a secret there is no signature.

    Args:
        message_id: the same at every attempt.
        timestamp_s: of this attempt, in seconds since the epoch.
        body: what is sent, byte for byte.
        secret: `whsec_` and base64, or any other text, which is the key as it stands.
    """
    headers = {ID: message_id, TIMESTAMP: str(timestamp_s)}
    if secret is not None:
        signed = b".".join((message_id.encode(), str(timestamp_s).encode(), body))
        digest = hmac.new(key_of(secret), signed, hashlib.sha256).digest()
        headers[SIGNATURE] = f"v1,{base64.b64encode(digest).decode()}"
    return headers


def key_of(secret: bytes) -> bytes:
    """Return the key that a secret stands for; blanks around it, as files have, are none of it."""
    secret = secret.strip()
    if not secret.startswith(_PREFIX):
        return secret
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        return secret
