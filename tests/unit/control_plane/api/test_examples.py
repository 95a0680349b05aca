"""The examples in the API's description."""

from control_plane.api.examples import EXAMPLES, example_yaml
from control_plane.resources.documents import check_documents
from control_plane.resources.kinds import KINDS
from control_plane.resources.loading import read_text


def test_the_examples_are_a_valid_set() -> None:
    """One of each kind, by their keys, and as YAML too."""
    assert {kind: example["kind"] for kind, example in EXAMPLES.items()} == {kind: kind for kind in KINDS}
    assert len(check_documents(read_text(example_yaml(*EXAMPLES).encode(), "examples"))) == len(KINDS)
