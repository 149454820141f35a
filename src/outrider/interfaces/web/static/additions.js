// Adding files and identifiers to the library: one after another, with progress and a report. Stop keeps what was added before.

import { KEY_STORAGE, Problem, ask, askForKey, lines } from "./api.js";
import { byId, count, el, fill, listNames, plural } from "./dom.js";

const MAX_REASONS = 3;
const COUNTS = ["added", "updated", "unchanged"];
let waiting = [];
let working = null;
let library = null;
let totals = null;

/** `contents()` has the limits of the server; `done` is called when everything was added; `names` are those of the sources. */
export function begin({ contents, done, names }) {
  library = { contents, done, names };
  const drop = byId("drop");
  byId("choose-files").addEventListener("click", () => byId("files").click());
  byId("files").addEventListener("change", (event) => {
    addFiles([...event.target.files]);
    event.target.value = "";
  });
  for (const name of ["dragenter", "dragover"]) {
    byId("view-library").addEventListener(name, (event) => {
      if (!event.dataTransfer?.types.includes("Files") || byId("add").hidden) return;
      event.preventDefault();
      byId("add").open = true;
      drop.classList.add("over");
    });
  }
  for (const name of ["dragleave", "drop"]) byId("view-library").addEventListener(name, () => drop.classList.remove("over"));
  byId("view-library").addEventListener("drop", (event) => {
    if (!event.dataTransfer?.types.includes("Files") || byId("add").hidden) return;
    event.preventDefault();
    addFiles([...event.dataTransfer.files]);
  });
  byId("targets-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const names = byId("targets").value.split(/[\n,]+/).map((line) => line.trim()).filter(Boolean);
    if (!names.length) return;
    byId("targets").value = "";
    enqueue([{ name: names.length === 1 ? names[0] : plural(names.length, "identifier"), send: (row) => sendTargets(names, row) }]);
  });
  byId("adding-stop").addEventListener("click", stop);
  byId("add").addEventListener("toggle", showLimits);
  showLimits();
}

function showLimits() {
  const about = library.contents();
  if (!about) return;
  byId("add-limits").textContent = `PDF, Word, EPUB, notebooks, BibTeX, RIS, EndNote, PubMed, Web of Science, Scopus, CSV, Excel, JSON, Markdown, HTML or text; up to ${count(Math.round(about.max_bytes / 2 ** 20))} MB each.`;
  byId("files").accept = about.suffixes.join(",");
  byId("targets-note").textContent = about.online ? "DOI, arXiv, PubMed, GitHub or a web page: their records are looked up." : "This server is offline: identifiers cannot be looked up. Files can be added.";
  for (const one of byId("targets-form").elements) one.disabled = !about.online;
}

function addFiles(files) {
  const { max_bytes: most } = library.contents();
  enqueue(files.map((file) => ({
    name: file.name,
    send: async (row) => {
      if (file.size > most) throw new Problem(413, { detail: `larger than ${count(Math.round(most / 2 ** 20))} MB` });
      return sendFile(file, row);
    },
  })));
}

function enqueue(jobs) {
  if (!jobs.length) return;
  if (!working) {
    totals = { added: 0, updated: 0, unchanged: 0, failed: 0, skipped: 0, done: 0, of: 0, stopped: 0 };
    fill(byId("adding-list"));
  }
  byId("adding").hidden = false;
  for (const job of jobs) {
    job.state = el("span", { class: "state" }, "waiting");
    job.bar = el("progress", { "aria-label": `Progress of ${job.name}`, max: "1", value: "0", hidden: true });
    job.more = el("div");
    byId("adding-list").append(el("li", {}, el("span", { class: "name", dir: "auto" }, job.name), job.state, job.bar, job.more));
  }
  totals.of += jobs.length;
  waiting.push(...jobs);
  if (!working) work();
}

async function work() {
  working = new AbortController();
  byId("adding-stop").hidden = false;
  while (waiting.length && !working.signal.aborted) {
    const job = waiting.shift();
    describeTotals();
    job.bar.hidden = false;
    try {
      showReport(job, await job.send(job));
    } catch (error) {
      if (error.name === "AbortError") totals.stopped += 1;
      else totals.failed += 1;
      job.state.textContent = error.name === "AbortError" ? `stopped${job.stored ? `; ${plural(job.stored, "record")} read before` : ""}` : `not added: ${error.message}`;
      job.state.classList.add(error.name === "AbortError" ? "quietly" : "failed");
    }
    job.bar.hidden = true;
    totals.done += 1;
  }
  for (const job of waiting) job.state.textContent = "not begun";
  totals.stopped += waiting.length;
  waiting = [];
  working = null;
  byId("adding-stop").hidden = true;
  describeTotals();
  await library.done({ newest: true });
}

function stop() {
  working?.abort();
}

function describeTotals() {
  const parts = COUNTS.filter((name) => totals[name]).map((name) => `${count(totals[name])} ${name}`);
  if (totals.failed) parts.push(`${count(totals.failed)} failed`);
  if (totals.skipped) parts.push(`${plural(totals.skipped, "file")} not read`);
  if (totals.stopped) parts.push(`${count(totals.stopped)} stopped`);
  const sum = parts.length ? parts.join(", ") : "nothing to add";
  byId("adding-status").textContent = working ? `Adding ${count(totals.done + 1)} of ${count(totals.of)} ...${parts.length ? ` So far: ${sum}.` : ""}` : `Done: ${sum}.`;
}

function showReport(job, report) {
  for (const name of COUNTS) totals[name] += report[name];
  totals.failed += report.failed;
  totals.skipped += report.skipped;
  const parts = COUNTS.filter((name) => report[name]).map((name) => `${count(report[name])} ${name}`);
  if (report.failed) parts.push(`${count(report.failed)} failed`);
  job.state.textContent = parts.join(", ") || (report.skipped ? "not read" : "nothing to add");
  if (report.failed || !parts.length) job.state.classList.add("failed");
  const notes = report.files.flatMap((file) => [...file.reasons, ...file.remarks].map(nameSources).map((why) => (report.files.length > 1 ? `${file.path}: ${why}` : why)));
  for (const one of report.stale) notes.push(`${plural(one.doc_ids.length, "record")} of the earlier version ${one.doc_ids.length === 1 ? "is" : "are"} no longer in this file and stay${one.doc_ids.length === 1 ? "s" : ""} in the library.`);
  if (report.vectors.off && report.vectors.without && report.vectors.model) notes.push(`Not yet found by meaning: ${report.vectors.off}`);
  const list = (some) => el("ul", {}, some.map((note) => el("li", { dir: "auto" }, note)));
  fill(job.more, notes.length ? list(notes.slice(0, MAX_REASONS)) : null, notes.length > MAX_REASONS ? el("details", {}, el("summary", {}, `${plural(notes.length - MAX_REASONS, "more note")}`), list(notes.slice(MAX_REASONS))) : null);
}

const nameSources = (why) => why.replace(/^(not known to )([\w, ]+)$/, (_, begin, names) => begin + listNames(names.split(", ").map((name) => library.names[name] ?? name)));

/** Handle one line of an addition; the report at the end, else undefined. */
function handleLine(job, { progress, report, problem }) {
  if (problem) throw new Problem(problem.status, problem);
  if (progress?.records !== undefined) {
    job.stored = progress.records;
    const [done, all] = progress.embedding ?? [];
    job.state.textContent = all ? `${count(progress.records)} read; preparing ${count(done)} of ${count(all)} for search by meaning` : `${plural(progress.records, "record")} read${progress.files_total > 1 ? `, ${count(progress.files_done)} of ${count(progress.files_total)}` : ""}`;
    if (progress.files_total > 1) {
      job.bar.max = progress.files_total;
      job.bar.value = progress.files_done;
    }
  }
  return report;
}

async function sendTargets(targets, job) {
  job.bar.removeAttribute("value");
  try {
    const response = await ask("api/library/targets", { method: "POST", body: { targets }, signal: working.signal });
    for await (const line of lines(response)) {
      const report = line && handleLine(job, JSON.parse(line));
      if (report) return report;
    }
    throw new Problem(0, { detail: "the connection was lost" });
  } catch (error) {
    byId("targets").value ||= targets.join("\n"); // to be corrected and sent again
    throw error;
  }
}

/** Send a file. XMLHttpRequest reports how much was sent, which fetch does not. */
async function sendFile(file, job) {
  for (;;) {
    try {
      return await request(file, job, working.signal);
    } catch (error) {
      if (error.status !== 401 || !(await askForKey(error.message))) throw error;
    }
  }
}

function request(file, job, signal) {
  return new Promise((resolve, reject) => {
    const http = new XMLHttpRequest();
    let read = 0;
    let result;
    const fail = (error) => {
      reject(error);
      http.abort();
    };
    const readLines = () => {
      const whole = http.responseText;
      for (let end = whole.indexOf("\n", read); end >= 0; end = whole.indexOf("\n", read)) {
        const line = whole.slice(read, end);
        read = end + 1;
        if (line) result = handleLine(job, JSON.parse(line)) ?? result;
      }
    };
    const guarded = (handle) => () => {
      try {
        handle();
      } catch (error) {
        fail(error);
      }
    };
    http.open("POST", `api/library/files?${new URLSearchParams({ name: file.name })}`);
    http.setRequestHeader("Content-Type", "application/octet-stream");
    const key = sessionStorage.getItem(KEY_STORAGE);
    if (key) http.setRequestHeader("Authorization", `Bearer ${key}`);
    http.upload.addEventListener("progress", (event) => {
      job.bar.max = event.total || 1;
      job.bar.value = event.loaded;
      job.state.textContent = `sending, ${Math.round((100 * event.loaded) / (event.total || 1))} %`;
    });
    http.upload.addEventListener("load", () => {
      job.bar.removeAttribute("value");
      job.state.textContent = "reading";
    });
    http.addEventListener("progress", guarded(() => http.status === 200 && readLines()));
    http.addEventListener("load", guarded(() => {
      if (http.status !== 200) throw new Problem(http.status, parse(http.responseText));
      readLines();
      if (!result) throw new Problem(0, { detail: "the connection was lost" });
      resolve(result);
    }));
    http.addEventListener("error", () => reject(new Problem(0, { detail: "The server refused the file or cannot be reached." })));
    http.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => http.abort(), { once: true });
    http.send(file);
  });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return {};
  }
}
