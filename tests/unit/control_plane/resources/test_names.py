"""Names of documents."""

import pytest

from control_plane.resources.names import check_model_name, check_name


@pytest.mark.parametrize("name", ["openai", "a", "gpt-4o.mini_2", "9lives", "a" * 253])
def test_plain_names_are_accepted(name: str) -> None:
    """Letters, digits, dots, hyphens and underscores make a name of any kind."""
    assert check_name(name) == check_model_name(name) == name


@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "ft:gpt-4o:org::id", "vendor@x+y"])
def test_models_may_be_called_as_providers_call_them(name: str) -> None:
    """Slashes and colons are for Models only."""
    assert check_model_name(name) == name
    with pytest.raises(ValueError, match="must be"):
        check_name(name)


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", "a\n", "ä", "a" * 254, "*"])
def test_other_names_are_refused(name: str) -> None:
    """Empty, too long, with blanks or patterns: no name of anything."""
    for check in (check_name, check_model_name):
        with pytest.raises(ValueError, match="must be"):
            check(name)
