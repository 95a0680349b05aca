"""Problems as values."""

from control_plane.resources.problems import InvalidDocumentsError, Problem


def test_a_problem_is_one_line_whatever_it_holds() -> None:
    """Control characters of a document cannot forge a line or drive a terminal."""
    problem = Problem("Model/x", "spec.\x1b[2J\n", "is no field", "a.yaml:3")
    assert problem.sentence() == "a.yaml:3: Model/x: spec.\\x1b[2J\\n: is no field"


def test_the_wire_form_is_document_field_message() -> None:
    """The place in a file is for the terminal only."""
    assert Problem("Model/x", "spec", "is required", "a.yaml:3").as_dict() == {
        "document": "Model/x",
        "field": "spec",
        "message": "is required",
    }


def test_the_error_names_every_problem() -> None:
    """None is lost when an error is only printed."""
    error = InvalidDocumentsError([Problem("A/a", "x", "bad"), Problem("B/b", "", "worse")])
    assert str(error) == "A/a: x: bad; B/b: worse"
    assert len(error.problems) == 2


def test_a_lone_surrogate_is_escaped_on_the_wire() -> None:
    """JSON may hold one (`\\ud800`); no encoding of an answer does."""
    problem = Problem("Tier/\ud800", "spec", "x\udfffy")
    assert problem.as_dict() == {"document": "Tier/\\ud800", "field": "spec", "message": "x\\udfffy"}
