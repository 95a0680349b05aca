"""One HTTP request as it passes the stages, and what the pipeline can decide about it.

Knows neither gRPC nor protobuf: the transport turns Envoy's messages into these values and back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import Final

from ext_proc.answers import StoredAnswer
from ext_proc.candidates import Candidate
from ext_proc.contract import headers as names
from ext_proc.contract import telemetry
from ext_proc.contract.plans import Plan
from ext_proc.contract.policies import DEFAULTS, Policy
from ext_proc.contract.snapshot import Backend, Consumer, Model, Version
from ext_proc.limits.claims import Metered
from ext_proc.openai.paths import Classified
from ext_proc.openai.recording import StreamRecorder
from ext_proc.openai.requests import Request
from ext_proc.openai.responses import Completion
from ext_proc.providers.quota import Draft
from ext_proc.redaction.masks import Masks
from ext_proc.redaction.streams import StreamRestorer
from ext_proc.sessions.turns import Conversation
from ext_proc.snapshots import Loaded
from ext_proc.stopwatch import Stopwatch

Pairs = tuple[tuple[str, str], ...]
Value = str | bool | float
Metadata = tuple[tuple[str, Value], ...]
Numbers = tuple[tuple[str, float], ...]
REFUSED: Final[Numbers] = ((telemetry.FILTERED, 1.0),)


class CacheStatus(StrEnum):
    """What `x-outrigger-cache` says of an exchange."""

    HIT = "hit"
    SEMANTIC_HIT = "semantic-hit"
    MISS = "miss"
    BYPASS = "bypass"
    COALESCED = "coalesced"


class Reason(StrEnum):
    """Why something was decided: `x-outrigger-error` of our own answers, and a metric label. A closed set."""

    BAD_REQUEST = "bad-request"
    BATCH_FAILED = "batch-failed"
    BUDGET = "budget"
    CLAMPED = "clamped"
    CONSUMER_REQUIRED = "consumer-required"
    COOLING = "cooling"
    DEGRADED = "degraded"
    DOUBLED_IDENTITY = "doubled-identity"
    LIMITS_UNAVAILABLE = "limits-unavailable"
    MODELS_LISTED = "models-listed"
    NO_BACKEND = "no-backend"
    NOT_CACHED = "not-cached"
    QUOTA = "quota"
    RATE_LIMIT = "rate-limit"
    SESSION_ERASED = "session-erased"
    SESSIONS_UNAVAILABLE = "sessions-unavailable"
    SERVED_FROM_BATCH = "served-from-batch"
    SERVED_FROM_CACHE = "served-from-cache"
    SERVED_PIN = "served-pin"
    SERVED_STALE = "served-stale"
    SERVED_FROM_FLIGHT = "served-from-flight"
    SHED = "shed"
    UNKNOWN_KEY = "unknown-key"
    UNKNOWN_MODEL = "unknown-model"
    UNKNOWN_MODEL_PASSED = "unknown-model-passed"
    UNKNOWN_PATH = "unknown-path"


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The request line and headers, as Envoy sends them.

    `path` is without the query; `query` is without the `?`. Header names are lower-case; the values of a
    name that came more than once are joined by `", "`, and the name is in `doubled`.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    doubled: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of our own. Nothing goes upstream.

    A stream with a `pace_ms` is told event by event, so far apart, where that can be done.
    """

    status: int
    body: bytes
    reason: Reason
    headers: Pairs = ()
    metadata: Metadata = ()
    pace_ms: int = 0


@dataclass(frozen=True, slots=True)
class Forward:
    """Send it upstream by the Envoy route named `route`, with the headers `add` in the place of the caller's.

    `wants_response` asks to see what comes back.

    `path` and `body` are None when they stay as they came. With a `plan` others stand in when it fails.
    Hashable, so that the transport can keep the message it makes of it.
    """

    route: str
    path: str | None = None
    body: bytes | None = None
    remove: tuple[str, ...] = ()
    add: Pairs = ()
    metadata: Metadata = ()
    wants_response: bool = False
    plan: Plan | None = None


@dataclass(slots=True)
class ResponseHead:
    """The provider's status and headers (lower-case names)."""

    status: int
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sent:
    """When a call went to which Backend (the processor's own seconds); `first`: the first after a pause."""

    backend: Backend
    at: float
    first: bool


@dataclass(slots=True)
class Mirror:
    """What is kept of a call to ask another version the same: its body as it goes up, and how it goes.

    Times are the processor's own seconds: when it went up, and when the first piece of a stream came.
    """

    body: bytes
    began: float
    first_at: float | None = None
    ended: bool = False  # the stream came to its end in order


@dataclass(slots=True)
class Exchange:
    """One HTTP request through the sidecar. It holds the one snapshot that it began with.

    Stages fill it in from left to right: a field is valid after the stage that owns it.
    """

    head: RequestHead
    loaded: Loaded
    classified: Classified
    holds_snapshot: bool = True
    # identify
    consumer: Consumer | None = None
    tenant: str = ""
    tier: str = ""
    # body
    body: bytes = b""
    request: Request | None = None
    changed: bool = False
    # resolve, assign
    asked_model: str = ""
    model: Model | None = None
    policy: Policy = DEFAULTS
    version: Version | None = None
    backend: Backend | None = None
    assigned: str = ""  # the version's name, whoever answers in the end
    release: str = ""  # the Release that chose it
    candidates: tuple[Candidate, ...] = ()  # with fallbacks: who may answer, the assigned one first
    passed_over: bool = False  # another one than the assigned one answers
    # session
    session_key: bytes | None = None
    conversation: Conversation | None = None
    # clamp
    clamped: str = ""  # the parameters that it changed
    # cache
    cache_status: CacheStatus = CacheStatus.BYPASS
    cache_key: bytes | None = None
    asked_at: float = 0.0
    stale: StoredAnswer | None = None  # what to serve if the provider has nothing better
    other_key: bytes | None = None  # that of the other version's answer, under a Release
    # coalesce
    flight: int = 0  # the number of the flight that it leads, 0 for none
    carried_on: bool = False  # its caller has left, and others wait for a call in its name
    # redact
    masks: Masks | None = None  # what was masked in the request, to be put back into the answer
    # limit
    metered: Metered | None = None
    # hold
    draft: Draft | None = None  # what it has drawn from its Backend's quota
    # shadow
    mirror: Mirror | None = None  # what is to be asked of a Release's new version too
    # warm
    sent: Sent | None = None  # when it went to a Backend that is kept warm
    # batch
    batch_queue: Hashable | None = None  # the key of the queue that it went past at once
    shared: bool = False  # a call that it shares with others has gone up
    shared_failed: bool = False  # and has failed for good
    # where it was sent, once it was; whether a stand-in answered
    forwarded: Forward | None = None
    stood_in: bool = False
    # from the transport: tells Envoy to wait longer than it would
    ask_for_time: Callable[[], Awaitable[None]] | None = None
    parked: bool = False
    # what comes back: a stage that needs to see it says so before `route`
    wants_head: bool = False
    wants_body: bool = False
    wants_stream: bool = False
    hides_usage: bool = False
    usage_refused_by: Backend | None = None  # it does not know the field by which we have asked for the usage
    refused: bool = False
    response: ResponseHead | None = None
    used_up: bool = False  # it refuses the account of the call's key, which no wait changes
    recorder: StreamRecorder | None = None
    restorer: StreamRestorer | None = None
    recorded: bool = False
    # for the playground alone: who times the stages
    stopwatch: Stopwatch | None = None

    def take(self, candidate: Candidate) -> None:
        """Have `candidate`, one of the `candidates`, answer; those before it are passed over."""
        self.passed_over = self.passed_over or candidate != self.candidates[0]
        self.candidates = self.candidates[self.candidates.index(candidate) :]
        self.model, self.version, self.backend = candidate.model, candidate.version, candidate.backend

    def stand_in(self, number: int) -> None:
        """Learn that the candidate of that number answered; 0 is the one it was sent to."""
        if 0 < number < len(self.candidates):
            self.take(self.candidates[number])
            self.stood_in = True

    def hear_of_usage(self, refused_by: int | None) -> None:
        """Learn which candidate does not know the field that asks for the usage; before `stand_in`."""
        if refused_by is None:
            return
        if refused_by < len(self.candidates):
            self.usage_refused_by = self.candidates[refused_by].backend
        elif not refused_by:
            self.usage_refused_by = self.backend

    @property
    def model_name(self) -> str:
        """The Model's name, else what was asked for."""
        return self.model.name if self.model is not None else self.asked_model

    @property
    def version_name(self) -> str:
        """The version's name, "" without one."""
        return self.version.name if self.version is not None else ""

    async def park(self) -> None:
        """Say that an answer may take long. Envoy hears it once, whoever waits."""
        if not self.parked and self.ask_for_time is not None:
            self.parked = True
            await self.ask_for_time()

    @property
    def parsed(self) -> Request:
        """Return the parsed request; only stages that run after the body may ask."""
        if self.request is None:
            raise RuntimeError("the request body has not come yet")
        return self.request


class Wish(Enum):
    """What of the final response's body the pipeline is to be given."""

    NOTHING = auto()
    WHOLE = auto()
    CHUNKS = auto()


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole response of the provider, as the stages see it: JSON, or a complete stream joined to it."""

    head: ResponseHead
    body: bytes
    completion: Completion | None


@lru_cache(maxsize=4096)
def stamps(model: str, version: str, cache: str) -> Pairs:
    """Return the response headers that say what became of the request; empty values are left out."""
    pairs = ((names.MODEL, model), (names.VERSION, version), (names.CACHE, cache))
    return tuple(pair for pair in pairs if pair[1])


def describe(exchange: Exchange) -> Metadata:
    """Return what the access log should know of the request (see `contract.telemetry`)."""
    request = exchange.request
    pairs: list[tuple[str, Value]] = []
    if request is not None:
        pairs.append((telemetry.OPERATION, request.operation.value))
        pairs.append((telemetry.CACHE, exchange.cache_status.value))
        if request.stream:
            pairs.append((telemetry.STREAM, True))
    if exchange.model is not None:
        pairs += ((telemetry.MODEL, exchange.model.name), (telemetry.SHOWN_MODEL, exchange.model.name))
    elif _can_be_shown(exchange.asked_model):
        pairs.append((telemetry.SHOWN_MODEL, exchange.asked_model))
    if exchange.version is not None:
        pairs.append((telemetry.VERSION, exchange.version.name))
    if exchange.release:
        pairs += ((telemetry.RELEASE, exchange.release), (telemetry.ASSIGNED, exchange.assigned))
    if exchange.clamped:
        pairs.append((telemetry.CLAMPED, exchange.clamped))
    if exchange.backend is not None:
        pairs.append((telemetry.BACKEND, exchange.backend.name))
    if exchange.tier:
        pairs.append((telemetry.TIER, exchange.tier))
    return tuple(pairs)


def _can_be_shown(name: str) -> bool:
    # In a header: a name that somebody invented is echoed only if any client can read it.
    return bool(name) and name.isascii() and name.isprintable() and len(name) <= 200
