// Numbers and times as people read them, in the language in use.
import { language } from "./i18n.js";

const NONE = "–";
const made = new Map();

function formatter(options) {
  const key = language + JSON.stringify(options);
  if (!made.has(key)) made.set(key, new Intl.NumberFormat(language === "zh" ? "zh-CN" : "en", options));
  return made.get(key);
}

const missing = (value) => value === null || value === undefined || Number.isNaN(value);

/** 12345 → 12,345; large ones short if `short`. */
export function number(value, { short = false, digits } = {}) {
  if (missing(value)) return NONE;
  if (short && Math.abs(value) >= 10_000) return formatter({ notation: "compact", maximumFractionDigits: 1 }).format(value);
  return formatter({ maximumFractionDigits: digits ?? (Math.abs(value) < 10 && !Number.isInteger(value) ? 1 : 0) }).format(value);
}

/** 0.123 → 12.3 %. */
export function share(value) {
  return missing(value) ? NONE : formatter({ style: "percent", maximumFractionDigits: value && value < 0.1 ? 2 : 1 }).format(value);
}

/** Milliseconds → 840 ms, 1.24 s. */
export function millis(value) {
  if (missing(value)) return NONE;
  return value < 1000 ? `${number(value, { digits: value < 10 ? 1 : 0 })} ms` : `${number(value / 1000, { digits: 2 })} s`;
}

/** Microseconds → 8.2 µs, 640 µs, and from a thousand on milliseconds. */
export function micros(value) {
  if (missing(value)) return NONE;
  return value < 1000 ? `${number(value, { digits: value < 100 ? 1 : 0 })} µs` : millis(value / 1000);
}

/** Seconds → 12 s, 3 min, 5 h, 2 d: the largest unit that fits. */
export function span(seconds) {
  if (missing(seconds)) return NONE;
  for (const [size, unit] of [[86400, "day"], [3600, "hour"], [60, "minute"]]) {
    if (Math.abs(seconds) >= size) return formatter({ style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 1 }).format(seconds / size);
  }
  return formatter({ style: "unit", unit: "second", unitDisplay: "short", maximumFractionDigits: 0 }).format(seconds);
}

/** Bytes → 1.2 MiB. */
export function bytes(value) {
  if (missing(value)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let step = 0;
  while (value >= 1024 && step < units.length - 1) [value, step] = [value / 1024, step + 1];
  return `${number(value, { digits: step ? 1 : 0 })} ${units[step]}`;
}

/** An amount in the currency of the Models' prices, which nobody names. */
export function money(value) {
  return missing(value) ? NONE : formatter({ minimumFractionDigits: 2, maximumFractionDigits: value && Math.abs(value) < 1 ? 4 : 2 }).format(value);
}

/** An RFC 3339 time → local date and time. */
export function time(text) {
  if (!text) return NONE;
  return new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en", { dateStyle: "medium", timeStyle: "medium" }).format(new Date(text));
}

/** A time → clock time only. */
export function clock(at) {
  return new Intl.DateTimeFormat(language === "zh" ? "zh-CN" : "en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false }).format(at);
}

/** An RFC 3339 time → how long ago. */
export function ago(text) {
  return text ? span((Date.now() - new Date(text)) / 1000) : NONE;
}
