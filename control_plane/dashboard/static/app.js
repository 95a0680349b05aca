// Starts: shows the page of the address, and another one whenever the address changes.
import { api, visitor, Problem } from "./api.js";
import { h, put } from "./dom.js";
import { load, t } from "./i18n.js";
import { markPage, pageAt, PAGES, pathOf, startShell } from "./shell.js";
import { empty, toast } from "./widgets.js";

const main = document.getElementById("page");
let shown = null; // the module of the page that is there
let turn = 0; // of several pages that load, the last one wins

async function show(page, focus = false) {
  const mine = ++turn;
  main.setAttribute("aria-busy", "true");
  markPage(page);
  const [module] = await Promise.all([import(`./pages/${page}.js`), load(page)]);
  if (mine !== turn) return;
  await shown?.close?.();
  shown = module;
  const root = h("div", { class: `page ${page}` });
  put(main, root);
  if (focus) main.focus();
  try {
    await module.render(root, { api, visitor, t, go, params: new URLSearchParams(location.hash.slice(1)) });
  } catch (error) {
    if (mine !== turn) return;
    if (!(error instanceof Problem)) console.error(error);
    put(root, h("h1", {}, t(`page.${page}`)), empty(t("shell.failed"), reason(error)));
  }
  if (mine === turn) main.setAttribute("aria-busy", "false");
}

/** Show `page`; `hash` ("#key=value") is its own. */
function go(page, hash = "") {
  history.pushState(null, "", pathOf(page) + hash);
  scrollTo(0, 0);
  show(page, true);
}

/** Return why something did not work, as people read it. */
export function reason(error) {
  if (error instanceof Problem && error.status === 0) return t("shell.unreachable");
  return error.message;
}

const here = () => (pageAt(location.pathname) in PAGES ? pageAt(location.pathname) : "overview");

addEventListener("popstate", () => show(here()));
addEventListener("unhandledrejection", (event) => {
  if (event.reason?.name === "AbortError") return;
  toast(reason(event.reason), "bad");
});

await load("shell");
startShell({ go, again: () => show(here()) });
await show(here());
