"""A quick start leaves out what nobody needs, and nothing else."""

from __future__ import annotations

import subprocess
import sys


def _printed(script: str) -> str:
    command = [
        sys.executable,
        "-c",
        f"import gc, sys\nfrom ext_proc.quick_start import quick_imports, started\n{script}",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_rich_is_not_loaded_within_and_can_be_after() -> None:
    """Structlog and httpx do without it, and collections wait for the process to serve."""
    within = "with quick_imports():\n    import structlog, httpx\n"
    assert (
        _printed(f"{within}print('rich' in sys.modules, 'click' in sys.modules, gc.isenabled())")
        == "False False False"
    )
    assert _printed(f"{within}import rich\nprint(rich.__name__)") == "rich"


def test_http_2_is_not_loaded_within_and_can_be_after() -> None:
    """Httpcore does without it; the simulated provider, which speaks it, has it all the same."""
    within = "with quick_imports():\n    import httpcore\n"
    assert _printed(f"{within}print('h2' in sys.modules)") == "False"
    assert _printed(f"{within}import h2.connection\nprint(h2.__name__)") == "h2"


def test_collections_begin_when_it_serves() -> None:
    """With the thresholds that fit the process, or Python's own."""
    script = "with quick_imports():\n    pass\nstarted()\nprint(gc.isenabled(), gc.get_freeze_count() > 0)"
    assert _printed(script) == "True True"
    assert _printed("started((5000, 20, 50))\nprint(gc.get_threshold())") == "(5000, 20, 50)"


def test_what_is_loaded_already_stays() -> None:
    """A command that writes to a terminal keeps its rich."""
    script = "import rich\nwith quick_imports():\n    import rich.text\nprint(sys.modules['rich'] is rich)"
    assert _printed(script) == "True"
