// A hit as a card: its sources, the reason for its rank, and the sentences that answer.

import { count, el, link, plural, words } from "./dom.js";
import { radar } from "./radar.js";

const AROUND = 160;
const SHOWN_AUTHORS = 4;
const SHOWN_TEXT = 420;
const WHOLE_TEXT = 50_000;
const VERDICTS = { perhaps: "May not answer:", no: "No sentence here answers." };

/** `compare(box)` is called when the check box changes; a card of a partial hit has none. */
export function card(hit, compare) {
  const id = `hit-${hit.rank}`;
  return el(
    "li",
    { class: "hit", "data-id": hit.doc_id },
    el(
      "article",
      { "aria-labelledby": id },
      el("header", {}, el("span", { class: "rank" }, `${hit.rank}.`), el("h3", { id }, link(hit.url ?? identifierAddress(hit), hit.title || hit.doc_id))),
      el("p", { class: "meta" }, meta(hit)),
      el("p", { class: "score" }, scored(hit), hit.reason ? el("span", { dir: "auto" }, ` - ${hit.reason}`) : null),
      compare ? details(hit, compare) : el("p", { class: "chips" }, (hit.found_by ?? []).map((name) => el("span", { class: "chip" }, name))),
    ),
  );
}

/** A model's score. That of rules says no more than the rank. */
function scored(hit) {
  return hit.scored_by === "model" ? [el("b", {}, Number(hit.score).toFixed(2)), " by model"] : hit.scored_by === "rules" ? "Ranked by rules" : "Not scored";
}

function details(hit, compare) {
  const check = el("input", { type: "checkbox", change: (event) => compare(event.target) });
  return [
    hit.flags.length ? el("p", { class: "flag" }, `Its text addresses a model instead of a reader: ${hit.flags.join(", ")}. That was ignored.`) : null,
    el("div", { class: "body" }, el("div", {}, passages(hit), foundBy(hit), duplicateList(hit), related(hit)), hit.radar.length ? radar([hit.radar], `Dimensions of ${hit.title}`) : null),
    el("label", { class: "compare" }, check, " Compare", el("span", { class: "hidden" }, ` ${hit.title}`)),
  ];
}

function identifierAddress({ identifiers }) {
  if (identifiers?.doi) return `https://doi.org/${identifiers.doi}`;
  if (identifiers?.pmid) return `https://pubmed.ncbi.nlm.nih.gov/${identifiers.pmid}/`;
  return identifiers?.arxiv ? `https://arxiv.org/abs/${identifiers.arxiv}` : "";
}

export function meta(hit) {
  const authors = hit.authors ?? [];
  const more = authors.length - SHOWN_AUTHORS;
  const by = authors.slice(0, SHOWN_AUTHORS).join("; ") + (more > 0 ? ` and ${count(more)} more` : "");
  const figures = [
    hit.citations !== null && hit.citations !== undefined ? plural(hit.citations, "citation") : "",
    hit.stars !== null && hit.stars !== undefined ? plural(hit.stars, "star") : "",
  ];
  return [words(hit.kind), by, hit.venue, hit.year, ...figures, hit.language]
    .filter(Boolean)
    .map((part) => el("span", { dir: "auto" }, String(part)));
}

/**
 * The selected sentences in their context, code as code, and whether they answer. Offsets count code points; JavaScript's strings count
 * UTF-16 units.
 */
export function passages(hit) {
  const chars = Array.from(hit.original_text);
  const verdict = VERDICTS[hit.answers] ? el("p", { class: "verdict" }, VERDICTS[hit.answers]) : null;
  if (!hit.spans.length) {
    const text = hit.summary || hit.content || hit.original_text;
    const about = hit.answers === "no" ? el("b", {}, "About: ") : null;
    const shown = text.length > SHOWN_TEXT ? `${text.slice(0, SHOWN_TEXT)} ...` : text;
    return [verdict, text ? el("p", { class: "passage", dir: "auto" }, about, shown) : null];
  }
  const kinds = new Map((hit.units ?? []).map((unit) => [unit.start, unit.kind]));
  const isCode = ([start]) => kinds.get(start) === "code";
  const spans = hit.spans.map(([start, end]) => [start, end, ""]);
  const code = spans.filter(isCode);
  const around = ([start, end]) => [
    Math.max(0, start - AROUND, ...code.map((span) => span[1]).filter((at) => at <= start)),
    Math.min(chars.length, end + AROUND, ...code.map((span) => span[0]).filter((at) => at >= end)),
  ];
  const windows = joinSpans(spans.filter((span) => !isCode(span)).map(around));
  const shown = windows.map(([start, end]) => [start, el("p", { class: "passage", dir: "auto" }, start ? "... " : null, markSpans(chars, spans, start, end), end < chars.length ? " ..." : null)]);
  for (const [start, end] of code) shown.push([start, el("pre", { class: "wide", tabindex: "0" }, el("mark", {}, codeLines(chars, start, end)))]);
  const complete = windows.length === 1 && windows[0][0] === 0 && windows[0][1] === chars.length;
  return [verdict, ...shown.sort(([one], [other]) => one - other).map(([, node]) => node), complete ? null : wholeText(chars, spans)];
}

/** The lines of a piece of code without the indentation that all share; that of the first may stand before it. */
function codeLines(chars, start, end) {
  const begin = chars.lastIndexOf("\n", start - 1) + 1;
  const lines = chars.slice(start && !chars.slice(begin, start).join("").trim() ? begin : start, end).join("").split("\n");
  const shared = Math.min(...lines.filter((line) => line.trim()).map((line) => line.length - line.trimStart().length));
  return lines.map((line) => line.slice(shared)).join("\n");
}

function wholeText(chars, spans) {
  const text = el("p", { class: "passage", dir: "auto" });
  const end = Math.min(chars.length, WHOLE_TEXT);
  const open = (event) => event.target.open && !text.hasChildNodes() && text.append(...markSpans(chars, spans, 0, end), end < chars.length ? " ..." : "");
  return el("details", { toggle: open }, el("summary", {}, `The whole text, ${plural(chars.length, "character")}`), text);
}

function joinSpans(spans) {
  const joined = [];
  for (const [start, end] of spans) {
    const last = joined.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else joined.push([start, end]);
  }
  return joined;
}

function markSpans(chars, spans, start, end) {
  const parts = [];
  let at = start;
  const cut = (from, to) => chars.slice(from, to).join("");
  for (const [first, last, label] of spans) {
    if (last <= start || first >= end) continue;
    parts.push(cut(at, Math.max(at, first)), label ? el("b", {}, label) : null, el("mark", {}, cut(Math.max(at, first), Math.min(last, end))));
    at = Math.min(last, end);
  }
  return [...parts, cut(at, end)];
}

/** Each source and search once, with its best rank over all queries. */
function foundBy(hit) {
  const places = new Map();
  for (const one of hit.found_by) {
    const name = `${words(one.source)} / ${words(one.strategy)}`;
    const before = places.get(name) ?? { rank: Infinity, texts: [] };
    before.texts.push([`rank ${one.rank} for "${one.query}"`, one.why].filter(Boolean).join(" - "));
    places.set(name, { rank: Math.min(before.rank, one.rank), texts: before.texts });
  }
  const chips = [...places].map(([name, { rank, texts }]) => el("span", { class: "chip", title: texts.join("\n") }, `${name}, rank ${rank}`));
  return chips.length ? el("p", { class: "chips" }, el("span", { class: "chips-name" }, "Found by "), chips) : null;
}

function duplicateList(hit) {
  if (!hit.duplicates.length) return null;
  const rows = hit.duplicates.map((one) => el("li", {}, el("b", {}, one.source), ` ${one.doc_id}`, one.why ? ` - ${one.why}` : ""));
  return el("details", { class: "folded" }, el("summary", {}, `${plural(hit.duplicates.length, "duplicate")} folded into it`), el("ul", {}, rows));
}

function related(hit) {
  if (!hit.related.length) return null;
  return el("ul", { class: "related" }, hit.related.map((one) => el("li", { title: one.why }, el("b", {}, one.relation), ` ${one.title || one.doc_id}`)));
}
