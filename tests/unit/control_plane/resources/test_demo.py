"""The built-in demo."""

from control_plane.resources.compile import compile_snapshot
from control_plane.resources.demo import demo_documents, demo_yaml
from control_plane.resources.documents import check_documents
from control_plane.resources.loading import RawDocument, read_text
from ext_proc.contract.policies import resolve_policy

URL = "http://127.0.0.1:18000/v1"


def test_the_demo_holds_what_the_documentation_promises() -> None:
    """One Backend, three Models (one with two versions), two Tiers, one Policy with a cache and clamps."""
    documents = check_documents(read_text(demo_yaml(URL).encode(), "demo.yaml"))
    snapshot = compile_snapshot(documents, "default", 1)
    assert snapshot.default_backend == "simulated"
    assert snapshot.backends["simulated"].url == URL
    assert set(snapshot.models) == {"gpt-4o-mini", "gpt-4o", "text-embedding-3-small"}
    assert len(snapshot.models["gpt-4o"].versions) == 2
    assert set(snapshot.tiers) == {"free", "gold"}
    policy = resolve_policy(snapshot.policies, "gpt-4o", "gold")
    assert policy.cache.enabled
    assert (policy.parameters.temperature.max, policy.parameters.max_tokens.max) == (0.3, 4096)
    assert snapshot.fail_open


def test_the_file_says_what_the_values_say() -> None:
    """A user who copies the file gets the same policy."""
    from_file = check_documents(read_text(demo_yaml(URL).encode(), "demo.yaml"))
    from_values = check_documents(RawDocument(value, "demo") for value in demo_documents(URL))
    assert compile_snapshot(from_file, "w", 1) == compile_snapshot(from_values, "w", 1)
