"""A real Chromium of this machine for tests, and axe to look for what keeps people out."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Final

from playwright.sync_api import Browser, Page, sync_playwright

INSTALL_S: Final = 600


class ChromiumMissingError(Exception):
    """Chromium is not installed and cannot be."""


def find_chromium() -> str:
    """Return the path of Chromium; apt-get fetches it when it is absent and may.

    Raises:
        ChromiumMissingError: there is none.
    """
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for arguments in (["update"], ["install", "--yes", "--no-install-recommends", "chromium"]):
            subprocess.run(
                ["apt-get", "-qq", *arguments], check=False, timeout=INSTALL_S, capture_output=True
            )
        found = shutil.which("chromium")
    if found is None:
        raise ChromiumMissingError("Chromium is not installed (apt-get install chromium)")
    return found


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run one browser.

    Raises:
        ChromiumMissingError: there is none.
    """
    path = find_chromium()
    with sync_playwright() as playwright:
        # Without a sandbox: tests run as root in containers.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        try:
            yield browser
        finally:
            browser.close()


def barriers(page: Page, *rules: str) -> list[str]:
    """Return what axe finds serious or worse on `page`, one line each; `rules`: only these of its rules.

    https://github.com/dequelabs/axe-core
    """
    script = resources.files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    page.evaluate(script)
    options = {"resultTypes": ["violations"], "preload": False, **({"runOnly": list(rules)} if rules else {})}
    # Rows of a table are alike, and dozens of them cost seconds.
    where = {"exclude": [".vrow:nth-child(n+4)"]}
    found = page.evaluate("([where, options]) => axe.run(where, options)", [where, options])
    return [
        f"{violation['impact']} {violation['id']}: {violation['help']}: {node['html'][:160]}"
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]
