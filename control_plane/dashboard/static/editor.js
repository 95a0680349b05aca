// A text area for documents: numbers of lines, names of fields as they are typed, Tab indents.
import { h, put } from "./dom.js";
import { fieldsAt, valuesAt } from "./schema.js";
import { t } from "./i18n.js";
import { pathAt } from "./yaml.js";

let count = 0;

/**
 * Make an editor. `schemas`: of all kinds; `onchange(text)` is called as it is typed. `set(text)`, `text()`,
 * `go(line)`, `mark([line numbers])` (they are wrong), `hold(whether)` (nothing can be typed) act on it.
 */
export function editor({ schemas, label, readonly = false, onchange }) {
  const id = `editor${++count}`;
  const numbers = h("div", { class: "numbers", "aria-hidden": "true" });
  const list = h("ul", { class: "completions", role: "listbox", id: `${id}-list`, "aria-label": t("policies.completions"), hidden: true });
  const area = h("textarea", {
    spellcheck: "false", autocomplete: "off", autocapitalize: "off", wrap: "off", "aria-label": label, readonly,
    "aria-autocomplete": "list", "aria-controls": list.id, "aria-describedby": `${id}-hint`,
  });
  const element = h("div", { class: "editor" }, numbers, h("div", { class: "text" }, area, list), h("p", { class: "soft hint", id: `${id}-hint` }, readonly ? "" : t("policies.editorHint")));
  let wrong = [];
  let offered = [];
  let chosen = 0;

  const draw = () => {
    const lines = area.value.split("\n").length;
    if (numbers.childElementCount !== lines) put(numbers, Array.from({ length: lines }, (_, at) => h("span", {}, at + 1)));
    [...numbers.children].forEach((line, at) => { line.className = wrong.includes(at) ? "wrong" : ""; });
    area.rows = Math.min(Math.max(lines + 1, 14), 34);
    numbers.scrollTop = area.scrollTop;
  };
  const changed = () => {
    draw();
    onchange?.(area.value);
  };
  const shut = () => {
    offered = [];
    list.hidden = true;
    area.removeAttribute("aria-activedescendant");
  };
  const offer = (asked) => {
    const place = placeOf(area);
    offered = place ? candidates(schemas, place).filter(([name]) => name.startsWith(place.begun) && name !== place.begun) : [];
    if (!offered.length || (!asked && !place.begun)) {
      shut();
      return;
    }
    chosen = 0;
    show(place);
  };
  const show = (place) => {
    put(list, offered.map(([name, type], at) => h("li", { role: "option", id: `${id}-${at}`, "aria-selected": at === chosen, onmousedown: (event) => { event.preventDefault(); chosen = at; take(); } }, h("b", {}, name), h("small", {}, type))));
    list.hidden = false;
    area.setAttribute("aria-activedescendant", `${id}-${chosen}`);
    const style = getComputedStyle(area);
    const line = parseFloat(style.lineHeight);
    list.style.top = `${(place.line + 1) * line + parseFloat(style.paddingTop) - area.scrollTop + 2}px`;
    list.style.left = `${Math.min(place.column * 7.6 + 10, Math.max(area.clientWidth - 240, 0))}px`;
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const take = () => {
    const place = placeOf(area);
    const [name, type] = offered[chosen];
    const rest = place.value ? name : `${name}:${type === "{…}" ? `\n${" ".repeat(place.column - place.begun.length + 2)}` : " "}`;
    area.setRangeText(rest, area.selectionStart - place.begun.length, area.selectionStart, "end");
    shut();
    changed();
  };
  area.addEventListener("input", () => { changed(); offer(false); });
  area.addEventListener("scroll", () => { numbers.scrollTop = area.scrollTop; shut(); });
  area.addEventListener("blur", shut);
  area.addEventListener("keydown", (event) => {
    if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      offer(true);
    } else if (!list.hidden && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + offered.length) % offered.length;
      show(placeOf(area));
    } else if (!list.hidden && ["Enter", "Tab"].includes(event.key)) {
      event.preventDefault();
      take();
    } else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      shut();
    } else if (event.key === "Enter" && !area.readOnly) {
      event.preventDefault();
      const before = area.value.slice(0, area.selectionStart).split("\n").at(-1);
      const deeper = before.trimEnd().endsWith(":") ? "  " : "";
      area.setRangeText(`\n${/^\s*/.exec(before)[0]}${deeper}`, area.selectionStart, area.selectionEnd, "end");
      changed();
    }
  });
  return {
    element,
    text: () => area.value,
    hold(held) {
      area.readOnly = readonly || held;
    },
    set(text) {
      area.value = text;
      wrong = [];
      draw();
      area.scrollTop = 0;
    },
    mark(lines) {
      wrong = lines;
      draw();
    },
    go(line) {
      const lines = area.value.split("\n");
      const start = lines.slice(0, line).join("\n").length + (line ? 1 : 0);
      area.focus();
      area.setSelectionRange(start, start + (lines[line]?.length ?? 0));
      area.scrollTop = Math.max(line - 4, 0) * parseFloat(getComputedStyle(area).lineHeight);
    },
  };
}

/** Return where the cursor stands: {kind, path, begun, value, line, column}; null where nothing can be said. */
function placeOf(area) {
  const before = area.value.slice(0, area.selectionStart);
  const lines = before.split("\n");
  const current = lines.at(-1);
  const found = /^(\s*)(?:- )?([\w.-]*)$/.exec(current) ?? /^(\s*)(?:- )?([\w.-]+):\s+\[?([\w.-]*)$/.exec(current);
  if (!found) return null;
  const whole = area.value.split("\n");
  const path = pathAt([...whole.slice(0, lines.length - 1), current], lines.length - 1);
  const kind = kindAt(whole, lines.length - 1);
  const isValue = found.length === 4;
  return {
    kind, path: isValue ? [...path, found[2]] : path, begun: isValue ? found[3] : found[2], value: isValue,
    line: lines.length - 1, column: current.length,
  };
}

function kindAt(lines, at) {
  let first = at;
  while (first > 0 && !lines[first].startsWith("---")) first--;
  for (let line = first; line < lines.length; line++) {
    if (line > first && lines[line].startsWith("---")) break;
    const found = /^kind:\s*(\w+)/.exec(lines[line]);
    if (found) return found[1];
  }
  return "Policy";
}

function candidates(all, place) {
  if (place.value) return valuesAt(all, place.kind, place.path).map((value) => [value, ""]);
  return fieldsAt(all, place.kind, place.path);
}
