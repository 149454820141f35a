// One line about a run: its step in plain words, the time so far, how many sources have answered. The rest is behind a disclosure.

import { byId, count, el, fill, listNames, plural, table } from "./dom.js";
import { duration } from "./pipeline.js";

const STEPS = {
  translator: "Reading your question",
  scout: "Asking the sources",
  dedup: "Merging duplicates",
  enrich: "Fetching what records lack",
  review_plan: "Waiting for you",
  review_results: "Waiting for you",
  coarse_filter: "Applying the filters",
  fine_scorer: "The model reads the works",
  rule_ranker: "Ranking the works",
  reranker: "Ordering the first works",
  organizer: "Putting the results in order",
  full_text: "Reading open full texts",
  distiller: "Choosing the sentences that answer",
  answer: "Writing the short answer",
};
const GOOD = new Set(["ok", "cached", "empty", "partial", "stale"]);
const OUTCOMES = {
  ok: "answered",
  partial: "answered in part",
  empty: "found nothing",
  cached: "answered from the cache",
  stale: "answered from an older cache",
  timeout: "took too long",
  rate_limited: "asked to wait",
  unauthorized: "refused the key",
  forbidden: "refused the request",
  unavailable: "could not be reached",
  malformed: "answered with something unreadable",
  off: "is off",
};
const SEARCHES = { lance_fts: "by words", lance_dense: "by meaning", graph_neighbor: "related works", fused: "all lists together", bm25: "words of the question" };

export const nameStep = (name) => STEPS[name] ?? String(name).replaceAll("_", " ");
export const nameSearch = (strategy) => SEARCHES[strategy] ?? String(strategy).replaceAll("_", " ");
const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export class Progress {
  constructor(about, sources) {
    this.about = about;
    this.rows = [];
    this.expected = sources;
    this.steps = new Map();
    this.failed = new Map();
    this.began = performance.now();
    fill(byId("strip"), about.steps.map((step) => this.#makeStep(step)));
    fill(byId("failures"));
    fill(byId("source-rows").querySelector("div"));
    byId("cost").textContent = "";
    byId("source-summary").textContent = "Sources";
    byId("elapsed").textContent = "";
    this.timer = setInterval(() => this.#tick(), 1000);
    this.say(nameStep("translator"));
  }

  #tick() {
    byId("elapsed").textContent = `${Math.round((performance.now() - this.began) / 1000)} s`;
  }

  /** While a reader is asked, no time passes. */
  pause() {
    clearInterval(this.timer);
    this.pausedAt = performance.now();
  }

  goOn() {
    this.began += performance.now() - this.pausedAt;
    this.timer = setInterval(() => this.#tick(), 1000);
  }

  say(text) {
    byId("search-status").textContent = text;
  }

  name(source) {
    return this.about.source_names?.[source] ?? source;
  }

  #makeStep({ name }) {
    const time = el("span", { class: "time" }, "waits");
    const node = el("li", { "data-state": "waits", "data-step": name }, el("b", {}, nameStep(name)), " ", time);
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
    this.say(nameStep(node));
  }

  markFinished({ node, took_ms }) {
    const failed = this.failed.get(node);
    this.#set(node, failed ? "failed" : "done", failed ? `${failed}, ${duration(took_ms)}` : duration(took_ms));
  }

  /** Of a run that ended: steps that never ran, or passed the works on, have no mark of success. `bypassed` comes with its answer; the
   * times of the steps of a kept answer are not known. */
  markEnded(bypassed = null) {
    clearInterval(this.timer);
    byId("elapsed").textContent = "";
    const passed = new Set((bypassed ?? []).map((one) => one.step));
    const isKept = bypassed && [...this.steps.values()].every((step) => step.node.dataset.state === "waits");
    for (const [name, step] of this.steps) {
      if (isKept && !passed.has(name)) {
        this.#set(name, "done", "");
        continue;
      }
      if (["waits", "runs"].includes(step.node.dataset.state) || (passed.has(name) && step.node.dataset.state === "done")) this.#set(name, "passed", "not run");
    }
  }

  markFailures(failures) {
    for (const { node } of failures) {
      const name = node.split(".")[0];
      if (!this.failed.has(name)) this.failed.set(name, name !== node ? "failed in part" : name === "fine_scorer" ? "failed, rules ranked instead" : "failed");
      this.#set(name, "failed", this.failed.get(name));
    }
  }

  showUsage({ calls, input_tokens, output_tokens, cost_usd, untold_calls }) {
    const price = cost_usd === null ? "price unknown" : `$${cost_usd.toFixed(cost_usd && cost_usd < 0.01 ? 5 : 2)}`;
    const untold = untold_calls ? `, ${plural(untold_calls, "call")} without figures` : "";
    byId("cost").textContent = calls
      ? `Cost: ${price} for ${plural(calls, "model call")}, ${count(input_tokens + output_tokens)} tokens${untold}.`
      : `No model was called${untold}.`;
  }

  /** The answers of the sources so far; those of others are still awaited. */
  showSources(rows) {
    this.rows = rows;
    this.#showRows();
  }

  #showRows() {
    const answered = new Set(this.rows.map((row) => row.source));
    const wanted = new Set([...this.expected, ...answered]);
    const down = findDown(this.rows).map((name) => this.name(name));
    const waiting = [...wanted].filter((name) => !answered.has(name)).map((name) => [sentence(this.name(name)), "", "waits", "", ""]);
    const reached = [...answered].filter((name) => this.rows.some((row) => row.source === name && GOOD.has(row.status)));
    fill(byId("source-summary"), `Sources: ${count(reached.length)} of ${count(wanted.size)} answered`, down.length ? el("span", { class: "failed" }, `; no answer from ${listNames(down)}`) : null);
    const rows = this.rows.map((row) => [
      sentence(this.name(row.source)),
      nameSearch(row.strategy),
      el("span", { class: GOOD.has(row.status) || row.status === "off" ? "" : "failed" }, describeOutcome(row)),
      count(row.returned),
      duration(row.took_ms),
    ]);
    fill(byId("source-rows").querySelector("div"), table(["Source", "Search", "Outcome", "Results", "Time"], [...rows, ...waiting]));
  }
}

const describeOutcome = (row) => (row.status === "rate_limited" && row.retry_at ? `asked to wait until ${row.retry_at.slice(11, 16)}` : OUTCOMES[row.status] ?? row.status.replaceAll("_", " "));

/** Sources of which no search succeeded, though one was asked. */
export function findDown(rows) {
  const asked = rows.filter((row) => row.status !== "off");
  const good = new Set(asked.filter((row) => GOOD.has(row.status)).map((row) => row.source));
  return [...new Set(asked.map((row) => row.source))].filter((name) => !good.has(name));
}

/** Why a source did not answer, in plain words: "could not be reached". */
export function explainDown(rows, source) {
  return describeOutcome(rows.find((row) => row.source === source && !GOOD.has(row.status)) ?? { status: "unavailable" });
}
