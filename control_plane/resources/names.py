"""Which names documents, Models, and secrets and their values may have."""

from __future__ import annotations

import re
from typing import Final

NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}"
# Provider names such as ft:gpt-4o:org::id and meta-llama/Llama-3.1-8B are names of Models too.
MODEL_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,252}"
# Secrets are mounted as folders and their values as files, so both are names of files.
SECRET_NAME: Final = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,252}"


def check_name(value: str) -> str:
    """Return `value` if it can name a document or a version (they become cluster names and labels).

    Raises:
        ValueError: it cannot.
    """
    if not re.fullmatch(NAME, value):
        raise ValueError(
            "must be 1 to 253 letters, digits, '.', '_' and '-', beginning with a letter or digit"
        )
    return value


def check_model_name(value: str) -> str:
    """Return `value` if it can name a Model or be an alias.

    Raises:
        ValueError: it cannot.
    """
    if not re.fullmatch(MODEL_NAME, value):
        raise ValueError(
            "must be 1 to 253 letters, digits and '.', '_', '-', ':', '/', '@', '+', "
            "beginning with a letter or digit"
        )
    return value
