from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PLAIN: _ClassVar[Encoding]
    ZLIB: _ClassVar[Encoding]
PLAIN: Encoding
ZLIB: Encoding

class Report(_message.Message):
    __slots__ = ("hello", "ack", "nack", "envoy", "statistics", "cache_statistics", "cache_answer", "comparisons", "limit_uses")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    ENVOY_FIELD_NUMBER: _ClassVar[int]
    STATISTICS_FIELD_NUMBER: _ClassVar[int]
    CACHE_STATISTICS_FIELD_NUMBER: _ClassVar[int]
    CACHE_ANSWER_FIELD_NUMBER: _ClassVar[int]
    COMPARISONS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_USES_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    ack: Ack
    nack: Nack
    envoy: Envoy
    statistics: Statistics
    cache_statistics: CacheStatistics
    cache_answer: CacheAnswer
    comparisons: Comparisons
    limit_uses: LimitUses
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., nack: _Optional[_Union[Nack, _Mapping]] = ..., envoy: _Optional[_Union[Envoy, _Mapping]] = ..., statistics: _Optional[_Union[Statistics, _Mapping]] = ..., cache_statistics: _Optional[_Union[CacheStatistics, _Mapping]] = ..., cache_answer: _Optional[_Union[CacheAnswer, _Mapping]] = ..., comparisons: _Optional[_Union[Comparisons, _Mapping]] = ..., limit_uses: _Optional[_Union[LimitUses, _Mapping]] = ...) -> None: ...

class LimitUses(_message.Message):
    __slots__ = ("uses",)
    USES_FIELD_NUMBER: _ClassVar[int]
    uses: _containers.RepeatedCompositeFieldContainer[LimitUse]
    def __init__(self, uses: _Optional[_Iterable[_Union[LimitUse, _Mapping]]] = ...) -> None: ...

class LimitUse(_message.Message):
    __slots__ = ("account", "requests", "tokens", "day_tokens", "day_cost_micros", "at_once")
    ACCOUNT_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    DAY_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DAY_COST_MICROS_FIELD_NUMBER: _ClassVar[int]
    AT_ONCE_FIELD_NUMBER: _ClassVar[int]
    account: str
    requests: int
    tokens: int
    day_tokens: int
    day_cost_micros: int
    at_once: int
    def __init__(self, account: _Optional[str] = ..., requests: _Optional[int] = ..., tokens: _Optional[int] = ..., day_tokens: _Optional[int] = ..., day_cost_micros: _Optional[int] = ..., at_once: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("subscriber_id", "workload", "labels", "build", "in_force", "accepts", "keeps", "answers", "hears")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SUBSCRIBER_ID_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    ACCEPTS_FIELD_NUMBER: _ClassVar[int]
    KEEPS_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    HEARS_FIELD_NUMBER: _ClassVar[int]
    subscriber_id: str
    workload: str
    labels: _containers.ScalarMap[str, str]
    build: str
    in_force: str
    accepts: _containers.RepeatedScalarFieldContainer[Encoding]
    keeps: bool
    answers: bool
    hears: bool
    def __init__(self, subscriber_id: _Optional[str] = ..., workload: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., build: _Optional[str] = ..., in_force: _Optional[str] = ..., accepts: _Optional[_Iterable[_Union[Encoding, str]]] = ..., keeps: _Optional[bool] = ..., answers: _Optional[bool] = ..., hears: _Optional[bool] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("version", "oldest_in_use")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_IN_USE_FIELD_NUMBER: _ClassVar[int]
    version: str
    oldest_in_use: str
    def __init__(self, version: _Optional[str] = ..., oldest_in_use: _Optional[str] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("version", "reason")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    version: str
    reason: str
    def __init__(self, version: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Envoy(_message.Message):
    __slots__ = ("state", "version")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[Envoy.State]
        LIVE: _ClassVar[Envoy.State]
        WARMING: _ClassVar[Envoy.State]
        DRAINING: _ClassVar[Envoy.State]
        DEAD: _ClassVar[Envoy.State]
    UNKNOWN: Envoy.State
    LIVE: Envoy.State
    WARMING: Envoy.State
    DRAINING: Envoy.State
    DEAD: Envoy.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    state: Envoy.State
    version: str
    def __init__(self, state: _Optional[_Union[Envoy.State, str]] = ..., version: _Optional[str] = ...) -> None: ...

class Statistics(_message.Message):
    __slots__ = ("epoch", "versions", "releases", "tiers", "comparisons")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    COMPARISONS_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    versions: _containers.RepeatedCompositeFieldContainer[VersionStatistics]
    releases: _containers.RepeatedCompositeFieldContainer[VersionStatistics]
    tiers: _containers.RepeatedCompositeFieldContainer[TierStatistics]
    comparisons: _containers.RepeatedCompositeFieldContainer[Comparison]
    def __init__(self, epoch: _Optional[str] = ..., versions: _Optional[_Iterable[_Union[VersionStatistics, _Mapping]]] = ..., releases: _Optional[_Iterable[_Union[VersionStatistics, _Mapping]]] = ..., tiers: _Optional[_Iterable[_Union[TierStatistics, _Mapping]]] = ..., comparisons: _Optional[_Iterable[_Union[Comparison, _Mapping]]] = ...) -> None: ...

class TierStatistics(_message.Message):
    __slots__ = ("tier", "requests", "limited", "errors", "tokens")
    TIER_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    LIMITED_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tier: str
    requests: int
    limited: int
    errors: int
    tokens: int
    def __init__(self, tier: _Optional[str] = ..., requests: _Optional[int] = ..., limited: _Optional[int] = ..., errors: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class VersionStatistics(_message.Message):
    __slots__ = ("model", "version", "calls", "errors", "throttled", "refused", "abandoned", "input_tokens", "output_tokens", "duration", "first_byte", "release", "output", "filtered")
    class DurationEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class FirstByteEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    class OutputEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    THROTTLED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    FIRST_BYTE_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    FILTERED_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: str
    calls: int
    errors: int
    throttled: int
    refused: int
    abandoned: int
    input_tokens: int
    output_tokens: int
    duration: _containers.ScalarMap[int, int]
    first_byte: _containers.ScalarMap[int, int]
    release: str
    output: _containers.ScalarMap[int, int]
    filtered: int
    def __init__(self, model: _Optional[str] = ..., version: _Optional[str] = ..., calls: _Optional[int] = ..., errors: _Optional[int] = ..., throttled: _Optional[int] = ..., refused: _Optional[int] = ..., abandoned: _Optional[int] = ..., input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., duration: _Optional[_Mapping[int, int]] = ..., first_byte: _Optional[_Mapping[int, int]] = ..., release: _Optional[str] = ..., output: _Optional[_Mapping[int, int]] = ..., filtered: _Optional[int] = ...) -> None: ...

class Comparisons(_message.Message):
    __slots__ = ("epoch", "releases")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RELEASES_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    releases: _containers.RepeatedCompositeFieldContainer[Comparison]
    def __init__(self, epoch: _Optional[str] = ..., releases: _Optional[_Iterable[_Union[Comparison, _Mapping]]] = ...) -> None: ...

class Comparison(_message.Message):
    __slots__ = ("release", "old", "new", "compared", "agreed", "similarity_milli", "old_chars", "new_chars", "other_status", "other_finish", "cache_compared", "cache_disagreed")
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    OLD_FIELD_NUMBER: _ClassVar[int]
    NEW_FIELD_NUMBER: _ClassVar[int]
    COMPARED_FIELD_NUMBER: _ClassVar[int]
    AGREED_FIELD_NUMBER: _ClassVar[int]
    SIMILARITY_MILLI_FIELD_NUMBER: _ClassVar[int]
    OLD_CHARS_FIELD_NUMBER: _ClassVar[int]
    NEW_CHARS_FIELD_NUMBER: _ClassVar[int]
    OTHER_STATUS_FIELD_NUMBER: _ClassVar[int]
    OTHER_FINISH_FIELD_NUMBER: _ClassVar[int]
    CACHE_COMPARED_FIELD_NUMBER: _ClassVar[int]
    CACHE_DISAGREED_FIELD_NUMBER: _ClassVar[int]
    release: str
    old: VersionStatistics
    new: VersionStatistics
    compared: int
    agreed: int
    similarity_milli: int
    old_chars: int
    new_chars: int
    other_status: int
    other_finish: int
    cache_compared: int
    cache_disagreed: int
    def __init__(self, release: _Optional[str] = ..., old: _Optional[_Union[VersionStatistics, _Mapping]] = ..., new: _Optional[_Union[VersionStatistics, _Mapping]] = ..., compared: _Optional[int] = ..., agreed: _Optional[int] = ..., similarity_milli: _Optional[int] = ..., old_chars: _Optional[int] = ..., new_chars: _Optional[int] = ..., other_status: _Optional[int] = ..., other_finish: _Optional[int] = ..., cache_compared: _Optional[int] = ..., cache_disagreed: _Optional[int] = ...) -> None: ...

class CacheStatistics(_message.Message):
    __slots__ = ("epoch", "tiers", "hits", "misses", "saved_prompt_tokens", "saved_completion_tokens", "saved_cost_micros", "saved_ms", "hit_ages", "semantic_served", "semantic_explored", "semantic_vetoed", "semantic_would_serve", "semantic_would_be_wrong")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    TIERS_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    MISSES_FIELD_NUMBER: _ClassVar[int]
    SAVED_PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAVED_COMPLETION_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAVED_COST_MICROS_FIELD_NUMBER: _ClassVar[int]
    SAVED_MS_FIELD_NUMBER: _ClassVar[int]
    HIT_AGES_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_SERVED_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_EXPLORED_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_VETOED_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_WOULD_SERVE_FIELD_NUMBER: _ClassVar[int]
    SEMANTIC_WOULD_BE_WRONG_FIELD_NUMBER: _ClassVar[int]
    epoch: str
    tiers: _containers.RepeatedCompositeFieldContainer[CacheTier]
    hits: int
    misses: int
    saved_prompt_tokens: int
    saved_completion_tokens: int
    saved_cost_micros: int
    saved_ms: int
    hit_ages: _containers.RepeatedScalarFieldContainer[int]
    semantic_served: int
    semantic_explored: int
    semantic_vetoed: int
    semantic_would_serve: int
    semantic_would_be_wrong: int
    def __init__(self, epoch: _Optional[str] = ..., tiers: _Optional[_Iterable[_Union[CacheTier, _Mapping]]] = ..., hits: _Optional[int] = ..., misses: _Optional[int] = ..., saved_prompt_tokens: _Optional[int] = ..., saved_completion_tokens: _Optional[int] = ..., saved_cost_micros: _Optional[int] = ..., saved_ms: _Optional[int] = ..., hit_ages: _Optional[_Iterable[int]] = ..., semantic_served: _Optional[int] = ..., semantic_explored: _Optional[int] = ..., semantic_vetoed: _Optional[int] = ..., semantic_would_serve: _Optional[int] = ..., semantic_would_be_wrong: _Optional[int] = ...) -> None: ...

class CacheTier(_message.Message):
    __slots__ = ("name", "hits", "misses", "entries", "bytes")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    MISSES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    name: str
    hits: int
    misses: int
    entries: int
    bytes: int
    def __init__(self, name: _Optional[str] = ..., hits: _Optional[int] = ..., misses: _Optional[int] = ..., entries: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class CacheQuestion(_message.Message):
    __slots__ = ("id", "kind", "key_prefix", "model", "tenant", "limit", "bodies", "after")
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[CacheQuestion.Kind]
        ENTRIES: _ClassVar[CacheQuestion.Kind]
    UNKNOWN: CacheQuestion.Kind
    ENTRIES: CacheQuestion.Kind
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEY_PREFIX_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BODIES_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    id: int
    kind: CacheQuestion.Kind
    key_prefix: str
    model: str
    tenant: str
    limit: int
    bodies: bool
    after: str
    def __init__(self, id: _Optional[int] = ..., kind: _Optional[_Union[CacheQuestion.Kind, str]] = ..., key_prefix: _Optional[str] = ..., model: _Optional[str] = ..., tenant: _Optional[str] = ..., limit: _Optional[int] = ..., bodies: _Optional[bool] = ..., after: _Optional[str] = ...) -> None: ...

class CacheAnswer(_message.Message):
    __slots__ = ("id", "entries", "more", "partial")
    ID_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    id: int
    entries: _containers.RepeatedCompositeFieldContainer[CacheEntry]
    more: bool
    partial: bool
    def __init__(self, id: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[CacheEntry, _Mapping]]] = ..., more: _Optional[bool] = ..., partial: _Optional[bool] = ...) -> None: ...

class CacheEntry(_message.Message):
    __slots__ = ("key", "tier", "model", "version", "tenant", "age_s", "expires_s", "fresh_s", "bytes", "hits", "content_type", "body")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TIER_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_S_FIELD_NUMBER: _ClassVar[int]
    FRESH_S_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    HITS_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    key: str
    tier: str
    model: str
    version: str
    tenant: str
    age_s: float
    expires_s: float
    fresh_s: float
    bytes: int
    hits: int
    content_type: str
    body: bytes
    def __init__(self, key: _Optional[str] = ..., tier: _Optional[str] = ..., model: _Optional[str] = ..., version: _Optional[str] = ..., tenant: _Optional[str] = ..., age_s: _Optional[float] = ..., expires_s: _Optional[float] = ..., fresh_s: _Optional[float] = ..., bytes: _Optional[int] = ..., hits: _Optional[int] = ..., content_type: _Optional[str] = ..., body: _Optional[bytes] = ...) -> None: ...

class Secret(_message.Message):
    __slots__ = ("name", "key", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    key: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("backend", "status", "headers", "key")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    backend: str
    status: int
    headers: _containers.ScalarMap[str, str]
    key: str
    def __init__(self, backend: _Optional[str] = ..., status: _Optional[int] = ..., headers: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("version", "revision", "content", "encoding", "secrets", "kept", "question", "attempt")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    version: str
    revision: int
    content: bytes
    encoding: Encoding
    secrets: _containers.RepeatedCompositeFieldContainer[Secret]
    kept: bool
    question: CacheQuestion
    attempt: Attempt
    def __init__(self, version: _Optional[str] = ..., revision: _Optional[int] = ..., content: _Optional[bytes] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., secrets: _Optional[_Iterable[_Union[Secret, _Mapping]]] = ..., kept: _Optional[bool] = ..., question: _Optional[_Union[CacheQuestion, _Mapping]] = ..., attempt: _Optional[_Union[Attempt, _Mapping]] = ...) -> None: ...
