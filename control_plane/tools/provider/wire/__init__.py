"""HTTP/1.1 and HTTP/2 below the provider: bytes to requests, replies to bytes, faults included.

It knows nothing of OpenAI. Why it is our own: `docs/decisions/provider-server.md`.
"""
