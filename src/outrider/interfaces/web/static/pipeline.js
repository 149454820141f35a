// Progress of a run, its failures, and its cost so far.

import { byId, count, el, fill, plural, table, words } from "./dom.js";

const GOOD = new Set(["ok", "cached", "empty", "partial", "stale"]);
const REPLACEMENTS = { fine_scorer: "rule_ranker" };

/** The strip of one run: each step waits, runs, is done, failed, or was skipped. */
export class Strip {
  constructor(steps) {
    this.steps = new Map();
    this.failed = new Map();
    fill(byId("strip"), steps.map((step) => this.#step(step)));
    fill(byId("failures"));
    byId("cost").textContent = "No model was called yet.";
    byId("source-rows").hidden = true;
  }

  #step({ name, about }) {
    const time = el("span", { class: "time" }, "waits");
    const node = el("li", { "data-state": "waits", "data-step": name, title: about }, el("b", {}, words(name)), time);
    this.steps.set(name, { node, time });
    return node;
  }

  #set(name, state, text) {
    const step = this.steps.get(name);
    if (!step) return;
    step.node.dataset.state = state;
    step.time.textContent = text;
  }

  markStarted({ node }) {
    this.#set(node, "runs", "runs");
  }

  markFinished({ node, took_ms }) {
    const failed = this.failed.get(node);
    this.#set(node, failed ? "failed" : "done", failed ? `${failed}, ${duration(took_ms)}` : duration(took_ms));
  }

  /** Mark steps that never ran, with the reasons of the answer. */
  markEnded(bypassed = []) {
    for (const [name, step] of this.steps) {
      if (["waits", "runs"].includes(step.node.dataset.state)) this.#set(name, "passed", "skipped");
    }
    for (const { step, why } of bypassed) {
      const known = this.steps.get(step);
      if (known) known.node.title = `${known.node.title} Skipped: ${why}`;
    }
  }

  failures(failures) {
    for (const { node } of failures) this.#markFailed(node);
    const items = failures.map((one) => el("li", {}, el("b", {}, words(one.node)), ` ${one.message}`));
    fill(byId("failures"), items.length ? el("ul", { class: "alert" }, items) : null);
  }

  /** A failed node, or a failed part of one (`dedup.model`). */
  #markFailed(name) {
    const node = name.split(".")[0];
    if (this.failed.has(node)) return;
    this.failed.set(node, name !== node ? "partly failed" : REPLACEMENTS[node] ? `failed, ${words(REPLACEMENTS[node])} instead` : "failed");
    const step = this.steps.get(node);
    this.#set(node, "failed", [this.failed.get(node), step?.node.dataset.state === "done" ? step.time.textContent : ""].filter(Boolean).join(", "));
  }

  usage({ calls, input_tokens, output_tokens, cost_usd, untold_calls }) {
    const price = cost_usd === null ? "price unknown" : `$${cost_usd.toFixed(cost_usd && cost_usd < 0.01 ? 5 : 2)}`;
    const untold = untold_calls ? `, ${plural(untold_calls, "call")} without figures` : "";
    byId("cost").textContent = calls
      ? `Cost: ${price} for ${plural(calls, "model call")}, ${count(input_tokens + output_tokens)} tokens${untold}`
      : `Cost: none, no model was called${untold}`;
  }

  sources(rows) {
    const bad = rows.filter((row) => !GOOD.has(row.status) && row.status !== "off");
    const names = [...new Set(bad.map((row) => row.source))];
    const summary = `Sources: ${plural(rows.length, "search", "searches")}, ${plural(rows.reduce((sum, row) => sum + row.returned, 0), "result")}`;
    byId("source-rows").hidden = false;
    fill(byId("source-summary"), summary, names.length ? el("span", { class: "failed" }, ` - failed: ${names.map(words).join(", ")}`) : null);
    const cells = rows.map((row) => [row.source, words(row.strategy), el("span", { class: GOOD.has(row.status) ? "" : "failed" }, words(row.status)), count(row.returned), duration(row.took_ms), messageOf(row)]);
    fill(byId("source-rows").querySelector("div"), table(["source", "search", "status", "results", "time", "message"], cells));
  }
}

/** The message, with the command that it offers set apart, so that it can be copied as it is. */
function messageOf({ message, command }) {
  const at = command ? message.indexOf(command) : -1;
  if (at < 0) return message;
  return el("span", {}, message.slice(0, at), el("code", { class: "command" }, command), message.slice(at + command.length));
}

export function duration(ms) {
  if (ms === undefined || ms === null) return "";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
