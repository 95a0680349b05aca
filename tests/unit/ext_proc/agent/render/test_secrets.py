"""Tests of the rendering of secrets."""

from __future__ import annotations

from ext_proc.agent.render.secrets import AUTHORITIES, SECRET_TYPE, render_secrets, secret_name
from ext_proc.agent.resources import resource_set
from ext_proc.contract.snapshot import CredentialRef
from tests.unit.ext_proc.agent.render.examples import AZURE, FULL, OPENAI, check_golden


def value(secret: dict[str, object]) -> object:
    """Return what a generic secret holds."""
    generic = secret["generic_secret"]
    assert isinstance(generic, dict)
    return generic["secret"]["inline_string"]


def test_secrets_are_as_reviewed() -> None:
    """The secrets of the example equal the golden file, and Envoy's API knows every field."""
    keys = {CredentialRef("env", "OPENAI_API_KEY"): "sk-1", CredentialRef("secret", "azure", "key"): "k"}
    secrets = render_secrets([FULL], keys, b"PEM")
    check_golden("secrets-full", secrets)
    assert len(resource_set({SECRET_TYPE: secrets}).types[SECRET_TYPE].by_name) == 3


def test_secret_is_the_whole_header_value() -> None:
    """OpenAI's key is a bearer token, Azure's stands alone; a Backend without credentials has no secret."""
    assert OPENAI.credential is not None
    assert AZURE.credential is not None
    secrets = render_secrets([FULL], {OPENAI.credential: "a", AZURE.credential: "b"}, b"")
    assert value(secrets[secret_name(OPENAI)]) == "Bearer a"
    assert value(secrets[secret_name(AZURE)]) == "b"
    assert set(secrets) == {AUTHORITIES, secret_name(OPENAI), secret_name(AZURE)}


def test_missing_key_is_an_empty_secret() -> None:
    """A reference without a key still has its secret, so that the cluster does not wait for it."""
    secrets = render_secrets([FULL], {}, b"")
    assert value(secrets[secret_name(OPENAI)]) == ""
