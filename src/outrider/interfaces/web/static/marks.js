// What a reader must know of a work before citing it, and where it came from: on cards and in the comparison.

import { el } from "./dom.js";

export const FLAGGED = "Its text addresses a model instead of a reader. That was ignored.";
const RELATIONS = { "preprint of": "Preprint", "has preprint": "Preprint available", "version of": "Another version exists", "has code": "Code available" };
const NOT_ALARMING = new Set(["reinstated"]);
const MAX_REPORTS = 5;

const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const REPORTERS = { crossref: "Crossref", "retraction-watch": "Retraction Watch", publisher: "the publisher", pubmed: "PubMed", openalex: "OpenAlex", arxiv: "arXiv", title: "its title", type: "its type of publication", "linked-record": "a linked record", import: "its file" };

/** One line about a notice, such as `2020-01-31, doi:10.1000/x, reported by Crossref`. */
export function describeNotice({ date, doi, pmid, citation, reported_by: by = [] }) {
  const names = by.map((name) => REPORTERS[name] ?? name).join(", ");
  return [date, doi && `doi:${doi}`, pmid && `pmid:${pmid}`, citation, names && `reported by ${names}`].filter(Boolean).join(", ");
}

/** Marks for the notices of a work, the gravest first, each kind once; the reports are their titles. */
export function noticeMarks(notices = []) {
  const reports = new Map();
  for (const one of notices) reports.set(one.kind, [...(reports.get(one.kind) ?? []), describeNotice(one)].filter(Boolean));
  return [...reports].map(([kind, texts]) => {
    const isAlarming = !kind.endsWith(" notice") && !NOT_ALARMING.has(kind);
    const more = texts.length > MAX_REPORTS ? `; and ${texts.length - MAX_REPORTS} more` : "";
    const title = texts.slice(0, MAX_REPORTS).join("; ") + more;
    return el("b", { class: isAlarming ? "mark alarming" : "mark", title: title || null }, upper(kind));
  });
}

/** A mark for a fetched full text; its form, version, licence and place are the title. */
export function describeText(text) {
  return [text.form.toUpperCase(), text.version && `${text.version} version`, text.licence || "no licence stated", `from ${text.url}`].filter(Boolean).join(", ");
}

const textMark = (text) => (text ? [el("b", { class: "mark", title: describeText(text) }, text.licence ? `Full text, ${text.licence.toUpperCase()}` : "Full text")] : []);

/** The notices of a hit, its full text, and marks that lead to its related works as titles. */
export function marks({ notices, related = [], full_text: text }) {
  const texts = new Map();
  for (const one of related) if (RELATIONS[one.relation]) texts.set(RELATIONS[one.relation], one.title || one.doc_id);
  return [...noticeMarks(notices), ...textMark(text), ...[...texts].map(([text, title]) => el("b", { class: "mark", title }, text))];
}

/** The sources of a work as readers name them, each once. */
export const nameSources = (hit, names) => [...new Set((hit.found_by ?? []).map(({ source }) => names[source] ?? source))];
