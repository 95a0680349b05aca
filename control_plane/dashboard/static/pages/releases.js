// Releases: which there are, and one of them with its numbers, gates, moves and buttons.
import { visitor, Problem } from "../api.js";
import { lineChart, meter } from "../charts.js";
import { h, put } from "../dom.js";
import { clock, number, share, span, time } from "../format.js";
import { attempt } from "../problems.js";
import { confidence, ENDED, errorChart, figure, latencyChart, phaseBadge, STUCK, track } from "../curves.js";
import { badge, button, card, confirm, dialog, empty, field, heading, select, table, toast } from "../widgets.js";
import { maybe, t } from "../i18n.js";

const EVERY_MS = 2000;
const REMEMBERED = 300;
let timer = null;
let turn = 0;

export async function render(root, context) {
  const mine = ++turn;
  const name = context.params.get("name");
  const draw = name ? await one(root, context, name) : await list(root, context);
  const again = async () => {
    if (mine !== turn) return;
    if (!document.hidden) await draw().catch((error) => { if (!(error instanceof Problem)) throw error; });
    if (mine === turn) timer = setTimeout(again, EVERY_MS);
  };
  if (mine === turn) timer = setTimeout(again, EVERY_MS);
}

export function close() {
  turn++;
  clearTimeout(timer);
}

const mayChange = () => visitor.may("editor", "releases:write");
const at = (name) => `/releases/${encodeURIComponent(name)}`;

async function list(root, { api, go }) {
  const place = h("div", { class: "releases" });
  root.append(heading(t("page.releases"), mayChange() ? button(t("releases.new"), () => start(api, go), { kind: "primary" }) : null), place);
  const draw = async () => {
    const found = await all(api);
    if (!found.length) {
      put(place, empty(t("releases.none"), t("releases.noneHint")));
      return;
    }
    const focused = document.activeElement?.dataset?.name;
    put(place, found.map((release) => row(release)));
    if (focused) place.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
  };
  await draw();
  return draw;
}

/** Return every Release with its status, those under way first. */
async function all(api) {
  const found = (await api.get("/releases")).items;
  const whole = await Promise.all(found.map(async (one) => {
    try {
      return await api.get(at(one.metadata.name));
    } catch (error) {
      if (error.status === 404) return null;
      throw error;
    }
  }));
  const done = (release) => ENDED.includes(release.status?.phase);
  return whole.filter(Boolean).sort((one, other) => done(one) - done(other) || one.metadata.name.localeCompare(other.metadata.name));
}

function row({ metadata, spec, status }) {
  return h("a", { class: "card release", href: `/releases#name=${encodeURIComponent(metadata.name)}`, "data-name": metadata.name },
    h("div", { class: "what" }, h("strong", {}, metadata.name), h("span", { class: "soft" }, spec.model), h("span", {}, h("code", {}, spec.from), " → ", h("code", {}, spec.to))),
    track(spec, status),
    h("div", { class: "how" }, status ? phaseBadge(status.phase) : null, h("strong", { class: "share" }, status ? share(status.share / 100) : "–"), h("span", { class: "soft reason" }, status?.reason ?? "")));
}

async function one(root, { api, go }, name) {
  const seen = [];
  const refused = h("div");
  const [title, steps, curves, alike, gates, moves] = [h("div"), card(null), h("div", { class: "columns" }), h("div"), card(t("releases.gates")), card(t("releases.timeline"))];
  root.append(h("p", { class: "back" }, h("a", { href: "/releases" }, `← ${t("releases.all")}`)), title, refused, steps, curves, alike, gates, moves);
  let shown = "";
  const act = async (action) => {
    const kind = action === "abort" ? "danger" : "primary";
    if (!(await confirm(t(`releases.ask.${action}`, { name }), t(`releases.asks.${action}`), t(`releases.${action}`), kind))) return;
    const well = await attempt(refused, () => api.post(`${at(name)}/${action}`));
    if (well) toast(t(`releases.did.${action}`, { name }), "good");
    await draw();
  };
  const remove = async () => {
    if (!(await confirm(t("releases.ask.delete", { name }), t("releases.asks.delete"), t("releases.delete")))) return;
    if (await attempt(refused, () => api.del(at(name)))) {
      toast(t("releases.did.delete", { name }), "good");
      go("releases");
    }
  };
  const draw = async () => {
    const { body: { spec, status }, owner } = await api.full("GET", at(name));
    remember(seen, status);
    const key = JSON.stringify([status?.phase, status?.step]);
    if (key !== shown) put(title, heading(h("span", {}, name, " ", status ? phaseBadge(status.phase) : null), actions(status, act, owner ? null : remove)), owner ? h("p", { class: "notice", "data-owner": owner }, badge(owner, "info"), " ", t("releases.owned", { owner })) : null);
    shown = key;
    put(steps, overview(spec, status));
    if (!status) return;
    put(curves, latency(spec, status), errors(spec, status, seen));
    put(alike, likeness(spec, status));
    put(gates, h("h2", {}, t("releases.gates")), gateTable(spec, status));
    put(moves, h("h2", {}, t("releases.timeline")), timeline(status.decisions));
  };
  await draw();
  return draw;
}

function actions(status, act, remove) {
  if (!mayChange() || !status) return [];
  const doing = (action, kind = "") => button(t(`releases.${action}`), () => act(action), { kind, "data-action": action });
  if (STUCK.includes(status.phase)) return remove && ENDED.includes(status.phase) ? [button(t("releases.delete"), remove, { kind: "danger", "data-action": "delete" })] : [];
  return [doing("promote", "primary"), doing(status.phase === "paused" ? "resume" : "pause"), doing("abort", "danger")];
}

function overview(spec, status) {
  const facts = [
    [t("releases.model"), [h("a", { href: `/models#name=${encodeURIComponent(spec.model)}` }, spec.model), ": ", h("code", {}, spec.from), " → ", h("code", {}, spec.to)]],
    [t("releases.share"), h("strong", {}, status ? share(status.share / 100) : "–")],
    [t("releases.callers"), callers(spec.match)],
    [t("releases.bake"), spec.bake ?? "10m"],
    ...(spec.testers ? [[t("releases.testers"), Object.entries(spec.testers.headers ?? {}).map(([header, value]) => h("code", {}, `${header}: ${value} `))]] : []),
    [t("releases.why"), status?.reason ?? "–"],
    [t("releases.since"), status ? `${time(status.since)} (${span((Date.now() - new Date(status.since)) / 1000)})` : "–"],
  ];
  return [track(spec, status), h("dl", { class: "facts" }, facts.map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]))];
}

function callers(match = {}) {
  const parts = ["tiers", "consumers", "workloads", "userAgents"].filter((key) => match[key]?.length).map((key) => `${t(`releases.match.${key}`)} ${match[key].join(", ")}`);
  for (const [header, value] of Object.entries(match.headers ?? {})) parts.push(`${header}: ${value}`);
  return parts.join(" · ") || t("releases.everybody");
}

function sides(spec, status) {
  const { old, new: fresh } = status.analysis;
  return [
    { name: spec.from, colour: 2, durations: old.durations ?? [], p95: old.latencyP95Ms, ...old },
    { name: spec.to, colour: 1, durations: fresh.durations ?? [], p95: fresh.latencyP95Ms, ...fresh },
  ];
}

/** How alike the answers of both versions are: those that were asked of both in the shadow, and cached ones. */
function likeness(spec, { shadow, cache, step }) {
  if (!shadow && !cache && !spec.shadow) return null;
  const facts = [];
  if (spec.shadow) facts.push([t("releases.shadow"), t(step === 0 ? "releases.shadowing" : "releases.shadowed", { share: share(spec.shadow) })]);
  if (shadow) {
    const much = t("releases.compared", { count: number(shadow.compared) });
    facts.push([t("releases.agreement"), [h("strong", {}, share(shadow.agreement)), " ", h("span", { class: "soft" }, much)]],
      [t("releases.similarity"), share(shadow.similarity)], [t("releases.lengthRatio"), shadow.lengthRatio === null ? "–" : `× ${number(shadow.lengthRatio, { digits: 2 })}`],
      [t("releases.otherStatus"), number(shadow.otherStatus)], [t("releases.otherFinish"), number(shadow.otherFinish)]);
  }
  if (cache) facts.push([t("releases.cacheDisagreed"), t("releases.cacheOf", { disagreed: number(cache.disagreed), compared: number(cache.compared), share: share(cache.disagreed / cache.compared) })]);
  return card(t("releases.likeness"), h("dl", { class: "facts", "data-likeness": "" }, facts.map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)])), h("p", { class: "soft" }, t("releases.likenessHint")));
}

function latency(spec, status) {
  const chart = latencyChart(sides(spec, status), t("releases.latencyLabel"));
  return card(t("releases.latency"), chart ?? empty(t("releases.noCalls"), t("releases.noCallsHint")));
}

function errors(spec, status, seen) {
  const both = sides(spec, status);
  const chart = errorChart(both, spec.gates?.errorRate?.maxIncrease ?? 0.01, t("releases.errorsLabel"));
  if (!chart) return card(t("releases.errors"), empty(t("releases.noCalls"), t("releases.noCallsHint")));
  const rate = (side) => seen.map((one) => (one[side].requests ? one[side].errors / one[side].requests : null));
  const curve = seen.length > 2 && seen.some((one) => one.old.errors || one.new.errors) ? lineChart({
    lines: [{ name: spec.from, values: rate("old"), colour: 2 }, { name: spec.to, values: rate("new"), colour: 1 }],
    labels: [[0, clock(seen[0].at)], [1, clock(seen.at(-1).at)]], format: share, label: t("releases.errorsOverTime"), height: 130,
  }) : null;
  return card(t("releases.errors"), chart, h("p", { class: "soft" }, t("releases.errorsHint", { old: number(both[0].requests), new: number(both[1].requests) })), curve);
}

/** Remember the counts of a step while somebody looks; another step begins anew. */
function remember(seen, status) {
  if (!status) return;
  if (seen.length && seen.at(-1).step !== status.step) seen.length = 0;
  seen.push({ at: new Date(), step: status.step, old: status.analysis.old, new: status.analysis.new });
  if (seen.length > REMEMBERED) seen.shift();
}

const OUTCOMES = { pass: "good", wait: "warn", fail: "bad" };

function gateTable(spec, status) {
  const least = spec.gates?.minRequests ?? 200;
  const had = status.analysis.new.requests;
  const columns = ["gate", "verdict", "old", "new", "limit", "confidence"].map((key) => ({ title: t(`releases.gate.${key}`), numeric: ["old", "new"].includes(key) }));
  const rows = status.analysis.gates.map((gate) => [
    named(gate.gate, spec), badge(t(`releases.outcome.${gate.outcome}`), OUTCOMES[gate.outcome]),
    figure(gate.gate, gate.old), figure(gate.gate, gate.new), bound(gate, spec), evidence(gate),
  ]);
  rows.push([t("releases.gate.minRequests"), badge(t(`releases.outcome.${had >= least ? "pass" : "wait"}`), had >= least ? "good" : "warn"), "–", number(had), t("releases.atLeast", { limit: number(least) }), ""]);
  return [table(columns, rows), h("p", { class: "soft" }, t("releases.confidenceHint"))];
}

const QUERY = /^prometheus\[(\d+)\]$/;

/** The name of a gate; of a query's the query. */
function named(gate, spec) {
  const query = spec.gates?.prometheus?.[Number(QUERY.exec(gate)?.[1])]?.query;
  return query ? h("span", {}, "Prometheus ", h("code", {}, query)) : maybe(`releases.gate.${gate}`, gate);
}

function bound(gate, spec) {
  const query = spec.gates?.prometheus?.[Number(QUERY.exec(gate.gate)?.[1])];
  if (query) return t(query.min === undefined || query.min === null ? "releases.atMost" : "releases.atLeast", { limit: number(gate.limit, { digits: 3 }) });
  if (["errorRate", "refusalRate"].includes(gate.gate)) return t("releases.atMostMore", { limit: share(gate.limit) });
  return t("releases.atMostTimes", { limit: number(gate.limit, { digits: 2 }) });
}

function evidence(gate) {
  if (QUERY.test(gate.gate)) return h("small", {}, t("releases.queried", { found: number(gate.evidence), needed: number(gate.needed) }));
  const part = Math.max(Math.log(gate.evidence), 0) / Math.log(gate.needed);
  const text = t("releases.worse", { found: share(confidence(gate.evidence)), needed: share(confidence(gate.needed)) });
  return h("div", { class: "evidence" }, meter(part, text), h("small", {}, text));
}

function timeline(decisions) {
  return h("ol", { class: "timeline" }, [...decisions].reverse().map((made) => h("li", {},
    h("time", { datetime: made.at }, time(made.at)), phaseBadge(made.phase), h("strong", {}, share(made.share / 100)), h("span", {}, made.reason))));
}

async function start(api, go) {
  const [models, tiers] = await Promise.all([api.get("/models"), api.get("/tiers")]);
  const candidates = models.items.filter((model) => model.spec.versions.length > 1);
  if (!candidates.length) {
    dialog(t("releases.new"), empty(t("releases.noModel"), t("releases.noModelHint")));
    return;
  }
  const input = (props) => h("input", props);
  const form = {
    name: input({ required: true, maxlength: 200, pattern: "[a-z0-9]([a-z0-9.\\-]*[a-z0-9])?" }),
    model: select(candidates.map((model) => [model.metadata.name, model.metadata.name])),
    from: select([]), to: select([]),
    steps: input({ value: "5, 25, 50, 100" }), bake: input({ value: "10m" }),
    tiers: input({ placeholder: t("releases.everybody"), list: "release-tiers" }),
    errorRate: input({ type: "number", step: "any", min: 0, max: 1, value: "0.01" }),
    latencyP95: input({ type: "number", step: "any", min: 0.1, value: "1.2" }),
    ttftP95: input({ type: "number", step: "any", min: 0.1, value: "1.2" }),
    minRequests: input({ type: "number", min: 1, value: "200" }),
    shadow: input({ type: "number", step: "any", min: 0.001, max: 1 }),
  };
  const versions = () => {
    const found = candidates.find((model) => model.metadata.name === form.model.value).spec.versions.map((version) => version.name);
    const option = (chosen) => found.map((name) => h("option", { value: name, selected: name === chosen }, name));
    put(form.from, option(found[0]));
    put(form.to, option(found[1]));
  };
  form.model.addEventListener("change", versions);
  versions();
  const refused = h("div");
  const fields = Object.entries(form).map(([key, control]) => field(t(`releases.form.${key}`), control, t(`releases.hint.${key}`) === `releases.hint.${key}` ? "" : t(`releases.hint.${key}`)));
  const list = h("datalist", { id: "release-tiers" }, tiers.items.map((tier) => h("option", { value: tier.metadata.name })));
  const element = h("form", { class: "grid" }, fields, list, refused);
  const send = async () => {
    if (!element.reportValidity()) return;
    const document = releaseOf(form);
    const name = document.metadata.name;
    const well = await attempt(refused, () => api.put(at(name), document, { headers: { "if-none-match": "*" } }).catch((error) => {
      throw error.status === 412 ? new Problem(412, { detail: t("releases.exists", { name }) }) : error;
    }));
    if (!well) return;
    box.close();
    toast(t("releases.did.start", { name }), "good");
    go("releases", `#name=${encodeURIComponent(name)}`);
  };
  element.addEventListener("submit", (event) => { event.preventDefault(); send(); });
  const box = dialog(t("releases.new"), element, [button(t("shell.cancel"), () => box.close(), { kind: "quiet" }), button(t("releases.start"), send, { kind: "primary" })]);
}

function releaseOf(form) {
  const words = (text) => text.split(/[,，\s]+/).filter(Boolean);
  const tiers = words(form.tiers.value);
  return {
    apiVersion: "outrigger.dev/v1alpha1",
    kind: "Release",
    metadata: { name: form.name.value.trim() },
    spec: {
      model: form.model.value, from: form.from.value, to: form.to.value,
      steps: words(form.steps.value).map((word) => Number(word.replace("%", ""))),
      bake: form.bake.value.trim(),
      ...(tiers.length ? { match: { tiers } } : {}),
      ...(form.shadow.value ? { shadow: Number(form.shadow.value) } : {}),
      gates: {
        errorRate: { maxIncrease: Number(form.errorRate.value) }, latencyP95: { maxRatio: Number(form.latencyP95.value) },
        ttftP95: { maxRatio: Number(form.ttftP95.value) }, minRequests: Number(form.minRequests.value),
      },
    },
  };
}
