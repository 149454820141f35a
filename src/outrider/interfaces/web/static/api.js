// What is asked of the server: JSON, events, lines. A key is asked for where the server wants one, and kept in this tab alone.

import { byId } from "./dom.js";

const KEPT = "outrider.key";
const LAST = new Set(["response", "problem", "cancelled"]);
const TRIES = 5;

/** What the server says went wrong (RFC 9457), or that it was not reached. */
export class Problem extends Error {
  constructor(status, said) {
    super(said.detail || said.title || `the server answered ${status}`);
    this.status = status;
    this.errors = said.errors ?? [];
  }
}

export async function ask(path, { method = "GET", body, headers = {}, signal } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEPT);
    const sent = { ...headers, ...(body ? { "Content-Type": "application/json" } : {}), ...(key ? { Authorization: `Bearer ${key}` } : {}) };
    const response = await fetched(path, { method, headers: sent, body: body && JSON.stringify(body), signal, cache: "no-store" });
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401 || !(await keyGiven(problem.message))) throw problem;
  }
}

async function fetched(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { detail: "The server cannot be reached. Is it still running?" });
  }
}

async function problemOf(response) {
  const text = await response.text();
  try {
    return new Problem(response.status, JSON.parse(text));
  } catch {
    return new Problem(response.status, {});
  }
}

let asking = null;

/** Asks for a key, once for all requests that wait for it; false where none is given. */
export function keyGiven(why) {
  asking ??= new Promise((resolve) => {
    const dialog = byId("key-dialog");
    byId("key-why").textContent = why || "Requests carry this key. It is kept in this tab until you close it, and nowhere else.";
    byId("key-input").value = "";
    dialog.returnValue = "cancel";
    dialog.showModal();
    dialog.addEventListener("close", () => resolve(keyTaken(dialog.returnValue)), { once: true });
  }).finally(() => (asking = null));
  return asking;
}

function keyTaken(returned) {
  const given = byId("key-input").value.trim();
  byId("key-input").value = "";
  if (returned !== "use") return false;
  if (given) sessionStorage.setItem(KEPT, given);
  else sessionStorage.removeItem(KEPT);
  return Boolean(given);
}

export const json = async (path, options) => (await ask(path, options)).json();

/** The lines of an answer, as they come. */
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

/** The events of a search to its last one; where the connection breaks, it goes on behind the last that was seen. */
export async function* events(place, signal) {
  let seen = 0;
  for (let tries = 0; tries < TRIES; tries++) {
    const response = await ask(`${place}/events`, { headers: seen ? { "Last-Event-ID": String(seen) } : {}, signal });
    if (response.status === 204) return;
    try {
      for await (const event of parsed(response)) {
        seen = event.id;
        tries = 0;
        yield event;
        if (LAST.has(event.name)) return;
      }
    } catch (error) {
      if (error.name === "AbortError" || error instanceof SyntaxError) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500 * (tries + 1)));
  }
  throw new Problem(0, { detail: "The connection to the search was lost, and could not be made again." });
}

async function* parsed(response) {
  let event = {};
  for await (const line of lines(response)) {
    if (line === "") {
      if (event.name) yield { ...event, data: JSON.parse(event.data) };
      event = {};
    } else if (line.startsWith("id: ")) event.id = Number(line.slice(4));
    else if (line.startsWith("event: ")) event.name = line.slice(7);
    else if (line.startsWith("data: ")) event.data = line.slice(6);
  }
}
