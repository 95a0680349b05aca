// Cache: what the caches of the mesh did, which answers they keep, and making answers void.
import { barChart } from "../charts.js";
import { h, put } from "../dom.js";
import { bytes, millis, money, number, share, span, time } from "../format.js";
import { virtualTable } from "../table.js";
import { badge, button, card, confirm, dialog, empty, field, heading, table, tile, toast } from "../widgets.js";

const EVERY_MS = 5000;
const PAGE = 200;
let end = null;

export async function render(root, context) {
  const { api, t, visitor } = context;
  const statistics = h("div");
  const purging = visitor.may("editor", "cache:write") ? button(t("cache.purge"), () => purge(context, {}, refresh), { kind: "danger" }) : null;
  const kept = entries(context, () => refresh());
  const read = async () => draw(statistics, await api.get("/cache"), t);
  const refresh = async () => {
    await read();
    await kept.read();
  };
  root.append(heading(t("page.cache"), button(t("refresh"), refresh), purging), statistics, kept.element);
  await Promise.all([read(), kept.read()]);
  const timer = setInterval(() => read().catch(() => {}), EVERY_MS);
  end = () => clearInterval(timer);
}

export function close() {
  end?.();
  end = null;
}

function draw(root, { total, sidecars }, t) {
  const tiles = Object.fromEntries(["ratio", "hits", "savedCost", "savedTokens", "savedTime", "holding"].map((name) => [name, tile(t(`cache.${name}`))]));
  const held = total.tiers.reduce((sum, tier) => sum + tier.bytes, 0);
  const answers = total.tiers.reduce((sum, tier) => sum + tier.entries, 0);
  tiles.ratio.set(share(total.hitRatio), t("cache.asked", { text: number(total.hits + total.misses, { short: true }) }));
  tiles.hits.set(number(total.hits, { short: true }), t("cache.misses", { text: number(total.misses, { short: true }) }));
  tiles.savedCost.set(money(total.saved.cost), t("cache.currency"), total.saved.cost ? "good" : "");
  tiles.savedTokens.set(number(total.saved.promptTokens + total.saved.completionTokens, { short: true }), t("cache.completion", { text: number(total.saved.completionTokens, { short: true }) }));
  tiles.savedTime.set(total.saved.seconds < 1 ? millis(total.saved.seconds * 1000) : span(total.saved.seconds), t("cache.waiting"));
  tiles.holding.set(number(answers, { short: true }), bytes(held));
  put(root, h("div", { class: "tiles small" }, Object.values(tiles).map((one) => one.element)), h("p", { class: "soft" }, t("cache.scope", { count: number(sidecars.length) })),
    h("div", { class: "columns" },
      card(t("cache.tiers"), total.tiers.length ? table(
        [{ title: t("cache.tier") }, ...["hits", "misses", "ratio", "entries", "size"].map((name) => ({ title: t(`cache.${name}Column`), numeric: true }))],
        total.tiers.map((tier) => [badge(tier.tier, "info"), number(tier.hits), number(tier.misses), share(tier.hitRatio), number(tier.entries), bytes(tier.bytes)]),
      ) : empty(t("cache.noTiers"), t("cache.howTo"))),
      card(t("cache.ages"), total.hitAges.some((age) => age.hits) ? barChart({
        label: t("cache.ages"), width: Math.min(Math.max(root.clientWidth - 60, 280), 640), format: (value) => number(value, { short: true }),
        bars: total.hitAges.map((age) => ({ name: age.upToSeconds === null ? t("cache.older") : `≤ ${span(age.upToSeconds)}`, value: age.hits })),
      }) : empty(t("cache.noHits")))),
    similar(total.semantic, t));
}

function similar(semantic, t) {
  if (!Object.values(semantic).some(Boolean)) return null;
  const facts = Object.entries(semantic).map(([name, count]) => [h("dt", {}, t(`cache.semantic.${name}`)), h("dd", {}, number(count))]);
  return card(t("cache.similar"), h("dl", { class: "facts" }, facts));
}

function entries(context, again) {
  const { api, t, visitor, params } = context;
  const changes = visitor.may("editor", "cache:write");
  const input = (name) => h("input", { name, value: params.get(name) ?? "", autocomplete: "off" });
  const [model, tenant, key] = [input("model"), input("tenant"), input("keyPrefix")];
  key.pattern = "[0-9a-fA-F]{0,64}";
  const note = h("p", { class: "soft", role: "status" });
  const more = button(t("cache.more"), () => read(next), { hidden: true });
  let all = [];
  let next = "";
  const rows = virtualTable([
    { key: "key", title: t("cache.key"), width: "minmax(150px, 1fr)", sort: (row) => row.key, cell: (row) => h("code", { title: row.key }, row.key.slice(0, 16)) },
    { key: "model", title: t("cache.model"), width: "minmax(150px, 1fr)", sort: (row) => row.model, cell: (row) => (row.version ? `${row.model} · ${row.version}` : row.model) },
    { key: "tenant", title: t("cache.tenant"), width: "minmax(120px, 1fr)", sort: (row) => row.tenant, cell: (row) => row.tenant },
    { key: "tier", title: t("cache.tier"), width: "100px", sort: (row) => row.tier, cell: (row) => badge(row.tier, row.stale ? "warn" : "info") },
    { key: "age", title: t("cache.age"), width: "100px", numeric: true, sort: (row) => row.ageSeconds, cell: (row) => span(row.ageSeconds) },
    { key: "expires", title: t("cache.expires"), width: "110px", numeric: true, sort: (row) => row.expiresInSeconds, cell: (row) => span(row.expiresInSeconds) },
    { key: "hits", title: t("cache.hitsColumn"), width: "80px", numeric: true, sort: (row) => row.hits, cell: (row) => number(row.hits) },
    { key: "bytes", title: t("cache.sizeColumn"), width: "100px", numeric: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
  ], { label: t("cache.entries"), none: t("cache.noEntries"), onopen: (row) => details(context, row, changes, again) });

  async function read(after = "") {
    if (!form.reportValidity()) return;
    const query = new URLSearchParams({ limit: PAGE });
    for (const control of [model, tenant, key]) if (control.value.trim()) query.set(control.name, control.value.trim());
    if (after) query.set("after", after);
    const found = await api.get(`/cache/entries?${query}`);
    all = after ? [...all, ...found.items] : found.items;
    next = found.next ?? "";
    more.hidden = !next;
    note.textContent = found.unanswered.length ? t("cache.unanswered", { names: found.unanswered.slice(0, 5).join(", "), count: found.unanswered.length }) : "";
    rows.rows(all);
  }

  const form = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); read(); } },
    field(t("cache.model"), model), field(t("cache.tenant"), tenant), field(t("cache.keyPrefix"), key), h("button", { class: "primary" }, t("cache.find")));
  return {
    element: h("section", { class: "card" }, h("h2", {}, t("cache.entries")), form, note, rows.element, more),
    read: () => read(),
  };
}

function details(context, entry, changes, again) {
  const { api, t, visitor } = context;
  const facts = [
    [t("cache.key"), h("code", {}, entry.key)], [t("cache.model"), `${entry.model} ${entry.version}`], [t("cache.tenant"), entry.tenant],
    [t("cache.age"), span(entry.ageSeconds)], [t("cache.expires"), span(entry.expiresInSeconds)], [t("cache.hitsColumn"), number(entry.hits)],
    [t("cache.sizeColumn"), bytes(entry.bytes)], [t("cache.keptBy"), entry.sidecars.join(", ")],
  ];
  const shown = h("div");
  const actions = [];
  if (visitor.may("admin", "cache:read")) {
    actions.push(button(t("cache.read"), async () => {
      const { body } = await api.get(`/cache/entries/${entry.key}`);
      put(shown, h("h3", {}, t("cache.answer")), body === null ? h("p", { class: "soft" }, t("cache.tooLarge")) : h("pre", { tabindex: "0" }, typeof body === "string" ? body : JSON.stringify(body, null, 2)));
    }));
  }
  if (changes) actions.push(button(t("cache.purgeOne"), () => { box.close(); purge(context, { key: entry.key }, again); }, { kind: "danger" }));
  const box = dialog(t("cache.entry"), [h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])), visitor.may("admin", "cache:read") ? h("p", { class: "soft" }, t("cache.audited")) : null, shown], actions);
}

async function purge(context, given, again) {
  const { api, t } = context;
  const input = (name) => h("input", { name, value: given[name] ?? "", autocomplete: "off" });
  const controls = [input("model"), input("version"), input("tenant")];
  const body = given.key
    ? h("p", {}, t("cache.purgeKey"), " ", h("code", {}, given.key.slice(0, 16)))
    : h("div", {}, h("p", {}, t("cache.purgeHint")), controls.map((control) => field(t(`cache.${control.name}`), control)));
  if (!(await confirm(t("cache.purge"), body, t("cache.purgeNow")))) return;
  const order = given.key ? { key: given.key } : Object.fromEntries(controls.map((control) => [control.name, control.value.trim()]).filter(([, value]) => value));
  try {
    const done = await api.post("/cache/purge", order);
    toast(t("cache.purged", { revision: done.revision, at: time(done.at) }), "good");
  } catch (error) {
    toast(error.errors?.length ? error.errors.map((item) => `${item.field} ${item.message}`).join("; ") : error.message, "bad");
    return;
  }
  await again();
}
