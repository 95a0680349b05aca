"""The document behind every page."""

import re

import pytest

from control_plane.dashboard.assets import load_assets
from control_plane.dashboard.shell import PAGES, POLICY, Visitor, load_shell, path_of

SHELL = load_shell()
VISITOR = Visitor("ops <b>", "editor", ("cache:read", "models:read"), 'cs"rf')


@pytest.mark.parametrize("page", [name for name, _ in PAGES])
def test_it_marks_its_page_and_leads_to_every_other(page: str) -> None:
    """Before any script runs."""
    text = SHELL.document(page, VISITOR)
    assert f'data-page="{page}" data-t="page.{page}" aria-current="page"' in text
    assert text.count("aria-current") == 1
    assert all(f'href="{path_of(name)}"' in text for name, _ in PAGES)


def test_what_it_loads_is_there() -> None:
    """Scripts, styles and pictures are files of ours."""
    assets = load_assets()
    found = re.findall(r'(?:src|href)="/assets/([^"]+)"', SHELL.document("overview", VISITOR))
    assert found
    assert set(found) <= assets.keys()


def test_a_name_is_escaped_and_nothing_is_inline() -> None:
    """The policy allows no script and no style in the document."""
    text = SHELL.document("overview", VISITOR)
    assert "ops &lt;b&gt;" in text
    assert 'content="cs&quot;rf"' in text
    assert 'name="scopes" content="cache:read models:read"' in text
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", text)
    assert "unsafe" not in POLICY


def test_who_came_with_a_token_has_nothing_to_log_out_of() -> None:
    """There is no session then."""
    assert "/logout" in SHELL.document("audit", VISITOR)
    assert "/logout" not in SHELL.document("audit", Visitor("ci", "viewer", (), ""))
