// Requests to the server: JSON, events, lines. If the server requires a key, the page asks for it and keeps it in this tab only.

import { byId } from "./dom.js";

export const KEY_STORAGE = "outrider.key";
const FINAL_EVENTS = new Set(["response", "problem", "cancelled", "waiting"]);
const MAX_TRIES = 5;

/** An error of the server (RFC 9457), or of the connection to it. */
export class Problem extends Error {
  constructor(status, fields) {
    super(fields.detail || fields.title || `the server answered ${status}`);
    this.status = status;
    this.errors = fields.errors ?? [];
  }
}

export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY_STORAGE);
    const isFile = body instanceof Blob;
    const type = isFile ? "application/octet-stream" : "application/json";
    const sent = { ...headers, ...(body ? { "Content-Type": type } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const response = await fetchOrFail(path, { method, headers: sent, body: body && !isFile ? JSON.stringify(body) : body, signal, cache: "no-store" });
    if (response.ok) return response;
    const problem = await readProblem(response);
    if (response.status !== 401 || !(await askForKey(problem.message))) throw problem;
  }
}

async function fetchOrFail(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The server cannot be reached. Is it still running?" });
  }
}

async function readProblem(response) {
  const text = await response.text();
  try {
    return new Problem(response.status, JSON.parse(text));
  } catch {
    return new Problem(response.status, {});
  }
}

let keyRequest = null;

/** Ask for a key, once for all requests that wait for it; false if the user enters none. */
export function askForKey(why) {
  keyRequest ??= new Promise((resolve) => {
    const dialog = byId("key-dialog");
    byId("key-why").textContent = why || "Requests carry this key. It is kept in this tab until you close it, and nowhere else.";
    byId("key-input").value = "";
    dialog.returnValue = "cancel";
    dialog.showModal();
    dialog.addEventListener("close", () => resolve(readKey(dialog.returnValue)), { once: true });
  }).finally(() => (keyRequest = null));
  return keyRequest;
}

function readKey(answer) {
  const key = byId("key-input").value.trim();
  byId("key-input").value = "";
  if (answer !== "use") return false;
  if (key) sessionStorage.setItem(KEY_STORAGE, key);
  else sessionStorage.removeItem(KEY_STORAGE);
  return Boolean(key);
}

export const json = async (path, options) => (await ask(path, options)).json();

/** The lines of a response, as they arrive. */
export async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      yield* parts;
    }
    if (rest) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The events of a search. If the connection breaks, it is opened again and continues after the last event received. */
export async function* events(address, signal, after = 0) {
  let seen = after;
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const response = await ask(`${address}/events`, { headers: seen ? { "Last-Event-ID": String(seen) } : {}, signal });
    if (response.status === 204) return;
    try {
      for await (const event of parseEvents(response)) {
        seen = event.id;
        tries = 0;
        yield event;
        if (FINAL_EVENTS.has(event.name)) return;
      }
    } catch (error) {
      if (error.name === "AbortError" || error instanceof SyntaxError) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500 * (tries + 1)));
  }
  throw new Problem(0, { detail: "The connection to the search was lost and could not be restored." });
}

/** The server-sent events of a response; lines may end with CR LF. */
export async function* parseEvents(response) {
  let event = {};
  for await (const whole of lines(response)) {
    const line = whole.endsWith("\r") ? whole.slice(0, -1) : whole;
    if (line === "") {
      if (event.name) yield { ...event, data: event.data ? JSON.parse(event.data) : null };
      event = {};
    } else if (line.startsWith("id: ")) event.id = Number(line.slice(4));
    else if (line.startsWith("event: ")) event.name = line.slice(7);
    else if (line.startsWith("data: ")) event.data = line.slice(6);
  }
}
