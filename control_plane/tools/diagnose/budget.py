"""What a diagnosis may spend: calls and tokens, never more."""

from __future__ import annotations

from collections.abc import Callable


class BudgetSpent(Exception):
    """The next call does not fit into the budget."""


class Budget:
    """Calls and tokens that are left.

    Args:
        requests: calls that may be made, tried again ones included.
        tokens: of prompts and answers together.
        stopped: whether nothing more is to be spent.
    """

    def __init__(self, requests: int, tokens: int, stopped: Callable[[], bool] = lambda: False) -> None:
        self._stopped = stopped
        self.requests_left = requests
        self.tokens_left = tokens
        self.requests = 0
        self.tokens = 0

    def take(self, tokens: int) -> None:
        """Take one call of at most `tokens` tokens.

        Raises:
            BudgetSpent: it does not fit; nothing is taken.
        """
        if self._stopped() or self.requests_left < 1 or self.tokens_left < tokens:
            raise BudgetSpent
        self.requests_left -= 1
        self.tokens_left -= tokens
        self.requests += 1

    def settle(self, taken: int, used: int) -> None:
        """Give back what a call took and did not use."""
        self.tokens_left += taken - used
        self.tokens += used
