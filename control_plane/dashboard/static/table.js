// A table of thousands: only the rows in sight are in the document.
import { h, put } from "./dom.js";
import { t } from "./i18n.js";

const ROW_PX = 38;
const SPARE = 6;

/**
 * columns: [{key, title, width ("2fr", "110px"), numeric, sort(row) → comparable, cell(row) → text or element}];
 * `rows(list)` sets the rows, `onopen(row)` makes a row open something by click or Enter. Options: `label`,
 * `sort` ([key, descending]), `id(row)`, `none` (what an empty one says).
 */
export function virtualTable(columns, { label, sort = null, onopen = null, none = "" } = {}) {
  let all = [];
  let order = sort;
  const widths = columns.map((column) => column.width ?? "minmax(110px, 1fr)");
  const template = widths.join(" ");
  const least = `${widths.reduce((sum, width) => sum + Number(/(\d+)px/.exec(width)?.[1] ?? 0), 0)}px`;
  const heads = columns.map((column) => h("div", { role: "columnheader", class: column.numeric ? "numeric" : "" },
    column.sort ? h("button", { type: "button", onclick: () => reorder(column) }, column.title) : column.title));
  const head = h("div", { class: "vhead", role: "row" }, heads);
  const body = h("div", { class: "vbody", role: "rowgroup" });
  const element = h("div", { class: "vtable", role: "table", "aria-label": label, tabindex: "0" }, h("div", { role: "rowgroup", class: "vtop" }, head), body);
  head.style.gridTemplateColumns = template;
  head.style.minWidth = body.style.minWidth = least;
  head.parentElement.style.position = "sticky";
  head.parentElement.style.top = "0";
  head.parentElement.style.zIndex = "2";
  let drawn = [-1, -1];
  let waiting = false;

  const reorder = (column) => {
    order = order?.[0] === column.key ? [column.key, !order[1]] : [column.key, Boolean(column.numeric)];
    arrange();
  };

  const arrange = () => {
    const column = columns.find((one) => one.key === order?.[0]);
    columns.forEach((one, at) => {
      if (one === column) heads[at].setAttribute("aria-sort", order[1] ? "descending" : "ascending");
      else heads[at].removeAttribute("aria-sort");
    });
    if (column) {
      const turn = order[1] ? -1 : 1;
      const keyed = all.map((row) => [column.sort(row), row]);
      keyed.sort(([one], [other]) => turn * compare(one, other));
      all = keyed.map(([, row]) => row);
    }
    draw(true);
  };

  const draw = (again = false) => {
    waiting = false;
    const first = Math.max(Math.floor(element.scrollTop / ROW_PX) - SPARE, 0);
    const last = Math.min(first + Math.ceil(Math.max(element.clientHeight, innerHeight) / ROW_PX) + 2 * SPARE, all.length);
    if (!again && first === drawn[0] && last === drawn[1]) return;
    drawn = [first, last];
    body.style.height = `${all.length * ROW_PX}px`;
    element.setAttribute("aria-rowcount", all.length + 1);
    const focused = body.contains(document.activeElement) ? document.activeElement.closest(".vrow")?.getAttribute("aria-rowindex") : null;
    put(body, all.length ? all.slice(first, last).map((row, at) => line(row, first + at)) : h("div", { class: "vnone", role: "row" }, h("span", { role: "cell" }, none || t("shell.nothing"))));
    if (!all.length) body.style.height = "auto";
    if (focused) body.querySelector(`[aria-rowindex="${focused}"]`)?.focus();
  };

  const line = (row, at) => {
    const element = h("div", { class: `vrow ${onopen ? "link" : ""}`, role: "row", "aria-rowindex": at + 2, tabindex: onopen ? "0" : null },
      columns.map((column) => {
        const content = column.cell(row);
        return h("div", { role: "cell", class: column.numeric ? "numeric" : "", title: typeof content === "string" ? content : null }, content);
      }));
    element.style.gridTemplateColumns = template;
    element.style.transform = `translateY(${at * ROW_PX}px)`;
    if (onopen) {
      element.addEventListener("click", () => onopen(row));
      element.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target === element) onopen(row); });
    }
    return element;
  };

  element.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => draw());
  }, { passive: true });

  return {
    element,
    rows(list) {
      all = [...list];
      arrange();
    },
  };
}

/** Compare numbers as numbers, the rest as text; what is missing comes first. */
export function compare(one, other) {
  const gone = (value) => value === null || value === undefined;
  if (gone(one) || gone(other)) return gone(one) - gone(other) ? (gone(one) ? -1 : 1) : 0;
  return typeof one === "number" ? one - other : String(one).localeCompare(String(other));
}
