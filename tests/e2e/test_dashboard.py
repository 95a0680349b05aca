"""The dashboard in a real Chromium: each page, each button, each role, both languages.

`DASHBOARD_IMAGES=docs/images/dashboard` writes a picture of each page there.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from control_plane.auth.roles import Role
from control_plane.dashboard.shell import PAGES, path_of
from ext_proc.contract.uses import Use
from tests.contract.control_plane.api.papers import backend, document
from tests.contract.control_plane.api.served import ADMIN
from tests.harness.browser import barriers, chromium
from tests.harness.staged_fleet import StagedFleet, staged_fleet

NAMES: Final = [name for name, _ in PAGES]
WAIT_MS: Final = 20_000
SIDECARS: Final = 200
MODELS: Final = 20
CROWD: Final = 2_000
CROWD_MODELS: Final = 500
IMAGES: Final = os.environ.get("DASHBOARD_IMAGES")
ZH: Final = json.loads(Path("control_plane/dashboard/static/i18n/zh/shell.json").read_text(encoding="utf-8"))
KNOWN: Final = ["gpt-4o-mini", "gpt-4o", "text-embedding-3-small"]

expect.set_options(timeout=WAIT_MS)


def documents() -> list[dict[str, Any]]:
    """Return a small policy with something of every kind."""
    versions = [
        {"name": "stable", "backend": "openai", "weight": 95},
        {"name": "candidate", "backend": "local", "weight": 5},
    ]
    limits = {"requestsPerMinute": 600, "tokensPerMinute": 200_000, "concurrency": 100}
    return [
        backend(quota={"requestsPerMinute": 3_500, "tokensPerMinute": 9_000_000}, default=True),
        backend("local", url="http://127.0.0.1:9/v1"),
        *(document("Model", name, versions=versions, limits={"requestsPerMinute": 900}) for name in KNOWN),
        document("Tier", "gold", limits=limits, priority=10),
        document("Tier", "free", limits={"requestsPerMinute": 20}, match={"header": {"x-tier": "free"}}),
        document("Consumer", "team-a", tenant="team-a", tier="gold", limits={"tokensPerDay": 1_000_000}),
        document("Policy", "demo", cache={"enabled": True}),
    ]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StagedFleet]:
    """Return a control plane with sidecars, of which one refuses and some have gone."""
    with staged_fleet(tmp_path_factory.mktemp("dashboard")) as found:
        found.apply(*documents())
        found.connect(SIDECARS, refusing=1)
        found.leave(8)
        call_models(found, MODELS)
        found.tick(busy=4, calls=200)
        for _ in range(25 if IMAGES else 0):
            # Pictures show curves.
            found.tick(busy=12, calls=90)
            time.sleep(1.5)
        yield found


def call_models(fleet: StagedFleet, count: int) -> None:
    """Have the sidecars call so many Models."""
    names = [*KNOWN, *(f"model-{number:03}" for number in range(count - len(KNOWN)))]
    fleet.serve_models([(name, "stable") for name in names])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return one browser for all."""
    with chromium() as found:
        yield found


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser, fleet: StagedFleet) -> Iterator[Visit]:
    """Return what opens a page: `visit(name, token=…, locale=…, …)`. What goes wrong in it fails the test."""
    contexts: list[BrowserContext] = []
    wrong: list[str] = []

    def open_page(
        name: str, *, token: str = ADMIN, locale: str = "en-US", narrow: bool = False, dark: bool = False
    ) -> Page:
        size = {"width": 390, "height": 844} if narrow else {"width": 1440, "height": 900}
        context = browser.new_context(
            base_url=fleet.url,
            locale=locale,
            color_scheme="dark" if dark else "light",
            viewport={"width": size["width"], "height": size["height"]},
        )
        context.set_default_timeout(WAIT_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(f"{name}: {error}"))
        page.on(
            "console", lambda told: wrong.append(f"{name}: {told.text}") if told.type == "error" else None
        )
        answer = context.request.post("/login", form={"token": token, "next": "/docs"}, max_redirects=0)
        assert answer.status == 303
        page.goto(path_of(name))
        ready(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    # Chromium calls every answer of 400 and above an error; the tests ask for some.
    assert [line for line in wrong if "Failed to load resource" not in line] == []


def ready(page: Page) -> None:
    """Wait until the page has been drawn."""
    expect(page.locator("main")).to_have_attribute("aria-busy", "false")


def picture(page: Page, name: str) -> None:
    """Keep a picture, if somebody asks for it: with a while of numbers in it."""
    if IMAGES:
        page.wait_for_timeout(1_500)
        folder = Path(IMAGES)
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=folder / f"{name}.png")


def test_every_page_is_drawn_in_both_languages_and_keeps_nobody_out(visit: Visit, fleet: StagedFleet) -> None:
    """By the navigation; axe finds nothing serious in light and English, dark and Chinese."""
    page = visit("overview")
    for dark in (False, True):
        page.emulate_media(color_scheme="dark" if dark else "light")
        for name in NAMES:
            page.click(f'#nav a[data-page="{name}"]')
            expect(page).to_have_url(fleet.url + path_of(name))
            ready(page)
            title = dict(PAGES)[name] if not dark else ZH[f"page.{name}"]
            expect(page.locator("h1")).to_have_text(title)
            # What depends on colours is looked at in both.
            assert barriers(page, *(["color-contrast"] if dark else [])) == [], name
            if name == "overview" or not dark:
                picture(page, f"{name}-dark" if dark else name)
        page.click("#language")
        expect(page.locator("html")).to_have_attribute("lang", "en" if dark else "zh-CN")


def test_a_chinese_browser_is_spoken_to_in_chinese(visit: Visit) -> None:
    """Until somebody chooses otherwise, and then for good."""
    page = visit("sidecars", locale="zh-CN")
    expect(page.locator("h1")).to_have_text(ZH["page.sidecars"])
    page.click("#language")
    expect(page.locator("h1")).to_have_text("Sidecars")
    page.reload()
    ready(page)
    expect(page.locator("h1")).to_have_text("Sidecars")


def test_keys_lead_everywhere(visit: Visit) -> None:
    """`g` and a letter, `/` to search, `?` for help, Tab to skip what repeats."""
    page = visit("overview")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    for letter, title in (("s", "Sidecars"), ("c", "Cache"), ("o", "Overview")):
        page.keyboard.press("g")
        page.keyboard.press(letter)
        expect(page.locator("h1")).to_have_text(title)
        ready(page)
    page.keyboard.press("/")
    expect(page.locator("#page input[type=search]")).to_be_focused()
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("g o")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.click("#search")
    page.fill("dialog input", "aud")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Audit")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Overview")


def test_light_and_dark_are_kept(visit: Visit) -> None:
    """The switch wins over the system."""
    page = visit("limits", dark=True)
    paper = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(paper)
    page.click("#theme")
    assert page.evaluate(paper) != dark
    page.reload()
    assert page.evaluate(paper) != dark


def test_a_narrow_screen_has_a_menu_and_scrolls_one_way(visit: Visit) -> None:
    """No page is wider than the screen."""
    page = visit("overview", narrow=True)
    expect(page.locator("#nav")).not_to_be_visible()
    for name in NAMES:
        page.click("#menu")
        expect(page.locator("#menu")).to_have_attribute("aria-expanded", "true")
        page.click(f'#nav a[data-page="{name}"]')
        expect(page.locator("#nav")).not_to_be_visible()
        ready(page)
        assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), name
        if name == "overview":
            picture(page, "overview-narrow")


def test_the_overview_lives(visit: Visit, fleet: StagedFleet) -> None:
    """Tiles, Tiers and models follow what sidecars tell."""
    page = visit("overview")
    expect(page.locator("#line")).to_have_text("live")
    requests = page.locator(".tile", has_text="Requests per second")
    before = requests.locator("small").inner_text()
    fleet.tick(busy=3, calls=5_000)
    expect(requests.locator("small")).not_to_have_text(before)
    expect(page.locator(".tile", has_text="Sidecars in force")).to_contain_text("191 / 192")
    expect(page.locator("table", has_text="gold")).to_contain_text("free")
    rows = page.get_by_role("table", name="Models")
    expect(rows.locator(".vrow").first).to_contain_text("gpt-4o-mini")
    page.fill("#page input[type=search]", "model-0")
    expect(rows.locator(".vrow").first).to_contain_text("model-0")
    page.locator(".tile", has_text="Sidecars in force").click()
    expect(page.locator("h1")).to_have_text("Sidecars")


def test_sidecars_are_a_few_rows_of_the_document(visit: Visit) -> None:
    """Sorted, filtered, and each with what it serves and why it refuses."""
    page = visit("sidecars")
    rows = page.get_by_role("table", name="Sidecars")
    expect(rows).to_have_attribute("aria-rowcount", str(SIDECARS + 1))
    assert rows.locator(".vrow").count() < 80
    page.select_option("#page select", "refused")
    expect(rows.locator(".vrow")).to_contain_text(["unknown cluster"])
    page.select_option("#page select", "gone")
    expect(rows.locator(".vrow")).to_have_count(8)
    page.select_option("#page select", "behind")
    expect(rows.locator(".vrow")).to_have_count(0)
    page.select_option("#page select", "")
    page.fill("#page input[type=search]", "shop-0004")
    expect(rows.locator(".vrow")).to_have_count(1)
    rows.locator(".vrow").click()
    expect(page.locator("dialog")).to_contain_text("zone=")
    expect(page.locator("dialog")).to_contain_text("1.40.0")
    page.locator("dialog header button").click()
    page.fill("#page input[type=search]", "")
    rows.get_by_role("button", name="Sidecar").click()
    expect(rows.locator(".vrow").first).to_contain_text("batch-0003")


def test_an_editor_purges_what_a_viewer_only_sees(visit: Visit, fleet: StagedFleet) -> None:
    """After a question, and the viewer has no button for it; only an admin reads an answer."""
    editor = visit("cache", token=fleet.token(Role.EDITOR))
    rows = editor.get_by_role("table", name="Answers in memory")
    expect(rows.locator(".vrow").first).to_contain_text("gpt-4o-mini")
    editor.fill("input[name=model]", "gpt-4o")
    editor.get_by_role("button", name="Find").click()
    expect(rows).to_have_attribute("aria-rowcount", "14")
    editor.get_by_role("button", name="Purge answers").click()
    editor.locator("dialog").get_by_role("button", name="Cancel").click()
    rows.locator(".vrow").first.click()
    expect(editor.locator("dialog").get_by_role("button", name="Show")).to_have_count(0)
    editor.locator("dialog").get_by_role("button", name="Purge it").click()
    editor.locator("dialog").get_by_role("button", name="Purge", exact=True).click()
    expect(editor.locator(".toast")).to_contain_text(re.compile(r"Purged by revision \d+"))
    editor.get_by_role("button", name="Purge answers").click()
    editor.locator("dialog").get_by_role("button", name="Purge", exact=True).click()
    expect(editor.locator(".toast.bad")).to_be_visible()

    viewer = visit("cache", token=fleet.token(Role.VIEWER))
    expect(viewer.get_by_role("button", name="Refresh")).to_be_visible()
    expect(viewer.get_by_role("button", name="Purge answers")).to_have_count(0)
    viewer.get_by_role("table", name="Answers in memory").locator(".vrow").first.click()
    expect(viewer.locator("dialog footer")).to_have_count(0)

    admin = visit("cache")
    admin.get_by_role("table", name="Answers in memory").locator(".vrow").first.click()
    admin.locator("dialog").get_by_role("button", name="Show what was answered").click()
    expect(admin.locator("dialog pre")).to_contain_text("chat.completion")


def test_limits_stand_beside_their_use(visit: Visit, fleet: StagedFleet) -> None:
    """In tabs that arrows move between; a Consumer has its part of its Tier's, and its own."""
    page = visit("limits")
    fleet.tick(busy=3, calls=5_000)
    gold, team = Use(420, 61_000, at_once=9), Use(12, 2_000, 180_000)
    fleet.use({"model:gpt-4o-mini": Use(640), "tier:gold/team-a": gold, "consumer:team-a": team})
    expect(page.get_by_role("table", name="Tiers").locator(".vrow", has_text="gold")).to_contain_text("600")
    page.get_by_role("tab", name="Tiers").focus()
    page.keyboard.press("ArrowRight")
    model = page.get_by_role("table", name="Model").locator(".vrow", has_text="gpt-4o-mini")
    expect(model).to_contain_text("640 of 900")
    page.get_by_role("tab", name="Backends").click()
    expect(page.get_by_role("table", name="Backend")).to_contain_text("of 3,500")
    page.get_by_role("tab", name="Consumers").click()
    rows = page.get_by_role("table", name="Consumers").locator(".vrow", has_text="team-a")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("Tier gold")
    for used in ("420 of 600", "61K of 200K", "9 of 100", "70%"):
        expect(rows.first).to_contain_text(used)
    expect(rows.last).to_contain_text("180K of 1M")
    assert barriers(page) == []
    picture(page, "limits-consumers")


def test_what_kubernetes_owns_is_shown_and_not_edited(visit: Visit, fleet: StagedFleet) -> None:
    """With whose it is, and where to change it."""
    fleet.mirror(document("Tier", "silver", limits={"requestsPerMinute": 60}))
    page = visit("policies")
    page.select_option("#page select", "tiers")
    silver = page.locator(".names button", has_text="silver")
    expect(silver.locator(".badge")).to_have_text("kubernetes")
    expect(page.locator(".names button", has_text="gold").locator(".badge")).to_have_count(0)
    silver.click()
    expect(page.locator("[data-owner]")).to_contain_text("kubectl edit tier silver")
    expect(page.locator(".editor textarea")).to_have_attribute("readonly", "")
    expect(page.locator("[data-action=delete], [data-action=review]")).to_have_count(0)
    assert barriers(page) == []
    page.locator(".names button", has_text="gold").click()
    expect(page.locator("[data-action=delete]")).to_have_count(1)
    expect(page.locator("[data-owner]")).to_have_count(0)
    fleet.mirror()


def test_several_replicas_are_told_apart(visit: Visit) -> None:
    """Where there are several, each sidecar says which it is connected to."""
    page = visit("cache")

    def of_two(route: Route) -> None:
        items = [{**one, "replica": f"cp-{at % 2}"} for at, one in enumerate(route.fetch().json()["items"])]
        route.fulfill(json={"items": items})

    page.route("**/api/v1/sidecars", of_two)
    page.click('#nav a[data-page="sidecars"]')
    rows = page.get_by_role("table", name="Sidecars")
    expect(rows.get_by_role("button", name="Control plane")).to_be_visible()
    page.fill("#page input[type=search]", "cp-1")
    expect(rows).to_have_attribute("aria-rowcount", str(SIDECARS // 2 + 1))
    rows.locator(".vrow").first.click()
    expect(page.locator("dialog")).to_contain_text("cp-1")
    page.unroute_all(behavior="wait")


def test_scopes_are_respected(visit: Visit, fleet: StagedFleet) -> None:
    """What a token may not see is said, not shown."""
    page = visit("overview", token=fleet.token(Role.VIEWER, "models:read"))
    expect(page.locator("#page")).to_contain_text("may not see the sidecars")


def test_what_fails_is_said(visit: Visit) -> None:
    """In words of the page's language, and trying again works."""
    page = visit("overview")

    def refuse(route: Route) -> None:
        route.fulfill(
            status=503, content_type="application/problem+json", body='{"detail": "the database sleeps"}'
        )

    page.route("**/api/v1/sidecars", refuse)
    page.click('#nav a[data-page="sidecars"]')
    expect(page.locator(".empty")).to_contain_text("the database sleeps")
    page.unroute("**/api/v1/sidecars")
    page.route("**/api/v1/live", refuse)
    page.click('#nav a[data-page="sidecars"]')
    expect(page.get_by_role("table", name="Sidecars")).to_be_visible()
    expect(page.locator("#line")).to_have_text("connection lost, trying again")
    page.unroute("**/api/v1/live")
    expect(page.locator("#line")).to_have_text("live")


def test_whoever_logs_out_is_out_until_they_log_in(visit: Visit) -> None:
    """By the form, which leads to where they wanted to go."""
    page = visit("cache")
    page.click("#top form button")
    expect(page.locator("#token")).to_be_visible()
    page.goto("/audit")
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    expect(page.locator("[role=alert]")).to_contain_text("not valid")
    page.fill("#token", ADMIN)
    page.click("form.login button")
    expect(page.locator("h1")).to_have_text("Audit")


def test_it_paints_at_once_and_holds_the_crowd(visit: Visit, fleet: StagedFleet) -> None:
    """First paint, and how long the page is busy by what two thousand sidecars and 500 models tell.

    Beside other tests the numbers are looked at loosely; `docs/dashboard.md` has those of a quiet machine.
    """
    fleet.connect(CROWD - SIDECARS)
    call_models(fleet, CROWD_MODELS)
    for _ in range(3):
        fleet.tick(busy=10, calls=400)
    page = visit("overview")
    for _ in range(4):
        page.reload()
        ready(page)
        expect(page.locator(".vtable")).to_have_attribute("aria-rowcount", str(CROWD_MODELS + 1))
        paint = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.evaluate(
            "() => { window.long = []; new PerformanceObserver((list) => window.long.push("
            "...list.getEntries().map((entry) => entry.duration))).observe({entryTypes: ['longtask']}) }"
        )
        for _ in range(3):
            fleet.tick(busy=5, calls=400)
            page.wait_for_timeout(700)
        longest = max(page.evaluate("() => window.long"), default=0)
        print(f"first paint {paint:.0f} ms, longest task {longest:.0f} ms")
        # What another test did in that second is not this page's.
        if paint <= 2_000 and longest <= 500:
            break
    assert paint <= 2_000
    assert longest <= 500
