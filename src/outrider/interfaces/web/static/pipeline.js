// Where a run is, what failed in it, and what it cost so far.

import { byId, count, el, fill, plural, table, words } from "./dom.js";

const GOOD = new Set(["ok", "cached", "empty", "partial", "stale"]);
const INSTEAD = { fine_scorer: "rule_ranker" };

/** The strip of one run: each step waits, runs, is done, fell back, or was passed over. */
export class Strip {
  constructor(steps) {
    this.steps = new Map();
    this.failed = new Map();
    fill(byId("strip"), steps.map((step) => this.#step(step)));
    fill(byId("failures"));
    byId("cost").textContent = "No model was asked yet.";
    byId("source-rows").hidden = true;
  }

  #step({ name, about }) {
    const time = el("span", { class: "time" }, "waits");
    const node = el("li", { "data-state": "waits", "data-step": name, title: about }, el("b", {}, words(name)), time);
    this.steps.set(name, { node, time });
    return node;
  }

  #set(name, state, said) {
    const step = this.steps.get(name);
    if (!step) return;
    step.node.dataset.state = state;
    step.time.textContent = said;
  }

  started({ node }) {
    this.#set(node, "runs", "runs");
  }

  finished({ node, took_ms }) {
    const failed = this.failed.get(node);
    this.#set(node, failed ? "failed" : "done", failed ? `${failed}, ${duration(took_ms)}` : duration(took_ms));
  }

  /** Steps that never ran, as the answer tells. */
  ended(bypassed = []) {
    for (const [name, step] of this.steps) {
      if (["waits", "runs"].includes(step.node.dataset.state)) this.#set(name, "passed", "passed over");
    }
    for (const { step, why } of bypassed) {
      const known = this.steps.get(step);
      if (known) known.node.title = `${known.node.title} Passed over: ${why}`;
    }
  }

  failures(failures) {
    for (const { node } of failures) this.#fell(node);
    const said = failures.map((one) => el("li", {}, el("b", {}, words(one.node)), ` ${one.message}`));
    fill(byId("failures"), said.length ? el("ul", { class: "alert" }, said) : null);
  }

  /** A node, or a part of one (`dedup.model`): the rest of it did its work. */
  #fell(named) {
    const node = named.split(".")[0];
    if (this.failed.has(node)) return;
    this.failed.set(node, named !== node ? "partly failed" : INSTEAD[node] ? `failed, ${words(INSTEAD[node])} instead` : "failed");
    const step = this.steps.get(node);
    this.#set(node, "failed", [this.failed.get(node), step?.node.dataset.state === "done" ? step.time.textContent : ""].filter(Boolean).join(", "));
  }

  usage({ calls, input_tokens, output_tokens, cost_usd, untold_calls }) {
    const price = cost_usd === null ? "price unknown" : `$${cost_usd.toFixed(cost_usd && cost_usd < 0.01 ? 5 : 2)}`;
    const untold = untold_calls ? `, ${plural(untold_calls, "call")} without figures` : "";
    byId("cost").textContent = calls
      ? `Cost: ${price} for ${plural(calls, "model call")}, ${count(input_tokens + output_tokens)} tokens${untold}`
      : `Cost: no model was paid${untold}`;
  }

  sources(rows) {
    const bad = rows.filter((row) => !GOOD.has(row.status) && row.status !== "off");
    const names = [...new Set(bad.map((row) => row.source))];
    const said = `Sources: ${plural(rows.length, "search", "searches")}, ${plural(rows.reduce((sum, row) => sum + row.returned, 0), "result")}`;
    byId("source-rows").hidden = false;
    fill(byId("source-summary"), said, names.length ? el("span", { class: "failed" }, ` - failed: ${names.map(words).join(", ")}`) : null);
    const cells = rows.map((row) => [row.source, words(row.strategy), el("span", { class: GOOD.has(row.status) ? "" : "failed" }, words(row.status)), count(row.returned), duration(row.took_ms), row.message]);
    fill(byId("source-rows").querySelector("div"), table(["source", "search", "status", "results", "time", "says"], cells));
  }
}

export function duration(ms) {
  if (ms === undefined || ms === null) return "";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
