"""Digests of Consumer keys: what is kept and pushed in place of a key.

The control plane makes them when it mints a key, the processor when a caller presents one. A key has 256
random bits, so a fast keyed hash is enough; the salt keeps digests of two installations apart.
"""

from __future__ import annotations

import hashlib

DIGEST_BYTES = 32
SALT_MAX_BYTES = hashlib.blake2b.MAX_KEY_SIZE


def key_digest(key: str, salt: str) -> str:
    """Return the keyed BLAKE2b digest of `key`, 64 hex digits. `salt` is hex, at most 64 bytes; "" is none.

    Raises:
        ValueError: `salt` is not hex, or too long.
    """
    return hashlib.blake2b(
        key.encode("utf-8", "surrogateescape"), key=bytes.fromhex(salt), digest_size=DIGEST_BYTES
    ).hexdigest()
