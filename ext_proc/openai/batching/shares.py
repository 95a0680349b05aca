"""Sharing numbers out so that nothing is lost by rounding."""

from __future__ import annotations

from collections.abc import Sequence

from ext_proc.openai.usage import Usage


def tokens_shared_out(
    usage: Usage | None, asked: Sequence[int], said: Sequence[int]
) -> Sequence[tuple[int, int] | None]:
    """Return the tokens of prompt and completion for each input; None for all without `usage`.

    `asked` and `said` weigh them: how long each input and each answer is.
    """
    if usage is None:
        return [None] * len(asked)
    prompt, completion = shared_out(usage.prompt_tokens, asked), shared_out(usage.completion_tokens, said)
    return list(zip(prompt, completion, strict=True))


def shared_out(total: int, weights: Sequence[int]) -> list[int]:
    """Return parts of `total` in proportion to `weights`, which add up to it exactly (largest remainders).

    Without any weight they are as equal as can be.
    """
    if not weights:
        return []
    whole = sum(weights)
    if whole <= 0:
        weights, whole = [1] * len(weights), len(weights)
    parts = [total * weight // whole for weight in weights]
    remainders = sorted(range(len(weights)), key=lambda place: (-(total * weights[place] % whole), place))
    for place in remainders[: total - sum(parts)]:
        parts[place] += 1
    return parts
