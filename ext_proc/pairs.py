"""What two versions made of one question, and how that compares (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from ext_proc.contract.buckets import bucket
from ext_proc.contract.comparisons import Comparison, Likeness, Outcomes
from ext_proc.openai.likeness import AGREED_FROM, answer_text, similarity
from ext_proc.openai.paths import Operation
from ext_proc.openai.responses import Completion


@dataclass(frozen=True, slots=True)
class Came:
    """What one call came to. `first_byte_s` is of streams; `completion` is None without an answer."""

    status: int
    duration_s: float = 0.0
    first_byte_s: float | None = None
    body: bytes = b""
    completion: Completion | None = None

    @property
    def is_answer(self) -> bool:
        """Whether it is an answer in full."""
        return self.status == 200 and self.completion is not None and self.completion.complete


def compared(operation: Operation, old: Came, new: Came) -> Comparison:
    """Return what the two calls say of their versions."""
    status = int(old.status // 100 != new.status // 100)
    likeness = Likeness(other_status=status)
    texts = [answer_text(operation, came.body) if came.is_answer else None for came in (old, new)]
    if (mine := texts[0]) is not None and (theirs := texts[1]) is not None:
        alike = similarity(mine, theirs)
        likeness = Likeness(
            compared=1,
            agreed=int(alike >= AGREED_FROM),
            similarity_milli=round(alike * 1000),
            old_chars=len(mine),
            new_chars=len(theirs),
            other_status=status,
            other_finish=int(_reasons(old) != _reasons(new)),
        )
    return Comparison(_outcomes(old), _outcomes(new), likeness)


def cache_compared(operation: Operation, mine: bytes, theirs: bytes) -> Comparison:
    """Return what two versions' answers to one question say, if both are texts."""
    one, other = answer_text(operation, mine), answer_text(operation, theirs)
    if one is None or other is None:
        return Comparison()
    disagree = int(similarity(one, other) < AGREED_FROM)
    return Comparison(likeness=Likeness(cache_compared=1, cache_disagreed=disagree))


def _outcomes(came: Came) -> Outcomes:
    completion = came.completion
    if not came.is_answer or completion is None:
        return Outcomes(calls=1, errors=1)
    usage = completion.usage
    tokens = usage.completion_tokens if usage is not None else None
    return Outcomes(
        calls=1,
        input_tokens=usage.prompt_tokens if usage is not None else 0,
        output_tokens=tokens or 0,
        filtered=int(completion.refused),
        duration={bucket(came.duration_s): 1},
        first_byte={bucket(came.first_byte_s): 1} if came.first_byte_s is not None else {},
        output={bucket(tokens / 1000): 1} if tokens is not None else {},
    )


def _reasons(came: Came) -> tuple[str, ...]:
    return came.completion.finish_reasons if came.completion is not None else ()
