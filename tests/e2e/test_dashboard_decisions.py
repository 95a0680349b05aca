"""The pages of the dashboard that change things, in a real Chromium over a real mesh.

`DASHBOARD_IMAGES=docs/images/dashboard` writes a picture of each page there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.e2e.governed import ADMIN, BACKEND, HELLO, Governed
from tests.harness.browser import barriers, chromium
from tests.harness.mesh import Mesh
from tests.harness.plain import PLAIN
from tests.harness.processes import until

WAIT_MS: Final = 10_000
IMAGES: Final = os.environ.get("DASHBOARD_IMAGES")
PAGES: Final = ("releases", "models", "policies", "playground", "audit")
# What a page shows in place of a text that is missing.
KEY: Final = re.compile(r"\b(?:shell|releases|models|policies|playground|audit)\.[a-z]\w*(?:\.\w+)*\b")

DOCUMENTS: Final = """\
kind: Model
metadata: {name: m}
spec:
  aliases: [quick]
  versions:
    - {name: old, backend: simulated}
    - {name: new, backend: second, weight: 0}
  fallbacks: [spare]
---
kind: Model
metadata: {name: spare}
spec: {versions: [{name: only, backend: simulated}]}
---
kind: Tier
metadata: {name: gold}
spec: {match: {header: {x-outrigger-tier: gold}}, limits: {requestsPerMinute: 6000}}
---
kind: Policy
metadata: {name: base}
spec: {cache: {enabled: true, ttl: 24h}}
---
kind: Policy
metadata: {name: golden}
spec: {target: {models: ["m*"], tiers: [gold]}, cache: {ttl: 1h}, parameters: {temperature: {max: 0.3}}}
---
kind: Pin
metadata: {name: odd-words}
spec:
  model: m
  match: {lastUserMessage: "yes: no # \\"1.0\\" 'x' - [a]"}
  answer: "two\\nlines \\u4f60\\u597d {}"
"""

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def governed(simulated: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    """A mesh with two Backends at one provider, whose control plane plays with its proxy."""
    backends = [
        BACKEND.format(name=name, port=simulated, default=str(name == "simulated").lower())
        for name in ("simulated", "second")
    ]
    folder: Path = tmp_path_factory.mktemp("decisions")
    with Mesh(folder, "---\n".join([*backends, DOCUMENTS]), options=["--admin-token", ADMIN]) as mesh:
        yield Governed(mesh)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all."""
    with chromium() as found:
        yield found


Visit = Callable[..., Page]


@pytest.fixture(scope="module")
def visit(browser: Browser, governed: Governed) -> Iterator[Visit]:
    """What opens a page as somebody: `visit(address, token, locale)`; each stays logged in."""
    contexts: dict[tuple[str, str], BrowserContext] = {}
    wrong: list[str] = []

    def open_page(address: str, token: str = ADMIN, locale: str = "en-US") -> Page:
        context = contexts.get((token, locale))
        if context is None:
            context = contexts[token, locale] = browser.new_context(
                base_url=governed.server, locale=locale, viewport={"width": 1280, "height": 860}
            )
            page = context.new_page()
            page.set_default_timeout(WAIT_MS)
            page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
            page.goto("/login")
            page.fill("#token", token)
            with page.expect_navigation():
                page.click("form.login button")
        page = context.pages[0]
        ready(page)
        # As a link would, without loading everything again.
        page.evaluate(
            """address => {
                document.querySelectorAll("dialog").forEach((box) => box.close());
                history.pushState(null, "", address);
                dispatchEvent(new PopStateEvent("popstate"));
            }""",
            address,
        )
        ready(page)
        return page

    yield open_page
    for context in contexts.values():
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def viewer(governed: Governed) -> str:
    """The token of somebody who may only look."""
    made = governed.api.post("/tokens", json={"name": "viewer", "role": "viewer"}).raise_for_status()
    return str(made.json()["token"])


@pytest.fixture(autouse=True)
def _as_before(governed: Governed) -> Iterator[None]:
    """Each test begins with the documents of the start."""
    revision = governed.api.get("/revisions?limit=1").json()["items"][0]["revision"]
    yield
    governed.api.post(f"/revisions/{revision}/rollback").raise_for_status()


def ready(page: Page) -> None:
    """Wait until the page has been drawn."""
    expect(page.locator("main")).to_have_attribute("aria-busy", "false")


def answer(page: Page, action: str = "footer button:last-child") -> None:
    """Say yes to what a dialog asks."""
    page.click(f"dialog {action}")
    expect(page.locator("dialog")).to_have_count(0)


def picture(page: Page, name: str) -> None:
    """Keep a picture, if somebody asks for it."""
    if IMAGES:
        Path(IMAGES).mkdir(parents=True, exist_ok=True)
        page.evaluate("document.getElementById('toasts').replaceChildren()")
        dialogs = page.locator("dialog").count()
        page.screenshot(path=Path(IMAGES) / f"{name}.png", full_page=not dialogs)


def start_release(governed: Governed, **spec: Any) -> None:
    """Apply the Release `r` of `m`."""
    whole = {"model": "m", "from": "old", "to": "new", "steps": [50, 100], "bake": "1h", **spec}
    document = {"kind": "Release", "metadata": {"name": "r"}, "spec": whole}
    governed.api.put("/releases/r", json=document).raise_for_status()


def status(governed: Governed) -> dict[str, Any]:
    """Return how far the Release `r` is."""
    found: dict[str, Any] = governed.api.get("/releases/r").json()["status"]
    return found


def call(governed: Governed, number: int) -> None:
    """Call `m`, each time as another session."""
    with httpx.Client(base_url=governed.mesh.url, verify=PLAIN, timeout=20) as client:
        for at in range(number):
            headers = {"x-outrigger-session": f"s{at}", "x-outrigger-cache": "no-store"}
            client.post("chat/completions", json={"model": "m", **HELLO}, headers=headers).raise_for_status()


def write(page: Page, text: str) -> None:
    """Put `text` into the editor."""
    page.fill(".editor textarea", text)


def test_pages_keep_nobody_out_and_name_no_missing_text(visit: Visit, governed: Governed) -> None:
    """Light in English, dark in Chinese; also narrow, where nothing is wider than the screen."""
    start_release(governed)
    inner = (
        "/releases#name=r",
        "/policies#kind=policies&name=golden",
        "/policies#view=explain",
        "/audit#revision=1",
    )
    for locale, scheme in (("en-US", "light"), ("zh-CN", "dark")):
        for address in (*(f"/{name}" for name in PAGES), *inner):
            page = visit(address, locale=locale)
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            # Colours are all that dark changes.
            if address in inner[: 4 if scheme == "light" else 2]:
                assert barriers(page, *(["color-contrast"] if scheme == "dark" else [])) == [], address
            text = page.inner_text("main") + "".join(page.locator("dialog").all_inner_texts())
            assert not KEY.findall(text.replace("spec.", "")), (address, locale)
    page.set_viewport_size({"width": 390, "height": 800})
    for address in inner:
        page = visit(address, locale="zh-CN")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address


def test_a_release_is_started_led_and_ended(visit: Visit, governed: Governed) -> None:
    """By the form and the buttons, each of which asks; what people did stands in the timeline."""
    page = visit("/releases")
    expect(page.locator(".empty")).to_be_visible()
    page.click("main button.primary")
    page.fill("dialog input >> nth=0", "r")
    page.fill("dialog label:has-text('Steps') input", "10, 50, 100")
    page.select_option("dialog label:has-text('From') select", "old")
    page.select_option("dialog label:has-text('To version') select", "old")
    page.click("dialog footer button.primary")
    expect(page.locator("dialog .notice.bad")).to_contain_text("from and to must be different versions")
    page.select_option("dialog label:has-text('To version') select", "new")
    page.click("dialog footer button.primary")
    expect(page.locator("main h1")).to_contain_text("r")
    assert (status(governed)["step"], status(governed)["share"]) == (1, 10)
    for action, phase in (("promote", "progressing"), ("pause", "paused"), ("resume", "progressing")):
        page.click(f"[data-action={action}]")
        answer(page)
        expect(page.locator("main h1 .badge")).to_have_text(phase)
    expect(page.locator(".timeline")).to_contain_text("paused by admin")
    expect(page.locator(".track [aria-current=step]")).to_have_text("50%")
    page.click("[data-action=abort]")
    page.click("dialog footer button.quiet")
    assert status(governed)["phase"] == "progressing"
    page.click("[data-action=abort]")
    answer(page)
    expect(page.locator("main h1 .badge")).to_have_text("aborted")
    page.click("[data-action=delete]")
    answer(page)
    expect(page.locator("main h1")).to_have_text("Releases")
    assert governed.api.get("/releases/r").status_code == 404


def test_a_release_shows_its_numbers_as_they_come(visit: Visit, governed: Governed) -> None:
    """Both versions' curves, and every gate with its verdict and confidence."""
    start_release(governed, gates={"minRequests": 5, "prometheus": [{"query": "up{job='x'}", "min": 1}]})
    until(lambda: all(one["inForce"] for one in governed.api.get("/sidecars").json()["items"]), 3, "in force")
    page = visit("/releases#name=r")
    expect(page.locator(".columns .empty").first).to_be_visible()
    call(governed, 600 if IMAGES else 60)
    expect(page.locator("svg.chart")).to_have_count(2)
    expect(page.locator("tr:has-text('Requests') .badge")).to_have_text("holds")
    assert page.locator(".evidence").count() == 3
    expect(page.locator("tr:has-text('Latency') .evidence")).to_contain_text("of 9")
    expect(page.locator("tr:has-text('up{job=')")).to_contain_text("at least 1")
    picture(page, "releases-detail")
    expect(visit("/releases").locator("a.release")).to_contain_text("old → new")


def test_a_release_shows_how_alike_the_answers_are(visit: Visit, governed: Governed) -> None:
    """Of the shadow, which is the step before the first, and of the cache; one of Kubernetes says so."""
    start_release(governed, shadow=0.5)
    page = visit("/audit")
    alike = {"compared": 40, "agreement": 0.9, "similarity": 0.83, "lengthRatio": 1.2}

    def told(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        body["status"] |= {"shadow": {**alike, "otherStatus": 2, "otherFinish": 1}}
        body["status"] |= {"cache": {"compared": 60, "disagreed": 3}}
        route.fulfill(
            response=answer, json=body, headers={**answer.headers, "x-outrigger-owner": "kubernetes"}
        )

    page.route("**/api/v1/releases/r", told)
    page = visit("/releases#name=r")
    expect(page.locator(".track [aria-current=step]")).to_have_text("Shadow")
    card = page.locator("[data-likeness]")
    for text in ("90%", "of 40 compared", "× 1.2", "3 of 60 (5%)"):
        expect(card).to_contain_text(text)
    expect(page.locator("[data-owner]")).to_contain_text("kubernetes")
    assert barriers(page) == []
    picture(page, "releases-shadow")
    page.unroute_all(behavior="wait")  # one that is on its way would be answered twice


def test_routing_is_a_graph_that_keys_reach(visit: Visit, governed: Governed) -> None:
    """Arrows go from Model to Model, Enter opens one; a Release's share is shown in place of the weights."""
    start_release(governed)
    page = visit("/models")
    node = page.locator("g.node.model")
    expect(node).to_have_count(2)
    label = node.first.get_attribute("aria-label") or ""
    assert "version old with 50% on simulated" in label
    assert "Falls back to spare" in label
    assert page.locator("g.fallback").count() == 1
    node.first.focus()
    expect(page.locator("svg.graph.lit")).to_have_count(1)
    picture(page, "models-graph")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("dialog h2")).to_have_text("spare")
    page.keyboard.press("Escape")
    page.fill("input[type=search]", "quick")
    expect(node).to_have_count(1)
    page.click("[role=tab] >> nth=1")
    expect(page.locator("main table")).to_contain_text("m")
    page.click("main table button")
    page.click("dialog a:has-text('document')")
    expect(page.locator(".editor textarea")).to_have_value(re.compile("aliases: \\[quick\\]"))


def test_fifty_models_are_drawn_without_an_overlap(visit: Visit, governed: Governed) -> None:
    """Each has its Backends beside it."""
    versions = [{"name": f"v{at}", "backend": "simulated" if at else "second"} for at in range(3)]
    papers = [
        {"kind": "Model", "metadata": {"name": f"n{at}"}, "spec": {"versions": versions[: 1 + at % 3]}}
        for at in range(48)
    ]
    governed.api.post("/apply", json=papers).raise_for_status()
    page = visit("/models")
    expect(page.locator("g.node.model")).to_have_count(50)
    overlaps = page.evaluate(
        """() => {
            const drawn = [...document.querySelectorAll("g.node > rect:first-of-type")];
            const boxes = drawn.map((one) => one.getBBox());
            const meets = (one, other, along, size) =>
                one[along] < other[along] + other[size] && other[along] < one[along] + one[size];
            return boxes.filter((one, at) => boxes.slice(at + 1).some((other) =>
                meets(one, other, "x", "width") && meets(one, other, "y", "height"))).length;
        }"""
    )
    assert overlaps == 0
    assert barriers(page) == []


def test_every_document_is_written_as_it_was(visit: Visit, governed: Governed) -> None:
    """What the editor shows of any document means the same, whatever characters it holds."""
    page = visit("/policies")
    changes = page.evaluate(
        """async () => {
            const { toYaml } = await import("/assets/yaml.js");
            const { api } = await import("/assets/api.js");
            const kinds = ["backends", "models", "tiers", "policies", "pins"];
            const found = await Promise.all(kinds.map((kind) => api.get(`/${kind}`)));
            const text = found.flatMap((one) => one.items).map((one) => toYaml(one)).join("---\\n");
            return (await api.post("/apply?dryRun=true", text, { type: "application/yaml" })).changes;
        }"""
    )
    assert len(changes) == 8
    assert {change["action"] for change in changes} == {"unchanged"}


def test_a_policy_is_checked_compared_and_saved(visit: Visit, governed: Governed) -> None:
    """As it is typed; nothing is saved unseen, nor over somebody else's change."""
    page = visit("/policies#kind=policies&name=golden")
    review, verdict = page.locator("[data-action=review]"), page.locator(".verdict")
    text = page.locator(".editor textarea").input_value()
    write(page, text.replace("ttl", "tttl"))
    expect(verdict).to_contain_text('did you mean "ttl"')
    expect(page.locator(".numbers .wrong")).to_have_count(1)
    expect(review).to_be_disabled()
    page.click(".verdict button")
    expect(page.locator(".editor textarea")).to_be_focused()
    write(page, text.replace("1h", "2h"))
    expect(review).to_be_enabled()
    review.click()
    expect(page.locator("dialog del")).to_have_text("1h")
    expect(page.locator("dialog ins")).to_have_text("2h")
    picture(page, "policies-review")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/policies/golden", hold, times=1)
    answer(page)
    expect(page.locator(".editor textarea")).not_to_be_editable()
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    expect(page.locator(".toast").last).to_contain_text("Saved")
    expect(page.locator(".editor textarea")).to_be_editable()
    saved = governed.api.get("/policies/golden")
    assert saved.json()["spec"]["cache"]["ttl"] == "2h"
    changed = {**saved.json(), "spec": {"cache": {"ttl": "3h"}, "target": {"models": ["m*"]}}}
    governed.api.put("/policies/golden", json=changed).raise_for_status()
    write(page, text.replace("1h", "4h"))
    expect(review).to_be_enabled()
    review.click()
    answer(page)
    expect(verdict).to_contain_text("Somebody else changed")
    assert governed.api.get("/policies/golden").json()["spec"]["cache"]["ttl"] == "3h"


def test_names_of_fields_are_offered(visit: Visit) -> None:
    """Those of the place where the cursor stands, from the schema; Enter takes one, and so for values."""
    page = visit("/policies")
    page.click("[data-action=new]")
    area = page.locator(".editor textarea")
    write(page, "kind: Policy\nmetadata: {name: fresh}\nspec:\n  cache:\n    ")
    area.press("Control+End")
    area.press_sequentially("stalei")
    area.press("Control+Space")
    expect(page.locator(".completions")).to_be_hidden()
    area.press("Backspace")
    area.press_sequentially("I")
    expect(page.locator(".completions li b")).to_have_text(["staleIfError"])
    area.press("Enter")
    expect(area).to_have_value(re.compile("staleIfError: $"))
    area.press_sequentially("5m")
    area.press("Enter")
    area.press_sequentially("scope: c")
    expect(page.locator(".completions li b")).to_have_text(["consumer"])
    area.press("Tab")
    expect(area).to_have_value(re.compile("\n    scope: consumer$"))
    expect(page.locator(".verdict")).to_contain_text("Valid")


def test_a_document_is_made_and_deleted(visit: Visit, governed: Governed) -> None:
    """A name that is taken is not written over; leaving something unsaved asks first."""
    page = visit("/policies")
    page.click("[data-action=new]")
    write(page, "kind: Policy\nmetadata: {name: base}\nspec: {hold: {max: 3s}}\n")
    review = page.locator("[data-action=review]")
    expect(review).to_be_enabled()
    page.click(".names button >> nth=0")
    page.click("dialog footer button.quiet")
    review.click()
    answer(page)
    expect(page.locator(".verdict .notice.bad")).to_be_visible()
    write(page, "kind: Policy\nmetadata: {name: fresh}\nspec: {hold: {max: 3s}}\n")
    expect(page.locator(".verdict .good")).to_be_visible()
    expect(review).to_be_enabled()
    review.click()
    answer(page)
    expect(page.locator(".names [aria-current]")).to_contain_text("fresh")
    page.click("[data-action=delete]")
    answer(page)
    expect(page.locator(".names")).not_to_contain_text("fresh")
    assert governed.api.get("/policies/fresh").status_code == 404


def test_a_setting_is_explained(visit: Visit) -> None:
    """Which Policy it comes from, for a Model or its alias and a Tier."""
    page = visit("/policies#view=explain&model=quick&tier=gold")
    row = page.locator("tr:has-text('cache.ttl')")
    expect(row).to_contain_text("1h")
    expect(row.locator("a")).to_have_text("golden")
    picture(page, "policies-explain")
    page.fill("label:has-text('Tier') input", "")
    expect(row.locator("a")).to_have_text("base")
    page.uncheck("input[type=checkbox]")
    expect(page.locator("tr:has-text('hold.max')")).to_contain_text("default")


def test_a_prompt_is_played(visit: Visit, governed: Governed) -> None:
    """The answer as a stream, what each stage decided and how long it took; the same again is a hit."""
    page = visit("/playground")
    page.fill("label:has-text('Model') input", "quick")
    page.select_option("label:has-text('Tier') select", "gold")
    page.fill("textarea >> nth=0", "What is played here?")
    for found in ("miss", "hit"):
        page.click("[data-action=send]")
        expect(page.locator("tr:has-text('Cache') .badge").first).to_have_text(found)
        expect(page.locator("tr:has(strong:text-is('End'))")).to_contain_text("ms")
        expect(page.locator("tr:has(strong:text-is('Identify'))")).to_contain_text(re.compile("[µm]s"))
        expect(page.locator("[data-sum]")).to_contain_text("in the stages")
        assert page.inner_text(".answer").strip()
        if found == "miss":
            picture(page, "playground-answer")
            expect(page.locator("tr:has(strong:text-is('Route'))")).to_contain_text(re.compile("[µm]s"))
            assert barriers(page) == []
    expect(page.locator("tr:has-text('Resolve')")).to_contain_text("quick → m")
    expect(page.locator("tr:has-text('Cache') li:has-text('cache.ttl') a")).to_have_text("golden")
    page.uncheck("input[type=checkbox]")
    page.fill("label:has-text('Model') input", "m")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".played .heading .badge")).to_have_text("200")
    page.click("summary:has-text('Headers')")
    expect(page.locator(".played table").last).to_contain_text("application/json")
    assert "What is played here?" not in governed.mesh.log()
    # The miss went up under the Tier's limits, which the sidecar tells.
    until(lambda: ("tier", "gold", None) in used(governed), 15, "its use is told")


def used(governed: Governed) -> dict[tuple[str, str, str | None], int]:
    """Return the requests of the last minute of each account of limits."""
    items = governed.api.get("/limits").json()["items"]
    return {(one["kind"], one["name"], one["consumer"]): one["requestsPerMinute"] for one in items}


def test_ordinary_callers_are_told_no_stages(governed: Governed) -> None:
    """Nor does their header reach the provider; whatever they write in it, all else is as without it."""
    for shown in ("yes", "1.2.3", "9999999999.0f0f.00000000000000000000000000000000"):
        answer = httpx.post(
            f"{governed.mesh.url}/chat/completions",
            json={"model": "m", **HELLO},
            headers={"x-outrigger-stages": shown, "x-outrigger-cache": "no-store"},
            verify=PLAIN,
        )
        assert answer.status_code == 200
        assert "x-outrigger-stages" not in answer.headers


def test_without_a_proxy_the_playground_says_what_to_set(visit: Visit) -> None:
    """A control plane of its own does not know one."""
    page = visit("/audit")
    page.route(
        "**/api/v1/playground", lambda route: route.fulfill(json={"proxy": None, "hint": "set --this"})
    )
    page.click('#nav a[data-page="playground"]')
    expect(page.locator("main")).to_contain_text("set --this")
    page.unroute("**/api/v1/playground")


def test_the_audit_is_filtered_and_a_revision_brought_back(visit: Visit, governed: Governed) -> None:
    """What going back would change is shown before."""
    governed.apply("kind: Policy\nmetadata: {name: base}\nspec: {cache: {enabled: true, ttl: 5m}}\n")
    (before, *_) = governed.api.get("/revisions?limit=2").json()["items"][1:]
    page = visit("/audit")
    page.fill("input[type=search]", "policy/base")
    expect(page.locator(".vrow").first).to_contain_text("Policy/base")
    page.fill("input[type=search]", "nobody did this")
    expect(page.locator(".vrow")).to_have_count(0)
    page.click("[role=tab] >> nth=1")
    page.click(f"[data-revision='{before['revision'] + 1}']")
    expect(page.locator("dialog ins")).to_have_text("5m")
    picture(page, "audit-revision")
    expect(page.locator("dialog [data-action=rollback]")).to_have_count(0)
    page.keyboard.press("Escape")
    page.click(f"[data-revision='{before['revision']}']")
    page.click("dialog [data-action=rollback]")
    expect(page.locator("dialog").last.locator("del")).to_have_text("5m")
    page.locator("dialog").last.locator("footer button.danger").click()
    expect(page.locator(".toast").last).to_contain_text("Rolled back")
    assert governed.api.get("/policies/base").json()["spec"]["cache"]["ttl"] == "24h"


def test_a_viewer_looks_and_has_no_buttons(visit: Visit, governed: Governed, viewer: str) -> None:
    """Pages leave away what the role may not do."""
    start_release(governed)
    for address in (
        "/releases",
        "/releases#name=r",
        "/policies#kind=policies&name=base",
        "/audit#revision=1",
    ):
        page = visit(address, token=viewer)
        expect(page.locator("main h1")).to_be_visible()
        assert page.locator("main [data-action]:not([data-action=older]), main .primary").count() == 0, (
            address
        )
        assert page.locator("[data-action=rollback]").count() == 0
    assert (
        visit("/policies#kind=policies&name=base", token=viewer).locator("textarea").get_attribute("readonly")
        == ""
    )
    expect(visit("/playground", token=viewer).locator(".empty")).to_contain_text("editor")
    assert visit("/models", token=viewer).locator("g.node.model").count() == 2
