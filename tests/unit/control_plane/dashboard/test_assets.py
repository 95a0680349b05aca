"""The files of the dashboard."""

import json
import re

import pytest

from control_plane.dashboard.assets import load_assets
from control_plane.dashboard.shell import PAGES

ASSETS = load_assets()
LOADED = re.compile(r"""(?:import\s[^"';]*?from\s*|import\s*\(?\s*)["']([^"'$`]+)["']""")


def test_they_are_known_by_their_path_with_their_type_and_a_tag_of_their_content() -> None:
    """What is no file of a browser's is left out."""
    assert ASSETS["style.css"].media_type == "text/css"
    assert ASSETS["pages/overview.js"].media_type == "text/javascript"
    assert len({asset.etag for asset in ASSETS.values()}) == len({asset.content for asset in ASSETS.values()})
    assert all(re.fullmatch(r'"[0-9a-f]{24}"', asset.etag) for asset in ASSETS.values())
    assert not [path for path in ASSETS if path.endswith(".md")]


@pytest.mark.parametrize("path", [path for path in ASSETS if path.endswith(".js")])
def test_a_module_loads_only_what_is_there(path: str) -> None:
    """By a path relative to its own."""
    folder = path.rpartition("/")[0]
    for written in LOADED.findall(ASSETS[path].content.decode()):
        assert written.startswith("."), written
        parts = folder.split("/") if folder else []
        for part in written.split("/"):
            parts = parts[:-1] if part == ".." else parts if part == "." else [*parts, part]
        assert "/".join(parts) in ASSETS, written


@pytest.mark.parametrize("path", sorted(ASSETS))
def test_nothing_comes_from_elsewhere(path: str) -> None:
    """The only addresses outside are names of formats."""
    text = ASSETS[path].content.decode()
    outside = set(re.findall(r"https?://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
    assert not {address for address in outside if not address.startswith("https://www.rfc-editor.org")}


@pytest.mark.parametrize("area", ["shell", *(name for name, _ in PAGES)])
def test_both_languages_have_the_same_texts(area: str) -> None:
    """With the same places for values, and none of them empty."""
    english, chinese = (json.loads(ASSETS[f"i18n/{code}/{area}.json"].content) for code in ("en", "zh"))
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert text, key
        assert chinese[key], key
        assert sorted(set(re.findall(r"\{\w+\}", text))) == sorted(
            set(re.findall(r"\{\w+\}", chinese[key]))
        ), key


@pytest.mark.parametrize("area", [name for name, _ in PAGES])
def test_every_text_that_a_page_names_is_there(area: str) -> None:
    """A key of another page would not be loaded."""
    page = ASSETS[f"pages/{area}.js"].content.decode()
    own = json.loads(ASSETS[f"i18n/en/{area}.json"].content)
    shell = json.loads(ASSETS["i18n/en/shell.json"].content)
    for key in re.findall(r"\bt\(\"([\w.]+)\"", page):
        space, _, rest = key.partition(".")
        known = {area: own, "shell": shell}.get(space)
        assert key in shell if known is None else rest in known, key
