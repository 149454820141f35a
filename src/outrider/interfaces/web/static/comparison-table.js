// The table of compared hits: a column for each, which stack where there is no room, and the dimensions of repositories.

import { ask } from "./api.js";
import { compareTexts } from "./compare-texts.js";
import { byId, count, el, fill, link, plural, save, words } from "./dom.js";
import { icon, nameKind } from "./icons.js";
import { FLAGGED, marks, nameSources } from "./marks.js";
import { VERDICTS, plainParts, readHit } from "./passages.js";
import { LETTERS, isUnknown, key, legend, radar } from "./radar.js";

const SHOWN_AUTHORS = 4;

const isKnown = (value) => value !== null && value !== undefined && value !== "" && value.length !== 0;
const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const number = (value) => (isKnown(value) ? count(value) : null);

/** Whether one can use a work, and whether it is alive: these rows are always shown. */
const ALWAYS = new Set(["Licence", "Version", "Last activity"]);
/** Name and value. Another row that no hit has is left out; where only some have it, the others say that it is not known. */
const ROWS = [
  ["Authors", (hit) => authors(hit)],
  ["Published", (hit) => [hit.venue, hit.year].filter(Boolean).join(", ")],
  ["Citations", (hit) => number(hit.citations)],
  ["Stars", (hit) => number(hit.stars)],
  ["Licence", ({ metadata }) => metadata?.licence],
  ["Version", ({ metadata }) => [metadata?.version, released(metadata)].filter(Boolean).join(", ")],
  ["Last activity", ({ metadata }) => activity(metadata)],
  ["Language", (hit) => hit.language],
  ["Score", (hit) => score(hit)],
  ["Why it is here", (hit) => upper((hit.reading?.why?.length ? hit.reading.why : [hit.reason].filter(Boolean)).join("; "))],
  ["Came from", (hit, names) => upper(nameSources(hit, names).join(", "))],
];

/** `names` are those of sources, `address` that of the search, for its pictures. */
export function drawComparison(hits, names, address, question) {
  fill(byId("compare-table"), columns(hits, names), dimensions(hits, address), compareTexts(hits, question) ?? "");
  byId("compare-dialog").showModal();
  byId("compare-table").scrollTop = 0;
  for (const quote of byId("compare-table").querySelectorAll(".quote")) offerWhole(quote);
}

/** All columns have the same rows, so that a subgrid can align them. */
function columns(hits, names) {
  const rows = ROWS.map(([name, of]) => [name, hits.map((hit) => of(hit, names))]).filter(([name, values]) => ALWAYS.has(name) || values.some(isKnown));
  const all = el("div", { class: "compared" }, hits.map((hit, at) => column(hit, at, rows.map(([name, values]) => [name, values[at]]))));
  all.style.setProperty("--facts", rows.length);
  all.style.setProperty("--rows", rows.length + 3);
  return all;
}

function column(hit, at, rows) {
  const id = `compared-${at}`;
  const facts = rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { dir: "auto" }, isKnown(value) ? String(value) : el("span", { class: "unknown" }, "not known"))));
  return el(
    "article",
    { "aria-labelledby": id },
    el("header", {}, key(at), el("h3", { id }, link(hit.url, hit.title || hit.doc_id))),
    el("p", { class: "marks" }, el("span", { class: "kind" }, icon(hit.kind), ` ${nameKind(hit.kind)}`), marks(hit), hit.flags?.length ? el("span", { class: "flag" }, FLAGGED) : null),
    el("dl", {}, facts),
    el("div", { class: "quotes" }, el("h4", {}, "Sentences that answer"), quotes(hit)),
  );
}

function authors(hit) {
  const names = hit.authors ?? [];
  const more = names.length - SHOWN_AUTHORS;
  return names.slice(0, SHOWN_AUTHORS).join("; ") + (more > 0 ? ` and ${count(more)} more` : "");
}

const day = (value) => String(value ?? "").slice(0, 10);
const released = (metadata) => metadata?.last_release_at && `released ${day(metadata.last_release_at)}`;

function activity({ archived, updated_at: pushed, commits_90d: commits } = {}) {
  return [archived ? "archived" : "", pushed && `last push ${day(pushed)}`, isKnown(commits) && `${plural(commits, "commit")} in 90 days`].filter(Boolean).join(", ");
}

function score(hit) {
  const by = { model: "by a model", rules: "by rules" }[hit.scored_by];
  return by ? `${Number(hit.score).toFixed(3)} of 1, rank ${hit.rank}, ${by}` : `Not scored, rank ${hit.rank}`;
}

/** The sentences that answer as the server reads them, each on two lines until it is opened; or else what the work is about. */
function quotes(hit) {
  const { pieces, summary, hidden } = readHit(hit);
  return [
    VERDICTS[hit.answers] ? el("p", { class: "verdict" }, VERDICTS[hit.answers]) : null,
    pieces.map((piece) => (piece.kind === "code" ? el("pre", { tabindex: "0", "aria-label": "Code" }, piece.parts[0].text) : quote(plainParts(piece.parts)))),
    hidden > 0 && pieces.length ? el("p", { class: "verdict" }, `${count(hidden)} more in its text`) : null,
    pieces.length ? null : summary ? [el("p", { class: "verdict" }, "About:"), quote(summary)] : el("p", { class: "unknown" }, "There is no text to quote."),
  ];
}

const quote = (text) => el("blockquote", { class: "quote", dir: "auto" }, el("p", {}, text));

/** A button below a quotation that two lines cut. */
function offerWhole(block) {
  const [text] = block.children;
  if (text.scrollHeight <= text.clientHeight + 1) return;
  const button = el("button", { type: "button", class: "more", "aria-expanded": "false", click: () => toggle() }, "Whole sentence");
  const toggle = () => {
    const isOpen = block.classList.toggle("open");
    button.setAttribute("aria-expanded", String(isOpen));
    button.textContent = isOpen ? "Two lines" : "Whole sentence";
  };
  block.append(button);
}

/** The radar of all repositories among the hits, and its numbers beside it. */
function dimensions(hits, address) {
  const rated = hits.map((hit, at) => [hit, at]).filter(([hit]) => hit.radar?.length);
  if (!rated.length) return null;
  const names = rated[0][0].radar.map((one) => one.dimension);
  const find = (hit, name) => hit.radar.find((one) => one.dimension === name) ?? { dimension: name, score: null };
  const shapes = rated.map(([hit, at]) => Object.assign(names.map((name) => find(hit, name)), { place: at }));
  const status = el("p", { class: "meta", role: "status" });
  return el(
    "section",
    { class: "dimensions", "aria-labelledby": "dimensions-title" },
    el("h3", { id: "dimensions-title" }, "Dimensions, from 0 to 10"),
    el("div", { class: "beside" }, radar(shapes, "Dimensions of the compared repositories"), el("div", {}, numbers(rated, names, find), legend(shapes))),
    address ? el("button", { type: "button", class: "second", click: () => savePicture(address, rated, status) }, "Save as picture (SVG)") : null,
    address ? status : null,
  );
}

function numbers(rated, names, find) {
  const cell = (one) => (isUnknown(one) ? el("span", { class: "unknown" }, "unknown") : Number(one.score).toFixed(1));
  const table = el(
    "table",
    { class: "numbers", role: "table" },
    el("caption", { class: "hidden" }, "Dimensions of each repository, from 0 to 10"),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, el("td", { role: "cell" }), rated.map(([hit, at]) => el("th", { scope: "col", role: "columnheader" }, key(at), el("span", { class: "hidden" }, ` ${hit.title || hit.doc_id}`))))),
    el("tbody", { role: "rowgroup" }, names.map((name) => el("tr", { role: "row" }, el("th", { scope: "row", role: "rowheader" }, words(name)), rated.map(([hit]) => el("td", { role: "cell" }, cell(find(hit, name))))))),
  );
  table.style.setProperty("--works", rated.length);
  return table;
}

async function savePicture(address, rated, status) {
  try {
    await save(await ask(`${address}/radar.svg?${rated.map(([hit]) => `rank=${hit.rank}`).join("&")}`), "outrider-radar.svg");
    status.textContent = `Picture of ${rated.map(([, at]) => LETTERS[at]).join(", ")} saved`;
  } catch (error) {
    status.textContent = `Not saved: ${error.message}`;
  }
}
