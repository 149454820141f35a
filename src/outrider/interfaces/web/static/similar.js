// Works like one: those that the library connects with it. What the library does not hold is searched by its title and keywords.

import { json } from "./api.js";
import { el, fill } from "./dom.js";
import { meta } from "./hits.js";
import { icon, nameKind } from "./icons.js";

const MAX_IDS = 10;
const SHOWN = 6;

/** A panel that fills itself. `search(isMissing)` searches by title and keywords, and leaves this answer. */
export function similarWorks(hit, search) {
  const panel = el("div", { class: "panel similar", role: "status" }, el("p", { class: "meta" }, "Looking in your library ..."));
  show(panel, hit, search).catch((error) => fill(panel, el("p", { class: "failed" }, error.message)));
  return panel;
}

async function show(panel, hit, search) {
  const button = el("button", { type: "button", class: "second", click: () => search(false) }, "Search by its title and keywords");
  try {
    const { related } = await json(`api/library/related?limit=${SHOWN}&${namesOf(hit)}`);
    if (!related.length) return fill(panel, el("p", {}, "Your library has this work, and nothing that shares works, authors, subjects or meaning with it."), button);
    fill(panel, el("p", {}, el("b", {}, "Connected with it in your library")), el("ol", { class: "rows" }, related.map(row)), button);
  } catch (error) {
    if (error.status !== 404) throw error;
    if (!panel.isConnected) return;
    search(true); // the page says so above the new answer
  }
}

/** The library may hold the work under the id of a duplicate, or know its identifier. */
function namesOf(hit) {
  const { doi, pmid, arxiv } = hit.identifiers ?? {};
  const names = [hit.doc_id, ...(hit.duplicates ?? []).map((one) => one.doc_id), doi && `doi:${doi}`, pmid && `pmid:${pmid}`, arxiv && `arxiv:${arxiv}`];
  return [...new Set(names.filter(Boolean))].slice(0, MAX_IDS).map((name) => `id=${encodeURIComponent(name)}`).join("&");
}

const row = (record) => el("li", {}, el("div", {}, icon(record.kind, nameKind(record.kind)), " ", el("a", { href: `#/library?id=${encodeURIComponent(record.doc_id)}`, dir: "auto" }, record.title || record.doc_id), el("p", { class: "meta" }, meta(record), el("span", { dir: "auto" }, record.why))));
