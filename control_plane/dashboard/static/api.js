// The API as a page uses it: JSON in, JSON out, problems (RFC 9457) as errors.

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

/** What the API refused. `status` 0: it did not answer at all. `errors`: [{document, field, message}]. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `HTTP ${status}`);
    this.status = status;
    this.errors = body.errors ?? [];
  }
}

async function request(method, path, { body, type = "application/json", headers = {}, signal, raw = false } = {}) {
  const sent = { accept: "application/json", ...headers };
  if (method !== "GET") sent["x-csrf-token"] = meta("csrf-token");
  if (body !== undefined) sent["content-type"] = type;
  let answer;
  try {
    answer = await fetch(`/api/v1${path}`, {
      method,
      headers: sent,
      body: body === undefined || typeof body === "string" ? body : JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "" });
  }
  if (answer.status === 401) {
    // The session has ended: the address of this page leads to the form, and back here.
    location.reload();
    throw new Problem(401, {});
  }
  // A stream, for a caller who reads it piece by piece.
  if (raw && answer.ok) return answer;
  const text = await answer.text();
  const found = text && answer.headers.get("content-type")?.includes("json") ? JSON.parse(text) : text;
  if (!answer.ok) throw new Problem(answer.status, typeof found === "object" ? found : {});
  return { body: found, etag: answer.headers.get("etag"), warnings: answer.headers.get("x-outrigger-warnings"), owner: answer.headers.get("x-outrigger-owner") };
}

/** Each takes a path below `/api/v1` and returns the JSON; `full` returns {body, etag, warnings, owner}. */
export const api = {
  get: async (path, options) => (await request("GET", path, options)).body,
  post: async (path, body, options) => (await request("POST", path, { ...options, body })).body,
  put: async (path, body, options) => (await request("PUT", path, { ...options, body })).body,
  del: async (path, options) => (await request("DELETE", path, options)).body,
  full: request,
};

const RANK = { sidecar: 0, viewer: 1, editor: 2, admin: 3 };

/** Who looks, and what they may do; the API refuses the rest whatever is shown. */
export const visitor = {
  name: meta("visitor"),
  role: meta("role"),
  scopes: meta("scopes").split(" ").filter(Boolean),
  /** Say whether the role is at least `role`, and the scopes cover `scope` (if one is given). */
  may(role, scope) {
    if (RANK[this.role] < RANK[role]) return false;
    if (!scope || !this.scopes.length || this.scopes.includes(scope)) return true;
    const [area, access] = scope.split(":");
    return access === "read" && this.scopes.includes(`${area}:write`);
  },
};
