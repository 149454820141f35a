// Up to four hits side by side.

import { byId, count, el, fill, link, words } from "./dom.js";
import { meta, passages } from "./hits.js";
import { radar, describeDimension } from "./radar.js";

const MAX_HITS = 4;

const known = (value) => value !== null && value !== undefined && value !== "" && value.length !== 0;
const number = (value) => (known(value) ? count(value) : null);

const ROWS = [
  ["Description", (hit) => el("p", { class: "meta" }, meta(hit))],
  ["Score", (hit) => `${hit.score.toFixed(2)} by ${words(hit.scored_by)}`],
  ["Why", (hit) => hit.reason],
  ["Year", (hit) => hit.year],
  ["Citations", (hit) => number(hit.citations)],
  ["Stars", (hit) => number(hit.stars)],
  ["Language", (hit) => hit.language],
  ["Dimensions", (hit) => (hit.radar.length ? radar([hit.radar], `Dimensions of ${hit.title}`) : null)],
  ["Found by", (hit) => [...new Set(hit.found_by.map((one) => one.source))].join(", ")],
  ["Duplicates folded", (hit) => number(hit.duplicates.length)],
  ["Related", (hit) => hit.related.map((one) => `${one.relation} ${one.title || one.doc_id}`).join("; ")],
  ["Sentences that answer", (hit) => passages(hit)],
];

/** The chosen hits in the order of choice; a fifth is refused. */
export class Comparison {
  constructor() {
    this.hits = new Map();
    this.boxes = new Map();
    byId("compare-button").onclick = () => this.show();
    byId("compare-clear").onclick = () => this.clear();
    byId("compare-close").onclick = () => byId("compare-dialog").close();
    this.#showStatus("");
  }

  toggle(hit, box) {
    if (box.checked && this.hits.size >= MAX_HITS) {
      box.checked = false;
      this.#showStatus(`${MAX_HITS} hits are compared at most; take one out first.`);
      return;
    }
    if (box.checked) this.hits.set(hit.doc_id, hit);
    else this.hits.delete(hit.doc_id);
    this.boxes.set(hit.doc_id, box);
    this.#showStatus("");
  }

  clear() {
    for (const id of this.hits.keys()) this.boxes.get(id).checked = false;
    this.hits.clear();
    this.#showStatus("");
  }

  #showStatus(message) {
    byId("compare-bar").hidden = !this.hits.size;
    byId("compare-button").disabled = this.hits.size < 2;
    byId("compare-said").textContent = message || `${this.hits.size} of ${MAX_HITS} chosen${this.hits.size < 2 ? "; choose another one to compare" : ""}`;
  }

  show() {
    const hits = [...this.hits.values()];
    const rows = ROWS.map(([name, of]) => [name, hits.map(of)]).filter(([, cells]) => cells.some(known));
    const dimensions = hits.find((hit) => hit.radar.length)?.radar.map((one) => one.dimension) ?? [];
    for (const dimension of dimensions) rows.push([words(dimension), hits.map((hit) => figure(hit, dimension))]);
    const head = el("tr", {}, el("td", {}), hits.map((hit) => el("th", { scope: "col" }, `${hit.rank}. `, link(hit.url, hit.title || hit.doc_id))));
    const body = rows.map(([name, cells]) => el("tr", {}, el("th", { scope: "row" }, name), cells.map((cell) => el("td", { dir: "auto" }, ...(known(cell) ? [cell].flat() : ["-"]).filter(Boolean)))));
    fill(byId("compare-table"), el("table", { class: "compared" }, el("thead", {}, head), el("tbody", {}, body)));
    byId("compare-dialog").showModal();
  }
}

function figure(hit, dimension) {
  const match = hit.radar.find((one) => one.dimension === dimension);
  return match ? describeDimension(match).replace(/^[^:]*: /, "") : null;
}
