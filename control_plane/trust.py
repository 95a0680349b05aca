"""Whom the control plane trusts when it calls others by TLS: public authorities, and this machine's."""

from __future__ import annotations

import ssl

import httpcore


def outgoing_tls() -> ssl.SSLContext:
    """Return a context that trusts public authorities, the machine's, and those of `SSL_CERT_FILE`.

    Reads some hundred certificates: make it once.
    """
    context: ssl.SSLContext = httpcore.default_ssl_context()
    context.load_default_certs()
    return context
