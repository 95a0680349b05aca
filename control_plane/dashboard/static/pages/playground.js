// Playground: a prompt through a proxy; the answer as it comes, what each stage decided, and when.
import { api as calls } from "../api.js";
import { h, put, say } from "../dom.js";
import { bytes, millis } from "../format.js";
import { t } from "../i18n.js";
import { refusal } from "../problems.js";
import { badge, button, card, empty, field, heading, select, table } from "../widgets.js";
import { plain } from "../changes.js";

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
  if (name === "head") Object.assign(seen, { status: data.status, head: data.ms, headers: new Map(data.headers) });
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

/** What each stage decided, from the answer's headers, with the settings in force that some Policy made. */
function stageTable(order, seen, settings) {
  const get = (name) => seen.headers.get(name);
  const own = (name) => get(`x-outrigger-${name}`);
  const set = (...areas) => settings.filter((one) => one.policy && areas.some((area) => one.field.startsWith(area)));
  const left = ["requests", "tokens"].filter((kind) => get(`x-ratelimit-remaining-${kind}`)).map((kind) => t(`playground.left.${kind}`, { left: get(`x-ratelimit-remaining-${kind}`), limit: get(`x-ratelimit-limit-${kind}`) ?? "–" }));
  const called = own("cache") !== "hit" && own("cache") !== "semantic-hit" && !own("error");
  // OpenAI's own word for it; others are silent.
  const provided = get("openai-processing-ms") ? ` (${t("playground.provided", { time: millis(Number(get("openai-processing-ms"))) })})` : "";
  const rows = [
    ["identify", order.tier ? t("playground.asTier", { tier: order.tier }) : order.key ? t("playground.asKey") : t("playground.asNobody"), null, []],
    ["resolve", own("model") ? (own("model") === order.model ? own("model") : `${order.model} → ${own("model")}`) : null, null, set("unknownModels")],
    ["assign", own("version"), null, []],
    ["clamp", own("clamped"), null, set("parameters")],
    ["session", order.session ?? null, null, set("session")],
    ["cache", own("cache") ? badge(own("cache"), { hit: "good", "semantic-hit": "good", miss: "info" }[own("cache")] ?? "") : null, null, set("cache", "coalesce")],
    ["limit", left.join(", ") || null, null, set("limits")],
    ["batch", own("batch") ? t("playground.batched", { size: own("batch") }) : null, null, set("batch")],
    ["route", own("backend") ? `${own("backend")}${own("attempts") ? ` (${t("playground.attempts", { count: own("attempts") })})` : ""}` : null, null, set("retry", "hold")],
    [called ? "provider" : "own", own("error") ? badge(own("error"), "bad") : seen.status === null ? null : `${seen.status}${provided}`, seen.head, []],
    ["first", seen.first === null ? null : t("playground.firstText"), seen.first, []],
    ["end", seen.end === null || seen.failed ? seen.failed || null : t("playground.complete"), seen.end, []],
  ];
  const most = seen.end ?? seen.first ?? seen.head ?? 1;
  return [table([{ title: t("playground.stage") }, { title: t("playground.decision") }, { title: t("playground.at"), numeric: true }, { title: t("playground.policy") }], rows.map(([stage, decision, ms, fields]) => [
    h("strong", {}, t(`playground.stage.${stage}`)),
    decision ?? h("span", { class: "soft" }, t("playground.nothing")),
    ms === null || ms === undefined ? "" : h("span", { class: "when" }, meterOf(ms / most), millis(ms)),
    fields.length ? h("ul", { class: "plain" }, fields.map((one) => h("li", {}, h("code", {}, `${one.field}: ${plain(one.value)}`), " ", h("a", { href: `/policies#kind=policies&name=${encodeURIComponent(one.policy)}` }, one.policy)))) : "",
  ])), get("x-request-id") ? h("p", { class: "soft" }, t("playground.requestId"), " ", h("code", {}, get("x-request-id"))) : null];
}

function meterOf(part) {
  const fill = h("i");
  fill.style.width = `${Math.min(part, 1) * 100}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, fill);
}
