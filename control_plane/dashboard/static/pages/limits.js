// Limits: what Tiers, Models, Backends and Consumers may use, and how much of it is used.
// Sidecars tell rates of Tiers and Models. Of a single caller they tell none, so a Tier's limit, which holds
// for each caller of it, is shown beside the use of all its callers together, and no bar pretends otherwise.
import { meter } from "../charts.js";
import { h, put } from "../dom.js";
import { number } from "../format.js";
import { subscribe } from "../live.js";
import { virtualTable } from "../table.js";
import { card, empty, heading, tabs } from "../widgets.js";

const NAMES = ["requestsPerMinute", "tokensPerMinute", "concurrency", "tokensPerDay", "costPerDay"];
let end = null;

export async function render(root, { api, t, visitor }) {
  const may = (kind) => visitor.may("viewer", `${kind}:read`);
  const list = async (kind) => (may(kind) ? (await api.get(`/${kind}`)).items : []);
  const [tiers, models, backends, consumers] = await Promise.all(["tiers", "models", "backends", "consumers"].map(list));
  const backendOf = new Map(models.flatMap(({ metadata, spec }) => spec.versions.map((version) => [`${metadata.name} ${version.name}`, version.backend])));
  let now = { tiers: [], models: [] };
  let refresh = () => {};
  const views = [
    view("tiers", tiers, tiersView), view("models", models.filter((one) => limited(one.spec.limits)), modelsView),
    view("backends", backends.filter((one) => limited(one.spec.quota)), backendsView), view("consumers", consumers, consumersView),
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
  if (visitor.may("viewer", "sidecars:read")) end = subscribe((told) => { now = told; refresh(now); });
}

export function close() {
  end?.();
  end = null;
}

const limited = (limits) => limits && NAMES.some((name) => limits[name] !== undefined);

/** A bar of use against a limit, or the use alone where there is no limit. */
function against(used, limit, t) {
  if (limit === undefined || limit === null) return h("span", { class: "soft" }, used === null ? t("limits.unlimited") : number(used));
  if (used === null) return number(limit);
  const label = t("limits.of", { used: number(used), limit: number(limit) });
  return h("span", { class: "use" }, h("span", {}, label), meter(used / limit, label));
}

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
  const fill = useView(panel, documents, t, (spec) => spec.limits, t("limits.model"), t("limits.upstreamOnly"));
  return (now) => fill(summed(now, (row) => [row.model]));
}

function backendsView(panel, documents, t, backendOf) {
  const fill = useView(panel, documents, t, (spec) => spec.quota, t("limits.backend"), t("limits.perBackend"));
  return (now) => fill(summed(now, (row) => [backendOf.get(`${row.model} ${row.version}`)]));
}

function consumersView(panel, documents, t) {
  const filter = h("input", { type: "search", placeholder: t("limits.filter"), "aria-label": t("limits.filter"), oninput: () => show() });
  const rows = virtualTable([
    column("name", t("limits.consumer"), (row) => row.metadata.name, { sort: (row) => row.metadata.name }),
    column("tenant", t("limits.tenant"), (row) => row.spec.tenant, { sort: (row) => row.spec.tenant }),
    column("tier", t("limits.tier"), (row) => row.spec.tier ?? "–", { sort: (row) => row.spec.tier ?? "" }),
    ...NAMES.map((name) => column(name, t(`limits.${name}`), (row) => number(row.spec.limits?.[name]), { width: "minmax(120px, 1fr)", numeric: true, sort: (row) => row.spec.limits?.[name] ?? null })),
  ], { label: t("limits.consumers"), sort: ["name", false] });
  const show = () => rows.rows(documents.filter((one) => `${one.metadata.name} ${one.spec.tenant} ${one.spec.tier ?? ""}`.toLowerCase().includes(filter.value.trim().toLowerCase())));
  put(panel, h("p", { class: "notice" }, t("limits.noConsumerUse")), filter, rows.element);
  show();
  return () => {};
}
