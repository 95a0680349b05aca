"""What all specs share: strict types, no unknown fields, camelCase names."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

T = TypeVar("T")
Items = Annotated[tuple[T, ...], Field(strict=False)]
"""A list as written, a tuple inside."""

Text = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Prose = Annotated[str, StringConstraints(max_length=1 << 20)]
"""What may be long or empty. The bound also refuses lone surrogates, which no wire takes."""

LINE: Final = r"[^\x00-\x1f\x7f]*"


def _line(value: str) -> str:
    if not re.fullmatch(LINE, value):
        raise ValueError("must be one line without control characters")
    return value


Line = Annotated[Text, AfterValidator(_line)]

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=2**53)]


class Spec(BaseModel):
    """Base of every part of a document. Immutable; a number is no text and 1 is no boolean."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )


class Limits(Spec):
    """What a Tier, a Model or a Consumer allows; None is no limit."""

    requests_per_minute: Count | None = None
    tokens_per_minute: Count | None = None
    concurrency: Count | None = None
    tokens_per_day: Count | None = None
    cost_per_day: Annotated[float, Field(gt=0)] | None = None
    count_cached: bool = False
