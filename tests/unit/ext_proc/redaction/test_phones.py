from __future__ import annotations

import subprocess
import sys

import pytest

from ext_proc.redaction.phones import international_length


@pytest.mark.parametrize(
    ("candidate", "length"),
    [
        ("+1 415-555-2671", 15),
        ("+44 20 7946 0958", 16),
        ("0049 30 901820", 14),
        ("+1 415-555-2671 2024", 15),
        ("+1 000 000 0000", 0),
        ("+999 12345678", 0),
    ],
)
def test_length_of_number(candidate: str, length: int) -> None:
    """The longest valid number from the start counts; what follows it does not; an invalid one is none."""
    assert international_length(candidate) == length


def test_library_is_loaded_late() -> None:
    """A process that never sees a country code never loads the numbering plans."""
    program = (
        "import sys; from ext_proc.redaction.detectors import redact; redact('13800138000 4111111111111111');"
        "sys.exit('phonenumbers' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
