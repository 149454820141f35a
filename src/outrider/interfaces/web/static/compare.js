// The hits that a reader chose to compare, up to four.

import { byId, el } from "./dom.js";

const MAX_HITS = 4;

/** The chosen hits in the order of choice; a fifth is refused. `address` gives that of the search, for its pictures; `names` are those of sources. */
export class Comparison {
  constructor(address = () => "", names = {}, question = "") {
    this.question = question;
    this.address = address;
    this.names = names;
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
    this.#load().catch(() => {}); // it is tried again when the table is to be shown
    this.boxes.set(hit.doc_id, box);
    this.#showStatus("");
    this.#offerHere(box);
  }

  /** The bar is far away for whoever uses the keyboard: a second button is the next stop after the box. */
  #offerHere(box) {
    this.here?.remove();
    if (this.hits.size < 2) return;
    this.here = el("button", { type: "button", class: "act compare-now", click: () => this.show() }, `Compare these ${this.hits.size}`);
    box.closest(".compare")?.after(this.here);
  }

  clear() {
    this.here?.remove();
    for (const id of this.hits.keys()) this.boxes.get(id).checked = false;
    this.hits.clear();
    this.#showStatus("");
  }

  #showStatus(message) {
    byId("compare-bar").hidden = !this.hits.size;
    byId("compare-button").disabled = this.hits.size < 2;
    byId("compare-said").textContent = message || `${this.hits.size} chosen (at most ${MAX_HITS})${this.hits.size < 2 ? "; choose another one to compare" : ""}`;
  }

  /** What draws the table is loaded with the first choice, so that it is there when the table is to be shown. */
  async #load() {
    this.draw = (await import("./comparison-table.js")).drawComparison;
  }

  async show() {
    try {
      if (!this.draw) await this.#load();
    } catch (error) {
      return this.#showStatus(`Not compared: ${error.message}`);
    }
    this.draw([...this.hits.values()], this.names, this.address(), this.question);
  }
}
