// Sidecars: who is connected, what each was pushed, what it serves, and why it refused something.
import { h, put } from "../dom.js";
import { ago, time } from "../format.js";
import { subscribe } from "../live.js";
import { virtualTable } from "../table.js";
import { badge, dialog, heading, select, tile } from "../widgets.js";

const EVERY_MS = 4000;
let end = null;

/** What is to be said of a sidecar in one word. */
export function stateOf(sidecar) {
  if (!sidecar.connected) return "gone";
  if (sidecar.nack) return "refused";
  return sidecar.inForce ? "inForce" : "behind";
}

const MARKS = { inForce: "good", behind: "warn", refused: "bad", gone: "" };
const URGENCY = { refused: 3, behind: 2, gone: 1, inForce: 0 };
const ENVOY = { live: "good", warming: "warn", draining: "warn", dead: "bad", unknown: "" };

export async function render(root, { api, t, params }) {
  let all = [];
  const filter = h("input", { type: "search", class: "wide", value: params.get("find") ?? "", placeholder: t("sidecars.filter"), "aria-label": t("sidecars.filter"), oninput: () => show() });
  const states = select([["", t("sidecars.anyState")], ...Object.keys(MARKS).map((state) => [state, t(`sidecars.${state}`)])], { "aria-label": t("sidecars.state"), onchange: () => show() });
  const place = h("div");
  let several = null; // whether there are several replicas of the control plane
  let rows = null;
  const tiles = Object.fromEntries(Object.keys(MARKS).map((state) => [state, tile(t(`sidecars.${state}`))]));
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const count = Object.fromEntries(Object.keys(MARKS).map((state) => [state, 0]));
    for (const sidecar of all) count[stateOf(sidecar)] += 1;
    for (const [state, number] of Object.entries(count)) tiles[state].set(String(number), t(`sidecars.${state}Note`), number && state === "refused" ? "bad" : "");
    const now = all.some((sidecar) => sidecar.replica);
    if (several !== now) {
      several = now;
      rows = grid(t, several);
      put(place, rows.element);
    }
    rows.rows(all.filter((sidecar) => (!states.value || stateOf(sidecar) === states.value) && (!wanted || found(sidecar, wanted))));
  };
  root.append(
    heading(t("page.sidecars"), filter, states),
    h("div", { class: "tiles small" }, Object.values(tiles).map((one) => one.element)),
    place,
  );
  const read = async () => {
    all = (await api.get("/sidecars")).items;
    show();
  };
  await read();
  const stop = subscribe(() => {});
  const timer = setInterval(() => read().catch(() => {}), EVERY_MS);
  end = () => {
    clearInterval(timer);
    stop();
  };
}

export function close() {
  end?.();
  end = null;
}

function found(sidecar, wanted) {
  return [sidecar.id, sidecar.workload, sidecar.replica, sidecar.nack, sidecar.pushed, sidecar.acknowledged, ...Object.entries(sidecar.labels ?? {}).map(([key, value]) => `${key}=${value}`)]
    .some((text) => text?.toLowerCase().includes(wanted));
}

/** How many revisions a sidecar is behind what it was pushed; versions begin with `r<revision>-`. */
export function lag(sidecar) {
  const revision = (version) => Number(/^r(\d+)/.exec(version)?.[1] ?? NaN);
  if (!sidecar.pushed) return null;
  if (!sidecar.acknowledged) return revision(sidecar.pushed);
  const found = revision(sidecar.pushed) - revision(sidecar.acknowledged);
  return Number.isNaN(found) ? null : Math.max(found, 0);
}

function grid(t, several) {
  const version = (text) => (text ? h("code", { title: text }, text) : h("span", { class: "soft" }, "–"));
  return virtualTable([
    { key: "id", title: t("sidecars.id"), width: "minmax(170px, 2fr)", sort: (row) => row.id, cell: (row) => row.id },
    { key: "workload", title: t("sidecars.workload"), width: "minmax(110px, 1fr)", sort: (row) => row.workload, cell: (row) => row.workload },
    { key: "state", title: t("sidecars.state"), width: "120px", sort: (row) => URGENCY[stateOf(row)], cell: (row) => badge(t(`sidecars.${stateOf(row)}`), MARKS[stateOf(row)]) },
    { key: "pushed", title: t("sidecars.pushed"), width: "180px", sort: (row) => row.pushed, cell: (row) => version(row.pushed) },
    { key: "acknowledged", title: t("sidecars.acknowledged"), width: "180px", sort: (row) => row.acknowledged, cell: (row) => version(row.acknowledged) },
    { key: "lag", title: t("sidecars.lag"), width: "90px", numeric: true, sort: lag, cell: (row) => (lag(row) ? h("span", { class: "warn-ink" }, String(lag(row))) : lag(row) === 0 ? "0" : "–") },
    { key: "envoy", title: "Envoy", width: "110px", sort: (row) => row.envoy, cell: (row) => badge(t(`sidecars.envoy.${row.envoy ?? "unknown"}`), ENVOY[row.envoy] ?? "") },
    ...(several ? [{ key: "replica", title: t("sidecars.replica"), width: "minmax(110px, 1fr)", sort: (row) => row.replica, cell: (row) => row.replica }] : []),
    { key: "nack", title: t("sidecars.reason"), width: "minmax(140px, 2fr)", sort: (row) => row.nack ?? "", cell: (row) => (row.nack ? h("span", { class: "bad-ink", title: row.nack }, row.nack) : "") },
  ], { label: t("page.sidecars"), sort: ["state", true], none: t("sidecars.none"), onopen: (row) => details(row, t) });
}

function details(sidecar, t) {
  const facts = [
    [t("sidecars.workload"), sidecar.workload],
    [t("sidecars.state"), badge(t(`sidecars.${stateOf(sidecar)}`), MARKS[stateOf(sidecar)])],
    [t("sidecars.pushed"), h("code", {}, sidecar.pushed || "–")],
    [t("sidecars.acknowledged"), h("code", {}, sidecar.acknowledged || "–")],
    [t("sidecars.since"), `${time(sidecar.connectedAt)} (${t("sidecars.ago", { text: ago(sidecar.connectedAt) })})`],
    [t("sidecars.build"), sidecar.build || "–"],
    ["Envoy", `${t(`sidecars.envoy.${sidecar.envoy ?? "unknown"}`)} ${sidecar.envoyVersion ?? ""}`],
    [t("sidecars.labels"), Object.entries(sidecar.labels ?? {}).map(([key, value]) => badge(`${key}=${value}`))],
  ];
  if (sidecar.replica) facts.push([t("sidecars.replica"), sidecar.replica]);
  if (sidecar.nack) facts.push([t("sidecars.reason"), h("span", { class: "bad-ink" }, sidecar.nack)]);
  dialog(sidecar.id, [h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), put(h("dd", {}), [value].flat())]))]);
}
