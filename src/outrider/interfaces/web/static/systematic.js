// The systematic tab: a query explained as it is typed, a run to its last hit, and its report.

import { Problem, ask, json, lines } from "./api.js";
import { byId, makeChoices, checkedValues, count, el, fill, link, plural, save, table, words } from "./dom.js";

const TYPING_PAUSE_MS = 400;
const ROWS = 100;
const BUSY_TRIES = 10;
const FILES = { ris: "RIS", bibtex: "BibTeX", csv: "CSV", jsonl: "JSON Lines" };
let about = null;
let explaining = null;
let expected = null;
let now = null;

export function begin(serverInfo) {
  about = serverInfo;
  makeChoices(byId("exact-sources"), "sources", about.exact_sources);
  const form = byId("systematic-form");
  let waiting = 0;
  form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => explain(request(form)), TYPING_PAUSE_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run({ ...request(form) });
  });
  byId("halt-button").addEventListener("click", () => now?.controller.abort());
  byId("resume-button").addEventListener("click", () => now?.run && run({ resume: now.run, after: now.cursor }, now));
}

function request(form) {
  const sources = checkedValues(form, "sources");
  return { query: byId("boolean").value, syntax: form.elements.syntax.value, ...(sources.length && { sources }) };
}

const showStatus = (text) => (byId("lint-status").textContent = text);

async function explain(body) {
  explaining?.abort();
  expected = null;
  if (!body.query.trim()) {
    fill(byId("lint"));
    showStatus("Remarks and hits a line appear here as you type.");
    return;
  }
  const mine = (explaining = new AbortController());
  try {
    const explanation = await json("api/systematic/explain", { method: "POST", body, signal: mine.signal });
    if (explaining === mine) showExplanation(explanation);
  } catch (error) {
    if (error.name === "AbortError" || explaining !== mine) return;
    showStatus("This query cannot be read yet.");
    fill(byId("lint"), el("pre", { class: "alert" }, error.message));
  }
}

function showExplanation(explanation) {
  const last = explanation.history.at(-1);
  expected = explanation.sources.length ? null : last?.hits;
  const remarks = explanation.findings.length ? `, ${plural(explanation.findings.length, "remark")}` : ", no remark";
  const hits = last && last.hits !== null ? `, ${plural(last.hits, "hit")} in the library` : "";
  const platform = [...byId("systematic-form").elements.syntax.options].find((option) => option.value === explanation.syntax);
  showStatus(`Read as ${platform?.textContent ?? explanation.syntax}${hits}${remarks}.`);
  const history = explanation.history.map((row) => [String(row.line), el("code", {}, row.query), row.hits === null ? "-" : count(row.hits)]);
  fill(
    byId("lint"),
    explanation.findings.length ? el("ul", { class: "remarks" }, explanation.findings.map((one) => el("li", {}, el("b", {}, one.code), ` line ${one.line}, column ${one.column}: ${one.message}`))) : null,
    wide("Search history", table(["line", "query", "hits"], history, "Search history")),
    explanation.why_not_counted ? el("p", { class: "meta" }, `Hits are not counted: ${explanation.why_not_counted}`) : null,
    explanation.sources.map((one) => el("details", {}, el("summary", {}, `Query for ${words(one.source)}`), el("pre", {}, one.refused ? `not queried: ${one.refused}` : one.query))),
    el("details", {}, el("summary", {}, "As a tree"), el("pre", {}, explanation.outline)),
  );
}

const wide = (label, ...children) => el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, ...children);

async function run(asked, before = null) {
  now?.controller.abort();
  const mine = (now = { controller: new AbortController(), run: before?.run ?? "", cursor: before?.cursor ?? "", hits: before?.hits ?? [], whole: before?.whole ?? 0, page: 0, ended: false });
  showStart();
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
  byId("halt-button").disabled = false;
  byId("resume-button").hidden = true;
  for (const id of ["exact-remarks", "exact-problem", "exact-report", "exact-hits"]) fill(byId(id));
  const bar = byId("exact-progress");
  bar.removeAttribute("value");
  if (expected) bar.max = expected;
  showProgress(now);
}

/** Handle one line of the run. Only the listed fields of a hit are kept: there may be very many hits. */
function handleLine(mine, { run: name, remarks, hit, cursor, end, problem }) {
  if (name) {
    mine.run = name;
    if (now === mine) showRemarks(remarks);
  } else if (hit) mine.hits.push({ rank: hit.rank, title: hit.title, url: hit.url, doc_id: hit.doc_id, year: hit.year, source: hit.found_by?.[0]?.source, reason: hit.reason });
  else if (cursor) {
    mine.cursor = cursor;
    mine.whole = mine.hits.length;
    if (now === mine) showProgress(mine);
  } else if (end) mine.ended = true;
  else if (problem) throw new Problem(problem.status, problem);
}

/** The remarks on the query of a run; after its end also those on terms without a match and values that records lack. */
function showRemarks(remarks) {
  fill(byId("exact-remarks"), remarks?.length ? [el("h3", {}, plural(remarks.length, "remark")), el("ul", { class: "remarks" }, remarks.map((one) => el("li", {}, one)))] : null);
}

function showProgress(mine) {
  byId("exact-status").textContent = `${plural(mine.hits.length, "hit")} so far ...`;
  if (expected) byId("exact-progress").value = mine.hits.length;
  if (mine.hits.length && !byId("exact-hits").hasChildNodes()) listHits(mine);
}

function showProblem(mine, error) {
  if (now !== mine) return;
  const stopped = error.name === "AbortError";
  const kept = mine.run ? " The hits so far are saved; you can resume the run." : "";
  mine.problem = true;
  mine.hits.length = mine.whole; // hits after the last cursor are sent again when the run is resumed
  fill(byId("exact-problem"), el("p", { class: "alert" }, `${stopped ? "Stopped." : error.message}${kept}`));
}

async function finish(mine) {
  byId("halt-button").disabled = true;
  byId("resume-button").hidden = !(mine.problem && mine.run);
  const bar = byId("exact-progress");
  bar.max = Math.max(1, mine.hits.length);
  bar.value = mine.hits.length;
  byId("exact-status").textContent = `${plural(mine.hits.length, "hit")}${mine.problem ? " so far; the run is not complete." : ", to the last one."}`;
  if (mine.hits.length) listHits(mine);
  if (!mine.run) return;
  try {
    await showReport(mine, await json(`api/systematic/${mine.run}`));
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    fill(byId("exact-report"), el("p", { class: "meta" }, `There is no report: ${error.message}`));
  }
}

async function showReport(mine, report) {
  const drawing = await (await ask(`api/systematic/${mine.run}/prisma.svg`)).blob();
  if (now !== mine) return;
  showRemarks(report.remarks);
  const address = URL.createObjectURL(drawing);
  const own = (one) => (one.source === "library" ? [] : one.remarks); // those on the library are listed above
  const rows = report.sources.map((one) => [words(one.source), count(one.hits), one.total === null ? "-" : count(one.total), one.complete ? "yes" : "no", [...own(one), one.refused].filter(Boolean).join("; ")]);
  const flow = report.flow;
  const spoken = `Identified ${count(flow.total)}, duplicates removed ${count(flow.duplicates)}, outside the query ${count(flow.outside)}, to be screened ${count(flow.for_screening)}.`;
  fill(
    byId("exact-report"),
    el("p", { class: report.complete ? "" : "alert" }, report.complete ? `Complete: ${plural(report.total, "hit")}, ${plural(report.unique, "different work")}.` : `Not complete: ${report.missing.join("; ")}`),
    wide("Hits of each source", table(["source", "hits", "total reported", "complete", "remarks"], rows, "Sources")),
    el("figure", { class: "prisma" }, el("img", { src: address, alt: `PRISMA 2020 flow diagram. ${spoken}` }), el("figcaption", {}, spoken, " ", el("a", { href: address, download: "prisma-2020.svg" }, "Save the diagram"))),
    exports(mine),
    el("details", {}, el("summary", {}, "Proof"), el("pre", {}, `run ${report.run}\nprovenance ${report.provenance_hash}\nseal ${report.seal}\nfrom ${report.times.started_at} to ${report.times.finished_at}`)),
  );
}

function exports(mine) {
  const status = el("span", { role: "status" });
  const buttons = about.run_formats.map((format) => el("button", {
    type: "button",
    class: "second",
    click: async () => {
      try {
        const file = await ask(`api/systematic/${mine.run}/export?format=${format}`);
        await save(file, `outrider-run.${format}`);
        const cut = Number(file.headers.get("Outrider-Cut-Cells") ?? 0);
        status.textContent = `Saved as ${FILES[format] ?? format}.${cut ? ` ${plural(cut, "cell")} too long for a spreadsheet cut; JSON Lines has the whole text.` : ""}`;
      } catch (error) {
        status.textContent = `Not saved: ${error.message}`;
      }
    },
  }, FILES[format] ?? format));
  return el("p", { class: "inline" }, "Save all hits: ", buttons, status);
}

function listHits(mine) {
  const pages = Math.max(1, Math.ceil(mine.hits.length / ROWS));
  const first = mine.page * ROWS;
  const rows = mine.hits.slice(first, first + ROWS).map((hit) => [count(hit.rank), link(hit.url, hit.title || hit.doc_id), hit.year ?? "", words(hit.source ?? ""), hit.reason ?? ""]);
  const turn = (by, name) => el("button", { type: "button", class: "second", disabled: mine.page + by < 0 || mine.page + by >= pages, click: () => turnPage(mine, by) }, name);
  fill(
    byId("exact-hits"),
    wide("Hits", table(["", "title", "year", "source", "proof"], rows, "Hits, in the run's order")),
    el("p", { class: "inline" }, turn(-1, "Earlier"), el("span", { id: "exact-page" }, `${count(first + 1)} to ${count(first + rows.length)} of ${count(mine.hits.length)}`), turn(1, "Later")),
  );
}

function turnPage(mine, by) {
  mine.page += by;
  listHits(mine);
  byId("exact-hits").querySelector(".wide").focus();
}
