// The search tab: the form, and a search from its first event to its answer.

import { Problem, ask, events, json } from "./api.js";
import { Comparison } from "./compare.js";
import { byId, makeChoices, checkedValues, count, el, fill, plural, save, words } from "./dom.js";
import { facets } from "./facets.js";
import { card } from "./hits.js";
import { Strip, duration } from "./pipeline.js";

const FILES = { bibtex: "BibTeX", ris: "RIS", csl: "CSL-JSON", csv: "CSV", json: "JSON", jsonl: "JSON Lines", markdown: "Markdown" };
let about = null;
let now = null;

export function begin(serverInfo) {
  about = serverInfo;
  byId("answer-choice").hidden = !about.answers;
  byId("search-form").elements.answer_enabled.checked = about.answers && about.answer_enabled;
  makeChoices(byId("search-sources"), "sources", about.sources);
  fill(byId("export-format"), about.formats.map((name) => el("option", { value: name }, FILES[name] ?? name)));
  const form = byId("search-form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(request(form));
  });
  form.addEventListener("input", () => showFilters(form));
  byId("stop-button").addEventListener("click", stop);
  byId("export-form").addEventListener("submit", (event) => {
    event.preventDefault();
    exportHits();
  });
  showFilters(form);
  byId("facets-open").open = !matchMedia("(max-width: 46rem)").matches;
}

/** The request of the form; an empty field is no filter. */
export function request(form) {
  const fields = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  const filters = {};
  const year = { ...(fields.year_from && { $gte: Number(fields.year_from) }), ...(fields.year_to && { $lte: Number(fields.year_to) }) };
  if (Object.keys(year).length) filters.year = year;
  if (fields.stars) filters.stars = { $gte: Number(fields.stars) };
  if (fields.language) filters.language = fields.language;
  const sources = checkedValues(form, "sources");
  return {
    query: fields.query,
    search_mode: fields.search_mode,
    top_k: Number(fields.top_k),
    ...(about?.answers && { answer_enabled: fields.answer_enabled === "on" }),
    ...(Object.keys(filters).length && { filters }),
    ...(sources.length && { sources }),
  };
}

function showFilters(form) {
  const asked = request(form);
  const parts = [...Object.keys(asked.filters ?? {}), ...(asked.sources ?? []).map(words)];
  byId("narrowed").textContent = parts.length ? `(${parts.join(", ")})` : "";
}

async function run(asked) {
  stop();
  const mine = (now = { controller: new AbortController(), strip: new Strip(about.steps), asked, answer: null, address: "", described: new Map(), began: performance.now() });
  showStart(asked);
  try {
    const accepted = await json("api/search", { method: "POST", body: asked, headers: { Prefer: "respond-async" } });
    mine.address = `api/search/${accepted.id}`;
    if (now !== mine) return deleteSearch(mine); // it was stopped before its number arrived
    for await (const event of events(mine.address, mine.controller.signal)) if (now === mine) handleEvent(mine, event);
  } catch (error) {
    if (now === mine) showFailure(error);
  } finally {
    if (now === mine) setRunning(false);
  }
}

function showStart(asked) {
  setRunning(true);
  byId("run").hidden = byId("results").hidden = false;
  status(`Searching for "${asked.query}" ...`);
  byId("hits-title").textContent = "Hits";
  byId("shown").textContent = "";
  byId("export-form").hidden = true;
  byId("answer").hidden = true;
  fill(byId("hits"), Array.from({ length: 3 }, () => el("li", { class: "hit coming", "aria-hidden": "true" })));
  fill(byId("facets").querySelector("div"), el("p", { class: "meta" }, "They appear with the answer."));
  now.comparison = new Comparison(() => now?.address ?? "");
}

function setRunning(on) {
  byId("stop-button").disabled = !on;
  byId("results").setAttribute("aria-busy", String(on));
}

const status = (text) => (byId("search-status").textContent = text);

function handleEvent(mine, { name, data }) {
  const strip = mine.strip;
  const of = {
    queued: () => status(`Waiting for a free slot; ${count(data.position)} searches before this one.`),
    started: () => strip.markStarted(data),
    finished: () => strip.markFinished(data),
    hits: () => showPartialHits(mine, data),
    sources: () => strip.sources(data.sources),
    failures: () => strip.failures(data.failures),
    usage: () => strip.usage(data),
    response: () => showAnswer(mine, data),
    problem: () => showFailure(new Problem(data.status, data)),
    cancelled: () => status("Stopped."),
  };
  of[name]?.();
}

/** The first works after a step. Their order is not final. A work is described once; later lists have its place and score. */
function showPartialHits(mine, { node, total, hits: partial }) {
  if (!partial.length) return;
  const hits = partial.map((hit) => ({ ...mine.described.get(hit.doc_id), ...hit }));
  for (const hit of hits) mine.described.set(hit.doc_id, hit);
  status(`${plural(total, "work")} after ${words(node)}; the first of them, in a provisional order:`);
  fill(byId("hits"), hits.slice(0, now.asked.top_k).map((hit) => card(hit)));
}

function showAnswer(mine, answer) {
  mine.answer = answer;
  mine.strip.markEnded(answer.bypassed);
  mine.strip.usage(answer.usage);
  mine.strip.failures(answer.failures);
  if (answer.sources.length) mine.strip.sources(answer.sources);
  byId("export-form").hidden = !answer.hits.length;
  byId("hits-title").textContent = plural(answer.hits.length, "hit");
  const passed = answer.bypassed.length ? ` Skipped: ${[...new Set(answer.bypassed.map((one) => words(one.step)))].join(", ")}.` : "";
  status(`Done in ${duration(answer.execution_time_ms)}: ${count(answer.total_found)} found of ${plural(answer.total_candidates, "work")}.${passed}${explainUnanswered(answer.hits)}`);
  for (const hit of answer.hits) hit.units = answer.context.units.filter((unit) => unit.doc_id === hit.doc_id);
  mine.cards = new Map(answer.hits.map((hit) => [hit.doc_id, card(hit, (box) => mine.comparison.toggle(hit, box))]));
  showShortAnswer(answer.answer, mine.cards, answer.hits);
  mine.kept = () => true;
  facets(answer, (test) => filterHits(mine, test));
  filterHits(mine, mine.kept);
}

/** One sentence if no text that was read answers, as `explain_unanswered` in state/response.py. */
function explainUnanswered(hits) {
  const read = hits.filter((hit) => hit.answers !== "unread");
  if (!read.length || read.some((hit) => hit.answers !== "no")) return "";
  if (hits.length === 1) return " No sentence in this work answers the question; it is the nearest.";
  const works = read.length === hits.length ? `these ${count(hits.length)} works` : `the ${plural(read.length, "work")} that ${read.length === 1 ? "was" : "were"} read`;
  return ` No sentence in ${works} answers the question; they are the nearest.`;
}

const REMOVED = {
  no_citation: "without a citation",
  unknown_citation: "with a citation of nothing that was kept",
  other_work: "that names another work than it cites",
  number: "with a number that no cited sentence has",
  negation: "that negates or affirms otherwise than the cited sentences",
  quote: "with a quotation that no cited sentence has",
  markup: "with a link or markup",
  instruction: "with instructions to a model",
  too_long: "that was too long",
  repeated: "that repeats an earlier one",
  beyond_limit: "beyond the limit",
};

/** The sentences of a model above the hits; each citation leads to the card of its hit. */
function showShortAnswer(written, cards, hits) {
  const place = byId("answer");
  place.hidden = !written;
  if (!written) return;
  const titles = new Map(hits.map((hit) => [hit.doc_id, hit.title || hit.doc_id]));
  const cite = ({ doc_id, key }) => el("button", { type: "button", class: "cite", title: titles.get(doc_id) ?? doc_id, "aria-label": `To hit ${key}`, click: () => showCard(cards.get(doc_id)) }, key);
  const once = (citations) => [...new Map(citations.map((one) => [one.doc_id, one])).values()];
  const sentences = written.sentences.map((one) => el("li", { dir: "auto" }, one.text, " ", once(one.citations).map(cite), one.uncertain ? " (may not answer)" : null));
  const removed = Object.entries(written.removed);
  const total = removed.reduce((sum, [, number]) => sum + number, 0);
  fill(
    place,
    el("h3", {}, "Short answer"),
    sentences.length ? el("ul", {}, sentences) : el("p", {}, `There is none: ${written.why}.`),
    total ? el("p", { class: "meta" }, el("span", {}, `${plural(total, "sentence")} removed: ${removed.map(([why, number]) => `${number} ${REMOVED[why] ?? words(why)}`).join(", ")}.`)) : null,
    sentences.length ? el("p", { class: "meta" }, el("span", {}, `Written by ${written.model}. Numbers, negations and quotations were compared with the cited sentences. Whether these support it was not checked.`)) : null,
  );
}

function showCard(node) {
  if (!node?.isConnected) return;
  node.tabIndex = -1;
  node.scrollIntoView({ block: "start" });
  node.focus({ preventScroll: true });
}

function filterHits(mine, test) {
  mine.kept = test;
  const hits = mine.answer.hits.filter(test);
  const none = mine.answer.hits.length ? "No hit matches all filters; remove one." : "Nothing was found. Widen the query, or choose other sources.";
  fill(byId("hits"), hits.length ? hits.map((hit) => mine.cards.get(hit.doc_id)) : el("li", { class: "nothing" }, none));
  byId("shown").textContent = hits.length < mine.answer.hits.length ? `${count(hits.length)} of ${plural(mine.answer.hits.length, "hit")} shown` : "";
}

function showFailure(error) {
  if (error.name === "AbortError") return;
  now?.strip.markEnded();
  status("This search failed.");
  byId("hits").replaceChildren();
  fill(byId("failures"), el("ul", { class: "alert" }, el("li", {}, error.message)));
  if (!(error instanceof Problem)) throw error;
}

/** Stop the search, also on the server. */
function stop() {
  if (!now || byId("stop-button").disabled) return;
  const left = now;
  now = null;
  left.controller.abort();
  if (left.address) deleteSearch(left);
  left.strip.markEnded();
  status("Stopped.");
  setRunning(false);
}

function deleteSearch({ address }) {
  ask(address, { method: "DELETE" }).catch(() => {});
}

async function exportHits() {
  const format = byId("export-format").value;
  const shownHits = now.answer.hits.filter(now.kept);
  const ranks = shownHits.length < now.answer.hits.length ? shownHits.map((hit) => `&rank=${hit.rank}`).join("") : "";
  try {
    await save(await ask(`${now.address}/export?format=${format}${ranks}`), `outrider-hits.${format}`);
    byId("shown").textContent = `${plural(shownHits.length, "hit")} saved as ${FILES[format] ?? format}`;
  } catch (error) {
    byId("shown").textContent = `Not saved: ${error.message}`;
  }
}
