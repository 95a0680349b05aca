"""One finished request, as metrics and traces see it.

The agent makes it from Envoy's access log, so there is one for every request, also for those that the
processor never saw. It holds nothing of what was asked or answered.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple, Protocol


class Bypass(StrEnum):
    """Why a request or its answer went on without the processor. A closed set."""

    UNAVAILABLE = "processor-unavailable"
    TIMEOUT = "processor-timeout"
    ERROR = "processor-error"
    ANSWER_UNREAD = "answer-unread"


# A tuple: a frozen dataclass of so many fields takes five times as long to make.
class RequestRecord(NamedTuple):
    """One request from its first to its last byte.

    Attributes:
        started_ns: nanoseconds since the epoch.
        duration_s: until the last byte of the answer, or until the caller went away.
        first_byte_s: from the start to the first byte of the answer; None without an answer.
        status: the HTTP status that the caller got; 0 when none was sent.
        aborted: the answer did not come to its end.
        failure: Envoy's response flag in kebab case (`upstream-remote-reset`), or "".
        attempts: tries on providers; 0 for an answer of our own, and for a follower of another call.
        bypass: set when the processor was passed by.
        own_answer: `x-outrigger-error`, or "".
        backend: the Backend that answered, or the one it was sent to; "" for none.
        operation: `chat`, `text_completion`, `embeddings`, or "" for any other path.
        model: the Model's name; "" when none is configured by the name that was asked for.
        release: the Release that chose the version, or "".
        assigned: with a release, the version that it chose; `model` and `version` may be a fallback's.
        cache: `hit`, `miss`, `bypass`, `coalesced`, or "" when the processor did not say.
        input_tokens: None when nobody told.
        output_tokens: None when nobody told.
        filtered: a filter cut the answer short or the model refused; known where the answer was read.
        traceparent: the caller's W3C trace context, or "".
    """

    started_ns: int
    duration_s: float
    status: int
    first_byte_s: float | None = None
    aborted: bool = False
    failure: str = ""
    attempts: int = 0
    bypass: Bypass | None = None
    own_answer: str = ""
    backend: str = ""
    operation: str = ""
    model: str = ""
    version: str = ""
    release: str = ""
    assigned: str = ""
    cache: str = ""
    tier: str = ""
    stream: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    filtered: bool = False
    traceparent: str = ""
    request_id: str = ""


class RecordSink(Protocol):
    """Something that wants every finished request."""

    def record(self, record: RequestRecord) -> None:
        """Take one; must be quick and must not block."""
