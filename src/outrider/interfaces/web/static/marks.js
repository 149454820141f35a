// What a reader must know of a work before citing it, and where it came from: on cards and in the comparison.

import { el } from "./dom.js";

export const FLAGGED = "Its text addresses a model instead of a reader. That was ignored.";
const RELATIONS = { "retracted by": "Retracted", "corrected by": "Corrected", "preprint of": "Preprint", "has preprint": "Preprint available", "version of": "Another version exists", "has code": "Code available" };
const ALARMING = new Set(["Retracted", "Corrected"]);

/** Marks with the works that they lead to as titles. Services report retractions also in fields of their own. */
export function marks({ metadata, related = [] }) {
  const { retracted, notices, updated_by: updates } = metadata ?? {};
  const reports = [...(Array.isArray(notices) ? notices : []), ...(Array.isArray(updates) ? updates.map((one) => one?.type) : [])];
  const texts = new Map(retracted === true || reports.some((one) => /retract/i.test(String(one))) ? [["Retracted", null]] : []);
  for (const one of related) if (RELATIONS[one.relation]) texts.set(RELATIONS[one.relation], one.title || one.doc_id);
  return [...texts].map(([text, title]) => el("b", { class: ALARMING.has(text) ? "mark alarming" : "mark", title }, text));
}

/** The sources of a work as readers name them, each once. */
export const nameSources = (hit, names) => [...new Set((hit.found_by ?? []).map(({ source }) => names[source] ?? source))];
