"""Check that tests mirror sources: `python tests/mirror.py`, part of `make check`.

Every test file under tests/unit and tests/contract stands where its source stands
(`ext_proc/foo/bar.py` → `tests/unit/ext_proc/foo/test_bar.py`; a test of a whole package, or of a folder
without Python such as `k8s/chart`, is named after it), and every source module with behaviour has such a
test. Exit status 1 names what is off.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

SOURCES = ("ext_proc", "control_plane")
SUITES = ("tests/unit", "tests/contract")
GENERATED = ("_pb2.py", "_pb2_grpc.py")

# Modules that only an end-to-end test can exercise, each with the reason.
UNMIRRORED = {
    **dict.fromkeys(
        (
            f"ext_proc/wiring/{name}.py"
            for name in ("agent", "caching", "processor", "providers", "sessions", "stages")
        ),
        "names concrete classes and starts them; every end-to-end test runs it",
    ),
    "control_plane/wiring.py": "names concrete classes and starts them; every end-to-end test runs it",
}


def main() -> int:
    """Print every breach, one a line, and return the exit status."""
    root = Path(__file__).resolve().parent.parent
    breaches = [*stray_tests(root), *untested_sources(root), *stale_exemptions(root)]
    for breach in breaches:
        print(breach, file=sys.stderr)
    return 1 if breaches else 0


def stray_tests(root: Path) -> Iterator[str]:
    """Yield a line for each test file that mirrors no source module or package."""
    for suite in SUITES:
        for test in sorted((root / suite).rglob("test_*.py")):
            mirrored = test.relative_to(root / suite)
            stem = test.stem.removeprefix("test_")
            module = root / mirrored.with_name(f"{stem}.py")
            folder = root / mirrored.with_name(stem)
            package = folder if mirrored.parts[0] not in SOURCES else folder / "__init__.py"
            if not module.exists() and not package.exists():
                yield f"{test.relative_to(root)}: no {module.relative_to(root)} to mirror"


def untested_sources(root: Path) -> Iterator[str]:
    """Yield a line for each source module with behaviour that no unit or contract test mirrors."""
    for source in SOURCES:
        for module in sorted((root / source).rglob("*.py")):
            name = module.relative_to(root)
            if str(name) in UNMIRRORED or not has_behaviour(module):
                continue
            tests = [root / suite / name.with_name(f"test_{name.name}") for suite in SUITES]
            if not any(test.exists() for test in tests):
                yield f"{name}: no {tests[0].relative_to(root)} (or tests/contract/…)"


def stale_exemptions(root: Path) -> Iterator[str]:
    """Yield a line for each exemption whose module now has a test of its own."""
    for name in UNMIRRORED:
        test = Path(name).with_name(f"test_{Path(name).name}")
        if any((root / suite / test).exists() for suite in SUITES):
            yield f"tests/mirror.py: {name} has a test now; drop its exemption"


def has_behaviour(module: Path) -> bool:
    """Return whether `module` holds a function that does something.

    Generated code, `__main__` and `__init__` files, declarations (dataclasses, enums, Protocols) and
    re-exports do not count.
    """
    if module.name.endswith(GENERATED) or module.name in ("__main__.py", "__init__.py"):
        return False
    tree = ast.parse(module.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_declaration(node)
        for node in ast.walk(tree)
    )


def _is_declaration(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """A Protocol's method has a docstring and `...`, nothing else."""
    return all(
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        for statement in function.body
    )


if __name__ == "__main__":
    sys.exit(main())
