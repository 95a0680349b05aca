// Charts as SVG: a line in a tile, lines over time, bars. Colours are classes (s0…s5, f0…f5), so they follow the theme.
import { h, put, s } from "./dom.js";

const known = (values) => values.filter((value) => value !== null && value !== undefined);

/** Draw a small line without axes into `element`; null leaves a gap. `colour`: 0…5 or "bad". */
export function sparkline(element, values, { colour = 0, floor = 0 } = {}) {
  const top = Math.max(...known(values), floor, 1e-9) * 1.15;
  const x = (at) => (values.length > 1 ? (at / (values.length - 1)) * 200 : 0);
  const y = (value) => 38 - (value / top) * 36;
  const [path, area] = paths(values, x, y, 40);
  let svg = element.firstChild;
  if (!svg) {
    svg = s("svg", { viewBox: "0 0 200 40", preserveAspectRatio: "none" }, s("path", { class: `area f${colour}` }), s("path", { class: `stroke s${colour}` }));
    put(element, svg);
  }
  svg.firstChild.setAttribute("d", area);
  svg.lastChild.setAttribute("d", path);
}

function paths(values, x, y, bottom) {
  let path = "";
  let area = "";
  let from = null;
  const end = (at) => {
    if (from !== null) area += `L${x(at).toFixed(1)} ${bottom}L${x(from).toFixed(1)} ${bottom}Z`;
    from = null;
  };
  values.forEach((value, at) => {
    if (value === null || value === undefined) {
      end(at - 1);
      return;
    }
    const point = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    path += `${from === null ? "M" : "L"}${point}`;
    area += `${from === null ? "M" : "L"}${point}`;
    if (from === null) from = at;
  });
  end(values.length - 1);
  return [path, area];
}

/** Return a top for an axis that is a round number, and its ticks. */
export function scale(most) {
  if (!(most > 0)) return [1, [0, 1]];
  const rough = most / 3;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const ticks = [];
  for (let tick = 0; tick < most + step; tick += step) ticks.push(tick);
  return [ticks.at(-1), ticks];
}

/**
 * A chart of lines over time. `lines`: [{name, values, colour, area}]; `labels`: [[position 0…1, text]] below;
 * `format(value)` writes the axis; `label` tells the chart to those who cannot see it; with
 * `width` in pixels of the page texts keep their size.
 */
export function lineChart({ lines, labels = [], format = String, label = "", height = 170, width = 640 }) {
  const [left, right, upper, lower] = [52, 8, 8, 22];
  const [top, ticks] = scale(Math.max(...lines.flatMap((line) => known(line.values)), 0));
  const y = (value) => upper + (1 - value / top) * (height - upper - lower);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const tick of ticks) {
    svg.append(s("line", { class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }), s("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, format(tick)));
  }
  for (const [at, text] of labels) svg.append(s("text", { x: left + at * (width - left - right), y: height - 5, "text-anchor": at === 0 ? "start" : at === 1 ? "end" : "middle" }, text));
  for (const line of lines) {
    const x = (at) => left + (line.values.length > 1 ? at / (line.values.length - 1) : 0) * (width - left - right);
    const [path, area] = paths(line.values, x, y, height - lower);
    if (line.area) svg.append(s("path", { class: `area f${line.colour}`, d: area }));
    svg.append(s("path", { class: `stroke s${line.colour}`, d: path }));
  }
  const legend = lines.length > 1 ? h("ul", { class: "legend" }, lines.map((line) => h("li", {}, h("i", { class: `b${line.colour}` }), line.name))) : null;
  return h("div", {}, legend, svg);
}

/** A chart of bars: [{name, value}]; `format(value)` is written over each. */
export function barChart({ bars, format = String, label = "", height = 170, colour = 0, width = 640 }) {
  const most = Math.max(...bars.map((bar) => bar.value), 1e-9);
  const room = width / Math.max(bars.length, 1);
  const svg = s("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  bars.forEach((bar, at) => {
    const tall = (bar.value / most) * (height - 48);
    const middle = at * room + room / 2;
    svg.append(
      s("rect", { class: `f${colour}`, x: at * room + room * 0.16, y: height - 22 - tall, width: room * 0.68, height: Math.max(tall, bar.value ? 1.5 : 0), rx: 3 }),
      s("text", { x: middle, y: height - 28 - tall, "text-anchor": "middle" }, bar.value ? format(bar.value) : ""),
      s("text", { x: middle, y: height - 6, "text-anchor": "middle" }, bar.name));
  });
  return svg;
}

/** A bar that is full at 1; it warns from 0.8 on. */
export function meter(part, label) {
  const fill = h("i");
  fill.style.width = `${Math.min(Math.max(part, 0), 1) * 100}%`;
  return h("span", { class: `bar ${part >= 1 ? "bad" : part >= 0.8 ? "warn" : ""}`, role: "img", "aria-label": label }, fill);
}
