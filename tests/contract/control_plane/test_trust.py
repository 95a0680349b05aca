"""Whom the control plane trusts, over real TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme

from control_plane.bulletins.courier import NotTakenError
from control_plane.bulletins.post import Post
from control_plane.resources.kinds.release import Webhook
from control_plane.trust import outgoing_tls
from tests.contract.control_plane.bulletins.test_post import BULLETIN, Receiver


async def test_an_authority_of_ones_own_is_trusted_once_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the variable that every tool knows; a stranger's certificate is refused."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    receiver = Receiver(b"HTTP/1.1 204 No Content\r\n\r\n")
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=context)
    webhook = Webhook(url=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook")
    with pytest.raises(NotTakenError, match="cannot be reached"):
        await Post(dict, {}, lambda: 1.0).send(BULLETIN, webhook)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    await Post(dict, {}, lambda: 1.0).send(BULLETIN, webhook)
    assert receiver.received.endswith(BULLETIN.body.encode())
    server.close()


def test_certificates_and_names_are_checked() -> None:
    """Always."""
    context = outgoing_tls()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert context.cert_store_stats()["x509_ca"] > 50
