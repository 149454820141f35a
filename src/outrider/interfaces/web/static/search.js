// The search tab: the form, and a run from its first event to its answer.

import { Problem, ask, events, json } from "./api.js";
import { Comparison } from "./compare.js";
import { byId, choices, chosen, count, el, fill, plural, save, words } from "./dom.js";
import { facets } from "./facets.js";
import { card } from "./hits.js";
import { Strip, duration } from "./pipeline.js";

const FILES = { bibtex: "BibTeX", ris: "RIS", csv: "CSV", json: "JSON", jsonl: "JSON Lines", markdown: "Markdown" };
let about = null;
let now = null;

export function begin(told) {
  about = told;
  choices(byId("search-sources"), "sources", about.sources);
  fill(byId("export-format"), about.formats.map((name) => el("option", { value: name }, FILES[name] ?? name)));
  const form = byId("search-form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(request(form));
  });
  form.addEventListener("input", () => narrowed(form));
  byId("stop-button").addEventListener("click", stop);
  byId("export-form").addEventListener("submit", (event) => {
    event.preventDefault();
    exported();
  });
  narrowed(form);
  byId("facets-open").open = !matchMedia("(max-width: 46rem)").matches;
}

/** What the form asks for; an empty field narrows nothing. */
export function request(form) {
  const said = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  const filters = {};
  const year = { ...(said.year_from && { $gte: Number(said.year_from) }), ...(said.year_to && { $lte: Number(said.year_to) }) };
  if (Object.keys(year).length) filters.year = year;
  if (said.stars) filters.stars = { $gte: Number(said.stars) };
  if (said.language) filters.language = said.language;
  const sources = chosen(form, "sources");
  return {
    query: said.query,
    search_mode: said.search_mode,
    top_k: Number(said.top_k),
    ...(Object.keys(filters).length && { filters }),
    ...(sources.length && { sources }),
  };
}

function narrowed(form) {
  const asked = request(form);
  const parts = [...Object.keys(asked.filters ?? {}), ...(asked.sources ?? []).map(words)];
  byId("narrowed").textContent = parts.length ? `(${parts.join(", ")})` : "";
}

async function run(asked) {
  stop();
  const mine = (now = { controller: new AbortController(), strip: new Strip(about.steps), asked, answer: null, place: "", began: performance.now() });
  shown(asked);
  try {
    const accepted = await json("api/search", { method: "POST", body: asked, headers: { Prefer: "respond-async" } });
    mine.place = `api/search/${accepted.id}`;
    if (now !== mine) return ended(mine); // it was stopped before it had a name
    for await (const event of events(mine.place, mine.controller.signal)) if (now === mine) happened(mine, event);
  } catch (error) {
    if (now === mine) failed(error);
  } finally {
    if (now === mine) running(false);
  }
}

function shown(asked) {
  running(true);
  byId("run").hidden = byId("results").hidden = false;
  status(`Searching for "${asked.query}" ...`);
  byId("hits-title").textContent = "Hits";
  byId("shown").textContent = "";
  byId("export-form").hidden = true;
  fill(byId("hits"), Array.from({ length: 3 }, () => el("li", { class: "hit coming", "aria-hidden": "true" })));
  fill(byId("facets").querySelector("div"), el("p", { class: "meta" }, "They come with the answer."));
  now.comparison = new Comparison();
}

function running(on) {
  byId("stop-button").disabled = !on;
  byId("results").setAttribute("aria-busy", String(on));
}

const status = (said) => (byId("search-status").textContent = said);

function happened(mine, { name, data }) {
  const strip = mine.strip;
  const of = {
    queued: () => status(`Waiting for a turn; ${count(data.position)} before it.`),
    started: () => strip.started(data),
    finished: () => strip.finished(data),
    hits: () => partial(data),
    sources: () => strip.sources(data.sources),
    failures: () => strip.failures(data.failures),
    usage: () => strip.usage(data),
    response: () => answered(mine, data),
    problem: () => failed(new Problem(data.status, data)),
    cancelled: () => status("Stopped."),
  };
  of[name]?.();
}

/** The first works as a step left them. They have no order yet that lasts. */
function partial({ node, total, hits }) {
  if (!hits.length) return;
  status(`${plural(total, "work")} after ${words(node)}; the first of them, as they come:`);
  fill(byId("hits"), hits.slice(0, now.asked.top_k).map((hit) => card(hit)));
}

function answered(mine, answer) {
  mine.answer = answer;
  mine.strip.ended(answer.bypassed);
  mine.strip.usage(answer.usage);
  mine.strip.failures(answer.failures);
  if (answer.sources.length) mine.strip.sources(answer.sources);
  byId("export-form").hidden = !answer.hits.length;
  byId("hits-title").textContent = plural(answer.hits.length, "hit");
  const passed = answer.bypassed.length ? ` Passed over: ${[...new Set(answer.bypassed.map((one) => words(one.step)))].join(", ")}.` : "";
  status(`Done in ${duration(answer.execution_time_ms)}: ${count(answer.total_found)} found of ${plural(answer.total_candidates, "work")}.${passed}`);
  mine.cards = new Map(answer.hits.map((hit) => [hit.doc_id, card(hit, (box) => mine.comparison.toggled(hit, box))]));
  mine.kept = () => true;
  facets(answer, (test) => narrowedTo(mine, test));
  narrowedTo(mine, mine.kept);
}

function narrowedTo(mine, test) {
  mine.kept = test;
  const hits = mine.answer.hits.filter(test);
  const none = mine.answer.hits.length ? "No hit has all of that; take a mark away." : "Nothing was found. Widen the query, or ask other sources.";
  fill(byId("hits"), hits.length ? hits.map((hit) => mine.cards.get(hit.doc_id)) : el("li", { class: "nothing" }, none));
  byId("shown").textContent = hits.length < mine.answer.hits.length ? `${count(hits.length)} of ${plural(mine.answer.hits.length, "hit")} shown` : "";
}

function failed(error) {
  if (error.name === "AbortError") return;
  now?.strip.ended();
  status("This search did not end well.");
  byId("hits").replaceChildren();
  fill(byId("failures"), el("ul", { class: "alert" }, el("li", {}, error.message)));
  if (!(error instanceof Problem)) throw error;
}

/** The server stops it, too. */
function stop() {
  if (!now || byId("stop-button").disabled) return;
  const left = now;
  now = null;
  left.controller.abort();
  if (left.place) ended(left);
  left.strip.ended();
  status("Stopped.");
  running(false);
}

function ended({ place }) {
  ask(place, { method: "DELETE" }).catch(() => {});
}

async function exported() {
  const format = byId("export-format").value;
  const shownHits = now.answer.hits.filter(now.kept);
  const ranks = shownHits.length < now.answer.hits.length ? shownHits.map((hit) => `&rank=${hit.rank}`).join("") : "";
  try {
    await save(await ask(`${now.place}/export?format=${format}${ranks}`), `outrider-hits.${format}`);
    byId("shown").textContent = `${plural(shownHits.length, "hit")} saved as ${FILES[format] ?? format}`;
  } catch (error) {
    byId("shown").textContent = `Not saved: ${error.message}`;
  }
}
