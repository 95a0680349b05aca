"""Why a call has no answer: one sentence for the user, and a short reason to count.

Nothing that a server says is quoted but a short code: messages may hold the key or the prompt.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from typing import Any, Final

import httpcore

from control_plane.tools.diagnose.target import Target

_CODE: Final = re.compile(r"[a-z][a-z_.-]{1,47}")
_BASE: Final = "it usually ends in /v1"
# What httpcore says when HTTP was spoken and ended too early.
_ENDED: Final = ("disconnected", "closed connection", "ConnectionTerminated", "StreamReset")
# Of httpcore's failures, those that come from the way there, and what that says of the server.
_REASONS: Final = (
    (httpcore.ConnectTimeout, "connect-timeout"),
    (httpcore.TimeoutException, "timeout"),
    (httpcore.ConnectError, "connect"),
    (httpcore.ProtocolError, "protocol"),
)


class DiagnoseFailed(Exception):
    """Nothing can be measured. The message is one sentence that says what to do."""


class CallFailed(Exception):
    """One call has no usable answer; the message is one sentence for the user.

    Attributes:
        reason: the HTTP status, or `connect`, `connect-timeout`, `timeout`, `protocol`, `broken`,
            `no-answer`.
        code: the provider's short word for it, "" if there is none.
        retry_after_s: how long the provider asks to wait, None if it does not say.
    """

    def __init__(
        self, sentence: str, reason: str, *, code: str = "", retry_after_s: float | None = None
    ) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.code = code
        self.retry_after_s = retry_after_s

    @property
    def passing(self) -> bool:
        """Whether the same call may succeed a little later."""
        if self.code == "insufficient_quota":
            return False
        return self.reason in ("429", "broken") or self.reason.startswith("5")


def refused(target: Target, status: int, document: Any, retry_after: str | None) -> CallFailed:
    """Return the failure for an answer with an error status; `document` is its JSON, None for none."""
    code = error_code(document, tuple(target.headers.values()))
    told = f"{status} {code}".rstrip()
    if status in (401, 403):
        sentence = (
            f"{target.origin} refuses the key ({told}); check OPENAI_API_KEY, or --header"
            if target.has_key
            else f"{target.origin} wants a key ({told}); export OPENAI_API_KEY=…"
        )
    elif status == 404 and code in ("model_not_found", ""):
        sentence = f"{target.url} has no model {target.model} ({told}); check --model, and --url: {_BASE}"
    elif status == 404:
        sentence = f"{target.url} has no such call ({told}); check --url: {_BASE}"
    elif status == 429:
        sentence = f"{target.origin} refuses calls for now ({told}); try later or with fewer --requests"
    elif 300 <= status < 400:
        sentence = f"{target.url} is somewhere else ({told}); give the address it leads to as --url"
    else:
        sentence = f"{target.url} answers {told} to a call of {target.model}"
    return CallFailed(sentence, str(status), code=code, retry_after_s=seconds(retry_after))


def stranger(target: Target, content_type: str) -> CallFailed:
    """Return the failure for a success that is no completion."""
    kind = content_type.partition(";")[0].strip().lower()
    shown = kind if re.fullmatch(r"[a-z0-9.+-]+/[a-z0-9.+-]+", kind) else "something else"
    sentence = f"{target.url} answers {shown}, which is no answer of this API; check --url: {_BASE}"
    return CallFailed(sentence, "no-answer")


def unreachable(target: Target, error: Exception, timeout_s: float) -> CallFailed:
    """Return the failure for a call that broke on its way."""
    place = target.place
    reason = next((name for kind, name in _REASONS if isinstance(error, kind)), "broken")
    if reason == "protocol" and any(word in str(error) for word in _ENDED):
        reason = "broken"
    if _is_tls(error):
        why = (
            "its certificate is not trusted; name its authority with --target-ca"
            if "CERTIFICATE" in str(error).upper()
            else ""
        )
        why = why or "no TLS is spoken there, or none that fits: is it http://?"
        return CallFailed(f"TLS with {place} fails; {why}", "connect")
    sentence = {
        "connect-timeout": f"{place} does not take a connection in time; is it up, and the way to it open?",
        "timeout": f"{place} does not answer within {timeout_s:g} s; raise --timeout or ask why",
        "connect": f"nobody listens on {place}; is the server up, and --url right?",
        "protocol": f"{place} does not speak HTTP as asked; check --url (http:// or https://?)",
        "broken": f"{place} closes the connection before it answers{'' if target.tls else '; is it https://?'}",
    }[reason]
    return CallFailed(sentence, reason)


def unknown_host(target: Target) -> CallFailed:
    """Return the failure for a name that leads nowhere."""
    return CallFailed(f"the name {target.host} is not known to DNS; check --url", "connect")


def error_code(document: Any, secret: Sequence[str] = ()) -> str:
    """Return the short code of an error in OpenAI's shape, "" when there is none or it tells a secret."""
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return ""
    for name in ("code", "type"):
        value = error.get(name)
        if isinstance(value, str) and _CODE.fullmatch(value) and not any(value in one for one in secret):
            return value
    return ""


def seconds(text: str | None) -> float | None:
    """Return a `retry-after` in seconds; None for a date, junk, or nothing."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False
