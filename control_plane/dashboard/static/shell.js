// The frame around pages: navigation, keys, language, light and dark.
import { choose, apply, language, maybe, t } from "./i18n.js";
import { watch } from "./live.js";
import { visitor } from "./api.js";
import { dialog } from "./widgets.js";
import { h, put, say } from "./dom.js";

/** Pages in the order of the navigation, each with the letter that follows `g`. */
export const PAGES = {
  overview: "o", releases: "r", models: "m", policies: "p", limits: "l", sidecars: "s", cache: "c",
  playground: "y", audit: "a",
};

export const pathOf = (page) => (page === "overview" ? "/" : `/${page}`);
export const pageAt = (path) => (path === "/" ? "overview" : path.slice(1));

/** Bind everything; `go` shows a page, `again` shows the one that is there once more. */
export function startShell({ go, again }) {
  const byId = (id) => document.getElementById(id);
  byId("menu").addEventListener("click", () => openMenu(!document.body.classList.contains("menu-open")));
  byId("theme").addEventListener("click", changeTheme);
  byId("search").addEventListener("click", () => search(go));
  byId("language").addEventListener("click", async () => {
    await choose(language === "en" ? "zh" : "en");
    translate();
    again();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const page = pageAt(new URL(link.href).pathname);
    if (new URL(link.href).origin !== location.origin || !(page in PAGES)) return;
    event.preventDefault();
    openMenu(false);
    go(page, new URL(link.href).hash);
  });
  document.addEventListener("keydown", keys(go));
  watch((online) => {
    byId("line").className = `line ${online === null ? "" : online ? "on" : "off"}`;
    byId("line").textContent = online === null ? "" : t(online ? "shell.live" : "shell.lost");
  });
  translate();
}

/** Put the language into the frame. */
export function translate() {
  apply();
  const button = document.getElementById("language");
  const [lang, name] = language === "en" ? ["zh", "中文"] : ["en", "English"];
  say(button, name);
  button.lang = lang;
  button.setAttribute("aria-label", name);
  const role = document.querySelector(".who .badge");
  if (role) say(role, maybe(`shell.role.${visitor.role}`, visitor.role));
  const line = document.getElementById("line");
  if (line.textContent) line.textContent = t(line.classList.contains("on") ? "shell.live" : "shell.lost");
}

/** Mark `page` in the navigation. */
export function markPage(page) {
  for (const link of document.querySelectorAll("#nav a[data-page]")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${t(`page.${page}`)} · Outrigger`;
}

function openMenu(open) {
  document.body.classList.toggle("menu-open", open);
  document.getElementById("menu").setAttribute("aria-expanded", open);
}

function changeTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("outrigger.theme", root.dataset.theme);
}

function keys(go) {
  let leader = 0;
  return (event) => {
    if (event.key === "Escape") openMenu(false);
    if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target) || document.querySelector("dialog[open]")) return;
    if (event.key === "g") {
      leader = event.timeStamp;
      return;
    }
    const page = Object.keys(PAGES).find((name) => PAGES[name] === event.key);
    if (page && leader && event.timeStamp - leader < 1500) {
      event.preventDefault();
      go(page);
    } else if (event.key === "/") {
      event.preventDefault();
      // A page's own filter comes first.
      const filter = document.querySelector("#page input[type=search]");
      if (filter) filter.focus();
      else search(go);
    } else if (event.key === "?") showKeys();
    leader = 0;
  };
}

const typing = (element) => element.matches?.("input, textarea, select, [contenteditable]");

function search(go) {
  const input = h("input", { type: "search", "aria-label": t("shell.search"), placeholder: t("shell.searchHint"), autocomplete: "off" });
  const list = h("ul", { class: "found" });
  const box = dialog(t("shell.search"), [input, list]);
  const choices = () => {
    const wanted = input.value.trim().toLowerCase();
    return Object.keys(PAGES).filter((page) => !wanted || page.includes(wanted) || t(`page.${page}`).toLowerCase().includes(wanted));
  };
  const open = (page) => { box.close(); go(page); };
  const draw = () => put(list, choices().map((page) => h("li", {}, h("button", { class: "quiet", type: "button", onclick: () => open(page) }, t(`page.${page}`), h("kbd", {}, `g ${PAGES[page]}`)))));
  input.addEventListener("input", draw);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && choices().length) {
      event.preventDefault();
      open(choices()[0]);
    }
  });
  draw();
  input.focus();
}

function showKeys() {
  const rows = Object.entries(PAGES).map(([page, letter]) => [`g ${letter}`, t(`page.${page}`)]);
  rows.push(["/", t("shell.search")], ["?", t("shell.keys")]);
  dialog(t("shell.keys"), [h("dl", { class: "keys" }, rows.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)]))]);
}
