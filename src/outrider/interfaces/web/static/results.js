// The answer to a search: the best sentences on top, then cards, sorted and filtered, ten at a time.

import { ask } from "./api.js";
import { Comparison } from "./compare.js";
import { byId, count, el, fill, plural, save, words } from "./dom.js";
import { Facets } from "./facets.js";
import { card, openText } from "./hits.js";
import { isSelecting, plainParts } from "./passages.js";
import { clearDropped, markWork, works } from "./shelf.js";

const PAGE = 10;
const MAX_HITS = 1000;
/** Sentences above the hits: the most, and the most with such as may not answer. */
const MAX_BEST = 4;
const ENOUGH_BEST = 3;
/** Formats in a menu, with the programs that read them. */
export const FILE_CHOICES = { bibtex: "BibTeX (LaTeX, Zotero)", ris: "RIS (Zotero, EndNote, Mendeley)" };
export const FILES = { bibtex: "BibTeX", ris: "RIS", csl: "CSL-JSON", csv: "CSV", json: "JSON", jsonl: "JSON Lines", markdown: "Markdown" };
const missing = (value) => (value === null || value === undefined ? -Infinity : value);
const ORDERS = {
  rank: (one, other) => one.rank - other.rank,
  year: (one, other) => missing(other.year) - missing(one.year) || one.rank - other.rank,
  cited: (one, other) => missing(other.citations ?? other.stars) - missing(one.citations ?? one.stars) || one.rank - other.rank,
};
const REMOVED = {
  no_citation: "without a citation",
  unknown_citation: "with a citation of nothing that was kept",
  other_work: "that names another work than it cites",
  number: "with a number that no cited sentence has",
  negation: "that negates or affirms otherwise than the cited sentences",
  quote: "with a quotation that no cited sentence has",
  markup: "with a link or markup",
  instruction: "with instructions to a model",
  too_long: "that was too long",
  repeated: "that repeats an earlier one",
  beyond_limit: "beyond the limit",
};

export class Results {
  /** `hooks`: `names`, `similar(hit)`, `more(number)`, `changed()` after a sort or filter, `refined()` after a work was kept or dropped, `judged(hit, action)` when it is kept, dropped or opened. */
  constructor(answer, reading, address, view, hooks) {
    Object.assign(this, { answer, reading, address, hooks });
    this.sort = ORDERS[view.sort] ? view.sort : "rank";
    this.limit = PAGE;
    const read = new Map(reading.hits.map((one) => [one.rank, one]));
    for (const hit of answer.hits) {
      hit.reading = read.get(hit.rank);
      hit.units = answer.context.units.filter((unit) => unit.doc_id === hit.doc_id);
    }
    this.cards = new Map();
    this.comparison = new Comparison(() => this.address, hooks.names, this.answer.query);
    this.facets = new Facets(answer.hits, view.f ?? [], hooks.names, () => this.#change());
    byId("sort").value = this.sort;
    byId("tools").hidden = !answer.hits.length;
    byId("refine").hidden = !answer.strategy || !answer.hits.length;
    byId("facets").hidden = !answer.hits.length;
    this.draw();
  }

  get chosen() {
    return this.facets.chosen;
  }

  #change() {
    this.draw();
    this.hooks.changed();
  }

  sortBy(name) {
    this.sort = name;
    this.#change();
  }

  showMore() {
    const shown = this.#list().length;
    if (this.limit >= shown) return this.hooks.more(Math.min(MAX_HITS, this.answer.hits.length * 2 + PAGE));
    const first = this.limit;
    this.limit += PAGE;
    this.draw();
    byId("hits").children[first]?.querySelector("h3 a, .act")?.focus();
  }

  #list() {
    const { dropped } = works();
    return this.answer.hits.filter((hit) => !(hit.doc_id in dropped) && this.facets.matches(hit)).sort(ORDERS[this.sort]);
  }

  draw() {
    const all = this.#list();
    const hits = all.slice(0, this.limit);
    fill(byId("hits"), hits.map((hit) => this.#card(hit)));
    this.facets.draw();
    this.#drawBest();
    this.#drawCounts(all, hits);
    if (!all.length) fill(byId("hits"), el("li", { class: "nothing" }, this.#explainNothing()));
    const left = all.length - hits.length;
    const further = this.answer.total_found - this.answer.hits.length;
    byId("more").hidden = !left && (further <= 0 || this.facets.chosen.length > 0 || this.answer.hits.length >= MAX_HITS);
    byId("more").textContent = left ? `Show ${count(Math.min(PAGE, left))} more` : `Search for more of ${count(this.answer.total_found)}`;
  }

  #card(hit) {
    const { names, similar } = this.hooks;
    const make = () => card(hit, { address: this.address, names, similar, compare: (one, box) => this.comparison.toggle(one, box), keep: (one, button) => this.#keep(one, button), drop: (one) => this.#drop(one), exportOne: (one) => this.save(byId("export-format").value, [one]) });
    if (!this.cards.has(hit)) this.cards.set(hit, make());
    return this.cards.get(hit);
  }

  #drawCounts(all, hits) {
    const dropped = this.answer.hits.filter((hit) => hit.doc_id in works().dropped).length;
    const found = this.answer.hits.length;
    const showing = hits.length < all.length ? `; showing ${count(hits.length)}` : "";
    byId("hits-title").textContent = this.chosen.length
      ? `${count(this.answer.hits.filter((hit) => this.facets.matches(hit)).length)} of ${plural(found, "result")} fit the filters${showing}`
      : `${plural(found, "result")} from ${plural(Math.max(found, this.answer.total_candidates), "work")} found${showing}`;
    fill(byId("shown"), dropped ? [`${plural(dropped, "work")} dropped `, el("button", { type: "button", class: "quiet", click: () => { clearDropped(); this.draw(); this.hooks.refined(); } }, "Show dropped works")] : null);
    const kept = Object.keys(works().kept).length;
    byId("kept-only").hidden = !kept;
    byId("kept-count").textContent = `kept only (${count(kept)})`;
    this.drawExportCount();
  }

  #explainNothing() {
    if (!this.answer.hits.length) return this.hooks.explainEmpty();
    return [el("p", {}, this.chosen.length ? "No hit matches all filters." : "You dropped every hit of this search."), this.chosen.length ? el("button", { type: "button", class: "second", click: () => this.facets.clear() }, "Remove the filters") : null];
  }

  #keep(hit, button) {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    markWork("kept", hit.doc_id, hit.title || hit.doc_id, on);
    this.hooks.judged(hit, on ? "keep" : "undo");
    this.#drawCounts(this.#list(), this.#list().slice(0, this.limit));
    this.hooks.refined();
  }

  #drop(hit) {
    const next = this.cards.get(hit).nextElementSibling?.dataset.id;
    markWork("dropped", hit.doc_id, hit.title || hit.doc_id, true);
    this.hooks.judged(hit, "drop");
    this.draw();
    this.hooks.refined();
    const card = [...byId("hits").children].find((one) => one.dataset.id === next);
    (card?.querySelector("h3 a, .act") ?? byId("shown").querySelector("button"))?.focus();
  }

  /** The sentences of a model, or else the best kept ones; each citation mark leads to the card of its hit. Only hits on the list are cited. */
  #drawBest() {
    const place = byId("answer");
    const written = this.answer.answer;
    const listed = this.#list();
    const ranks = new Map(listed.map((hit) => [hit.doc_id, hit]));
    const cite = (hit) => el("button", { type: "button", class: "cite", title: hit.title || hit.doc_id, "aria-label": `To hit ${hit.rank}`, click: () => this.showCard(hit) }, `[${hit.rank}]`);
    const once = (citations) => [...new Map(citations.map((one) => [one.doc_id, ranks.get(one.doc_id)])).values()].filter(Boolean);
    place.hidden = false;
    if (written?.sentences.length) {
      const rows = written.sentences.filter((one) => once(one.citations).length).map((one) => el("li", { dir: "auto" }, one.text, " ", once(one.citations).map(cite), one.uncertain ? " (may not answer)" : null));
      return fill(place, el("h2", {}, "Short answer"), rows.length ? el("ul", {}, rows) : el("p", {}, "Its sentences cite only results that are not shown."), removed(written), el("p", { class: "meta" }, el("span", {}, `Written by ${written.model}. Numbers, negations and quotations were compared with the cited sentences. Whether these support it was not checked.`)));
    }
    const lack = written ? [el("p", { class: "meta" }, `The model wrote no answer: ${written.why}.`), removed(written)] : null;
    const byRank = new Map(listed.map((hit) => [hit.rank, hit]));
    const best = this.reading.best.filter((one) => byRank.has(one.rank)).filter((one, at) => at < (one.uncertain ? ENOUGH_BEST : MAX_BEST));
    const rows = best.map((one) => this.#bestSentence(one, byRank.get(one.rank), cite));
    const unanswered = this.reading.best.length && !rows.length ? "No sentence of the results shown answers. Others do, which are filtered out or dropped." : this.reading.unanswered;
    place.hidden = !rows.length && !lack && !unanswered;
    fill(place, el("h2", {}, rows.length ? "Best sentences" : written ? "Short answer" : "No sentence answers"), rows.length ? el("ul", { class: "best" }, rows) : unanswered ? el("p", {}, unanswered) : null, lack);
  }

  /** A click on the sentence opens it in its text, as the button does. */
  #bestSentence(one, hit, cite) {
    const open = () => openText(this.showCard(hit), one.start);
    return el(
      "li",
      {},
      el("span", { class: "sentence", dir: "auto", click: () => isSelecting() || open() }, plainParts(one.parts)),
      one.uncertain ? el("small", {}, "may not answer") : null,
      el("span", { class: "lead-on" }, cite(hit), el("button", { type: "button", class: "where", click: open }, "In context", el("span", { class: "hidden" }, `: this sentence of hit ${hit.rank}`))),
    );
  }

  /** Of a hit on the list; its card, in sight and with the focus. */
  showCard(hit) {
    let node = this.cards.get(hit);
    if (!node?.isConnected) {
      this.limit = Math.max(this.limit, this.#list().indexOf(hit) + 1);
      this.draw();
      node = this.cards.get(hit);
    }
    node.tabIndex = -1;
    node.scrollIntoView({ block: "start" });
    node.focus({ preventScroll: true });
    return node;
  }

  #listForExport() {
    const { kept } = works();
    const isKeptOnly = byId("kept-only").querySelector("input").checked && !byId("kept-only").hidden;
    return isKeptOnly ? this.answer.hits.filter((hit) => hit.doc_id in kept) : this.#list();
  }

  /** How many hits will be saved, before they are. */
  drawExportCount() {
    const number = this.#listForExport().length;
    const all = this.answer.hits.length;
    const which = byId("kept-only").querySelector("input").checked ? "that you kept" : this.chosen.length ? "that fit the filters" : "that you did not drop";
    byId("export-count").textContent = number === all ? `Saves all ${plural(all, "result")}.` : `Saves the ${count(number)} of ${plural(all, "result")} ${which}.`;
  }

  async save(format, hits) {
    const chosen = hits ?? this.#listForExport();
    const ranks = chosen.length < this.answer.hits.length ? chosen.map((hit) => `&rank=${hit.rank}`).join("") : "";
    if (!chosen.length) return this.#say("Not saved: none of these results is kept");
    return this.#saveFile(`export?format=${format}${ranks}`, `outrider-hits.${format}`, `${plural(chosen.length, "result")} saved as ${FILES[format] ?? format}`);
  }

  /** The hits by year, as the server draws them: all of the answer, without the filters of the page. */
  saveTimeline() {
    return this.#saveFile("timeline.svg", "outrider-timeline.svg", `Picture of ${plural(this.answer.hits.length, "result")} by year saved`);
  }

  async #saveFile(path, name, done) {
    try {
      await save(await ask(`${this.address}/${path}`), name);
      return this.#say(done);
    } catch (error) {
      return this.#say(error.status === 404 ? "Not saved: the server no longer keeps this search. Search again." : `Not saved: ${error.message}`);
    }
  }

  #say(text) {
    byId("saved").textContent = text;
    return text;
  }
}

function removed(written) {
  const reasons = Object.entries(written.removed);
  const total = reasons.reduce((sum, [, number]) => sum + number, 0);
  return total ? el("p", { class: "meta" }, el("span", {}, `${plural(total, "sentence")} removed: ${reasons.map(([why, number]) => `${number} ${REMOVED[why] ?? words(why)}`).join(", ")}.`)) : null;
}
