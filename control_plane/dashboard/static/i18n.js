// English and Chinese. `i18n/<language>/<page>.json` holds a page's texts; `shell.json` those of all pages.

const KEPT = "outrigger.language";
const texts = {};

/** The language in use: "en" or "zh". */
export let language = first();

function first() {
  const kept = localStorage.getItem(KEPT);
  if (kept === "en" || kept === "zh") return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

/** Read the texts of `area` ("shell", or a page's name). */
export async function load(area) {
  const answer = await fetch(`/assets/i18n/${language}/${area}.json`);
  if (answer.ok) for (const [key, text] of Object.entries(await answer.json())) texts[`${area}.${key}`] = text;
}

/** Return the text of `key` ("page.key"), with each `{name}` replaced; the key itself if there is none. */
export function t(key, values = {}) {
  const text = texts[key] ?? texts[`shell.${key}`] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** Return the text, or `other` where there is none. */
export const maybe = (key, other) => texts[key] ?? texts[`shell.${key}`] ?? other;

/** Change the language for good. */
export async function choose(chosen) {
  language = chosen;
  localStorage.setItem(KEPT, chosen);
  for (const key of Object.keys(texts)) delete texts[key];
  await load("shell");
}

/** Put the language in use into everything below `root` that names a text by data-t or data-t-label. */
export function apply(root = document) {
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of root.querySelectorAll("[data-t-label]")) {
    element.setAttribute("aria-label", t(element.dataset.tLabel));
    element.title = t(element.dataset.tLabel);
  }
}
