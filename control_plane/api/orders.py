"""The small JSON bodies: what is asked for when a key, a token or a secret is made, or answers are purged."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel

from control_plane.auth.roles import SCOPES, Role, check_scopes
from control_plane.registry.values import FILES, ITSELF, MAX_SECRET_KEYS, MAX_SECRET_VALUE_LENGTH
from control_plane.resources.names import SECRET_NAME
from control_plane.resources.quantities import parse_duration_ms

DURATION_PATTERN: Final = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
# The names that the audit uses for what is no token.
_RESERVED: Final = frozenset({FILES.name, ITSELF.name})
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d")


def _written_time(value: Any) -> Any:
    if not isinstance(value, str) or not _TIME.match(value):
        raise ValueError("must be a time such as 2027-01-31T08:00:00Z")
    return value


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must be a time such as 2027-01-31T08:00:00Z") from None


def _scopes(value: tuple[str, ...]) -> tuple[str, ...]:
    return check_scopes(value)


def _token_name(value: str) -> str:
    if value.endswith("\n"):  # which `$` lets pass
        raise ValueError("must be of letters, digits and ' ._@-'")
    if value in _RESERVED:
        raise ValueError("is a name that the audit uses for something else")
    return value


Time = Annotated[AwareDatetime, BeforeValidator(_written_time), AfterValidator(_in_utc)]
Overlap = Annotated[
    int,
    BeforeValidator(parse_duration_ms),
    Field(json_schema_extra={"type": "string", "pattern": DURATION_PATTERN}),
]
TokenName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}$"),
    AfterValidator(_token_name),
]
SecretKey = Annotated[str, StringConstraints(pattern=f"^{SECRET_NAME}$")]
SecretValue = Annotated[str, StringConstraints(min_length=1, max_length=MAX_SECRET_VALUE_LENGTH)]


def _shown(value: str) -> str:
    if not value.isprintable():
        raise ValueError("must be of printable characters")
    return value


ModelName = Annotated[str, StringConstraints(min_length=1, max_length=253)]
ShownText = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_shown)]
HeaderText = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]{0,510}[!-~])?$"), AfterValidator(_shown)]
KEY_PREFIX: Final = r"^[0-9a-fA-F]{1,64}$"
KEY: Final = r"^[0-9a-fA-F]{64}$"


class Order(BaseModel):
    """Base of all of them."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        regex_engine="python-re",
    )


class KeyOrder(Order):
    """A new Consumer key. Without `expiresAt` it does not expire."""

    expires_at: Time | None = None


class RotationOrder(Order):
    """A key in place of another, which goes on for `overlap`."""

    overlap_ms: Overlap = Field(default=86_400_000, alias="overlap")


class TokenOrder(Order):
    """A new API token. Without `scopes` it may do all that its role allows."""

    name: TokenName | None = None
    role: Role
    scopes: Annotated[tuple[str, ...], AfterValidator(_scopes), Field(max_length=len(SCOPES))] = ()
    expires_at: Time | None = None


class SecretOrder(Order):
    """A secret's values, in place of all that it had."""

    values: Annotated[dict[SecretKey, SecretValue], Field(min_length=1, max_length=MAX_SECRET_KEYS)]


class MirrorOrder(Order):
    """All documents and secrets that a mirror wants to exist. Each is checked by itself, and judged so.

    The values of `secrets` are in base64. Left out, secrets stay as they are.
    """

    documents: list[Any]
    secrets: dict[str, dict[str, str]] | None = None


class PurgeOrder(Order):
    """Which cached answers are void: those that meet every condition, or `all`."""

    model: ModelName | None = None
    version: ModelName | None = None
    tenant: ShownText | None = None
    key_prefix: Annotated[str, StringConstraints(pattern=KEY_PREFIX), AfterValidator(_shown)] | None = None
    key: Annotated[str, StringConstraints(pattern=KEY), AfterValidator(_shown)] | None = None
    all: StrictBool = False

    @model_validator(mode="after")
    def _conditions(self) -> Self:
        given = (self.model, self.version, self.tenant, self.key_prefix, self.key)
        if self.key is not None and self.key_prefix is not None:
            raise ValueError("key and keyPrefix do not go together")
        if self.all and any(one is not None for one in given):
            raise ValueError("all does not go with conditions; leave either out")
        if not self.all and all(one is None for one in given):
            raise ValueError('names nothing; to purge every answer send {"all": true}')
        if self.version is not None and self.model is None:
            raise ValueError("version needs its model")
        return self


class PlayOrder(Order):
    """A prompt of the playground. `key` is a Consumer's, or the provider's own; without it none is sent."""

    model: ShownText
    prompt: Annotated[str, StringConstraints(min_length=1, max_length=256 * 1024)]
    system: Annotated[str, StringConstraints(max_length=64 * 1024)] | None = None
    tier: ModelName | None = None
    session: HeaderText | None = None
    cache: Literal["no-store", "refresh", "only"] | None = None
    key: HeaderText | None = None
    stream: StrictBool = True
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None

    def completion(self) -> dict[str, Any]:
        """Return the chat completion that is asked for."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        optional = {"temperature": self.temperature, "max_tokens": self.max_tokens}
        return {
            "model": self.model,
            "messages": [*system, {"role": "user", "content": self.prompt}],
            "stream": self.stream,
            **({"stream_options": {"include_usage": True}} if self.stream else {}),
            **{name: value for name, value in optional.items() if value is not None},
        }


def in_future(at: datetime | None, now: datetime) -> bool:
    """Say whether `at`, when it is given, is still to come."""
    return at is None or at > now
