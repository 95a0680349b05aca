"""For clients that speak plain HTTP only."""

from __future__ import annotations

import ssl
from typing import Final

PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody. A client without it reads all of the machine's authorities, which takes 50 ms each time."""
