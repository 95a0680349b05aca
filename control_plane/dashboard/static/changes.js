// What differs: documents with their fields, before and after.
import { h } from "./dom.js";
import { t } from "./i18n.js";
import { badge } from "./widgets.js";

const MARKS = { create: "good", update: "info", delete: "bad", unchanged: "" };

/** Return the changes of an API answer as elements; what is unchanged is only counted. */
export function changesList(changes) {
  const moved = changes.filter((change) => change.action !== "unchanged");
  if (!moved.length) return h("p", { class: "soft" }, t("shell.noChange"));
  return h("div", { class: "changes" }, moved.map((change) => h("section", {},
    h("h3", {}, badge(t(`shell.action.${change.action}`), MARKS[change.action]), " ", h("code", {}, change.document)),
    change.fields?.length ? h("table", { class: "diff" },
      h("thead", {}, h("tr", {}, ["field", "before", "after"].map((name) => h("th", { scope: "col" }, t(`shell.${name}`))))),
      h("tbody", {}, change.fields.map((field) => h("tr", {},
        h("th", { scope: "row" }, h("code", {}, field.field)),
        h("td", {}, written(field.before, "del")),
        h("td", {}, written(field.after, "ins")))))) : null)));
}

/** Return a value as it is written in a document. */
export function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function written(value, tag) {
  return value === null || value === undefined ? h("span", { class: "soft" }, "–") : h(tag, {}, h("code", {}, plain(value)));
}
