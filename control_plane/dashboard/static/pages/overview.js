// Overview: what goes through the mesh now and in the last fifteen minutes, in all, by model, by Tier.
import { lineChart, sparkline } from "../charts.js";
import { h, put } from "../dom.js";
import { clock, millis, money, number, share } from "../format.js";
import { subscribe } from "../live.js";
import { virtualTable } from "../table.js";
import { badge, card, empty, heading, table, tile } from "../widgets.js";

let end = null;

export function render(root, { t, visitor, go }) {
  if (!visitor.may("viewer", "sidecars:read")) {
    root.append(heading(t("page.overview")), empty(t("overview.noScope")));
    return;
  }
  const state = h("div", { class: "actions" });
  const notice = h("div", { class: "notices" });
  const tiles = Object.fromEntries(["requests", "errors", "latency", "ttft", "hits", "tokens", "saved", "sidecars"].map((name) => [name, tile(t(`overview.${name}`))]));
  const traffic = h("div");
  const times = h("div");
  const tiers = h("div");
  const filter = h("input", { type: "search", "aria-label": t("overview.filter"), placeholder: t("overview.filter"), oninput: () => show(models.last) });
  const models = versions(t);
  const show = (list) => {
    models.last = list;
    const wanted = filter.value.trim().toLowerCase();
    models.rows(wanted ? list.filter((row) => `${row.model} ${row.version}`.toLowerCase().includes(wanted)) : list);
  };
  root.append(
    h("div", { class: "heading" }, h("h1", {}, t("page.overview")), state),
    notice,
    h("div", { class: "tiles" }, Object.values(tiles).map((one) => one.element)),
    h("div", { class: "columns" }, card(t("overview.traffic"), traffic), card(t("overview.times"), times)),
    card(t("overview.tiers"), tiers),
    h("section", { class: "card" }, h("div", { class: "heading" }, h("h2", {}, t("overview.models")), h("div", { class: "actions" }, filter)), models.element),
  );
  let drawn = null;
  end = subscribe((told) => {
    const now = { ...told, series: known(told.series) };
    fillState(state, notice, now, t);
    fillTiles(tiles, now, t, drawn !== now.series.end);
    show(now.models);
    drawTiers(tiers, now.tiers, t);
    if (drawn !== now.series.end) {
      drawn = now.series.end;
      drawCharts(traffic, times, now, t);
    }
  });
  tiles.sidecars.element.classList.add("link");
  tiles.sidecars.element.addEventListener("click", () => go("sidecars"));
}

/** Leave away the steps before the first that is known, but for two minutes. */
function known(series) {
  const first = series.requests.findIndex((value) => value !== null);
  const from = Math.min(first < 0 ? Infinity : first, series.requests.length - 24);
  return Object.fromEntries(Object.entries(series).map(([name, values]) => [name, Array.isArray(values) ? values.slice(from) : values]));
}

export function close() {
  end?.();
  end = null;
}

function fillState(state, notice, { fleet }, t) {
  const halted = fleet.revision !== fleet.revisionInForce;
  const behind = fleet.connected - fleet.inForce;
  put(state,
    badge(t("overview.revision", { revision: fleet.revisionInForce }), halted ? "warn" : "good"),
    behind ? badge(t("overview.behind", { count: behind }), "warn") : null);
  const said = [];
  if (halted) said.push(h("p", { class: "notice bad" }, t("overview.halted", { revision: fleet.revision })));
  if (!fleet.database) said.push(h("p", { class: "notice bad" }, t("overview.database")));
  if (!fleet.known) said.push(h("p", { class: "notice" }, t("overview.alone")));
  if (notice.childElementCount !== said.length || said.length) put(notice, said);
}

function fillTiles(tiles, now, t, moved) {
  const { rates, sums, series, fleet } = now;
  const wrong = rates.failed + rates.throttled + rates.refused;
  const part = rates.calls ? wrong / rates.calls : null;
  const asked = rates.hits + rates.misses;
  const minutes = (name) => t("overview.inMinutes", { text: name });
  tiles.requests.set(number(rates.requests, { short: true }), minutes(number(sums.requests, { short: true })));
  tiles.errors.set(rates.calls ? share(part) : "–", t("overview.kinds", { failed: rate(rates.failed), throttled: rate(rates.throttled), refused: rate(rates.refused) }), part > 0.05 ? "bad" : part > 0.01 ? "warn" : "");
  tiles.latency.set(millis(now.latency.p95), t("overview.median", { text: millis(now.latency.p50) }));
  tiles.ttft.set(millis(now.ttft.p95), t("overview.median", { text: millis(now.ttft.p50) }));
  tiles.hits.set(asked ? share(rates.hits / asked) : "–", t("overview.hitsNote", { text: rate(rates.hits) }));
  tiles.tokens.set(number(rates.outputTokens * 60, { short: true }), t("overview.tokensNote", { text: number(rates.inputTokens * 60, { short: true }) }));
  tiles.saved.set(money(sums.savedCost), t("overview.savedNote", { text: number(sums.savedTokens, { short: true }) }), sums.savedCost > 0 ? "good" : "");
  tiles.sidecars.set(`${number(fleet.inForce)} / ${number(fleet.connected)}`, fleet.refused ? t("overview.refusing", { count: fleet.refused }) : t("overview.known", { count: number(fleet.known) }), fleet.refused ? "bad" : fleet.inForce < fleet.connected ? "warn" : "");
  if (!moved) return;
  // What was before the control plane started is no zero.
  const sum = (one, other) => (one === null ? null : one + other);
  const ratio = (at) => (series.hits[at] + series.misses[at] ? series.hits[at] / (series.hits[at] + series.misses[at]) : null);
  sparkline(tiles.requests.chart, series.requests);
  sparkline(tiles.errors.chart, series.failed.map((value, at) => sum(value, series.throttled[at])), { colour: "bad", floor: 0.1 });
  sparkline(tiles.latency.chart, series.latencyP95, { colour: 2 });
  sparkline(tiles.ttft.chart, series.ttftP95, { colour: 3 });
  sparkline(tiles.hits.chart, series.hits.map((_, at) => ratio(at)), { colour: 4, floor: 1 });
  sparkline(tiles.tokens.chart, series.outputTokens, { colour: 1 });
  sparkline(tiles.saved.chart, series.savedCost, { colour: 4 });
}

const rate = (value) => number(value, { digits: value && value < 10 ? 1 : 0 });

const room = (element) => Math.max(element.clientWidth, 280);

function drawCharts(traffic, times, now, t) {
  const { series } = now;
  const length = series.requests.length * series.stepSeconds * 1000;
  const labels = [0, 1 / 3, 2 / 3, 1].map((at) => [at, clock(new Date(new Date(now.at) - length * (1 - at))).slice(0, length < 300_000 ? 8 : 5)]);
  put(traffic, lineChart({
    label: t("overview.traffic"), labels, width: room(traffic), format: (value) => number(value, { short: true }),
    lines: [
      { name: t("overview.requestsLine"), values: series.requests, colour: 0, area: true },
      { name: t("overview.hitsLine"), values: series.hits, colour: 1 },
      { name: t("overview.failedLine"), values: series.failed, colour: "bad" },
    ],
  }));
  put(times, lineChart({
    label: t("overview.times"), labels, width: room(times), format: millis,
    lines: [
      { name: t("overview.p95"), values: series.latencyP95, colour: 2, area: true },
      { name: t("overview.p50"), values: series.latencyP50, colour: 0 },
      { name: t("overview.ttftP95"), values: series.ttftP95, colour: 3 },
    ],
  }));
}

function drawTiers(root, tiers, t) {
  if (!tiers.length) {
    if (!root.querySelector(".empty")) put(root, empty(t("overview.noTiers")));
    return;
  }
  put(root, table(
    [{ title: t("overview.tier") }, ...["requestRate", "limitedRate", "failedRate", "tokenRate", "lately"].map((name) => ({ title: t(`overview.${name}`), numeric: true }))],
    tiers.map((row) => [row.tier || h("span", { class: "soft" }, t("overview.none")), rate(row.requests), h("span", { class: row.limited ? "warn-ink" : "" }, rate(row.limited)), h("span", { class: row.failed ? "bad-ink" : "" }, rate(row.failed)), number(row.tokens * 60, { short: true }), number(row.recentRequests)]),
  ));
}

function versions(t) {
  const numeric = (key, title, read, write, width = "118px") => ({ key, title, width, numeric: true, sort: read, cell: (row) => write(read(row)) });
  return virtualTable([
    { key: "model", title: t("overview.model"), width: "minmax(180px, 2fr)", sort: (row) => row.model, cell: (row) => row.model },
    { key: "version", title: t("overview.version"), width: "minmax(110px, 1fr)", sort: (row) => row.version, cell: (row) => row.version },
    numeric("calls", t("overview.callRate"), (row) => row.calls, rate, "100px"),
    { key: "errors", title: t("overview.errors"), width: "100px", numeric: true, sort: (row) => row.errors, cell: (row) => h("span", { class: row.errors > 0.05 ? "bad-ink" : row.errors > 0.01 ? "warn-ink" : "" }, share(row.errors)) },
    numeric("p50", t("overview.p50"), (row) => row.latency.p50, millis),
    numeric("p95", t("overview.p95"), (row) => row.latency.p95, millis),
    numeric("ttft", t("overview.ttftP95"), (row) => row.ttft.p95, millis),
    numeric("tokens", t("overview.tokenRate"), (row) => (row.inputTokens + row.outputTokens) * 60, (value) => number(value, { short: true }), "130px"),
    numeric("lately", t("overview.lately"), (row) => row.recentCalls, number, "120px"),
  ], { label: t("overview.models"), sort: ["lately", true], none: t("overview.noCalls") });
}
