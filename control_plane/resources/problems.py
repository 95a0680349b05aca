"""What is wrong with a document, as a value: the same three fields in files, REST and the command."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One reason for a refusal, or one notice.

    `document` is `Kind/name` (or where it stands when it has no usable name), `field` a path such as
    `spec.versions[0].weight` ("" for the document as a whole), `place` the file and line when known.
    No message quotes a value, since a value may be a secret pasted into the wrong field.
    """

    document: str
    field: str
    message: str
    place: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the wire form: document, field, message; lone surrogates, which no wire takes, escaped."""
        texts = {"document": self.document, "field": self.field, "message": self.message}
        return {key: text.encode("utf-8", "backslashreplace").decode() for key, text in texts.items()}

    def sentence(self) -> str:
        """Return one line for a terminal; what a file smuggles in as control characters is escaped."""
        parts = (self.place, self.document, self.field, self.message)
        line = ": ".join(part for part in parts if part)
        return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


class InvalidDocumentsError(Exception):
    """One or more documents are refused; `problems` holds every reason found, in reading order."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.sentence() for problem in self.problems))
