"""Our own list of models."""

from __future__ import annotations

import orjson
import pytest

from ext_proc.contract.snapshot import PolicyLayer
from ext_proc.exchange import Answer
from ext_proc.stages.catalog import Catalog
from tests.unit.ext_proc.exchanges import exchange, snapshot

CATALOG = Catalog(created=1)


async def test_the_list_names_the_configured_models() -> None:
    """`GET /v1/models` is our own list."""
    answer = await CATALOG.on_head(exchange(method="GET", path="/v1/models"))
    assert isinstance(answer, Answer)
    assert [item["id"] for item in orjson.loads(answer.body)["data"]] == ["m"]


@pytest.mark.parametrize(("name", "status"), [("m", 200), ("fast", 200), ("other", 404)])
async def test_one_model_by_name_or_alias(name: str, status: int) -> None:
    """A name that is not configured is 404 `model_not_found`."""
    answer = await CATALOG.on_head(
        exchange(snapshot(aliases={"fast": "m"}), method="GET", path=f"/v1/models/{name}")
    )
    assert isinstance(answer, Answer)
    assert answer.status == status
    if status == 404:
        assert orjson.loads(answer.body)["error"]["code"] == "model_not_found"


async def test_with_no_model_configured_the_question_passes() -> None:
    """The provider's own list is then the right one."""
    assert await CATALOG.on_head(exchange(snapshot(models={}), method="GET", path="/v1/models")) is None


async def test_the_list_is_for_consumers_where_one_is_required() -> None:
    """requireConsumer guards it like everything else."""
    policy = snapshot(policies=(PolicyLayer("p", settings={"require_consumer": True}),))
    answer = await CATALOG.on_head(exchange(policy, method="GET", path="/v1/models"))
    assert isinstance(answer, Answer)
    assert answer.status == 401
