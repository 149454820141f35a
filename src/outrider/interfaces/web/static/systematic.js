// The systematic view: a query explained as it is typed, and a run to its last hit. The address holds query and run.

import { addressOfSaved } from "./address.js";
import { Problem, ask, json, lines } from "./api.js";
import { byId, count, el, fill, plural } from "./dom.js";
import { showError, showExplanation, showRemarks } from "./remarks.js";
import { showHits, showReport } from "./run-report.js";

const TYPING_PAUSE_MS = 400;
const BUSY_TRIES = 10;
const MAX_ADDRESS_CHARS = 4_000;
const EXAMPLE = '(aspirin[tiab] OR "acetylsalicylic acid"[tiab])\nAND (liver[tiab] OR hepat*[tiab])\nAND 2000:2030[dp]';
let about = null;
let explaining = null;
let explained = null;
let remarksBelow = { remarks: [], query: "" };
let expected = null;
let now = null;
let shown = null;

const form = () => byId("systematic-form");

export async function begin(serverInfo) {
  about = serverInfo;
  byId("syntax-help").open = matchMedia("(min-width: 60rem)").matches;
  let waiting = 0;
  form().addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => explain(request()), TYPING_PAUSE_MS);
  });
  form().addEventListener("submit", (event) => {
    event.preventDefault();
    history.pushState(null, "", makeAddress({ ...request(), run: "" }));
    shown = location.hash; // the first look at the address may come later
    run(request());
  });
  byId("example-button").addEventListener("click", () => {
    byId("boolean").value = EXAMPLE;
    form().elements.syntax.value = "auto";
    explain(request());
    byId("boolean").focus();
  });
  byId("repeat-button").addEventListener("click", () => {
    if (form().reportValidity()) location.hash = addressOfSaved("systematic", request());
  });
  byId("halt-button").addEventListener("click", () => now?.controller.abort());
  byId("resume-button").addEventListener("click", () => now?.run && run({ resume: now.run, after: now.cursor }, now));
  addEventListener("hashchange", show);
  addEventListener("popstate", show);
  await showSources();
  await show();
}

/** The sources that can be asked now as boxes; the others by name, with the reason. */
async function showSources() {
  const { sources } = await json("api/systematic/sources");
  const able = sources.filter((one) => !one.why_not);
  const reasons = new Map();
  for (const one of sources.filter((other) => other.why_not)) reasons.set(one.why_not, [...(reasons.get(one.why_not) ?? []), one.title]);
  fill(
    byId("exact-sources"),
    el("legend", {}, "Sources ", able.length > 1 ? el("small", {}, able.some((one) => one.name === "library") ? "none chosen: only your library is searched, not all sources as in Search" : "choose at least one") : null),
    able.length === 1 && able[0].name === "library" ? el("p", { class: "meta" }, "Your library is searched.") : el("div", { class: "choices" }, able.map((one) => el("label", {}, el("input", { type: "checkbox", name: "sources", value: one.name }), ` ${one.title}`))),
    able.length ? null : el("p", { class: "meta" }, "No source can be asked at the moment."),
    reasons.size ? el("details", {}, el("summary", { class: "meta" }, `${plural(sources.length - able.length, "other source")} cannot be asked`), el("ul", { class: "remarks" }, [...reasons].map(([why, names]) => el("li", {}, el("b", {}, names.join(", ")), `: ${why}`)))) : null,
  );
}

function request() {
  const sources = new FormData(form()).getAll("sources").map(String);
  return { query: byId("boolean").value, syntax: form().elements.syntax.value, ...(sources.length && { sources }) };
}

function readAddress() {
  const [path, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(text);
  return { isMine: path === "systematic", query: given.get("q") ?? "", syntax: given.get("syntax") ?? "auto", sources: given.getAll("src"), run: given.get("run") ?? "" };
}

function makeAddress({ query = "", syntax = "auto", sources = [], run: name = "" }) {
  const given = new URLSearchParams();
  if (name) given.set("run", name);
  if (query && query.length <= MAX_ADDRESS_CHARS) given.set("q", query);
  if (syntax !== "auto") given.set("syntax", syntax);
  for (const source of sources) given.append("src", source);
  return `#/systematic${String(given) && `?${given}`}`;
}

function nameTab(query) {
  const text = typeof query === "string" ? query.replaceAll(/\s+/g, " ").trim() : "";
  document.title = text ? `${text.slice(0, 80)} - Outrider` : "Every match of a Boolean query - Outrider";
}

/** Show what the address says: a finished run, or a query to explain. */
async function show() {
  const address = readAddress();
  if (!address.isMine) return;
  nameTab(address.query || byId("boolean").value);
  if (location.hash === shown && now?.run && !address.run) nameRun(now);
  if (location.hash === shown || (address.run && address.run === now?.run)) return;
  shown = location.hash;
  if (address.query || address.run) fillForm(address);
  if (address.run) await open(address);
  else {
    now?.controller.abort();
    now = null;
    byId("exact-run").hidden = true;
    drawRemarks([], "");
    explain(request()); // it may have been typed before the page was ready
  }
}

function fillForm({ query, syntax, sources = [] }) {
  byId("boolean").value = typeof query === "string" ? query : JSON.stringify(query, null, 1);
  form().elements.syntax.value = syntax || "auto";
  for (const box of form().querySelectorAll("[name=sources]")) box.checked = sources.includes(box.value);
}

/** Open a run by its name, from a shared link or after a reload. */
async function open(address) {
  now?.controller.abort();
  const mine = (now = makeRun({ run: address.run }));
  showStart();
  byId("exact-status").textContent = "Opening the run ...";
  byId("halt-button").hidden = true;
  try {
    const report = await json(`api/systematic/${encodeURIComponent(address.run)}`);
    if (now !== mine) return;
    mine.total = report.total;
    mine.ended = true;
    fillForm({ query: report.query, syntax: address.syntax, sources: report.names.length === 1 && report.names[0] === "library" ? [] : report.names });
    if (readAddress().isMine) nameTab(report.query);
    explain(request());
    await finish(mine, report);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    await openUnfinished(mine, error);
  }
}

async function openUnfinished(mine, error) {
  try {
    const { hits } = await json(`api/systematic/${encodeURIComponent(mine.run)}/hits?limit=1`);
    if (now !== mine) return;
    mine.problem = true;
    byId("exact-status").textContent = hits.length ? "This run was stopped before its end. Its hits so far are saved." : "This run was stopped before its first hit.";
    byId("resume-button").hidden = false;
  } catch {
    if (now !== mine) return;
    byId("exact-status").textContent = "";
    mine.run = "";
    fill(byId("exact-problem"), el("p", { class: "alert" }, error.status === 404 || error.status === 422 ? "This server has no such run; it may have been made on another one. Run the query again." : error.message));
    if (byId("boolean").value.trim()) explain(request());
  }
  byId("exact-progress").hidden = true;
}

const showStatus = (text) => (byId("lint-status").textContent = text);

async function explain(body) {
  explaining?.abort();
  expected = explained = null;
  if (!body.query.trim()) {
    fill(byId("lint"));
    showStatus("Remarks and the hits of each line appear here as you type.");
    return;
  }
  const mine = (explaining = new AbortController());
  try {
    const explanation = await json("api/systematic/explain", { method: "POST", body, signal: mine.signal });
    if (explaining !== mine) return;
    const last = explanation.history.at(-1);
    expected = explanation.sources.length ? null : last?.hits;
    const platform = [...form().elements.syntax.options].find((option) => option.value === explanation.syntax)?.textContent ?? explanation.syntax;
    const hits = last && last.hits !== null ? `, ${plural(last.hits, "hit")} in your library` : "";
    showStatus(`Read as ${platform}${hits}, ${explanation.findings.length ? plural(explanation.findings.length, "remark") : "no remark"}.`);
    explained = { explanation, query: body.query };
    drawExplanation();
  } catch (error) {
    if (error.name === "AbortError" || explaining !== mine) return;
    showStatus("This query cannot be read yet.");
    showError(byId("lint"), error.message, body.query);
  }
}

/** Remarks that stand with the run of the same query are shown there alone. */
function drawExplanation() {
  if (!explained) return;
  const { remarks, query } = remarksBelow;
  showExplanation(byId("lint"), explained.explanation, explained.query, (name) => about.source_names?.[name] ?? name, query === explained.query ? remarks : []);
}

function drawRemarks(remarks, query) {
  remarksBelow = { remarks: remarks ?? [], query };
  showRemarks(byId("exact-remarks"), remarks, query);
  drawExplanation();
}

const makeRun = (before = {}) => ({ controller: new AbortController(), run: before.run ?? "", cursor: before.cursor ?? "", hits: before.hits ?? [], whole: before.whole ?? 0, total: 0, page: 0, ended: false, query: byId("boolean").value });

async function run(asked, before = null) {
  now?.controller.abort();
  const mine = (now = makeRun(before ?? {}));
  showStart();
  byId("exact-title").focus({ preventScroll: true });
  byId("exact-run").scrollIntoView({ block: "start" });
  try {
    const response = await openRun(asked, mine.controller.signal);
    for await (const line of lines(response)) if (line) handleLine(mine, JSON.parse(line));
    if (!mine.ended) throw new Problem(0, { detail: "the connection was lost" });
  } catch (error) {
    showProblem(mine, error);
  } finally {
    if (now === mine) await finish(mine);
  }
}

/** A run that was just stopped may stay locked for a moment. */
async function openRun(asked, signal) {
  for (let tries = asked.resume ? BUSY_TRIES : 0; ; tries--) {
    try {
      return await ask("api/systematic", { method: "POST", body: asked, signal });
    } catch (error) {
      if (error.status !== 503 || tries <= 0) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

function showStart() {
  byId("exact-run").hidden = false;
  byId("halt-button").hidden = false;
  byId("resume-button").hidden = true;
  drawRemarks([], "");
  for (const id of ["exact-problem", "exact-report", "exact-hits", "exact-proof"]) fill(byId(id));
  const bar = byId("exact-progress");
  bar.hidden = false;
  bar.removeAttribute("value");
  if (expected) bar.max = expected;
  showProgress(now);
}

/** Put the run into the address, unless that is of another view by now. */
function nameRun(mine) {
  if (!readAddress().isMine) return;
  history.replaceState(null, "", makeAddress({ ...request(), run: mine.run }));
  shown = location.hash;
}

/** Handle one line of the run. Only the listed fields of a hit are kept: there may be very many hits. */
function handleLine(mine, { run: name, remarks, hit, cursor, end, problem }) {
  if (name) {
    mine.run = name;
    if (now === mine) {
      nameRun(mine);
      drawRemarks(remarks, mine.query);
    }
  } else if (hit) mine.hits.push({ rank: hit.rank, title: hit.title, url: hit.url, doc_id: hit.doc_id, year: hit.year, venue: hit.venue, authors: hit.authors?.slice(0, 3), more_authors: Math.max(0, (hit.authors?.length ?? 0) - 3), source: hit.found_by?.[0]?.source, proof: hit.reason, notices: hit.notices });
  else if (cursor) {
    mine.cursor = cursor;
    mine.whole = mine.hits.length;
    if (now === mine) showProgress(mine);
  } else if (end) mine.ended = true;
  else if (problem) throw new Problem(problem.status, problem);
}

function showProgress(mine) {
  byId("exact-status").textContent = `${plural(mine.hits.length, "hit")} so far ...`;
  if (expected) byId("exact-progress").value = mine.hits.length;
  if (mine.hits.length && !byId("exact-hits").hasChildNodes()) listHits(mine);
}

function listHits(mine) {
  showHits(byId("exact-hits"), mine, (name) => about.source_names?.[name] ?? name);
}

function showProblem(mine, error) {
  if (now !== mine) return;
  const stopped = error.name === "AbortError";
  const kept = mine.run ? " The hits so far are saved; you can resume the run." : "";
  mine.problem = true;
  mine.hits.length = mine.whole; // hits after the last cursor are sent again when the run is resumed
  fill(byId("exact-problem"), el("p", { class: stopped ? "meta" : "alert" }, `${stopped ? "Stopped." : error.message}${kept}`));
}

/** Show how the run ended. `report` is there already for a run that was opened by its name. */
async function finish(mine, report = null) {
  byId("halt-button").hidden = true;
  byId("resume-button").hidden = !(mine.problem && mine.run);
  byId("exact-progress").hidden = true;
  const total = report?.total ?? mine.hits.length;
  mine.total = total;
  byId("exact-status").textContent = `${plural(total, "hit")}${mine.problem ? " so far; the run is not complete." : ""}`;
  try {
    const whole = report ?? (mine.run && !mine.problem ? await json(`api/systematic/${mine.run}`) : null);
    if (whole && now === mine) {
      const drawing = await (await ask(`api/systematic/${mine.run}/prisma.svg`)).blob();
      if (now !== mine) return;
      mine.ended = true;
      byId("exact-status").textContent = whole.complete ? `Complete: ${plural(whole.total, "hit")}, ${plural(whole.unique, "different work")}.` : `Not complete: ${plural(whole.total, "hit")}.`;
      mine.hits = []; // the server gives them page by page, with their abstracts
      showReport({ report: byId("exact-report"), proof: byId("exact-proof") }, whole, drawing, about, (name) => about.source_names?.[name] ?? name);
      drawRemarks(whole.remarks, whole.query);
    }
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (now !== mine) return;
    fill(byId("exact-report"), el("p", { class: "meta" }, `There is no report: ${error.message}`));
  }
  if (now === mine && mine.total) listHits(mine);
  if (now === mine && document.activeElement === byId("exact-title")) byId("exact-status").focus({ preventScroll: true }); // the line that says how it ended
}
