// Audit: who did or tried what; revisions with what each changed, and the way back to one.
import { visitor } from "../api.js";
import { changesList } from "../changes.js";
import { h, put } from "../dom.js";
import { time } from "../format.js";
import { t } from "../i18n.js";
import { refusal } from "../problems.js";
import { virtualTable } from "../table.js";
import { badge, button, card, confirm, dialog, field, heading, select, table, tabs, toast } from "../widgets.js";

const PAGE = 200;
const OUTCOMES = { ok: "good", forbidden: "bad", refused: "warn" };

export async function render(root, context) {
  root.append(heading(t("page.audit")), tabs([
    { name: "audit", title: t("audit.audit"), render: (panel) => rows(panel, context) },
    { name: "revisions", title: t("audit.revisions"), render: (panel) => revisions(panel, context) },
  ], context.params.get("revision") ? "revisions" : "audit"));
}

async function rows(panel, { api }) {
  const filter = h("input", { type: "search", placeholder: t("audit.filter"), "aria-label": t("audit.filter") });
  const outcome = select([["", t("shell.all")], ["ok", t("audit.outcome.ok")], ["forbidden", t("audit.outcome.forbidden")]], { "aria-label": t("audit.outcome") });
  const more = button(t("audit.older"), () => load(), { kind: "quiet", "data-action": "older" });
  const shown = virtualTable(
    [
      { key: "at", title: t("audit.at"), width: "212px", cell: (row) => time(row.at) },
      { key: "actor", title: t("audit.actor"), width: "minmax(120px, 1fr)", cell: (row) => h("span", {}, row.actor, " ", h("small", {}, row.role)) },
      { key: "action", title: t("audit.action"), width: "90px", cell: (row) => row.action },
      { key: "target", title: t("audit.target"), width: "minmax(150px, 2fr)", cell: (row) => row.target || "–" },
      { key: "outcome", title: t("audit.outcome"), width: "96px", cell: (row) => badge(named(row.outcome), OUTCOMES[row.outcome] ?? "warn") },
      { key: "revision", title: t("audit.revision"), width: "86px", numeric: true, cell: (row) => (row.revision ? h("a", { href: `/audit#revision=${row.revision}` }, String(row.revision)) : "–") },
      { key: "source", title: t("audit.source"), width: "104px", cell: (row) => row.source },
      { key: "detail", title: t("audit.detail"), width: "minmax(130px, 2fr)", cell: (row) => row.detail || "–" },
    ],
    { label: t("audit.audit"), none: t("shell.nothing") },
  );
  let all = [];
  const draw = () => {
    const wanted = filter.value.trim().toLowerCase();
    shown.rows(all.filter((row) => (!outcome.value || row.outcome === outcome.value)
      && (!wanted || [row.actor, row.role, row.action, row.target, row.source, row.detail, String(row.revision ?? "")].some((text) => text.toLowerCase().includes(wanted)))));
  };
  const load = async () => {
    const before = all.length ? `&before=${all.at(-1).id}` : "";
    const found = (await api.get(`/audit?limit=${PAGE}${before}`)).items;
    all = all.concat(found);
    more.hidden = found.length < PAGE;
    draw();
  };
  filter.addEventListener("input", draw);
  outcome.addEventListener("change", draw);
  panel.append(h("div", { class: "row filters" }, h("div", { class: "grow" }, filter), outcome), shown.element, more);
  await load();
}

const named = (outcome) => (t(`audit.outcome.${outcome}`) === `audit.outcome.${outcome}` ? outcome : t(`audit.outcome.${outcome}`));

async function revisions(panel, { api, params }) {
  let all = [];
  const place = h("div");
  const more = button(t("audit.older"), () => load(), { kind: "quiet" });
  const columns = ["revision", "at", "actor", "action", "changes"].map((key) => ({ title: t(`audit.${key}`), numeric: key === "revision" }));
  const draw = () => put(place, card(null, table([...columns, { title: "" }], all.map((one) => [
    h("strong", {}, String(one.revision)), time(one.at), one.actor,
    h("span", {}, one.action, one.rolledBackTo ? ` → ${one.rolledBackTo}` : "", " ", one.state === "halted" ? badge(t("audit.halted"), "bad") : null),
    summary(one.changes), h("div", { class: "actions tight" }, button(t("audit.open"), () => open(one.revision), { "data-revision": one.revision })),
  ]))));
  const load = async () => {
    const before = all.length ? `&before=${all.at(-1).revision}` : "";
    const found = (await api.get(`/revisions?limit=100${before}`)).items;
    all = all.concat(found);
    more.hidden = found.length < 100;
    draw();
  };
  const again = async () => { all = []; await load(); };
  const open = (number) => show(api, number, all[0]?.revision ?? number, again);
  panel.append(place, more);
  await load();
  if (params.get("revision")) await open(Number(params.get("revision")));
}

function summary(changes) {
  if (!changes.length) return h("span", { class: "soft" }, "–");
  const shown = changes.slice(0, 3).map((change) => `${change.document}`).join(", ");
  return h("span", {}, shown, changes.length > 3 ? h("small", {}, ` +${changes.length - 3}`) : null);
}

async function show(api, number, newest, again) {
  const found = await api.get(`/revisions/${number}`);
  const place = h("div");
  const against = h("input", { type: "number", min: 0, max: newest, value: Math.max(number - 1, 0) });
  const compare = async () => {
    try {
      put(place, changesList((await api.get(`/revisions/${number}/diff?against=${Number(against.value)}`)).changes));
    } catch (error) {
      put(place, refusal(error));
    }
  };
  against.addEventListener("change", compare);
  const back = async () => {
    // What the way back would change is what lies between now and then.
    const { changes } = await api.get(`/revisions/${number}/diff?against=${newest}`);
    if (!(await confirm(t("audit.ask", { number }), h("div", {}, h("p", {}, t("audit.asks")), changesList(changes)), t("audit.rollback")))) return;
    try {
      const applied = await api.post(`/revisions/${number}/rollback`);
      box.close();
      toast(t("audit.did", { number, revision: applied.revision }), "good");
      await again();
    } catch (error) {
      put(place, refusal(error));
    }
  };
  const mayGoBack = visitor.may("editor", "revisions:write") && number < newest;
  const box = dialog(t("audit.title", { number }), [
    h("dl", { class: "facts" }, [
      [t("audit.at"), time(found.at)], [t("audit.actor"), `${found.actor} (${found.source})`], [t("audit.action"), found.action],
      ...(found.reason || found.detail ? [[t("audit.detail"), [found.reason, found.detail].filter(Boolean).join(": ")]] : []),
    ].map(([term, text]) => [h("dt", {}, term), h("dd", {}, text)])),
    h("div", { class: "row" }, field(t("audit.against"), against)), place,
  ], [button(t("shell.close"), () => box.close(), { kind: "quiet" }), mayGoBack ? button(t("audit.rollback"), back, { kind: "danger", "data-action": "rollback" }) : null].filter(Boolean));
  box.classList.add("wide");
  await compare();
}
