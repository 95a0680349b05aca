"""The control plane's side over HTTP: what is wanted goes there, verdicts and what is in force come back."""

from __future__ import annotations

import ssl
from typing import Final

import aiohttp
import orjson

from control_plane.controller.verdicts import (
    MalformedAnswerError,
    Standing,
    Verdicts,
    standing_of,
    verdicts_of,
)

PATH: Final = "/api/v1/mirrors/kubernetes"
TELL_WITHIN_S: Final = 30.0
ASK_WITHIN_S: Final = 5.0
CONNECT_WITHIN_S: Final = 3.0
_NOT_MODIFIED: Final = 304


class MirrorError(Exception):
    """The control plane refused, or could not be reached; one sentence without token or body.

    `reason` is one word for counting.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Mirror:
    """Calls to one control plane. Close it.

    Args:
        server: the URL of its API.
        token: of a role that may write documents and secrets.
        tls: whom to trust when the URL is https.
    """

    def __init__(self, server: str, token: str, tls: ssl.SSLContext | None = None) -> None:
        self._url = server.rstrip("/") + PATH
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {token}"},
            connector=aiohttp.TCPConnector(ssl=tls if tls is not None else True),
        )
        self._etag: str | None = None
        self._standing: Standing | None = None

    def __repr__(self) -> str:
        return f"<Mirror at {self._url}>"

    async def tell(self, desired: bytes) -> Verdicts:
        """Send the whole of what is wanted and return what is said of it.

        Raises:
            MirrorError: it was not taken, or nobody knows.
        """
        headers = {"Content-Type": "application/json"}
        _, _, content = await self._ask("PUT", TELL_WITHIN_S, headers, desired)
        try:
            return verdicts_of(orjson.loads(content))
        except (ValueError, MalformedAnswerError) as error:
            raise _malformed(error) from error

    async def standing(self) -> Standing:
        """Return what is in force; the same object as before while it is the same.

        Raises:
            MirrorError: it is not told.
        """
        headers = {"If-None-Match": self._etag} if self._etag is not None and self._standing else {}
        status, etag, content = await self._ask("GET", ASK_WITHIN_S, headers, None)
        if status == _NOT_MODIFIED and self._standing is not None:
            return self._standing
        try:
            self._standing = standing_of(orjson.loads(content))
        except (ValueError, MalformedAnswerError) as error:
            raise _malformed(error) from error
        self._etag = etag
        return self._standing

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def _ask(
        self, method: str, within_s: float, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, str | None, bytes]:
        timeout = aiohttp.ClientTimeout(total=within_s, sock_connect=CONNECT_WITHIN_S)
        try:
            async with self._session.request(
                method, self._url, headers=headers, data=body, timeout=timeout, allow_redirects=False
            ) as answer:
                content = await answer.read()
                if answer.status not in (200, _NOT_MODIFIED):
                    raise _refused(answer.status, content)
                return answer.status, answer.headers.get("ETag"), content
        except TimeoutError as error:
            raise MirrorError("timeout", "the control plane did not answer in time") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise MirrorError(
                "unreachable", f"the control plane cannot be reached ({type(error).__name__})"
            ) from error


def _refused(status: int, content: bytes) -> MirrorError:
    try:
        problem = orjson.loads(content)
    except ValueError:
        problem = None
    detail = problem.get("detail") if isinstance(problem, dict) else None
    said = f": {detail}" if isinstance(detail, str) else ""
    return MirrorError(f"http{status}", f"the control plane answered {status}{said}")


def _malformed(error: Exception) -> MirrorError:
    sentence = str(error) if isinstance(error, MalformedAnswerError) else "the answer is no JSON"
    return MirrorError("malformed", sentence)
