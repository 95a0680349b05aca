"""`outrigger validate`: check documents offline."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from control_plane.cli.options import Files


class Output(StrEnum):
    """How a result is printed."""

    TEXT = "text"
    JSON = "json"


def validate(
    *,
    files: Files,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print the result.")] = Output.TEXT,
) -> None:
    """Check documents: fields, values, references and ties between Policies.

    Exit status 1 with every error named (document, field, message); what has no effect is
    named on stderr.
    """
    from control_plane.resources.documents import load_documents  # noqa: PLC0415 - keeps --help quick
    from control_plane.resources.problems import InvalidDocumentsError, Problem  # noqa: PLC0415

    stdin = sys.stdin.buffer.read() if Path("-") in files else None
    errors: tuple[Problem, ...] = ()
    notices: tuple[Problem, ...] = ()
    count = 0
    try:
        documents = load_documents(files, stdin)
        notices, count = documents.notices, len(documents)
    except InvalidDocumentsError as refused:
        errors = refused.problems
    for notice in notices:
        print(f"warning: {notice.sentence()}", file=sys.stderr)
    if output is Output.JSON:
        report = {
            "valid": not errors,
            "documents": count,
            "errors": [problem.as_dict() for problem in errors],
            "warnings": [notice.as_dict() for notice in notices],
        }
        print(json.dumps(report, indent=2))
    elif not errors:
        print(f"valid: {count} document{'' if count == 1 else 's'}")
    for problem in errors:
        print(f"error: {problem.sentence()}", file=sys.stderr)
    if errors:
        raise typer.Exit(1)
