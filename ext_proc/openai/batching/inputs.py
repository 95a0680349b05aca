"""The values that codecs and the batch stage exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ext_proc.openai.requests import Request


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a request. `tokens` is an estimate, by which limits are kept and usage is shared out."""

    value: Any
    tokens: int


@dataclass(frozen=True, slots=True)
class Parts:
    """A request taken apart. Only requests whose `rest` is equal travel together; it is not to be changed.

    `answers` is how many entries of the answer belong to each input; inputs of another `kind` cannot be in
    one list with these.
    """

    inputs: tuple[Input, ...]
    rest: Mapping[str, Any]
    answers: int = 1
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """What one input got: its entries, indexed from 0, and its part of the usage.

    `top` is the answer without its entries and usage; `tokens` are those of prompt and completion, None when
    the provider told none.
    """

    top: Mapping[str, Any]
    entries: tuple[dict[str, Any], ...]
    tokens: tuple[int, int] | None


class Mismatch(Exception):
    """The answer does not match the inputs by number and index. Holds no text of an answer."""


class Codec(Protocol):
    """One way to batch."""

    def take_apart(self, request: Request) -> Parts | None:
        """Return the request's inputs and the rest; None when it must go alone."""
        ...

    def put_together(self, parts: Parts, inputs: Sequence[Input]) -> dict[str, Any]:
        """Return the document of one request with all `inputs`. Its `model` is any member's."""
        ...

    def deal_out(
        self, parts: Parts, inputs: Sequence[Input], sent: Mapping[str, Any], body: bytes
    ) -> Sequence[Share | None]:
        """Return what each input got; None for one that has to be asked again.

        `sent` is the document that was answered.

        Raises:
            Mismatch: nobody can tell whose is what.
        """
        ...

    def compose(self, shares: Sequence[Share]) -> bytes:
        """Return the answer to one request, whose inputs got `shares`."""
        ...
