// What happens now: one stream (SSE) of `/api/v1/live` for whichever page listens, none when none does.

const listeners = new Set();
let source = null;
let full = null;
let online = null;
let doubt = 0;
const watchers = new Set();

/**
 * Call `listener` with the overview (docs: GET /api/v1/overview) once a second; it is called at once if one
 * is known. Returns a function that ends it.
 */
export function subscribe(listener) {
  listeners.add(listener);
  if (full) listener(full);
  if (!source) open();
  return () => {
    listeners.delete(listener);
    if (!listeners.size) shut();
  };
}

/** Call `watcher` with true or false whenever the stream comes or goes, null when nobody listens. */
export function watch(watcher) {
  watchers.add(watcher);
  watcher(online);
}

// The stream ends every few minutes and is opened again: only what stays away is told.
const PATIENCE_MS = 4000;

function tell(state) {
  clearTimeout(doubt);
  doubt = 0;
  if (state === online) return;
  online = state;
  for (const watcher of watchers) watcher(online);
}

function open() {
  source = new EventSource("/api/v1/live");
  source.addEventListener("open", () => tell(true));
  source.addEventListener("error", () => {
    doubt ||= setTimeout(() => tell(false), PATIENCE_MS);
    // A refusal (the session has ended) closes it for good; a lost connection is tried again by the browser.
    if (source?.readyState === EventSource.CLOSED) setTimeout(() => { if (source) { source.close(); open(); } }, 3000);
  });
  source.addEventListener("overview", (event) => {
    const news = JSON.parse(event.data);
    full = news.whole ? news : { ...news, series: joined(full?.series, news.series) };
    tell(true);
    for (const listener of listeners) listener(full);
  });
}

function shut() {
  source?.close();
  source = full = null;
  tell(null);
}

/** Put the newest steps behind (and over) those that are known. */
export function joined(known, news) {
  if (!known) return news;
  const length = known.requests.length;
  const moved = news.end - known.end;
  const result = { ...news };
  for (const [name, values] of Object.entries(news)) {
    if (!Array.isArray(values)) continue;
    // What the news begin with replaces what was known of the same steps.
    const kept = known[name].slice(0, Math.max(length - Math.max(values.length - moved, 0), 0));
    const line = kept.concat(Array(Math.max(moved - values.length, 0)).fill(null), values);
    result[name] = line.slice(-length);
  }
  return result;
}
