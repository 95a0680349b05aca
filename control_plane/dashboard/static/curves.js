// Releases as pictures: the track of their steps, both versions' times and error rates.
import { scale } from "./charts.js";
import { h, s } from "./dom.js";
import { millis, number, share } from "./format.js";
import { t } from "./i18n.js";
import { badge } from "./widgets.js";

const MARKS = {
  pending: "", progressing: "info", paused: "warn", promoting: "info", done: "good", "rolling-back": "bad", "rolled-back": "bad", aborted: "bad",
};
export const ENDED = ["done", "rolled-back", "aborted"];
export const STUCK = [...ENDED, "promoting", "rolling-back"];

export const phaseBadge = (phase) => badge(t(`releases.phase.${phase}`), MARKS[phase] ?? "");

/** The steps of a Release, each done, current or to come; the shadow before the first, where there is one. */
export function track(spec, status) {
  const steps = (spec.steps ?? [5, 25, 50, 100]).map((step, at) => [at + 1, share(step / 100)]);
  if (spec.shadow) steps.unshift([0, t("releases.shadow")]);
  const whole = ["promoting", "done"].includes(status?.phase);
  const back = ["rolling-back", "rolled-back", "aborted"].includes(status?.phase);
  const state = (step) => {
    if (whole || (!back && step < (status?.step ?? 0))) return "done";
    if (step === status?.step) return back ? "failed" : status.phase === "paused" ? "held" : "now";
    return back && step < (status?.step ?? 0) ? "past" : "";
  };
  return h("ol", { class: "track", "aria-label": t("releases.steps") }, steps.map(([step, name]) => {
    const found = state(step);
    return h("li", { class: found, "aria-current": found === "now" || found === "held" ? "step" : null },
      h("i", { "aria-hidden": "true" }, found === "done" ? "✓" : found === "failed" ? "✕" : found === "held" ? "‖" : ""), h("b", {}, name));
  }));
}

// Small screens get a smaller picture, not a shrunken one.
const wide = () => (innerWidth < 760 ? 380 : 640);
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 12, 10, 26];

/** How long calls took: the share of each version's calls by time (logarithmic), with the p95 of each. */
export function latencyChart(sides, label, height = 210) {
  const width = wide();
  const all = sides.flatMap((side) => side.durations.map((one) => one.upToMs));
  if (!all.length) return null;
  const low = Math.log(Math.min(...all) / 1.2);
  const high = Math.log(Math.max(...all) * 1.15);
  const x = (ms) => LEFT + ((Math.log(ms) - low) / Math.max(high - low, 0.1)) * (width - LEFT - RIGHT);
  const lines = sides.map((side) => ({ ...side, points: density(side.durations) }));
  const most = Math.max(...lines.flatMap((line) => line.points.map(([, part]) => part)), 0.01) * 1.1;
  const y = (part) => TOP + (1 - part / most) * (height - TOP - BOTTOM);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const part of [0, most / 2, most]) {
    svg.append(s("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(part), y2: y(part) }), s("text", { x: LEFT - 8, y: y(part) + 4, "text-anchor": "end" }, share(part)));
  }
  for (const ms of times(Math.exp(low), Math.exp(high))) svg.append(s("text", { x: x(ms), y: height - 7, "text-anchor": "middle" }, millis(ms)));
  for (const line of lines) {
    if (!line.points.length) continue;
    const drawn = line.points.map(([ms, part]) => `${x(ms).toFixed(1)} ${y(part).toFixed(1)}`).join("L");
    const [first, last] = [line.points[0][0], line.points.at(-1)[0]];
    svg.append(s("path", { class: `area f${line.colour}`, d: `M${x(first)} ${y(0)}L${drawn}L${x(last)} ${y(0)}Z` }), s("path", { class: `stroke s${line.colour}`, d: `M${drawn}` }));
  }
  const marked = lines.filter((line) => line.p95);
  for (const line of marked) {
    // The lesser one's text stands on its left, so that neither covers the other.
    const isLess = marked.some((other) => other !== line && (other.p95 > line.p95 || (other.p95 === line.p95 && other.colour < line.colour)));
    const atLeft = isLess || x(line.p95) > width - 90;
    svg.append(s("line", { class: `stroke dashed s${line.colour}`, x1: x(line.p95), x2: x(line.p95), y1: TOP, y2: y(0) }),
      s("text", { x: x(line.p95) + (atLeft ? -5 : 5), y: TOP + (isLess || marked.length < 2 ? 10 : 24), "text-anchor": atLeft ? "end" : "start", class: `f${line.colour}` }, `p95 ${millis(line.p95)}`));
  }
  return h("div", {}, legend(lines), svg);
}

/** Smooth the counts of neighbouring buckets; a bucket that nothing fell into is 0. */
function density(durations) {
  const counts = new Map(durations.map((one) => [bucket(one.upToMs), one.calls]));
  if (!counts.size) return [];
  const total = durations.reduce((sum, one) => sum + one.calls, 0);
  const at = (place) => counts.get(place) ?? 0;
  const points = [];
  for (let place = Math.min(...counts.keys()) - 2; place <= Math.max(...counts.keys()) + 2; place++) {
    points.push([1.1 ** (place - 0.5), (at(place - 1) + 2 * at(place) + at(place + 1)) / 4 / total]);
  }
  return points;
}

const bucket = (ms) => Math.round(Math.log(ms) / Math.log(1.1));

function times(low, high) {
  const found = [];
  for (let power = -1; power < 7; power++) for (const one of [1, 1.5, 2, 3, 5, 7]) {
    const ms = one * 10 ** power;
    if (ms > low * 1.05 && ms < high / 1.05) found.push(ms);
  }
  const every = Math.ceil(found.length / (wide() / 80));
  return found.filter((_, at) => at % every === 0);
}

/** Return where a rate of `bad` in `calls` lies with 95 % confidence (Wilson): [low, high]. */
export function interval(bad, calls) {
  if (!calls) return [0, 1];
  const z = 1.96;
  const rate = bad / calls;
  const middle = rate + (z * z) / (2 * calls);
  const half = z * Math.sqrt((rate * (1 - rate)) / calls + (z * z) / (4 * calls * calls));
  const whole = 1 + (z * z) / calls;
  return [Math.max((middle - half) / whole, 0), Math.min((middle + half) / whole, 1)];
}

/** Error rates of both versions with their intervals; `limit`: how much more the new one's may be. */
export function errorChart(sides, limit, label) {
  const width = wide();
  const height = 40 + 46 * sides.length;
  const found = sides.filter((side) => side.requests);
  if (!found.length) return null;
  const ends = found.flatMap((side) => interval(side.errors, side.requests));
  const old = sides[0].requests ? sides[0].errors / sides[0].requests : null;
  const bound = old === null || limit === undefined ? null : Math.min(old + limit, 1);
  const [most, ticks] = scale(Math.min(Math.max(...ends, bound ?? 0, 0.01), 1));
  const left = width < 500 ? 96 : 130;
  const x = (rate) => left + (rate / most) * (width - left - 70);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const tick of ticks) svg.append(s("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 8, y2: height - 24 }), s("text", { x: x(tick), y: height - 7, "text-anchor": "middle" }, share(tick)));
  sides.forEach((side, at) => {
    const y = 30 + 46 * at;
    svg.append(s("text", { x: left - 12, y: y + 4, "text-anchor": "end" }, cut(side.name)));
    if (!side.requests) return;
    const [low, high] = interval(side.errors, side.requests);
    svg.append(s("line", { class: `stroke wide s${side.colour}`, x1: x(low), x2: x(high), y1: y, y2: y }),
      s("circle", { class: `f${side.colour}`, cx: x(side.errors / side.requests), cy: y, r: 6 }),
      s("text", { x: x(high) + 10, y: y + 4 }, share(side.errors / side.requests)));
  });
  if (bound !== null) svg.append(s("line", { class: "stroke dashed sbad", x1: x(bound), x2: x(bound), y1: 8, y2: height - 24 }));
  return svg;
}

const cut = (name) => { const room = wide() < 500 ? 12 : 16; return name.length > room ? `${name.slice(0, room - 1)}…` : name; };

function legend(lines) {
  return h("ul", { class: "legend" }, lines.map((line) => h("li", {}, h("i", { class: `b${line.colour}` }), line.name)));
}

/** A figure of a gate as it is read. */
export function figure(gate, value) {
  if (value === null || value === undefined) return "–";
  if (gate === "errorRate" || gate === "refusalRate") return share(value);
  return gate.endsWith("P95") ? millis(value) : number(value, { digits: 2 });
}

/** How sure the evidence makes: 1 − 1/evidence, 0 without any. */
export const confidence = (evidence) => Math.max(0, 1 - 1 / Math.max(evidence, 1));
