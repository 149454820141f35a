// The search view: its form and address, and a search from its first event to its answer.

import { describeFilters, makeAddress, makeRequest, push, readAddress, replace } from "./address.js";
import { Problem, ask, events, json } from "./api.js";
import { byId, checkedValues, count, el, fill, plural } from "./dom.js";
import { card } from "./hits.js";
import { drawLanding } from "./landing.js";
import { duration } from "./pipeline.js";
import { Progress, explainDown, findDown, listNames } from "./progress.js";
import { askForSimilar, drawRefine, makeFeedback } from "./refine.js";
import { FILES, Results } from "./results.js";
import { isSaved, rememberSearch, saveSearch } from "./shelf.js";
import { showThreads } from "./threads.js";

const NO_READING = { hits: [], best: [], unanswered: "" };
let about = null;
let now = null;

export function begin(serverInfo) {
  about = serverInfo;
  setUpForm();
  setUpResults();
  addEventListener("hashchange", follow);
  follow();
}

function setUpForm() {
  const form = byId("search-form");
  byId("answer-choice").hidden = !about.answers;
  fill(byId("search-sources"), about.sources.map((name) => el("label", {}, el("input", { type: "checkbox", name: "sources", value: name }), ` ${about.source_names[name]}`)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const fields = readForm();
    if (fields.q) start(fields);
  });
  form.addEventListener("input", () => showFilters(readForm()));
  byId("stop-button").addEventListener("click", stop);
  byId("threads-button").addEventListener("click", () => showThreads(({ thread, query, id }) => leaveTo({ q: query, thread, run: id })));
  byId("threads-close").addEventListener("click", () => byId("threads-dialog").close());
}

function setUpResults() {
  fill(byId("export-format"), about.formats.map((name) => el("option", { value: name }, FILES[name] ?? name)));
  byId("export-form").addEventListener("submit", (event) => {
    event.preventDefault();
    now?.results?.save(byId("export-format").value);
  });
  byId("sort").addEventListener("change", (event) => now?.results?.sortBy(event.target.value));
  byId("more").addEventListener("click", () => now?.results?.showMore());
  byId("save-search").addEventListener("click", toggleSaved);
  byId("refine").addEventListener("changed", () => now?.results && (now.results.draw(), drawRefine(about)));
  byId("refine-form").addEventListener("submit", (event) => {
    event.preventDefault();
    nextRound();
  });
  byId("facets-open").open = !matchMedia("(max-width: 46rem)").matches;
}

/** The fields of an address, from the form. */
export function readForm() {
  const form = byId("search-form");
  const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  return { q: given.query, mode: given.search_mode, from: given.year_from, to: given.year_to, stars: given.stars, lang: given.language, n: given.top_k || "30", thread: given.thread, src: checkedValues(form, "sources"), answer: about?.answers && given.answer_enabled === "on" ? "1" : "" };
}

function fillForm(fields) {
  const { elements } = byId("search-form");
  const values = { query: fields.q, year_from: fields.from, year_to: fields.to, stars: fields.stars, language: fields.lang, top_k: fields.n || "30", thread: fields.thread };
  for (const [name, value] of Object.entries(values)) elements[name].value = value ?? "";
  elements.search_mode.value = fields.mode || "balanced";
  elements.answer_enabled.checked = fields.q ? fields.answer === "1" : about.answers && about.answer_enabled;
  for (const box of byId("search-sources").querySelectorAll("input")) box.checked = (fields.src ?? []).includes(box.value);
  showFilters(readForm());
}

function showFilters(fields) {
  const parts = describeFilters(fields, about);
  byId("narrowed").textContent = parts.length ? `(${parts.join(", ")})` : "";
}

/** What the address says: the first view, a kept run, or a search that can be started. */
function follow() {
  const fields = readAddress();
  if (fields.view !== "search") return;
  nameTab(fields);
  if (now && fields.q && now.fields.q === fields.q && (now.fields.run ?? "") === fields.run) return;
  leave();
  fillForm(fields);
  if (!fields.q) showLanding();
  else if (fields.run) open(fields);
  else offer(fields, "This search has not been run here yet.");
}

const nameTab = ({ q }) => (document.title = q ? `${q.slice(0, 80)} - Outrider` : "Outrider: search papers, code and your library");

function leaveTo(fields) {
  push(fields);
  follow();
}

/** Stop to follow a search; it goes on at the server, and its address leads back to it. */
function leave() {
  now?.controller.abort();
  now?.progress?.markEnded();
  now = null;
  setRunning(false);
}

function showLanding() {
  byId("landing").hidden = false;
  byId("view-search").classList.remove("asked");
  byId("run").hidden = byId("results").hidden = true;
  byId("query").focus();
  drawLanding(about, { search: (query) => start({ ...readForm(), q: query }), open: (address) => start({ ...readAddress(address), run: "", f: [], sort: "" }) });
}

function showFrame(fields) {
  byId("landing").hidden = true;
  byId("view-search").classList.add("asked");
  byId("run").hidden = byId("results").hidden = false;
  for (const id of ["answer", "tools", "more", "refine", "note", "source-rows"]) byId(id).hidden = true;
  for (const id of ["hits", "failures", "shown", "saved"]) fill(byId(id));
  byId("hits-title").textContent = "Results";
  fill(byId("facets").querySelector("div"));
  byId("facets-count").textContent = "";
  byId("search-status").textContent = byId("cost").textContent = byId("elapsed").textContent = "";
  nameTab(fields);
  markSaved();
}

function setRunning(on) {
  byId("stop-button").hidden = !on;
  byId("search-button").hidden = on;
  byId("results").setAttribute("aria-busy", String(on));
  byId("run").classList.toggle("running", on);
}

/** A line in place of results: why there are none, and what to do next. */
function note(text, ...actions) {
  byId("note").hidden = false;
  fill(byId("note"), el("p", {}, text), el("p", { class: "inline" }, actions));
}

const button = (text, click) => el("button", { type: "button", class: "second", click }, text);
const again = (fields, text = "Search again") => button(text, () => start({ ...fields, run: "", f: [] }));

function offer(fields, text) {
  showFrame(fields);
  now = { fields, controller: new AbortController() };
  note(text, again(fields, `Search for "${fields.q.slice(0, 60)}"`));
}

/** A new search, with an entry of its own in the browser's history. `extra` are fields of the request that no address holds. */
async function start(fields, extra = {}) {
  stop();
  leave();
  fillForm(fields);
  push({ ...fields, run: "" });
  const mine = (now = begun(fields));
  showSearching(mine);
  try {
    const headers = { Prefer: "respond-async", ...(fields.thread && { "X-Thread-Id": fields.thread }) };
    const accepted = await json("api/search", { method: "POST", body: { ...makeRequest(fields, about), ...extra }, headers });
    const address = `api/search/${accepted.id}`;
    if (mine.isStopped) return deleteSearch(address); // it was stopped before its number arrived
    if (now !== mine) return;
    mine.address = address;
    mine.fields.run = accepted.id;
    replace(mine.fields);
    rememberSearch(makeAddress({ ...fields, run: "", f: [], sort: "" }), fields.q);
    markSaved();
    await followEvents(mine);
  } catch (error) {
    if (now === mine) showFailure(mine, error);
  }
}

/** A run of an address: its answer, its events if it goes on, or the offer to search again. */
async function open(fields) {
  const mine = (now = begun(fields));
  mine.address = `api/search/${encodeURIComponent(fields.run)}`;
  showSearching(mine);
  try {
    const state = await json(mine.address);
    if (now !== mine) return;
    if (state.response) await showAnswer(mine, state.response);
    else await followEvents(mine);
  } catch (error) {
    if (now !== mine) return;
    if (error.status !== 404) return showFailure(mine, error);
    leave();
    offer({ ...fields, run: "" }, "The server keeps an answer for a while; this one is gone.");
  }
}

const begun = (fields) => ({ fields: { ...fields }, controller: new AbortController(), described: new Map(), rows: [], began: performance.now() });

function showSearching(mine) {
  showFrame(mine.fields);
  setRunning(true);
  byId("source-rows").hidden = false;
  byId("answer").hidden = false;
  fill(byId("answer"), el("h2", {}, "Best sentences"), el("p", { class: "meta" }, "They appear with the answer."));
  fill(byId("hits"), Array.from({ length: 4 }, () => el("li", { class: "hit coming", "aria-hidden": "true" })));
  mine.progress = new Progress(about, mine.fields.src?.length ? mine.fields.src : about.sources);
}

async function followEvents(mine) {
  for await (const event of events(mine.address, mine.controller.signal)) if (now === mine) await handleEvent(mine, event);
}

async function handleEvent(mine, { name, data }) {
  const { progress } = mine;
  const of = {
    queued: () => progress.say(data.position ? `Waiting: ${plural(data.position, "search", "searches")} before this one` : "Waiting for a free place"),
    started: () => progress.markStarted(data),
    searched: () => progress.addSource(data.report),
    finished: () => progress.markFinished(data),
    hits: () => showPartialHits(mine, data),
    sources: () => progress.showSources(data.sources),
    failures: () => progress.markFailures(data.failures),
    usage: () => progress.showUsage(data),
    response: () => showAnswer(mine, data),
    problem: () => showFailure(mine, new Problem(data.status, data)),
    cancelled: () => showStopped(mine),
  };
  await of[name]?.();
}

/** The first works after a step. Their order is not final. A work is described once; later lists have its place and score. */
function showPartialHits(mine, { total, hits: partial }) {
  if (!partial.length) return;
  const hits = partial.map((hit) => ({ ...mine.described.get(hit.doc_id), ...hit }));
  for (const hit of hits) mine.described.set(hit.doc_id, hit);
  mine.found = total;
  byId("hits-title").textContent = `${plural(total, "work")} so far, in a provisional order`;
  fill(byId("hits"), hits.slice(0, 10).map((hit) => card(hit)));
}

async function showAnswer(mine, answer) {
  const reading = await json(`${mine.address}/reading`, { signal: mine.controller.signal }).catch(() => NO_READING);
  if (now !== mine) return;
  mine.answer = answer;
  setRunning(false);
  mine.progress.markFailures(answer.failures);
  mine.progress.showUsage(answer.usage);
  if (answer.sources.length) mine.progress.showSources(answer.sources);
  mine.progress.markEnded();
  const order = answer.hits.length ? `${count(answer.total_found)} of ${plural(answer.total_candidates, "work")}` : "Nothing found";
  mine.progress.say(`${order} in ${duration(answer.execution_time_ms)}`);
  showFailures(answer);
  byId("note").hidden = true;
  // new lists, not the old ones moved: what stood there does not jump
  for (const id of ["hits", "answer"]) byId(id).replaceWith(byId(id).cloneNode(false));
  mine.results = new Results(answer, reading, mine.address, mine.fields, {
    names: about.source_names,
    similar: (hit) => start({ ...readForm(), q: askForSimilar(hit), from: "", to: "", stars: "", lang: "", run: "", thread: "" }),
    more: (number) => start({ ...mine.fields, n: String(number), run: "", f: [], sort: "" }),
    changed: () => keepView(mine),
    refined: () => drawRefine(about),
    explainEmpty: () => explainEmpty(mine, answer),
  });
  drawRefine(about);
}

function keepView(mine) {
  Object.assign(mine.fields, { f: mine.results.chosen, sort: mine.results.sort });
  replace(mine.fields);
}

/** Steps that failed, in words for a reader; a failure of the short answer is told where it would stand. */
function showFailures({ failures, bypassed }) {
  const texts = failures.filter((one) => one.node.split(".")[0] !== "answer").map((one) => `${nameFailure(one)}.`);
  const asked = bypassed.filter((one) => ["filters", "user_feedback", "new queries"].includes(one.step)).map((one) => one.why);
  fill(byId("failures"), texts.length || asked.length ? el("ul", { class: "alert" }, [...texts, ...asked].map((text) => el("li", {}, text))) : null);
}

const FAILED = { fine_scorer: "The model could not read the works, so rules ranked them", translator: "The model could not plan the search, so rules did", dedup: "The model could not look for duplicates", reranker: "The reranker failed, so the order is that of the step before", distiller: "The sentences that answer could not be chosen", enrich: "Some records could not be completed" };
const nameFailure = ({ node }) => FAILED[node.split(".")[0]] ?? `The step ${node.replaceAll("_", " ")} failed`;

/** The cause of an empty answer, and the next step. */
function explainEmpty({ fields, progress }, answer) {
  const down = findDown(answer.sources);
  const filters = describeFilters(fields, about);
  const reasons = down.map((name) => `${about.source_names[name] ?? name} ${explainDown(answer.sources, name)}.`);
  const searched = [...new Set(answer.sources.map((row) => row.source))].filter((name) => !down.includes(name)).map((name) => progress.name(name));
  return [
    el("p", {}, el("b", {}, filters.length && answer.total_candidates ? "The filters leave nothing." : down.length && !searched.length ? "No source answered." : "Nothing was found."), searched.length ? ` Searched: ${listNames(searched)}.` : ""),
    reasons.length ? el("ul", {}, reasons.map((text) => el("li", {}, text.charAt(0).toUpperCase() + text.slice(1)))) : null,
    filters.length ? el("p", {}, `Filters: ${filters.join(", ")}.`) : el("p", {}, down.length ? "Search again in a while, or choose other sources under Options." : "Use other or fewer words, or widen the search to Exploratory under Options."),
    el("p", { class: "inline" }, filters.length ? again({ q: fields.q, mode: fields.mode, answer: fields.answer }, "Search without filters") : again(fields), fields.mode !== "exploratory" ? again({ ...fields, mode: "exploratory" }, "Search more widely") : null),
  ];
}

function showFailure(mine, error) {
  if (error.name === "AbortError") return;
  setRunning(false);
  mine.progress?.markEnded();
  mine.progress?.say("This search failed");
  byId("answer").hidden = true;
  byId("hits-title").textContent = "Results";
  fill(byId("hits"));
  const down = findDown(mine.progress?.rows ?? []).map((name) => `${about.source_names[name] ?? name} ${explainDown(mine.progress.rows, name)}`);
  const cause = error.status === 0 ? error.message : down.length ? `No source answered: ${down.join("; ")}.` : error.message;
  fill(byId("failures"), el("ul", { class: "alert" }, el("li", {}, cause)));
  note(error.status === 401 ? "The server wants a key. Enter it under \"API key\" in the corner." : error.status === 0 ? "Start the server again, or check the connection." : down.length ? "Check the connection, or choose other sources under Options." : "Change the request, or try it again.", again(mine.fields));
  if (!(error instanceof Problem)) throw error;
}

/** Stop the search, also on the server; what was found so far stays. */
function stop() {
  if (!now || byId("stop-button").hidden) return;
  const left = now;
  left.isStopped = true;
  left.controller.abort();
  if (left.address) deleteSearch(left.address);
  showStopped(left);
}

function showStopped(mine) {
  setRunning(false);
  mine.progress.markEnded();
  mine.progress.say("Stopped");
  byId("answer").hidden = true;
  const found = mine.described.size;
  if (!found) fill(byId("hits"));
  byId("hits-title").textContent = found ? `${plural(Math.min(found, byId("hits").children.length), "work")} found before the stop, not ranked to the end` : "Results";
  note(found ? "You stopped this search." : "You stopped this search before a source had answered.", again(mine.fields));
}

function deleteSearch(address) {
  ask(address, { method: "DELETE" }).catch(() => {});
}

function nextRound() {
  if (!now?.answer?.strategy) return;
  const feedback = about.answers ? makeFeedback(byId("feedback").value) : "";
  byId("feedback").value = "";
  start({ ...now.fields, run: "", f: [], sort: "" }, { previous_strategies: [now.answer.strategy], ...(feedback && { user_feedback: feedback }) });
}

const addressOfNow = () => makeAddress({ ...now.fields, run: "", f: [], sort: "" });

function toggleSaved() {
  if (!now?.fields.q) return;
  saveSearch(addressOfNow(), now.fields.q, !isSaved(addressOfNow()));
  markSaved();
}

function markSaved() {
  byId("save-search").setAttribute("aria-pressed", String(Boolean(now) && isSaved(addressOfNow())));
}
