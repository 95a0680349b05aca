// Playground: a prompt through a proxy; the answer as it comes, what each stage decided, and when.
import { api as calls } from "../api.js";
import { h, put, say } from "../dom.js";
import { bytes, millis } from "../format.js";
import { t } from "../i18n.js";
import { refusal } from "../problems.js";
import { stageTable } from "../stages.js";
import { badge, button, card, empty, field, heading, select, table } from "../widgets.js";

let running = null; // aborts the call that is under way

export async function render(root, { api, visitor }) {
  root.append(heading(t("page.playground")));
  if (!visitor.may("editor", "playground:write")) {
    root.append(empty(t("playground.viewer"), t("playground.viewerHint")));
    return;
  }
  const found = await api.get("/playground");
  if (!found.proxy) {
    root.append(card(null, empty(t("playground.noProxy"), t("playground.noProxyHint"), h("p", {}, h("code", {}, found.hint)))));
    return;
  }
  const [models, tiers] = await Promise.all([api.get("/models"), api.get("/tiers")]);
  const form = fields(models.items, tiers.items);
  const out = h("div", { class: "played" }, card(null, empty(t("playground.idle"), t("playground.idleHint"))));
  const send = button(t("playground.send"), () => run(), { kind: "primary", "data-action": "send" });
  const stop = button(t("playground.stop"), () => running?.abort(), { hidden: true, "data-action": "stop" });
  const element = h("form", {}, form.elements, h("div", { class: "actions" }, send, stop, h("kbd", {}, "Ctrl ⏎")), h("p", { class: "soft" }, t("playground.through", { proxy: found.proxy }), " ", t("playground.costs")));
  const run = async () => {
    if (!element.reportValidity()) return;
    send.disabled = true;
    stop.hidden = false;
    running = new AbortController();
    try {
      await play(out, form.order(), running.signal, api);
    } finally {
      running = null;
      send.disabled = false;
      stop.hidden = true;
    }
  };
  element.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  element.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(); });
  root.append(h("div", { class: "split play" }, h("div", { class: "card side" }, element), out));
}

export function close() {
  running?.abort();
}

function fields(models, tiers) {
  const model = h("input", { required: true, list: "play-models", value: models[0]?.metadata.name ?? "", autocomplete: "off" });
  const names = h("datalist", { id: "play-models" }, models.flatMap((one) => [one.metadata.name, ...(one.spec.aliases ?? [])]).map((name) => h("option", { value: name })));
  const tier = select([["", t("playground.noTier")], ...tiers.filter((one) => one.spec.match).map((one) => [one.metadata.name, one.metadata.name])]);
  const prompt = h("textarea", { required: true, rows: 5, placeholder: t("playground.promptHint") });
  const system = h("textarea", { rows: 2 });
  const stream = h("input", { type: "checkbox", checked: true });
  const cache = select([["", t("playground.cacheAs")], ["no-store", "no-store"], ["refresh", "refresh"], ["only", "only"]]);
  const session = h("input", { autocomplete: "off" });
  const key = h("input", { type: "password", autocomplete: "off", placeholder: "ork_…" });
  const temperature = h("input", { type: "number", min: 0, max: 2, step: "any" });
  const most = h("input", { type: "number", min: 1, step: 1 });
  const elements = [
    field(t("playground.model"), model), names, field(t("playground.tier"), tier), field(t("playground.prompt"), prompt),
    h("label", { class: "check" }, stream, t("playground.stream")),
    h("details", {}, h("summary", {}, t("playground.more")), field(t("playground.system"), system), field(t("playground.cache"), cache), field(t("playground.session"), session),
      field(t("playground.key"), key, t("playground.keyHint")), field(t("playground.temperature"), temperature), field(t("playground.maxTokens"), most)),
  ];
  const order = () => Object.fromEntries(Object.entries({
    model: model.value.trim(), prompt: prompt.value, system: system.value, tier: tier.value, cache: cache.value, session: session.value.trim(), key: key.value.trim(),
    temperature: temperature.value === "" ? "" : Number(temperature.value), maxTokens: most.value === "" ? "" : Number(most.value), stream: stream.checked,
  }).filter(([, value]) => value !== ""));
  return { elements, order };
}

async function play(out, order, signal, api) {
  const answer = h("div", { class: "answer", "aria-live": "polite" });
  const state = h("span", { class: "soft" }, t("playground.waiting"));
  const stages = h("div");
  const raw = h("pre", { class: "raw", tabindex: "0", "aria-label": t("playground.raw") });
  const heads = h("div");
  put(out,
    card(null, h("div", { class: "heading" }, h("h2", {}, t("playground.answer")), state), answer),
    card(t("playground.stages"), stages),
    card(null, h("details", {}, h("summary", {}, t("playground.headers")), heads), h("details", {}, h("summary", {}, t("playground.raw")), raw)));
  const seen = { status: null, headers: new Map(), head: null, first: null, end: null, text: "", said: "", failed: "" };
  const policy = api.get(`/explain?${new URLSearchParams({ model: order.model, tier: order.tier ?? "" })}`).then((found) => found.fields, () => []);
  const draw = async () => put(stages, stageTable(order, seen, await policy));
  try {
    const response = await calls.full("POST", "/playground", { body: order, signal, raw: true, headers: { accept: "text/event-stream" } });
    for await (const [name, data] of events(response.body)) {
      take(seen, name, data);
      if (name === "head") {
        put(heads, table([{ title: t("playground.header") }, { title: t("playground.value") }], data.headers.map(([key, value]) => [h("code", {}, key), h("code", {}, value)])));
        draw();
      }
      say(answer, seen.said);
      say(raw, seen.text.slice(0, 200_000));
      put(state, verdict(seen));
    }
  } catch (error) {
    if (error.name === "AbortError") seen.failed = t("playground.stopped");
    else {
      put(out, refusal(error));
      return;
    }
  }
  say(answer, seen.said || (seen.failed ? "" : t("playground.noText")));
  put(state, verdict(seen));
  await draw();
}

function take(seen, name, data) {
  if (name === "head") Object.assign(seen, { status: data.status, head: data.ms, headers: new Map(data.headers), stages: data.stages, upstreamMs: data.upstreamMs });
  if (name === "body") {
    seen.text += data.text;
    const said = words(seen);
    if (said && seen.first === null) seen.first = data.ms;
    seen.said = said;
  }
  if (name === "end") Object.assign(seen, { end: data.ms, bytes: data.bytes });
  if (name === "failed") Object.assign(seen, { end: data.ms, failed: data.reason });
}

/** Return what the answer says so far: of a stream its pieces joined, of JSON its message or error. */
function words({ text, headers }) {
  const kind = headers.get("content-type") ?? "";
  if (kind.includes("event-stream")) {
    return text.split("\n").filter((line) => line.startsWith("data: ") && line !== "data: [DONE]").map((line) => {
      const piece = parsed(line.slice(6));
      return piece?.choices?.[0]?.delta?.content ?? piece?.error?.message ?? "";
    }).join("");
  }
  const whole = parsed(text);
  if (!whole) return "";
  return whole.choices?.[0]?.message?.content ?? whole.error?.message ?? text;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // not all of it is there yet
  }
}

/** Yield [name, data] of server-sent events. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      yield [lines[0].slice("event: ".length), JSON.parse(lines[1].slice("data: ".length))];
    }
  }
}

function verdict(seen) {
  if (seen.failed) return badge(seen.failed, "bad");
  if (seen.status === null) return t("playground.waiting");
  return [badge(String(seen.status), seen.status < 300 ? "good" : "bad"), " ", seen.end === null ? t("playground.coming") : t("playground.took", { time: millis(seen.end), size: bytes(seen.bytes) })];
}
