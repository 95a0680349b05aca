// Policies, and every other kind of document: written, checked as they are typed, compared, saved; and which Policy sets what.
import { visitor } from "../api.js";
import { changesList, plain } from "../changes.js";
import { h, put } from "../dom.js";
import { editor } from "../editor.js";
import { refusal } from "../problems.js";
import { schemas } from "../schema.js";
import { lineOf, toYaml } from "../yaml.js";
import { badge, button, card, confirm, empty, field, heading, select, table, tabs, toast } from "../widgets.js";
import { t } from "../i18n.js";

const KINDS = ["policies", "models", "backends", "tiers", "consumers", "pins", "releases"];
const SINGULAR = { policies: "Policy", models: "Model", backends: "Backend", tiers: "Tier", consumers: "Consumer", pins: "Pin", releases: "Release" };
const YAML = "application/yaml";
const WAIT_MS = 400;
const MOST_LISTED = 300;
let checking = null; // the check that is under way
let timer = null;
let unsaved = () => false;

export async function render(root, context) {
  const all = await schemas();
  root.append(heading(t("page.policies")), tabs([
    { name: "edit", title: t("policies.documents"), render: (panel) => documents(panel, context, all) },
    { name: "explain", title: t("policies.explain"), render: (panel) => explain(panel, context) },
  ], context.params.get("view") ?? "edit"));
  addEventListener("beforeunload", warn);
}

export function close() {
  clearTimeout(timer);
  checking?.abort();
  unsaved = () => false;
  removeEventListener("beforeunload", warn);
}

const warn = (event) => { if (unsaved()) event.preventDefault(); };
const at = (plural, name) => `/${plural}/${plural === "models" ? name.split("/").map(encodeURIComponent).join("/") : encodeURIComponent(name)}`;

async function documents(panel, { api, params, go }, all) {
  let plural = KINDS.includes(params.get("kind")) ? params.get("kind") : "policies";
  const state = { plural, name: null, etag: null, saved: "" };
  const kinds = select(KINDS.map((kind) => [kind, t(`policies.kind.${kind}`)]), { value: plural, "aria-label": t("policies.kind") });
  const filter = h("input", { type: "search", placeholder: t("policies.filter"), "aria-label": t("policies.filter") });
  const names = h("ul", { class: "names" });
  const side = h("div", { class: "card side" }, h("div", { class: "row" }, kinds, filter), names);
  const work = h("div", { class: "work" });
  panel.append(h("div", { class: "split" }, side, work));
  let items = [];
  let owned = new Set(); // what is mirrored from Kubernetes, as Kind/name

  const list = () => {
    const wanted = filter.value.trim().toLowerCase();
    const found = items.filter((item) => item.metadata.name.toLowerCase().includes(wanted));
    put(names, found.slice(0, MOST_LISTED).map((item) => h("li", {}, h("button", {
      type: "button", class: "quiet", "aria-current": item.metadata.name === state.name ? "true" : null, onclick: () => open(item.metadata.name),
    }, h("span", {}, item.metadata.name), owned.has(`${SINGULAR[plural]}/${item.metadata.name}`) ? badge("kubernetes", "info") : null, plural === "policies" ? h("small", {}, targetOf(item.spec)) : null))),
    found.length ? null : h("li", { class: "soft" }, t("shell.nothing")));
  };
  const load = async () => {
    const [found, elsewhere] = await Promise.all([api.get(`/${plural}`), mirrored(api)]);
    items = found.items;
    owned = elsewhere;
    list();
  };
  const leave = async () => !unsaved() || confirm(t("policies.leave"), t("policies.leaveText"), t("policies.discard"));
  const open = async (name) => {
    if (!(await leave())) return;
    const { body, etag, owner } = await api.full("GET", at(plural, name));
    const { status, ...document } = body;
    Object.assign(state, { plural, name, etag, owner, saved: toYaml(document) });
    history.replaceState(null, "", `/policies#kind=${plural}&name=${encodeURIComponent(name)}`);
    show();
  };
  const create = async () => {
    if (!(await leave())) return;
    Object.assign(state, { plural, name: null, etag: null, owner: null, saved: "" });
    show(`apiVersion: outrigger.dev/v1alpha1\nkind: ${SINGULAR[plural]}\nmetadata: {name: new}\nspec:\n  `);
  };
  const show = (text = state.saved) => {
    list();
    put(work, writing(api, all, state, text, { done: async (name) => { unsaved = () => false; await load(); if (name) await open(name); else put(work, idle()); }, go }));
  };
  const idle = () => card(null, empty(t("policies.choose"), visitor.may("editor", `${plural}:write`) ? button(t("policies.new"), create, { kind: "primary" }) : ""));
  kinds.addEventListener("change", async () => {
    if (!(await leave())) { kinds.value = plural; return; }
    plural = kinds.value;
    Object.assign(state, { name: null });
    unsaved = () => false;
    put(work, idle());
    await load();
  });
  filter.addEventListener("input", list);
  put(work, idle());
  await load();
  if (visitor.may("editor")) side.append(button(t("policies.new"), create, { "data-action": "new" }));
  if (params.get("name")) await open(params.get("name"));
}

/** Return what is mirrored from Kubernetes; nothing for those who may not see that. */
async function mirrored(api) {
  try {
    return new Set((await api.get("/mirrors/kubernetes")).items.map((one) => `${one.kind}/${one.name}`));
  } catch (error) {
    if (error.status === 403 || error.status === 404) return new Set();
    throw error;
  }
}

const targetOf = (spec) => ["models", "tiers", "workloads"].filter((key) => spec.target?.[key]).map((key) => spec.target[key].join(", ")).join(" · ") || "*";

function writing(api, all, state, text, { done }) {
  const mayWrite = visitor.may("editor", `${state.plural}:write`) && !state.owner;
  const verdict = h("div", { class: "verdict", role: "status" });
  const box = editor({ schemas: all, label: t("policies.editor"), readonly: !mayWrite, onchange: () => later() });
  unsaved = () => box.text() !== state.saved && mayWrite;
  let good = null; // what the last check answered, for the text as it is
  const save = button(t("policies.review"), () => review(), { kind: "primary", disabled: true, "data-action": "review" });

  const later = () => {
    good = null;
    save.disabled = true;
    clearTimeout(timer);
    checking?.abort();
    timer = setTimeout(check, WAIT_MS);
  };
  const check = async () => {
    checking = new AbortController();
    try {
      const found = await api.post("/apply?dryRun=true", box.text(), { type: YAML, signal: checking.signal });
      good = found;
      const moved = found.changes.filter((change) => change.action !== "unchanged").length;
      box.mark([]);
      save.disabled = !moved;
      put(verdict, h("p", { class: "notice good" }, moved ? t("policies.good", { count: moved }) : t("policies.same")), warnings(found.warnings));
    } catch (error) {
      if (error.name === "AbortError") return;
      const lines = box.text().split("\n");
      box.mark((error.errors ?? []).map((one) => lineOf(lines, one.field)).filter((line) => line >= 0));
      put(verdict, refusal(error, (one) => box.go(Math.max(lineOf(lines, one.field), 0))));
    }
  };
  const review = async () => {
    const answer = good;
    if (!answer) return;
    const body = [changesList(answer.changes), warnings(answer.warnings)];
    if (!(await confirm(t("policies.review"), h("div", {}, body), t("policies.save"), "primary"))) return;
    // What would be typed until the saved document is shown would be lost with this editor.
    box.hold(true);
    try {
      const name = await write(answer);
      await done(name).finally(() => toast(t("policies.saved"), "good"));
    } catch (error) {
      box.hold(false);
      put(verdict, refusal(error.status === 412 ? Object.assign(error, { message: t("policies.moved") }) : error));
    }
  };
  const write = async (answer) => {
    const [kind, ...rest] = answer.changes[0].document.split("/");
    const name = rest.join("/");
    const plural = Object.keys(SINGULAR).find((key) => SINGULAR[key] === kind);
    if (answer.changes.length > 1) {
      await api.post("/apply", box.text(), { type: YAML });
      return plural === state.plural ? name : null;
    }
    // Against what was read: somebody else's change in between is not overwritten.
    const mine = plural === state.plural && name === state.name;
    const headers = mine ? { "if-match": state.etag } : { "if-none-match": "*" };
    await api.put(at(plural, name), box.text(), { type: YAML, headers });
    return plural === state.plural ? name : null;
  };
  const remove = async () => {
    if (!(await confirm(t("policies.ask.delete", { name: state.name }), t("policies.asks.delete"), t("policies.delete")))) return;
    try {
      await api.del(at(state.plural, state.name), { headers: { "if-match": state.etag } });
      toast(t("policies.deleted", { name: state.name }), "good");
      await done(null);
    } catch (error) {
      put(verdict, refusal(error));
    }
  };
  box.set(text);
  if (text !== state.saved) later();
  const buttons = mayWrite ? h("div", { class: "actions" }, save,
    button(t("policies.undo"), () => { box.set(state.saved || text); later(); }, { kind: "quiet" }),
    state.name ? button(t("policies.delete"), remove, { kind: "danger", "data-action": "delete" }) : null) : h("p", { class: "soft" }, state.owner ? null : t("policies.readOnly"));
  const owner = state.owner ? h("p", { class: "notice", "data-owner": state.owner }, badge(state.owner, "info"), " ", t("policies.owned", { owner: state.owner, kind: SINGULAR[state.plural].toLowerCase(), name: state.name })) : null;
  return card(state.name ?? t("policies.newOne"), owner, box.element, verdict, buttons);
}

function warnings(found) {
  return found?.length ? h("ul", { class: "notice warn problems" }, found.map((one) => h("li", {}, [one.document, one.field, one.message].filter(Boolean).join(" ")))) : null;
}

async function explain(panel, { api, params }) {
  const [models, tiers] = await Promise.all([api.get("/models"), api.get("/tiers")]);
  const list = (id, names) => h("datalist", { id }, names.map((name) => h("option", { value: name })));
  const input = (name, id, none) => h("input", { value: params.get(name) ?? "", list: id, placeholder: none, autocomplete: "off" });
  const model = input("model", "explain-models", models.items[0]?.metadata.name ?? "gpt-4o");
  if (!model.value) model.value = models.items[0]?.metadata.name ?? "";
  const tier = input("tier", "explain-tiers", t("policies.noTier"));
  const workload = input("workload", null, "default");
  const only = h("input", { type: "checkbox", checked: true });
  const out = h("div");
  let fields = [];
  const draw = () => {
    const shown = fields.filter((one) => !only.checked || one.policy);
    put(out, shown.length ? table([{ title: t("shell.field") }, { title: t("policies.value") }, { title: t("policies.setBy") }], shown.map((one) => [
      h("code", {}, one.field), h("code", {}, one.value === null ? "–" : plain(one.value)),
      one.policy ? h("a", { href: `/policies#kind=policies&name=${encodeURIComponent(one.policy)}` }, one.policy) : badge(t("policies.default")),
    ])) : empty(t("policies.allDefault")));
  };
  const ask = async () => {
    const query = new URLSearchParams({ model: model.value, tier: tier.value, workload: workload.value || "default" });
    try {
      fields = (await api.get(`/explain?${query}`)).fields;
      draw();
    } catch (error) {
      put(out, refusal(error));
    }
  };
  let waiting = null;
  for (const control of [model, tier, workload]) control.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 250); });
  only.addEventListener("change", draw);
  panel.append(card(null,
    h("p", { class: "soft" }, t("policies.explainHint")),
    h("div", { class: "row" }, field(t("policies.model"), model), field(t("policies.tier"), tier), field(t("policies.workload"), workload), h("label", { class: "check" }, only, t("policies.onlySet"))),
    list("explain-models", models.items.flatMap((one) => [one.metadata.name, ...(one.spec.aliases ?? [])])), list("explain-tiers", tiers.items.map((one) => one.metadata.name))), card(t("policies.inForce"), out));
  await ask();
}
