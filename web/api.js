/*
 * api.js - requests to the router, with the key of this tab.
 *
 * The key is kept in the tab's sessionStorage. It is sent in a header, never in a URL.
 */

const KEY = "smart-router-key";
const root = new URL("api/v1/", document.baseURI);

export class ApiError extends Error {
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

let onUnauthorized = () => {};
let skewMs = 0; // the router's clock minus ours

export const setOnUnauthorized = (fn) => (onUnauthorized = fn);
export const hasKey = () => sessionStorage.getItem(KEY) !== null;
export const setKey = (key) => sessionStorage.setItem(KEY, key);
export const forgetKey = () => sessionStorage.removeItem(KEY);

/* The time of the router: ages are right even where the clock of this computer is not. */
export const routerNow = () => Date.now() + skewMs;

function noteTime(response) {
  const date = Date.parse(response.headers.get("Date") ?? "");
  // The header has whole seconds: a difference below two of them means nothing.
  if (!Number.isNaN(date)) skewMs = Math.abs(date - Date.now()) < 2000 ? 0 : date - Date.now();
}

/* The response, whatever its status. Throws ApiError with the status 0 if the router cannot be reached. */
export async function send(path, { method = "GET", body, headers = {}, key, signal } = {}) {
  const secret = key ?? sessionStorage.getItem(KEY);
  const all = { ...headers };
  if (secret) all.Authorization = `Bearer ${secret}`;
  let response;
  try {
    response = await fetch(new URL(path, root), {
      method, body, headers: all, signal, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "the router cannot be reached", null);
  }
  noteTime(response);
  return response;
}

/* The JSON of a 2xx answer. Throws ApiError with the sentence of the router. */
export async function ask(path, options = {}) {
  const response = await send(path, options);
  let body = null;
  try {
    body = await response.json();
  } catch {
    // A proxy may answer with something else.
  }
  if (response.ok && body !== null) return body;
  if (response.status === 401 && options.key === undefined) onUnauthorized();
  throw new ApiError(response.status, body?.error ?? `the router answered ${response.status}`, body);
}

const post = (path, body) => ask(path, { method: "POST", body: JSON.stringify(body) });
const part = encodeURIComponent;

export const api = {
  whoami: (key) => ask("whoami", { key }),
  status: () => ask("status"),
  history: () => ask("history/pools"),
  pod: (name) => ask(`pod/${part(name)}`),
  story: (sid) => ask(`call/${part(sid)}/story`),
  drain: (pod, seconds) => post("drain", seconds === null ? { pod_name: pod } : { pod_name: pod, ttl_seconds: seconds }),
  undrain: (pod) => post("undrain", { pod_name: pod }),
  release: (sid, pod) => post("release", { call_sid: sid, reason: "dashboard", ...(pod ? { pod_name: pod } : {}) }),
  merchants: (cursor) => ask(`merchants?limit=1000&cursor=${part(cursor)}`),
};

/* All entries of a list that comes in pages, `max` at most: {entries, total}. */
export async function pages(path, member, max) {
  let entries = [];
  let cursor = "";
  let total = 0;
  do {
    const page = await ask(`${path}?limit=1000&cursor=${part(cursor)}`);
    entries = entries.concat(page[member]);
    total = page.total;
    cursor = page.next_cursor;
  } while (cursor && entries.length < max);
  return { entries: entries.slice(0, max), total };
}

/* A configuration with versions: the tiers, or those of one merchant. */
export const configuration = (path) => ({
  get: () => ask(path),
  check: (text) => ask(`${path}?dry_run=true`, { method: "PUT", body: text }),
  save: (text) => ask(path, { method: "PUT", body: text }),
  remove: () => ask(path, { method: "DELETE" }),
  history: () => ask(`${path}/history`),
  rollback: (version) => post(`${path}/rollback`, version === null ? {} : { version }),
});
export const merchantPath = (id) => `merchants/${part(id)}`;
