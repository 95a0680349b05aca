// Models: where requests go, as a graph and as a table.
import { h, put } from "../dom.js";
import { share } from "../format.js";
import { graph, legend } from "../graph.js";
import { t } from "../i18n.js";
import { routing } from "../routing.js";
import { badge, button, card, dialog, empty, heading, table, tabs } from "../widgets.js";

export async function render(root, { api, params }) {
  const [models, backends, releases] = await Promise.all([api.get("/models"), api.get("/backends"), running(api)]);
  const all = routing(models.items, releases);
  const known = backends.items.map((backend) => backend.metadata.name);
  root.append(heading(t("page.models")));
  if (!all.length) {
    root.append(empty(t("models.none"), t("models.noneHint")));
    return;
  }
  const filter = h("input", { type: "search", placeholder: t("models.filter"), "aria-label": t("models.filter") });
  const count = h("span", { class: "soft", role: "status" });
  const place = h("div");
  const open = (name) => details(all.find((model) => model.name === name), models.items.find((model) => model.metadata.name === name));
  const chosen = () => {
    const wanted = filter.value.trim().toLowerCase();
    const has = (text) => text.toLowerCase().includes(wanted);
    const found = all.filter((model) => !wanted || [model.name, ...model.aliases, ...model.versions.flatMap((version) => [version.name, version.backend])].some(has));
    count.textContent = t("models.count", { shown: found.length, all: all.length });
    return found;
  };
  let draw = () => {};
  const view = (make) => (panel) => {
    draw = () => { const found = chosen(); put(panel, found.length ? make(found) : empty(t("shell.nothing"))); };
    draw();
  };
  const pictured = view((found) => {
    const used = new Set(found.flatMap((model) => model.versions.map((version) => version.backend)));
    const shown = found.length === all.length ? known : known.filter((name) => used.has(name));
    return h("div", { class: "card" }, legend(), h("div", { class: "scroll graph-room", tabindex: "0", role: "region", "aria-label": t("models.graphLabel") }, graph(found, shown, open)));
  });
  root.append(h("div", { class: "row filters" }, h("div", { class: "grow" }, filter), count), place);
  place.append(tabs([
    { name: "graph", title: t("models.graph"), render: pictured },
    { name: "table", title: t("models.table"), render: view((found) => card(null, rows(found, open))) },
  ]));
  filter.addEventListener("input", () => draw());
  if (params.get("name") && all.some((model) => model.name === params.get("name"))) open(params.get("name"));
}

/** Return the Releases with their status; one that went away meanwhile is left out. */
async function running(api) {
  const found = (await api.get("/releases")).items;
  const whole = await Promise.all(found.map((one) => api.get(`/releases/${encodeURIComponent(one.metadata.name)}`).catch((error) => {
    if (error.status === 404) return null;
    throw error;
  })));
  return whole.filter(Boolean);
}

function rows(found, open) {
  const columns = ["model", "aliases", "versions", "fallbacks"].map((key) => ({ title: t(`models.${key}`) }));
  return table(columns, found.map((model) => [
    h("button", { type: "button", class: "quiet link", onclick: () => open(model.name) }, model.name),
    model.aliases.join(", ") || "–",
    h("ul", { class: "plain" }, model.versions.map((version) => h("li", {}, h("code", {}, version.name), " → ", version.backend, " ", badge(share(version.share), version.release ? "info" : "")))),
    model.fallbacks.join(" → ") || "–",
  ]));
}

function details(model, document) {
  const columns = [{ title: t("models.version") }, { title: t("models.backend") }, { title: t("models.upstream") }, { title: t("models.weight"), numeric: true }, { title: t("models.share"), numeric: true }];
  const releases = [...new Set(model.versions.map((version) => version.release).filter(Boolean))];
  const box = dialog(model.name, [
    table(columns, model.versions.map((version) => [h("code", {}, version.name), version.backend, h("code", {}, version.upstream), String(version.weight), share(version.share)])),
    h("dl", { class: "facts" },
      fact(t("models.aliases"), model.aliases.join(", ")),
      fact(t("models.fallbacks"), model.fallbacks.join(" → ")),
      fact(t("models.degrade"), model.degrade.map((rule) => `${[rule.userAgent, rule.tier, rule.load].filter((part) => part !== undefined).join(", ")} → ${rule.model}`).join("; ")),
      fact(t("models.prices"), document.spec.prices ? `${document.spec.prices.inputPerMillion ?? 0} / ${document.spec.prices.outputPerMillion ?? 0}` : ""),
      releases.length ? [h("dt", {}, t("models.releases")), h("dd", {}, releases.map((name) => [h("a", { href: `/releases#name=${encodeURIComponent(name)}`, onclick: () => box.close() }, name), " "]))] : null),
  ], [
    h("a", { class: "button", href: `/policies#view=explain&model=${encodeURIComponent(model.name)}`, onclick: () => box.close() }, t("models.explain")),
    h("a", { class: "button", href: `/policies#kind=models&name=${encodeURIComponent(model.name)}`, onclick: () => box.close() }, t("models.document")),
    button(t("shell.close"), () => box.close(), { kind: "primary" }),
  ]);
  box.classList.add("wide");
}

const fact = (term, text) => (text ? [h("dt", {}, term), h("dd", {}, text)] : null);
