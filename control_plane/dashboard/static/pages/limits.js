// Limits: what Tiers, Models, Backends and Consumers may use, and how much of it is used.
// Sidecars tell how much each account uses that a limit counts: of a Model, of a Consumer, and of a Tier by each
// of its Consumers. A Tier's own row shows all of its callers together, and no bar pretends that to be a share.
import { meter } from "../charts.js";
import { h, put } from "../dom.js";
import { number, share } from "../format.js";
import { subscribe } from "../live.js";
import { virtualTable } from "../table.js";
import { card, empty, heading, tabs } from "../widgets.js";

const NAMES = ["requestsPerMinute", "tokensPerMinute", "concurrency", "tokensPerDay", "costPerDay"];
const EVERY_MS = 3000;
const TOLD = 100; // of so many accounts the API tells: those that use most
let end = null;

export async function render(root, { api, t, visitor }) {
  const may = (kind) => visitor.may("viewer", `${kind}:read`);
  const list = async (kind) => (may(kind) ? (await api.get(`/${kind}`)).items : []);
  const [tiers, models, backends, consumers] = await Promise.all(["tiers", "models", "backends", "consumers"].map(list));
  const backendOf = new Map(models.flatMap(({ metadata, spec }) => spec.versions.map((version) => [`${metadata.name} ${version.name}`, version.backend])));
  const limitsOf = new Map(tiers.map(({ metadata, spec }) => [metadata.name, spec.limits ?? {}]));
  let now = { tiers: [], models: [], uses: null };
  let refresh = () => {};
  const views = [
    view("tiers", tiers, tiersView), view("models", models.filter((one) => limited(one.spec.limits)), modelsView),
    view("backends", backends.filter((one) => limited(one.spec.quota)), backendsView), view("consumers", consumers, (panel, documents, t) => consumersView(panel, documents, t, limitsOf)),
  ];
  function view(name, documents, draw) {
    return {
      name, title: `${t(`limits.${name}`)} (${documents.length})`,
      render(panel) {
        if (!documents.length) {
          refresh = () => {};
          put(panel, empty(t(`limits.no.${name}`), t(`limits.how.${name}`)));
          return;
        }
        refresh = draw(panel, documents, t, backendOf);
        refresh(now);
      },
    };
  }
  root.append(heading(t("page.limits")), h("section", { class: "card" }, tabs(views)));
  if (!visitor.may("viewer", "sidecars:read")) return;
  const read = async () => {
    const { items } = await api.get("/limits");
    now = { ...now, uses: new Map(items.map((one) => [key(one.kind, one.name, one.kind === "tier" ? one.consumer : null), one])) };
    refresh(now);
  };
  const stop = subscribe((told) => { now = { ...told, uses: now.uses }; refresh(now); });
  const timer = setInterval(() => { if (!document.hidden) read().catch(() => {}); }, EVERY_MS);
  end = () => {
    clearInterval(timer);
    stop();
  };
  await read();
}

const key = (kind, name, consumer) => [kind, name, consumer ?? ""].join("\n");

/** What an account uses: nothing when it is told of none, null when it may be one of those that are not told. */
function useOf(uses, kind, name, consumer) {
  if (!uses) return null;
  return uses.get(key(kind, name, consumer)) ?? (uses.size < TOLD ? Object.fromEntries(NAMES.map((one) => [one, 0])) : null);
}

/** The largest share of its limits that an account uses. */
const fullest = (limits, use) => Math.max(-1, ...NAMES.filter((name) => limits[name] && use).map((name) => use[name] / limits[name]));

export function close() {
  end?.();
  end = null;
}

const limited = (limits) => limits && NAMES.some((name) => limits[name] !== undefined);

/** A bar of use against a limit, or the use alone where there is no limit. `narrow`: the bar below, large numbers short. */
function against(used, limit, t, narrow = false) {
  if (limit === undefined || limit === null) return h("span", { class: "soft" }, used === null ? t("limits.unlimited") : number(used));
  if (used === null) return number(limit);
  const label = t("limits.of", { used: number(used, { short: narrow }), limit: number(limit, { short: narrow }) });
  return h("span", { class: narrow ? "use narrow" : "use" }, h("span", {}, label), meter(used / limit, label));
}

/** A column for each limit, with what is used of it. */
const useColumns = (t) => NAMES.map((name) => column(name, t(`limits.${name}`), (row) => (row.limits[name] === undefined ? h("span", { class: "soft" }, "–") : against(row.use?.[name] ?? null, row.limits[name], t, true)), { width: "minmax(130px, 1.4fr)", sort: (row) => (row.use && row.limits[name] ? row.use[name] / row.limits[name] : -1) }));

const column = (key, title, cell, { width = "minmax(150px, 1fr)", sort = null, numeric = false } = {}) => ({ key, title, cell, width, sort, numeric });

function tiersView(panel, documents, t) {
  const rows = virtualTable([
    column("name", t("limits.tier"), (row) => row.name, { width: "minmax(110px, 1fr)", sort: (row) => row.name }),
    column("priority", t("limits.priority"), (row) => number(row.spec.priority ?? 0), { width: "90px", numeric: true, sort: (row) => row.spec.priority ?? 0 }),
    ...NAMES.map((name) => column(name, t(`limits.${name}`), (row) => number(row.limits[name]), { width: "minmax(100px, 1fr)", numeric: true, sort: (row) => row.limits[name] ?? null })),
    column("requests", t("limits.usedRequests"), (row) => number(row.requests), { width: "minmax(150px, 1fr)", numeric: true, sort: (row) => row.requests }),
    column("tokens", t("limits.usedTokens"), (row) => number(row.tokens), { width: "minmax(150px, 1fr)", numeric: true, sort: (row) => row.tokens }),
    column("limited", t("limits.refused"), (row) => h("span", { class: row.limited ? "warn-ink" : "" }, number(row.limited, { digits: 1 })), { width: "110px", numeric: true, sort: (row) => row.limited }),
  ], { label: t("limits.tiers"), sort: ["priority", true] });
  put(panel, h("p", { class: "notice" }, t("limits.eachCaller")), rows.element);
  return (now) => {
    const told = Object.fromEntries(now.tiers.map((row) => [row.tier, row]));
    rows.rows(documents.map(({ metadata, spec }) => {
      const row = told[metadata.name];
      return { name: metadata.name, spec, limits: spec.limits ?? {}, requests: (row?.requests ?? 0) * 60, tokens: (row?.tokens ?? 0) * 60, limited: (row?.limited ?? 0) * 60 };
    }));
  };
}

function summed(now, pick) {
  const sums = new Map();
  for (const row of now.models) {
    for (const name of pick(row)) {
      const sum = sums.get(name) ?? { requests: 0, tokens: 0, throttled: 0 };
      sum.requests += row.calls * 60;
      sum.tokens += (row.inputTokens + row.outputTokens) * 60;
      sum.throttled += row.throttled * 60;
      sums.set(name, sum);
    }
  }
  return sums;
}

function useView(panel, documents, t, limitsOf, label, note) {
  const rows = virtualTable([
    column("name", label, (row) => row.name, { sort: (row) => row.name }),
    column("requests", t("limits.requestsPerMinute"), (row) => against(row.requests, row.limits.requestsPerMinute, t), { width: "minmax(230px, 1.5fr)", sort: (row) => row.requests / (row.limits.requestsPerMinute ?? Infinity) }),
    column("tokens", t("limits.tokensPerMinute"), (row) => against(row.tokens, row.limits.tokensPerMinute, t), { width: "minmax(230px, 1.5fr)", sort: (row) => row.tokens / (row.limits.tokensPerMinute ?? Infinity) }),
    column("concurrency", t("limits.concurrency"), (row) => number(row.limits.concurrency), { width: "110px", numeric: true, sort: (row) => row.limits.concurrency ?? null }),
    column("throttled", t("limits.throttled"), (row) => h("span", { class: row.throttled ? "warn-ink" : "" }, number(row.throttled, { digits: 1 })), { width: "130px", numeric: true, sort: (row) => row.throttled }),
  ], { label, sort: ["requests", true] });
  put(panel, h("p", { class: "notice" }, note), rows.element);
  return (sums) => rows.rows(documents.map(({ metadata, spec }) => ({ name: metadata.name, limits: limitsOf(spec) ?? {}, ...(sums.get(metadata.name) ?? { requests: 0, tokens: 0, throttled: 0 }) })));
}

function modelsView(panel, documents, t) {
  const rows = virtualTable([
    column("name", t("limits.model"), (row) => row.name, { width: "minmax(140px, 1.4fr)", sort: (row) => row.name }),
    ...useColumns(t),
    column("throttled", t("limits.throttled"), (row) => h("span", { class: row.throttled ? "warn-ink" : "" }, number(row.throttled, { digits: 1 })), { width: "110px", numeric: true, sort: (row) => row.throttled }),
  ], { label: t("limits.model"), sort: ["requestsPerMinute", true] });
  put(panel, h("p", { class: "notice" }, t("limits.byAccount")), rows.element);
  return (now) => {
    const sums = summed(now, (row) => [row.model]);
    rows.rows(documents.map(({ metadata, spec }) => ({ name: metadata.name, limits: spec.limits, use: useOf(now.uses, "model", metadata.name), throttled: sums.get(metadata.name)?.throttled ?? 0 })));
  };
}

function backendsView(panel, documents, t, backendOf) {
  const fill = useView(panel, documents, t, (spec) => spec.quota, t("limits.backend"), t("limits.perBackend"));
  return (now) => fill(summed(now, (row) => [backendOf.get(`${row.model} ${row.version}`)]));
}

function consumersView(panel, documents, t, limitsOf) {
  const filter = h("input", { type: "search", placeholder: t("limits.filter"), "aria-label": t("limits.filter"), oninput: () => show() });
  const rows = virtualTable([
    column("name", t("limits.consumer"), (row) => row.name, { width: "minmax(130px, 1.4fr)", sort: (row) => row.name }),
    column("tenant", t("limits.tenant"), (row) => row.tenant, { width: "minmax(100px, 1fr)", sort: (row) => row.tenant }),
    column("of", t("limits.limitsOf"), (row) => row.of, { width: "minmax(110px, 1fr)", sort: (row) => row.of }),
    ...useColumns(t),
    column("full", t("limits.fullest"), (row) => (row.full < 0 ? "–" : share(row.full)), { width: "90px", numeric: true, sort: (row) => row.full }),
  ], { label: t("limits.consumers"), sort: ["full", true] });
  let uses = null;
  const row = ({ metadata, spec }, of, limits, use) => ({ name: metadata.name, tenant: spec.tenant, of, limits, use, full: fullest(limits, use), text: `${metadata.name} ${spec.tenant} ${spec.tier ?? ""}`.toLowerCase() });
  // A Consumer has up to two accounts: its own, and its part of its Tier's.
  const rowsOf = (one) => {
    const { metadata: { name }, spec } = one;
    const found = [];
    if (limited(limitsOf.get(spec.tier))) found.push(row(one, t("limits.ofTier", { tier: spec.tier }), limitsOf.get(spec.tier), useOf(uses, "tier", spec.tier, name)));
    if (limited(spec.limits)) found.push(row(one, t("limits.own"), spec.limits, useOf(uses, "consumer", name)));
    return found.length ? found : [row(one, spec.tier ? t("limits.ofTier", { tier: spec.tier }) : "–", {}, null)];
  };
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    rows.rows(documents.flatMap(rowsOf).filter((one) => one.text.includes(wanted)));
  };
  put(panel, h("p", { class: "notice" }, t("limits.byAccount")), filter, rows.element);
  return (now) => {
    uses = now.uses;
    show();
  };
}
