// How requests are routed, as a graph in four columns: aliases → Models → versions → Backends; fallbacks dashed.
import { h, put, s } from "./dom.js";
import { share } from "./format.js";
import { t } from "./i18n.js";

const ROW = 30;
const GAP = 16;
const BOX = 24;
const COLUMNS = { alias: [8, 150], model: [214, 190], version: [480, 216], backend: [770, 182] };
const WIDTH = 964;
const TOP = 34;

const MANY = 12;

/**
 * Lay out `models` (see `routing.js`) and `backends` (names). Returns {height, models, versions, aliases, backends}, each
 * node with its middle `y`. Of many Models each has its Backends beside it: no line leads out of sight.
 */
export function layout(models, backends) {
  let y = TOP;
  const versions = [];
  const aliases = [];
  const placed = models.map((model) => {
    const rows = Math.max(model.versions.length, model.aliases.length, 1);
    const middle = (count, at) => y + ROW * (rows / 2) + ROW * (at - (count - 1) / 2);
    model.versions.forEach((version, at) => versions.push({ ...version, model: model.name, y: middle(model.versions.length, at) }));
    model.aliases.forEach((name, at) => aliases.push({ name, model: model.name, y: middle(model.aliases.length, at) }));
    const node = { ...model, y: y + (ROW * rows) / 2 };
    y += rows * ROW + GAP;
    return node;
  });
  if (models.length > MANY) {
    const beside = placed.flatMap((model) => spread(versions.filter((version) => version.model === model.name), model.name));
    return { height: y + 6, models: placed, versions, aliases, backends: beside };
  }
  const unused = backends.filter((name) => !versions.some((version) => version.backend === name)).map((name) => ({ name, y }));
  const shared = [...spread(versions, undefined), ...unused];
  const last = shared.reduce((lowest, node) => { node.y = Math.max(node.y, lowest + ROW + 6); return node.y; }, TOP - BOX);
  return { height: Math.max(y, last + ROW) + 6, models: placed, versions, aliases, backends: shared };
}

/** Return a node for each Backend of `versions`, at the height of what leads to it, in order and apart. */
function spread(versions, model) {
  const names = [...new Set(versions.map((version) => version.backend))];
  const middle = (found) => found.reduce((sum, one) => sum + one.y, 0) / found.length;
  const nodes = names.map((name) => ({ name, model, y: middle(versions.filter((version) => version.backend === name)) })).sort((one, other) => one.y - other.y);
  if (model === undefined || nodes.length < 2) return nodes;
  const centre = middle(versions);
  nodes.forEach((node, at) => { node.y = centre + ROW * (at - (nodes.length - 1) / 2); });
  return nodes;
}

/** Draw it. `onopen(name)` opens a Model; arrow keys move between Models. */
export function graph(models, backends, onopen) {
  const found = layout(models, backends);
  const svg = s("svg", { class: "graph", viewBox: `0 0 ${WIDTH} ${found.height}`, width: WIDTH, height: found.height, role: "group", "aria-label": t("models.graphLabel") });
  const edges = s("g", { class: "edges", "aria-hidden": "true" });
  const nodes = s("g", {});
  for (const [column, [x]] of Object.entries(COLUMNS)) svg.append(s("text", { class: "column", x, y: 16 }, t(`models.column.${column}`)));
  svg.append(edges, nodes);
  const colour = new Map(backends.map((name, at) => [name, at % 6]));
  const middle = new Map(found.models.map((model) => [model.name, model.y]));
  const place = (version) => found.backends.find((backend) => backend.name === version.backend && (!backend.model || backend.model === version.model))?.y ?? version.y;

  for (const alias of found.aliases) {
    edges.append(curve(right("alias"), alias.y, COLUMNS.model[0], middle.get(alias.model), { model: alias.model }));
    nodes.append(box("alias", alias.name, alias.y, { model: alias.model }));
  }
  for (const version of found.versions) {
    const tint = colour.get(version.backend) ?? 5;
    const thick = 1 + 3 * (version.share ?? 0);
    edges.append(curve(right("model"), middle.get(version.model), COLUMNS.version[0], version.y, { model: version.model, tint, thick, idle: !version.share }));
    edges.append(curve(right("version"), version.y, COLUMNS.backend[0], place(version), { model: version.model, tint, thick, idle: !version.share, backend: version.backend }));
    nodes.append(box("version", version.name, version.y, { model: version.model, to: version.backend, note: version.release ? `⇄ ${share(version.share)}` : share(version.share), release: version.release }));
  }
  for (const model of found.models) {
    model.fallbacks.forEach((name) => {
      if (middle.has(name)) edges.append(arc(model.y, middle.get(name), model.name));
    });
  }
  const opens = found.models.map((model, at) => {
    const node = box("model", model.name, model.y, { model: model.name });
    for (const [key, value] of Object.entries({ tabindex: at ? "-1" : "0", role: "button", "aria-label": told(model) })) node.setAttribute(key, value);
    node.addEventListener("click", () => onopen(model.name));
    return node;
  });
  nodes.append(...opens);
  for (const backend of found.backends) nodes.append(box("backend", backend.name, backend.y, { backend: backend.name, model: backend.model, tint: colour.get(backend.name) }));

  const light = (name, isModel) => {
    svg.classList.toggle("lit", Boolean(name));
    if (!name) return;
    const leadsTo = isModel ? new Set(models.find((model) => model.name === name)?.versions.map((version) => version.backend)) : new Set();
    for (const part of svg.querySelectorAll("[data-model], [data-backend]")) {
      const { model, backend, to } = part.dataset;
      part.classList.toggle("on", isModel ? model === name || (!model && leadsTo.has(backend)) : backend === name || to === name);
    }
  };
  const over = (event) => {
    const part = event.target.closest?.("g.node");
    if (part) light(part.dataset.backend ?? part.dataset.model, !part.dataset.backend);
    else light(null);
  };
  svg.addEventListener("mouseover", over);
  svg.addEventListener("mouseleave", () => light(null));
  svg.addEventListener("focusin", over);
  svg.addEventListener("focusout", () => light(null));
  svg.addEventListener("keydown", (event) => {
    const at = opens.indexOf(document.activeElement);
    if (at < 0) return;
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: opens.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      const next = opens[Math.min(Math.max(to, 0), opens.length - 1)];
      opens.forEach((node) => node.setAttribute("tabindex", node === next ? "0" : "-1"));
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onopen(opens[at].dataset.model);
    }
  });
  return svg;
}

const right = (column) => COLUMNS[column][0] + COLUMNS[column][1];

function told(model) {
  const versions = model.versions.map((version) => t("models.toldVersion", { version: version.name, share: share(version.share), backend: version.backend }));
  const parts = [t("models.toldModel", { name: model.name }), versions.join("; ")];
  if (model.aliases.length) parts.push(t("models.toldAliases", { names: model.aliases.join(", ") }));
  if (model.fallbacks.length) parts.push(t("models.toldFallbacks", { names: model.fallbacks.join(", ") }));
  return parts.join(". ");
}

function box(column, text, y, { model, backend, to, note = "", tint, release } = {}) {
  const [x, width] = COLUMNS[column];
  const room = Math.floor((width - 20 - note.length * 7) / 7);
  const node = s("g", { class: `node ${column} ${release ? "released" : ""}`, "data-model": model, "data-backend": backend, "data-to": to },
    s("title", {}, release ? `${text}: ${t("models.byRelease", { name: release })}` : text),
    s("rect", { x, y: y - BOX / 2, width, height: BOX, rx: 7 }),
    tint === undefined ? null : s("rect", { class: `f${tint}`, x, y: y - BOX / 2, width: 5, height: BOX, rx: 2 }),
    s("text", { x: x + 11, y: y + 4.5 }, text.length > room ? `${text.slice(0, Math.max(room - 1, 1))}…` : text),
    note ? s("text", { class: "note", x: x + width - 9, y: y + 4.5, "text-anchor": "end" }, note) : null);
  return node;
}

function curve(x1, y1, x2, y2, { model, tint, thick = 1.2, idle, backend }) {
  const half = (x2 - x1) / 2;
  return s("path", {
    class: `edge ${tint === undefined ? "" : `s${tint}`} ${idle ? "idle" : ""}`, "data-model": model, "data-to": backend,
    d: `M${x1} ${y1}C${x1 + half} ${y1} ${x2 - half} ${y2} ${x2} ${y2}`, "stroke-width": thick.toFixed(1),
  });
}

/** A fallback: from the left edge of one Model around to the other's. */
function arc(from, to, model) {
  const x = COLUMNS.model[0];
  const out = x - 14 - Math.min(Math.abs(to - from) / 12, 36);
  const tip = to > from ? to - 5 : to + 5;
  return s("g", { class: "fallback", "data-model": model },
    s("path", { class: "edge", d: `M${x} ${from + (to > from ? 5 : -5)}C${out} ${from} ${out} ${to} ${x - 4} ${tip}` }),
    s("path", { class: "tip", d: `M${x} ${tip}l-7 -4v8z` }));
}

/** What the graph's lines mean. */
export function legend() {
  const line = (kind, text) => h("li", {}, put(h("span", { class: "sample" }), s("svg", { viewBox: "0 0 30 8", width: 30, height: 8, "aria-hidden": "true" }, s("path", { class: `edge ${kind}`, d: "M0 4H30", "stroke-width": kind === "s0" ? 3 : 1.4 }))), text);
  return h("ul", { class: "legend graph-legend" }, line("s0", t("models.legendShare")), line("dash", t("models.legendFallback")), line("s0 idle", t("models.legendIdle")));
}
