// What became of one played prompt, stage by stage: as the sidecar tells it, else as the answer's headers say.
import { h } from "./dom.js";
import { micros, millis } from "./format.js";
import { maybe, t } from "./i18n.js";
import { plain } from "./changes.js";
import { badge, table } from "./widgets.js";

// The stages that are shown where the sidecar tells nothing of its own.
const USUAL = ["identify", "resolve", "assign", "clamp", "session", "cache", "limit", "batch", "route"];
// Which settings of Policies a stage follows.
const AREAS = { resolve: ["unknownModels"], clamp: ["parameters"], session: ["session"], redact: ["redaction"], cache: ["cache"], coalesce: ["coalesce"], limit: ["limits"], hold: ["hold"], batch: ["batch"], route: ["retry"] };
const MARKS = { hit: "good", "semantic-hit": "good", miss: "info" };

/** Return the table of `seen` (status, headers, stages, upstreamMs, and when head, first text and end came), and what stands below it. */
export function stageTable(order, seen, settings) {
  const decided = decisions(order, seen);
  const set = (stage) => settings.filter((one) => one.policy && (AREAS[stage] ?? []).some((area) => one.field.startsWith(area)));
  const told = seen.stages ? joined(seen.stages) : USUAL.map((stage) => ({ stage }));
  const longest = Math.max(...told.map((one) => one.us ?? 0), 1);
  const rows = told.map(({ stage, us, did, set: news }) => ({ stage, decision: did === undefined ? decided[stage] : said(stage, did, news ?? {}, decided), took: us === undefined ? null : measured(us / longest, micros(us)), fields: set(stage) }));
  const upstream = seen.upstreamMs ?? null;
  for (const [stage, decision, ms, took] of ends(seen)) rows.push({ stage, decision, at: ms === null ? null : millis(ms), took: took && upstream !== null ? millis(upstream) : null, fields: [] });
  const columns = [{ title: t("playground.stage") }, { title: t("playground.decision") }, { title: t("playground.took_"), numeric: true }, { title: t("playground.at"), numeric: true }, { title: t("playground.policy") }];
  const own = told.reduce((sum, one) => sum + (one.us ?? 0), 0);
  return [
    table(columns, rows.map((row) => [h("strong", {}, maybe(`playground.stage.${row.stage}`, row.stage)), row.decision ?? h("span", { class: "soft" }, t("playground.nothing")), row.took ?? "", row.at ?? "", setBy(row.fields)])),
    seen.stages ? h("p", { class: "soft", "data-sum": "" }, t("playground.sum", { own: micros(own), total: millis(seen.end ?? seen.head) })) : seen.status === null ? null : h("p", { class: "soft" }, t("playground.untold")),
    seen.headers.get("x-request-id") ? h("p", { class: "soft" }, t("playground.requestId"), " ", h("code", {}, seen.headers.get("x-request-id"))) : null,
  ];
}

/** Stages that see the headers, and the body again, as one each, where they saw the last. */
function joined(laps) {
  const found = new Map();
  for (const lap of laps) {
    const before = found.get(lap.stage);
    found.delete(lap.stage);
    found.set(lap.stage, before ? { ...lap, us: before.us + lap.us, set: { ...before.set, ...lap.set } } : lap);
  }
  return [...found.values()];
}

/** What the answer's headers say of each stage. */
function decisions(order, { headers }) {
  const get = (name) => headers.get(name);
  const own = (name) => get(`x-outrigger-${name}`);
  const left = ["requests", "tokens"].filter((kind) => get(`x-ratelimit-remaining-${kind}`)).map((kind) => t(`playground.left.${kind}`, { left: get(`x-ratelimit-remaining-${kind}`), limit: get(`x-ratelimit-limit-${kind}`) ?? NONE }));
  return {
    identify: order.tier ? t("playground.asTier", { tier: order.tier }) : order.key ? t("playground.asKey") : t("playground.asNobody"),
    resolve: own("model") ? (own("model") === order.model ? own("model") : `${order.model} → ${own("model")}`) : null,
    assign: own("version") ?? null,
    clamp: own("clamped") ?? null,
    session: order.session ?? null,
    cache: own("cache") ? badge(own("cache"), MARKS[own("cache")] ?? "") : null,
    limit: left.join(", ") || null,
    batch: own("batch") ? t("playground.batched", { size: own("batch") }) : null,
    route: own("backend") ? `${own("backend")}${own("attempts") ? ` (${t("playground.attempts", { count: own("attempts") })})` : ""}` : null,
  };
}

const NONE = "–";

/** What a stage did by its own word: the headers' word for it where there is one, what it set, why it answered. */
function said(stage, did, news, decided) {
  const parts = [];
  // What went by a stage is no decision of it, whatever the headers say of the whole.
  if (decided[stage] && (Object.keys(news).length || did !== "passed" || stage === "identify" || stage === "limit")) parts.push(decided[stage]);
  else parts.push(...Object.entries(news).map(([key, value]) => (value === "yes" ? maybe(`playground.set.${key}`, key) : `${maybe(`playground.set.${key}`, key)}: ${value || NONE}`)));
  if (did !== "passed" && did !== "forwarded") parts.push(badge(did, did.startsWith("served") ? "good" : "bad"));
  else if (did === "forwarded" && !parts.length) parts.push(t("playground.forwarded"));
  return parts.length ? h("span", { class: "said" }, parts.flatMap((part, at) => (at ? [" ", part] : [part]))) : null;
}

/** The head of the answer, its first text, its end: [name, what, when, whether the provider's time belongs there]. */
function ends(seen) {
  const own = (name) => seen.headers.get(`x-outrigger-${name}`);
  const called = own("cache") !== "hit" && own("cache") !== "semantic-hit" && !own("error");
  const processing = seen.headers.get("openai-processing-ms");
  // OpenAI's own word for it; others are silent.
  const provided = processing ? ` (${t("playground.provided", { time: millis(Number(processing)) })})` : "";
  return [
    [called ? "provider" : "own", own("error") ? badge(own("error"), "bad") : seen.status === null ? null : `${seen.status}${provided}`, seen.head, called],
    ["first", seen.first === null ? null : t("playground.firstText"), seen.first, false],
    ["end", seen.end === null || seen.failed ? seen.failed || null : t("playground.complete"), seen.end, false],
  ];
}

function setBy(fields) {
  if (!fields.length) return "";
  return h("ul", { class: "plain" }, fields.map((one) => h("li", {}, h("code", {}, `${one.field}: ${plain(one.value)}`), " ", h("a", { href: `/policies#kind=policies&name=${encodeURIComponent(one.policy)}` }, one.policy))));
}

function measured(part, text) {
  const fill = h("i");
  fill.style.width = `${Math.min(part, 1) * 100}%`;
  return h("span", { class: "when" }, h("span", { class: "bar", "aria-hidden": "true" }, fill), text);
}
