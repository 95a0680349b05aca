"""What accounts have used, looked at in pieces."""

from __future__ import annotations

from ext_proc.contract.uses import Use
from ext_proc.limits.book import Standing
from ext_proc.limits.survey import Survey
from ext_proc.limits.window import SPAN_US


def standing(requests: int, at: int = 0) -> Standing:
    """Return an account with so many requests at that time."""
    made = Standing()
    made.window(0).add(at, requests)
    return made


def test_every_account_has_its_turn() -> None:
    """Some in one go; of the others it is told what was seen last."""
    survey, accounts = Survey(at_once=2), {f"model:{at}": standing(at) for at in (1, 2, 3)}
    assert survey.look(accounts, 0) == {"model:2": Use(2), "model:3": Use(3)}
    accounts["model:3"].window(0).add(0, 4)
    assert survey.look(accounts, 0) == {"model:1": Use(1), "model:2": Use(2), "model:3": Use(3)}
    assert survey.look(accounts, 0)["model:3"] == Use(7)


def test_few_accounts_are_all_looked_at_each_time() -> None:
    """Those that come, and those that use nothing any more or are gone."""
    survey, accounts = Survey(), {"model:a": standing(1), "model:b": standing(2, at=SPAN_US)}
    assert survey.look(accounts, SPAN_US - 1) == {"model:a": Use(1), "model:b": Use(2)}
    accounts["model:c"] = standing(3, at=SPAN_US)
    assert survey.look(accounts, SPAN_US) == {"model:b": Use(2), "model:c": Use(3)}
    del accounts["model:b"]
    assert survey.look(accounts, SPAN_US) == {"model:c": Use(3)}
