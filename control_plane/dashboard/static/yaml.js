// Documents written as YAML, and where in a YAML text a field stands. The API reads; nothing is parsed here.

const PLAIN = /^[A-Za-z_/][A-Za-z0-9_./@ -]*$/;
const AMOUNT = /^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$|^[0-9]+(B|KiB|MiB|GiB)$/;
const WORDS = /^(y|n|yes|no|on|off|true|false|null|~)$/i;
const SHORT = 76;

/** Return `value` as YAML (block style, small lists and mappings in one line). */
export function toYaml(value, indent = 0) {
  const pad = " ".repeat(indent);
  if (Array.isArray(value)) return value.map((item) => `${pad}- ${nested(item, indent)}`).join("");
  return Object.entries(value).map(([key, item]) => {
    if (!container(item)) return `${pad}${scalar(key)}: ${scalar(item)}\n`;
    const line = flow(item);
    if (indent + key.length + line.length < SHORT && (indent > 0 || key === "metadata")) return `${pad}${scalar(key)}: ${line}\n`;
    return `${pad}${scalar(key)}:\n${toYaml(item, indent + 2)}`;
  }).join("");
}

function nested(item, indent) {
  if (!container(item)) return `${scalar(item)}\n`;
  const line = flow(item);
  return indent + line.length < SHORT ? `${line}\n` : toYaml(item, indent + 2).trimStart();
}

const container = (value) => value !== null && typeof value === "object";

function flow(value) {
  if (!container(value)) return scalar(value);
  if (Array.isArray(value)) return `[${value.map(flow).join(", ")}]`;
  return `{${Object.entries(value).map(([key, item]) => `${scalar(key)}: ${flow(item)}`).join(", ")}}`;
}

function scalar(value) {
  if (typeof value !== "string") return JSON.stringify(value);
  const safe = (PLAIN.test(value) || AMOUNT.test(value)) && !WORDS.test(value) && !value.endsWith(" ");
  return safe ? value : JSON.stringify(value);
}

/** Return the keys that lead to the line `at`, by indentation: ["spec", "cache"]. Flow style is not followed. */
export function pathAt(lines, at) {
  const path = [];
  let depth = indentOf(lines[at]);
  for (let line = at - 1; line >= 0; line--) {
    if (!lines[line].trim() || lines[line].trim().startsWith("#")) continue;
    if (lines[line].startsWith("---")) break;
    const indent = indentOf(lines[line]);
    if (indent >= depth) continue;
    const key = /^\s*(?:- )?"?([\w.-]+)"?\s*:/.exec(lines[line])?.[1];
    if (key) path.unshift(key);
    depth = indent;
    if (depth === 0) break;
  }
  return path;
}

/** Return the number of the line that sets `field` ("spec.cache.ttl"), or of the nearest key above it; -1 for none. */
export function lineOf(lines, field) {
  const keys = field.replace(/\[\d+\]/g, "").split(".").filter(Boolean);
  let from = 0;
  let found = -1;
  for (const key of keys) {
    const at = lines.findIndex((line, number) => number >= from && new RegExp(`(^|[\\s{,"-])${key.replace(/\W/g, "\\$&")}"?\\s*:`).test(line));
    if (at < 0) break;
    [found, from] = [at, at];
  }
  return found;
}

const indentOf = (line) => line.length - line.replace(/^\s+/, "").length;
