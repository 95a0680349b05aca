"""The whole API, called as its description allows and as it does not: no 500, and answers as described."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.contract.control_plane.api.papers import backend, consumer, model
from tests.contract.control_plane.api.served import ADMIN, serving
from tests.harness.plain import PLAIN

EXAMPLES = 2


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where an API is served that has a document of some kinds, from a loop of its own."""
    with serving(tmp_path_factory.mktemp("api"), burst=10_000) as served:
        headers = {"authorization": f"Bearer {ADMIN}"}
        papers = [backend(), model(), consumer()]
        httpx.post(f"{served.url}/api/v1/apply", json=papers, headers=headers, verify=PLAIN)
        yield served.url


def test_no_call_breaks_it(url: str) -> None:
    """Right and wrong bodies, parameters and headers for every operation."""
    # Three seconds of imports, which every process that only collects this file would pay.
    import schemathesis  # noqa: PLC0415
    from schemathesis import GenerationMode  # noqa: PLC0415
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415
    from schemathesis.core.result import Err  # noqa: PLC0415
    from schemathesis.specs.openapi import checks  # noqa: PLC0415

    checked = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.ignored_auth,
    ]
    headers = {"Authorization": f"Bearer {ADMIN}"}
    described = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=headers)
    count = 0
    for found in described.get_all_operations():
        assert not isinstance(found, Err), found
        operation = found.ok()
        count += 1
        if operation.path == "/api/v1/live":
            continue  # its events have a test of their own

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        @given(
            case=operation.as_strategy(GenerationMode.POSITIVE)
            | operation.as_strategy(GenerationMode.NEGATIVE)
        )
        def calls(case: Any) -> None:
            case.call_and_validate(headers=headers, checks=checked, timeout=30)

        calls()
    assert count > 40
