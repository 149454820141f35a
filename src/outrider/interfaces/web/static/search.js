// The search view: its address, and a search from its first event to its answer.

import { addressOfChase, addressOfSaved, makeAddress, makeRequest, nameTab, push, readAddress, replace } from "./address.js";
import { Problem, ask, events, json } from "./api.js";
import { byId, copyLink, el, fill, plural } from "./dom.js";
import { explainEmpty, explainFailure, showFailures } from "./explain.js";
import { foldOnNarrowScreens } from "./facets.js";
import { showLanding } from "./first-view.js";
import { fillForm, readForm } from "./form.js";
import { card } from "./hits.js";
import { duration } from "./pipeline.js";
import { Progress } from "./progress.js";
import { askForSimilar, drawRefine, makeFeedback } from "./refine.js";
import { FILES, FILE_CHOICES, Results } from "./results.js";
import { isSaved, rememberSearch, saveSearch } from "./shelf.js";
import { showThreads } from "./threads.js";

/** Between a panel and the edge of the window, in pixels. */
const MARGIN = 8;
const NO_READING = { hits: [], best: [], unanswered: "" };
let about = null;
let now = null;

export function begin(serverInfo) {
  about = serverInfo;
  setUpResults();
  byId("stop-button").addEventListener("click", stop);
  byId("threads-close").addEventListener("click", () => byId("threads-dialog").close());
}

export const openThreads = () => showThreads(({ thread, query, id }) => {
  push({ q: query, thread, run: id });
  follow();
});

function setUpResults() {
  fill(byId("export-format"), about.formats.map((name) => el("option", { value: name }, FILE_CHOICES[name] ?? FILES[name] ?? name)));
  byId("export-form").addEventListener("submit", (event) => {
    event.preventDefault();
    now?.results?.save(byId("export-format").value);
    closeExport();
  });
  byId("kept-only").addEventListener("change", () => now?.results?.drawExportCount());
  byId("timeline-button").addEventListener("click", () => {
    now?.results?.saveTimeline();
    closeExport();
  });
  document.addEventListener("click", closePanels);
  document.addEventListener("keydown", closePanels);
  byId("export").addEventListener("toggle", placeMenu);
  byId("sort").addEventListener("change", (event) => now?.results?.sortBy(event.target.value));
  byId("more").addEventListener("click", () => now?.results?.showMore());
  byId("copy-link").addEventListener("click", () => copyLink(byId("saved")));
  byId("save-search").addEventListener("click", toggleSaved);
  byId("results").addEventListener("click", ({ target }) => {
    const opened = target.closest("#hits .hit a[href]")?.closest(".hit");
    if (opened) now?.results?.hooks.judged({ doc_id: opened.dataset.id }, "open");
  });
  byId("refine").addEventListener("changed", () => now?.results && (now.results.draw(), drawRefine(about)));
  byId("refine-form").addEventListener("submit", (event) => {
    event.preventDefault();
    nextRound();
  });
  foldOnNarrowScreens();
}

function closeExport() {
  byId("export").open = false;
  byId("export").querySelector("summary").focus();
}

/** Near the left edge of the window, a menu's panel begins at the menu, or as far left of it as it needs. */
function placeMenu({ currentTarget: menu }) {
  const panel = menu.querySelector("form");
  Object.assign(panel.style, { left: "", right: "" });
  const box = panel.getBoundingClientRect();
  if (!menu.open || box.left >= 0) return;
  const room = document.documentElement.clientWidth - MARGIN - box.width - menu.getBoundingClientRect().left;
  Object.assign(panel.style, { left: `${Math.min(0, room)}px`, right: "auto" });
}

/** The export menu and citations close at a click outside of them, and with Escape, which gives the focus back. */
function closePanels(event) {
  for (const panel of byId("view-search").querySelectorAll(".menu[open], .cite-panel")) {
    const isMenu = panel === byId("export");
    const opener = isMenu ? panel.querySelector("summary") : panel.closest(".actions").querySelector(".opens-citation");
    if (event.type === "click" ? panel.contains(event.target) || opener === event.target : event.key !== "Escape") continue;
    if (isMenu) panel.open = false;
    else opener.click();
    if (event.type === "keydown") opener.focus();
  }
}

/** What the address says: the first view, a kept run, or a search that can be started. */
export function follow() {
  const fields = readAddress();
  if (fields.view !== "search") return;
  nameTab(fields);
  if (now?.isUnnamed && fields.q === now.fields.q && !fields.run) return nameRun(now);
  if (now && fields.q && now.fields.q === fields.q && (now.fields.run ?? "") === fields.run) return;
  leave();
  if (!fields.q) return showLanding();
  fillForm(fields);
  if (fields.run) open(fields);
  else offer(fields, "This search has not been run here yet.");
}

/** Put the run into the address, unless that is of another view by now. */
function nameRun(mine) {
  mine.isUnnamed = readAddress().view !== "search";
  if (!mine.isUnnamed) replace(mine.fields);
}

/** The reports of the sources in the last search. */
export const lastReports = () => now?.answer?.sources ?? [];

/** Stop to follow a search; it goes on at the server, and its address leads back to it. */
function leave() {
  now?.controller.abort();
  now?.progress?.markEnded();
  now = null;
  setRunning(false);
}

function showFrame(fields) {
  const isLost = byId("landing").contains(document.activeElement) || byId("results").contains(document.activeElement);
  byId("export").open = false;
  byId("landing").hidden = true;
  byId("view-search").classList.add("asked");
  byId("run").hidden = byId("results").hidden = false;
  for (const id of ["answer", "tools", "more", "refine", "note", "checkpoint", "source-rows", "chase-thread", "repeat-search"]) byId(id).hidden = true;
  for (const id of ["hits", "failures", "shown", "saved"]) fill(byId(id));
  byId("hits-title").textContent = "Results";
  fill(byId("facets").querySelector("div"));
  byId("facets-count").textContent = "";
  byId("facets").hidden = false;
  byId("search-status").textContent = byId("cost").textContent = byId("elapsed").textContent = "";
  nameTab(fields);
  markSaved();
  if (isLost) byId("hits-title").focus({ preventScroll: true }); // what had the focus is gone
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

/** A new search, with an entry of its own in the browser's history. `extra` are fields of the request that no address holds; `said` stands above its hits. */
export async function start(fields, extra = {}, said = "") {
  stop();
  leave();
  fillForm(fields);
  byId("narrow").open = false;
  push({ ...fields, run: "" });
  const mine = (now = { ...begun(fields), said });
  showSearching(mine);
  try {
    const headers = { Prefer: "respond-async", ...(fields.thread && { "X-Thread-Id": fields.thread }) };
    const accepted = await json("api/search", { method: "POST", body: { ...makeRequest(fields, about), ...extra }, headers });
    const address = `api/search/${accepted.id}`;
    if (mine.isStopped) return deleteSearch(address); // it was stopped before its number arrived
    if (now !== mine) return;
    mine.address = address;
    mine.fields.run = accepted.id;
    nameRun(mine);
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
    else await followEvents(mine, readAfter(state));
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
  if (mine.said) note(mine.said);
  mine.progress = new Progress(about, mine.fields.src?.length ? mine.fields.src : about.sources);
}

async function followEvents(mine, after = 0) {
  for await (const event of events(mine.address, mine.controller.signal, after)) if (now === mine) await handleEvent(mine, event);
}

async function handleEvent(mine, { name, data }) {
  const { progress } = mine;
  const of = {
    queued: () => progress.say(data.position ? `Waiting: ${plural(data.position, "search", "searches")} before this one` : "Waiting for a free place"),
    started: () => progress.markStarted(data),
    finished: () => progress.markFinished(data),
    hits: () => showPartialHits(mine, data),
    sources: () => progress.showSources(data.sources),
    failures: () => progress.markFailures(data.failures),
    usage: () => progress.showUsage(data),
    waiting: () => showWaiting(mine, data),
    response: () => showAnswer(mine, data),
    problem: () => showFailure(mine, new Problem(data.status, data)),
    cancelled: () => showStopped(mine),
  };
  await of[name]?.();
}

/** The number of the last event before a reader's last answer. */
const readAfter = (state) => Number(new URL(state.events, location.href).searchParams.get("after") ?? 0);

/** The search waits, on the server and as long as a thread is kept: also for another tab, and after a restart. */
async function showWaiting(mine, review) {
  const { showReview } = await import("./checkpoints.js");
  if (now !== mine) return;
  mine.progress.pause();
  mine.progress.say("Waiting for you");
  byId("results").setAttribute("aria-busy", "false");
  byId("answer").hidden = byId("facets").hidden = true;
  fill(byId("hits"));
  byId("hits-title").textContent = "Results";
  if (review.thread && !mine.fields.thread) {
    mine.fields.thread = review.thread; // the next round goes on from here
    nameRun(mine);
  }
  showReview(review, about.source_names, async (answer) => {
    const state = await json(`${mine.address}/resume`, { method: "POST", body: answer, headers: { Prefer: "respond-async" }, signal: mine.controller.signal });
    if (now !== mine) return;
    if (answer.sources) mine.progress.expected = answer.sources;
    byId("checkpoint").hidden = true;
    byId("results").setAttribute("aria-busy", "true");
    byId("hits-title").focus({ preventScroll: true }); // the form that had the focus is gone
    mine.progress.goOn();
    followEvents(mine, readAfter(state)).catch((error) => now === mine && showFailure(mine, error));
  });
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
  byId("answer").hidden = byId("facets").hidden = false;
  mine.progress.markFailures(answer.failures);
  mine.progress.showUsage(answer.usage);
  if (answer.sources.length) mine.progress.showSources(answer.sources);
  mine.progress.markEnded(answer.bypassed);
  mine.progress.say(`${answer.hits.length ? "Done" : "Nothing found"} in ${duration(answer.execution_time_ms)}`);
  showFailures(answer);
  byId("chase-thread").hidden = !mine.fields.thread || !answer.hits.length;
  byId("chase-thread").href = addressOfChase(mine.fields.thread);
  byId("repeat-search").hidden = false;
  byId("repeat-search").href = addressOfSaved("search", { ...makeRequest(mine.fields), distill_enabled: false });
  if (!mine.said) byId("note").hidden = true;
  // new lists, not the old ones moved: what stood there does not jump
  for (const id of ["hits", "answer"]) byId(id).replaceWith(byId(id).cloneNode(false));
  mine.results = new Results(answer, reading, mine.address, mine.fields, {
    names: about.source_names,
    similar: (hit, isMissing) => start({ ...readForm(), q: askForSimilar(hit), from: "", to: "", stars: "", lang: "", label: [], run: "", thread: "" }, {}, `${isMissing ? "Your library does not have this work, so that works like it were" : "Works like it,"} searched by its title and keywords: ${(hit.title || hit.doc_id).slice(0, 120)}`),
    more: (number) => start({ ...mine.fields, n: String(number), run: "", f: [], sort: "" }),
    changed: () => keepView(mine),
    refined: () => drawRefine(about),
    judged: (hit, action) => about.learns && mine.address && json("api/feedback", { method: "POST", body: { search: mine.address.split("/").at(-1), doc_id: hit.doc_id, action } }).catch(() => {}),
    explainEmpty: () => explainEmpty(mine.fields, answer, about, again),
  });
  drawRefine(about);
}

function keepView(mine) {
  Object.assign(mine.fields, { f: mine.results.chosen, sort: mine.results.sort });
  replace(mine.fields);
}

function showFailure(mine, error) {
  if (error.name === "AbortError") return;
  setRunning(false);
  mine.progress?.markEnded();
  mine.progress?.say("This search failed");
  byId("answer").hidden = byId("facets").hidden = true;
  byId("hits-title").textContent = "Results";
  fill(byId("hits"));
  const { cause, advice } = explainFailure(error, mine.progress?.rows ?? [], about);
  fill(byId("failures"), el("ul", { class: "alert" }, el("li", {}, cause)));
  note(advice, again(mine.fields));
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
  byId("checkpoint").hidden = true;
  mine.progress.markEnded();
  mine.progress.say("Stopped");
  byId("answer").hidden = byId("facets").hidden = true;
  const found = mine.described.size;
  if (!found) fill(byId("hits"));
  byId("hits-title").textContent = found ? `${plural(Math.min(found, byId("hits").children.length), "work")} found before the stop, not ranked to the end` : "Results";
  note(found ? "You stopped this search." : "You stopped this search before a source had answered.", again(mine.fields));
}

const deleteSearch = (address) => ask(address, { method: "DELETE" }).catch(() => {});

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
