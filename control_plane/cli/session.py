"""From the options `--server`, `--token-file`, `--ca` and the environment to a client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import typer

from control_plane.cli.client import ANSWER_TIMEOUT_S, Client
from control_plane.cli.failures import CommandFailed

TOKEN_VARIABLE: Final = "OUTRIGGER_TOKEN"


def connect(
    server: str,
    token_file: Path | None,
    ca: Path | None,
    *,
    environment: Mapping[str, str] = os.environ,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> Client:
    """Return a client for `server`, with the token of `token_file`, else of `OUTRIGGER_TOKEN`.

    Raises:
        CommandFailed: a file cannot be read, or the token cannot be one.
        BadParameter: `server` is no URL.
    """
    return Client(base_url(server), read_token(token_file, environment), ca=ca, timeout_s=timeout_s)


def base_url(server: str) -> str:
    """Return `server` without a slash at its end.

    Raises:
        BadParameter: it is not `http(s)://HOST[:PORT]`.
    """
    wrong = typer.BadParameter("is not http://HOST:PORT or https://HOST:PORT", param_hint="--server")
    try:
        parts = urlsplit(server.strip())
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port)
    except ValueError:
        raise wrong from None
    if not good or parts.query or parts.fragment or "@" in parts.netloc or not server.isprintable():
        raise wrong
    return server.strip().rstrip("/")


def read_token(token_file: Path | None, environment: Mapping[str, str]) -> str:
    """Return the token, "" when none is given.

    Raises:
        CommandFailed: the file cannot be read or is empty, or holds what no header can.
    """
    if token_file is None:
        token, where = environment.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE
    else:
        where = f"the file {token_file}"
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError:
            raise CommandFailed(f"{where} is no text; give a file that holds one token") from None
        except OSError as error:
            reason = (error.strerror or "unreadable").lower()
            raise CommandFailed(
                f"{where} cannot be read ({reason}); name another with --token-file"
            ) from None
        if not token:
            raise CommandFailed(f"{where} is empty; put the token into it")
    if not token.isprintable():
        raise CommandFailed(f"{where} holds more than one line, or what is no text; put one token there")
    return token
