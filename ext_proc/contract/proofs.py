"""Proofs by which the control plane asks a sidecar to tell more of one request than it tells its caller.

Made with the salt of the Consumer keys, which the control plane and its sidecars know and nobody else. A
proof is good until its time, and once: it carries a number to be told apart by.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

GOOD_FOR_S: Final = 60
"""Clocks differ: a proof is made to be good for so long."""
NONCE_BYTES: Final = 12
MAX_CHARS: Final = 128
_MAC_BYTES: Final = 16
# Another purpose than that of the digests of keys, which are made with the same salt.
_PURPOSE: Final = b"stages"


def make_proof(salt: str, until_s: int, nonce: str) -> str:
    """Return a proof that is good until `until_s` (seconds since the epoch); "" without a salt.

    `nonce` is hex.

    Raises:
        ValueError: `salt` is not hex, or too long.
    """
    return f"{until_s}.{nonce}.{_mac(salt, f'{until_s}.{nonce}')}" if salt else ""


def proven(salt: str, proof: str, now_s: float) -> str:
    """Return the nonce of a proof that is good now; "" of any other text, and without a salt."""
    until, _, rest = proof.partition(".")
    nonce, _, mac = rest.partition(".")
    if not salt or not nonce or len(proof) > MAX_CHARS or not (until.isascii() and until.isdecimal()):
        return ""
    if not now_s < int(until) <= now_s + 2 * GOOD_FOR_S:
        return ""
    right = hmac.compare_digest(_mac(salt, f"{until}.{nonce}").encode(), mac.encode("utf-8", "replace"))
    return nonce if right else ""


def _mac(salt: str, text: str) -> str:
    digest = hashlib.blake2b(
        text.encode("utf-8", "surrogateescape"),
        key=bytes.fromhex(salt),
        person=_PURPOSE,
        digest_size=_MAC_BYTES,
    )
    return digest.hexdigest()
