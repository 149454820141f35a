// Screening: one record at a time, decided by keys or buttons. The address holds the review.

import { KEY_STORAGE, ask, json } from "./api.js";
import { byId, count, el, fill, link, plural, save, table } from "./dom.js";
import { identifierAddress } from "./hits.js";
import { noticeMarks } from "./marks.js";
import { wide } from "./remarks.js";

const BY = "outrider.reviewer";
const KEYS_OFF = "outrider.review-keys-off";
const WORD = /[^\W_]+/gu;
const ACTIONS = { i: "Include", e: "Exclude", m: "Maybe", u: "Undo", n: "Note", s: "Skip" };
const DONE = { include: "Included", exclude: "Excluded", maybe: "Set aside as maybe" };
const FORMATS = { csv: "CSV with labels", ris: "RIS with labels", asreview: "ASReview project", jsonl: "JSON Lines", "prisma-markdown": "PRISMA counts" };
const NUMBERED = 9;
const MOST_PAIRS = 10;
let shown = null;
let now = null;

export async function begin() {
  addEventListener("hashchange", show);
  addEventListener("popstate", show);
  document.addEventListener("keydown", press);
  await show();
}

function readAddress() {
  const [path, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { isMine: path === "review", name: new URLSearchParams(text).get("name") ?? "" };
}

const addressOf = (name) => `#/review?${new URLSearchParams({ name })}`;
const path = (mine, rest = "") => `api/reviews/${encodeURIComponent(mine.name)}${rest}`;
/** With a key its owner is the reviewer. */
const reviewer = () => (sessionStorage.getItem(KEY_STORAGE) ? null : localStorage.getItem(BY) || null);

async function show() {
  const { isMine, name } = readAddress();
  if (!isMine) return;
  document.title = `${name ? `Screening of ${name.slice(0, 80)}` : "Reviews"} - Outrider`;
  if (shown === location.hash) return;
  shown = location.hash;
  now = { name, skipped: [], reasoning: false };
  if (!name) return showReviews(now);
  fill(
    byId("review"),
    el("p", { class: "review-path" }, el("a", { href: "#/review" }, "All reviews"), " / ", el("b", {}, name)),
    el("div", { id: "review-counts" }),
    el("p", { id: "review-said", role: "status", tabindex: "-1" }, "Looking ..."),
    el("div", { id: "review-record" }),
    el("div", { id: "review-conflicts" }),
    el("div", { id: "review-more" }),
  );
  drawMore(now);
  await refresh(now);
}

async function showReviews(mine) {
  const place = byId("review");
  fill(place, el("p", {}, "Looking ..."));
  try {
    const { reviews } = await json("api/reviews");
    if (now !== mine) return;
    fill(
      place,
      reviews.length
        ? wide("Reviews", table(["review", "records", "screened", "question"], reviews.map((one) => [el("a", { href: addressOf(one.name) }, one.name), count(one.records), count(one.screened), one.problem || one.question]), ""))
        : el("p", {}, "No review yet."),
      newReview(),
    );
  } catch (error) {
    if (now === mine) fill(place, el("p", { class: "alert", role: "alert" }, error.message));
  }
}

function newReview() {
  const said = el("p", { role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    const fields = new FormData(event.target);
    const reasons = String(fields.get("reasons")).split("\n").map((one) => one.trim()).filter(Boolean);
    try {
      await json("api/reviews", { method: "POST", body: { name: fields.get("name").trim(), question: fields.get("question"), reviewers: Number(fields.get("reviewers")), reasons } });
      location.hash = addressOf(fields.get("name").trim());
    } catch (error) {
      said.textContent = `Not begun: ${error.message}`;
    }
  };
  return el(
    "form",
    { class: "review-form panel", submit },
    el("h2", {}, "Begin a review"),
    el("label", {}, "Name", el("input", { name: "name", type: "text", required: true, maxlength: "100", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", title: "Letters, digits, dots, - and _" })),
    el("label", {}, "Question that the records should answer", el("input", { name: "question", type: "text", maxlength: "5000" })),
    el("label", {}, "Reviewers for each record", el("input", { name: "reviewers", type: "number", min: "1", max: "10", value: "1", required: true })),
    el("label", {}, "Reasons for exclusion, one a line", el("textarea", { name: "reasons", rows: "3", maxlength: "5000" })),
    el("button", { type: "submit" }, "Begin"),
    said,
  );
}

/** The counts and the next record. `said` stands in the status line. */
async function refresh(mine, said = "", number = null) {
  const turn = (mine.turn = {});
  const isLeft = () => now !== mine || mine.turn !== turn;
  try {
    const status = await json(path(mine));
    if (isLeft()) return;
    mine.status = status;
    drawCounts(mine);
    if (!reviewer() && !sessionStorage.getItem(KEY_STORAGE)) return askForName(mine);
    const query = new URLSearchParams(mine.skipped.map((one) => ["skip", one]));
    const by = reviewer();
    if (by) query.set("by", by);
    if (mine.draws) query.set("order", "random");
    const candidate = await json(number === null ? path(mine, `/next?${query}`) : path(mine, `/records/${number}?${query}`));
    if (isLeft()) return;
    mine.candidate = candidate;
    mine.reasoning = false;
    drawRecord(mine);
    say(said || describeLeft(mine));
    showConflicts(mine, isLeft);
  } catch (error) {
    if (isLeft()) return;
    say("");
    fill(byId("review-record"), el("p", { class: "alert", role: "alert" }, error.status === 404 ? "This server has no such review." : error.message));
  }
}

const say = (text) => (byId("review-said").textContent = text);
const describeLeft = ({ candidate }) => (candidate.left ? `${plural(candidate.left, "record")} left for you.` : "");

function drawCounts(mine) {
  const { records, duplicates, included, excluded, maybe, conflicts, unscreened, waiting, agreement, stop, question, remarks, reviewers } = mine.status;
  const works = records - duplicates;
  const parts = [`${count(included)} included`, `${count(excluded)} excluded`, maybe ? `${count(maybe)} maybe` : "", conflicts.length ? plural(conflicts.length, "conflict") : "", reviewers > 1 ? `${count(waiting)} waiting for a reviewer` : "", `${count(unscreened)} unscreened`];
  fill(
    byId("review-counts"),
    question ? el("p", { dir: "auto" }, question) : null,
    works ? el("progress", { max: String(works), value: String(works - unscreened - waiting), "aria-label": "Records screened" }) : null,
    el("p", { class: "meta" }, works ? `${plural(works, "work")}: ${parts.filter(Boolean).join(", ")}` : "No record yet: add some below."),
    agreement.slice(0, MOST_PAIRS).map((one) => el("p", { class: "meta" }, describeAgreement(one))),
    stop.map((one) => el("p", { class: "meta" }, one.replace(/: outrider review screen .*$/, "."))), // the command is for a terminal
    works && unscreened ? drawBox(mine) : null,
    remarks.map((one) => el("p", { class: "caution meta" }, one)),
  );
}

/** In the words of `outrider review status`. */
function describeAgreement({ reviewers, records, agreed, kappa }) {
  const value = kappa === null ? "undefined, since both decided the same on each" : kappa.toFixed(2);
  return `${reviewers.join(" and ")}: alike on ${count(agreed)} of ${plural(records, "record")}, Cohen's kappa ${value}`;
}

function drawBox(mine) {
  const change = (event) => {
    mine.draws = event.target.checked;
    refresh(mine);
  };
  return el("label", { class: "check" }, el("input", { type: "checkbox", checked: Boolean(mine.draws), change }), " Decide on records drawn at random, which prove the recall");
}

function askForName(mine) {
  say("");
  const submit = (event) => {
    event.preventDefault();
    localStorage.setItem(BY, String(new FormData(event.target).get("by")).trim());
    refresh(mine);
  };
  fill(byId("review-record"), el("form", { class: "review-form panel", submit }, el("label", {}, "Your name as a reviewer", el("input", { name: "by", type: "text", required: true, maxlength: "100", pattern: ".*\\S.*" })), el("button", { type: "submit" }, "Screen")));
}

function drawRecord(mine) {
  const { record: view, by, shown: how, decided, remarks } = mine.candidate;
  const place = byId("review-record");
  if (!view) {
    fill(place, mine.status.records ? el("p", {}, "There is no record left for you to decide on.") : null, decided ? actions(mine, ["u"]) : null);
    return;
  }
  const { record } = view;
  const address = identifierAddress(record);
  const terms = new Set(mine.candidate.terms);
  const details = [record.authors?.slice(0, 3).join("; ") + (record.authors?.length > 3 ? " et al." : ""), record.year, record.venue].filter(Boolean).join(", ");
  const abstract = record.abstract || record.description || "";
  const seen = how.rank ? `, ${how.order === "random" ? "drawn at random" : `rank ${count(how.rank)} by ${{ model: "your decisions", question: "the question", shuffled: "chance" }[how.order] ?? how.order}`}` : "";
  fill(
    place,
    el(
      "article",
      { class: "review-card panel", "aria-labelledby": "review-heading" },
      el("p", { class: "meta" }, `Record ${count(view.number)}${seen}. You are ${by}.`),
      el("h2", { id: "review-heading", tabindex: "-1", dir: "auto" }, address ? link(address, marked(record.title || "(no title)", terms)) : marked(record.title || "(no title)", terms)),
      details ? el("p", { class: "meta", dir: "auto" }, details) : null,
      view.notices.length ? el("p", { class: "meta" }, noticeMarks(view.notices)) : null,
      el("p", { class: "abstract", dir: "auto" }, abstract ? withSentences(abstract, mine.candidate.sentences, terms) : "(no abstract)"),
      record.tags?.length ? el("p", { class: "meta", dir: "auto" }, record.tags.slice(0, 20).join("; ")) : null,
      view.decisions.map((one) => el("p", { class: "meta" }, `${one.by}: ${one.verdict}${one.reason ? ` (${one.reason})` : ""}`)),
      view.notes.map((one) => el("p", { class: "meta", dir: "auto" }, `Note of ${one.by}: ${one.text}`)),
    ),
    remarks.map((one) => el("p", { class: "caution meta" }, one)),
    el("div", { id: "review-asks" }),
    actions(mine, Object.keys(ACTIONS)),
  );
  byId("review-heading").focus({ preventScroll: true });
}

/** The text with the words of `terms` marked. */
function marked(text, terms) {
  const parts = [];
  let end = 0;
  for (const match of text.matchAll(WORD)) {
    if (!terms.has(match[0].toLowerCase())) continue;
    parts.push(text.slice(end, match.index), el("mark", {}, match[0]));
    end = match.index + match[0].length;
  }
  return [...parts, text.slice(end)];
}

/** Places are those of Python, which counts code points. */
function withSentences(text, sentences, terms) {
  const points = Array.from(text);
  const parts = [];
  let end = 0;
  for (const [from, to] of [...sentences].sort(([one], [other]) => one - other)) {
    if (from < end) continue;
    parts.push(marked(points.slice(end, from).join(""), terms), el("strong", {}, marked(points.slice(from, to).join(""), terms)));
    end = to;
  }
  return [...parts, marked(points.slice(end).join(""), terms)];
}

function actions(mine, keys) {
  const box = el("input", { type: "checkbox", checked: !localStorage.getItem(KEYS_OFF), change: () => (box.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "1")) });
  return el(
    "div",
    { class: "review-actions", role: "group", "aria-label": "Your decision" },
    keys.map((key) => el("button", { type: "button", class: "iem".includes(key) ? "" : "second", "aria-keyshortcuts": key, click: () => act(mine, key) }, ACTIONS[key], " ", el("kbd", { "aria-hidden": "true" }, key.toUpperCase()))),
    el("label", { class: "choice" }, box, " Keys"),
  );
}

function press(event) {
  const typing = event.target.closest?.("input:not([type=checkbox], [type=radio]), textarea, select, dialog");
  if (byId("view-review").hidden || typing || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(KEYS_OFF) || document.querySelector("dialog[open]")) return;
  const key = event.key.toLowerCase();
  if (now?.reasoning && (key === "escape" || key === "enter" || /^[1-9]$/.test(key))) {
    if (key === "enter" && event.target.closest?.("button")) return;
    const reasons = now.candidate.reasons.slice(0, NUMBERED);
    if (key === "escape") closeAsks(now);
    else if (key === "enter") decide(now, "exclude", "");
    else if (reasons[key - 1]) decide(now, "exclude", reasons[key - 1]);
    else return;
  } else if (key in ACTIONS && now?.candidate && (now.candidate.record || key === "u")) act(now, key);
  else return;
  event.preventDefault();
}

function act(mine, key) {
  if (mine.busy) return;
  if (key === "i") decide(mine, "include");
  else if (key === "m") decide(mine, "maybe");
  else if (key === "e") askReason(mine);
  else if (key === "n") askNote(mine);
  else if (key === "u") send(mine, "/undo", {}, ({ undone }) => refresh(mine, `Taken back: your decision on record ${count(undone[0])}.`, undone[0]));
  else {
    mine.skipped = [...mine.skipped, mine.candidate.record.number].slice(-500);
    refresh(mine, `Skipped record ${count(mine.candidate.record.number)}; it comes back at the end.`);
  }
}

function closeAsks(mine) {
  mine.reasoning = false;
  fill(byId("review-asks"));
  byId("review-heading").focus({ preventScroll: true });
}

function askReason(mine) {
  mine.reasoning = true;
  const reasons = mine.candidate.reasons.slice(0, NUMBERED);
  const other = el("input", { name: "reason", type: "text", maxlength: "5000", "aria-label": "Another reason" });
  const submit = (event) => {
    event.preventDefault();
    decide(mine, "exclude", other.value);
  };
  const pick = (reason, key) => el("button", { type: "button", class: "second", click: () => decide(mine, "exclude", reason) }, reason || "No reason", " ", el("kbd", { "aria-hidden": "true" }, key));
  const first = pick(reasons[0] ?? "", reasons.length ? "1" : "Enter");
  fill(
    byId("review-asks"),
    el("form", { class: "panel review-reasons", submit }, el("p", {}, "Why is it excluded?"), el("div", { class: "inline" }, first, reasons.slice(1).map((one, at) => pick(one, String(at + 2))), reasons.length ? pick("", "Enter") : null), el("label", {}, "Another reason ", other), el("button", { type: "submit", class: "second" }, "Exclude"), el("button", { type: "button", class: "quiet", click: () => closeAsks(mine) }, "Back")),
  );
  first.focus();
}

function askNote(mine) {
  const text = el("textarea", { rows: "2", maxlength: "5000", required: true, "aria-label": "Note" });
  const { number } = mine.candidate.record;
  const submit = (event) => {
    event.preventDefault();
    send(mine, "/notes", { record: String(number), text: text.value }, () => refresh(mine, "Note saved.", number));
  };
  fill(byId("review-asks"), el("form", { class: "panel review-reasons", submit }, text, el("button", { type: "submit", class: "second" }, "Save the note"), el("button", { type: "button", class: "quiet", click: () => closeAsks(mine) }, "Back")));
  text.focus();
}

function decide(mine, decision, reason = "") {
  const { record, shown: how } = mine.candidate;
  send(mine, "/decisions", { record: String(record.number), decision, reason, shown: how }, () => refresh(mine, `${DONE[decision]}: record ${count(record.number)}.`));
}

async function send(mine, rest, body, done) {
  if (mine.busy) return;
  mine.busy = true;
  try {
    const report = await json(path(mine, rest), { method: "POST", body: { ...body, ...(reviewer() && { by: reviewer() }) } });
    if (now === mine) await done(report);
  } catch (error) {
    if (now === mine) say(`Not saved: ${error.message}`);
  } finally {
    mine.busy = false;
  }
}

/** Apart from the record, which takes keys meanwhile. */
async function showConflicts(mine, isLeft) {
  const place = byId("review-conflicts");
  if (!mine.status.conflicts.length) return fill(place);
  const by = reviewer();
  try {
    const { conflicts } = await json(path(mine, `/conflicts?${new URLSearchParams(by ? { by } : {})}`));
    if (!isLeft()) drawConflicts(mine, place, conflicts);
  } catch (error) {
    if (!isLeft()) fill(place, el("p", { class: "alert", role: "alert" }, `The conflicts cannot be shown: ${error.message}`));
  }
}

function drawConflicts(mine, place, conflicts) {
  const resolve = (view, decision) => send(mine, "/decisions", { record: String(view.number), decision, resolve: true }, () => refresh(mine, `Resolved: record ${count(view.number)} is ${decision}d.`));
  fill(
    place,
    el("h2", {}, "Conflicts"),
    el("ul", { class: "rows" }, conflicts.map((view) => el("li", {}, el("p", { dir: "auto" }, `${count(view.number)}. ${view.record.title}`), el("p", { class: "meta" }, view.decisions.map((one) => `${one.by}: ${one.verdict}${one.reason ? ` (${one.reason})` : ""}`).join(", ")), el("div", { class: "inline" }, ["include", "exclude"].map((decision) => el("button", { type: "button", class: "second small", "aria-label": `${ACTIONS[decision[0]]} record ${view.number}`, click: () => resolve(view, decision) }, ACTIONS[decision[0]])))))),
  );
}

/** Adding records, and the export. */
function drawMore(mine) {
  const said = el("p", { role: "status" });
  const source = el("input", { name: "source", type: "text", maxlength: "500", placeholder: "label:NAME, a thread, a systematic run" });
  const file = el("input", { type: "file", accept: ".ris,.csv,.tsv,.xlsx,.bib,.nbib,.ciw,.enw,.txt,.json,.jsonl,.xml,.asreview" });
  const submit = async (event) => {
    event.preventDefault();
    const chosen = file.files[0];
    said.textContent = "Adding ...";
    try {
      const by = reviewer() ? { by: reviewer() } : {};
      const report = chosen
        ? await json(path(mine, `/files?${new URLSearchParams({ name: chosen.name, ...by })}`), { method: "POST", body: chosen })
        : await json(path(mine, "/import"), { method: "POST", body: { source: source.value, ...by } });
      const added = `${report.source}: ${plural(report.records, "record")}, ${plural(report.duplicates, "duplicate")}, ${plural(report.labels, "label")}.`;
      fill(said, added, report.remarks.map((one) => el("span", { class: "caution meta" }, el("br"), one)));
      event.target.reset();
      if (now === mine) await refresh(mine);
    } catch (error) {
      said.textContent = `Nothing was added: ${error.message}`;
    }
  };
  const format = el("select", { "aria-label": "Format" }, Object.entries(FORMATS).map(([value, text]) => el("option", { value }, text)));
  const exported = el("span", { role: "status" });
  const saveFile = async () => {
    try {
      await save(await ask(path(mine, `/export?format=${format.value}`)), `${mine.name}.${format.value}`);
      exported.textContent = "Saved.";
    } catch (error) {
      exported.textContent = `Not saved: ${error.message}`;
    }
  };
  fill(
    byId("review-more"),
    el("details", { class: "panel" }, el("summary", {}, "Add records"), el("form", { class: "review-form", submit }, el("label", {}, "From", source), el("label", {}, "Or a file", file), el("button", { type: "submit", class: "second" }, "Add"), said)),
    el("p", { class: "inline" }, format, el("button", { type: "button", class: "second small", click: saveFile }, "Export"), exported),
  );
}
