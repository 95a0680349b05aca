// The pieces that pages are built of. Each returns an element; nothing here knows a page.
import { h, put } from "./dom.js";
import { t } from "./i18n.js";

/** A heading for a page, with what may be done beside it. */
export function heading(title, ...actions) {
  return h("div", { class: "heading" }, h("h1", {}, title), h("div", { class: "actions" }, actions));
}

/** A box with a title (a heading of level 2). */
export function card(title, ...children) {
  return h("section", { class: "card" }, title ? h("h2", {}, title) : null, children);
}

/** A small word with a colour: "good", "warn", "bad", "info" or "". */
export function badge(text, mark = "") {
  return h("span", { class: `badge ${mark}` }, text);
}

/** A button. `kind`: "primary", "danger", "quiet" or "". */
export function button(text, onclick, { kind = "", ...props } = {}) {
  return h("button", { type: "button", class: kind, onclick, ...props }, text);
}

/** One number with its name; `set(value, note, mark)` changes it, `chart` is where a picture may go. */
export function tile(title) {
  const value = h("strong", {}, "–");
  const note = h("small", {});
  const chart = h("div", { class: "spark", "aria-hidden": "true" });
  const element = h("section", { class: "tile" }, h("h2", {}, title), value, note, chart);
  return {
    element,
    chart,
    set(text, said = "", mark = "") {
      if (value.textContent !== text) value.textContent = text;
      if (note.textContent !== said) note.textContent = said;
      element.className = `tile ${mark}`;
    },
  };
}

/** What is shown where there is nothing: a sentence, and what to do about it. */
export function empty(title, ...hints) {
  return h("div", { class: "empty" }, h("p", {}, h("strong", {}, title)), hints.map((hint) => (typeof hint === "string" ? h("p", {}, hint) : hint)));
}

/** A labelled input. `control` is an element of a form. */
export function field(label, control, hint = "") {
  return h("label", { class: "field" }, h("span", {}, label), control, hint ? h("small", {}, hint) : null);
}

/** A choice among `options`: [value, text]. */
export function select(options, props = {}) {
  return h("select", props, options.map(([value, text]) => h("option", { value, selected: value === props.value }, text)));
}

/** A plain table. A cell is a text or an element; `columns`: [{title, numeric}]. */
export function table(columns, rows) {
  const cell = (tag, content, column) => h(tag, { class: column.numeric ? "numeric" : "", scope: tag === "th" ? "col" : null }, content);
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": columns.map((column) => column.title).join(", ") }, h("table", {},
    h("thead", {}, h("tr", {}, columns.map((column) => cell("th", column.title, column)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((content, at) => cell("td", content, columns[at])))))));
}

let count = 0;

/** Views of which one is shown: [{name, title, render(root)}]. Arrow keys move between them. */
export function tabs(views, first = views[0].name) {
  const id = `tabs${++count}`;
  const panel = h("div", { role: "tabpanel", id: `${id}-panel`, tabindex: "0" });
  const buttons = views.map((view) => h("button", { type: "button", role: "tab", id: `${id}-${view.name}`, "aria-controls": panel.id, onclick: () => show(view) }, view.title));
  const list = h("div", { role: "tablist", class: "tabs" }, buttons);
  const show = (view) => {
    views.forEach((one, at) => {
      buttons[at].setAttribute("aria-selected", one === view);
      buttons[at].tabIndex = one === view ? 0 : -1;
    });
    panel.setAttribute("aria-labelledby", `${id}-${view.name}`);
    put(panel);
    view.render(panel);
  };
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    buttons[at].focus();
    show(views[at]);
  });
  show(views.find((view) => view.name === first) ?? views[0]);
  return h("div", {}, list, panel);
}

/** Open a dialog. Returns the <dialog>; it is removed when it closes. */
export function dialog(title, body, actions = []) {
  const id = `dialog${++count}`;
  const box = h("dialog", { "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), h("button", { type: "button", class: "quiet icon", "aria-label": t("shell.close"), onclick: () => box.close() }, "✕")),
    h("div", { class: "body" }, body),
    actions.length ? h("footer", {}, actions) : null);
  box.addEventListener("close", () => box.remove());
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  document.body.append(box);
  box.showModal();
  return box;
}

/** Ask before something that cannot be undone; resolves to true or false. */
export function confirm(title, text, action, kind = "danger") {
  return new Promise((resolve) => {
    let said = false;
    const act = (answer) => () => { said = answer; box.close(); };
    const box = dialog(title, [typeof text === "string" ? h("p", {}, text) : text], [
      button(t("shell.cancel"), act(false), { kind: "quiet" }),
      button(action, act(true), { kind }),
    ]);
    box.addEventListener("close", () => resolve(said));
  });
}

/** Say something for a moment. `mark`: "good", "bad" or "". */
export function toast(text, mark = "") {
  const element = h("div", { class: `toast ${mark}` }, h("span", {}, text), h("button", { type: "button", class: "quiet icon", "aria-label": t("shell.close"), onclick: () => element.remove() }, "✕"));
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), mark === "bad" ? 10_000 : 5_000);
}
