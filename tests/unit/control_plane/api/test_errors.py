"""What the API itself refuses."""

from control_plane.api.errors import RefusedRequestError


def test_a_refusal_has_all_that_its_answer_needs() -> None:
    """And its text is the sentence for the user."""
    refused = RefusedRequestError(415, "the body must be JSON", headers={"accept": "application/json"})
    assert (refused.status, str(refused), refused.errors) == (415, "the body must be JSON", ())
    assert refused.headers == {"accept": "application/json"}
