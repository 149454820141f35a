// The answer to a search: the best sentences on top, then cards, sorted and filtered, ten at a time.

import { ask } from "./api.js";
import { Comparison } from "./compare.js";
import { byId, count, el, fill, plural, save, words } from "./dom.js";
import { Facets } from "./facets.js";
import { card } from "./hits.js";
import { plainParts } from "./passages.js";
import { clearDropped, markWork, works } from "./shelf.js";

const PAGE = 10;
const MAX_HITS = 1000;
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
  /** `hooks`: `names`, `similar(hit)`, `more(number)`, `changed()` after a sort or filter, `refined()` after a work was kept or dropped. */
  constructor(answer, reading, address, view, hooks) {
    Object.assign(this, { answer, address, hooks });
    this.sort = ORDERS[view.sort] ? view.sort : "rank";
    this.limit = PAGE;
    const read = new Map(reading.hits.map((one) => [one.rank, one]));
    for (const hit of answer.hits) {
      hit.reading = read.get(hit.rank);
      hit.units = answer.context.units.filter((unit) => unit.doc_id === hit.doc_id);
    }
    this.cards = new Map();
    this.comparison = new Comparison(() => this.address, hooks.names);
    this.facets = new Facets(answer.hits, view.f ?? [], hooks.names, () => this.#change());
    byId("sort").value = this.sort;
    byId("tools").hidden = !answer.hits.length;
    byId("refine").hidden = !answer.strategy || !answer.hits.length;
    byId("facets").hidden = !answer.hits.length;
    this.#drawBest(reading);
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
    const part = all.length < this.answer.hits.length ? `${count(all.length)} of ${plural(this.answer.hits.length, "hit")} shown` : "";
    byId("hits-title").textContent = hits.length < all.length ? `${count(hits.length)} of ${plural(all.length, "hit")}` : plural(all.length, "hit");
    fill(byId("shown"), part, dropped ? [` (${plural(dropped, "work")} dropped)`, el("button", { type: "button", class: "quiet", click: () => { clearDropped(); this.draw(); this.hooks.refined(); } }, "Show dropped works")] : null);
    const kept = Object.keys(works().kept).length;
    byId("kept-only").hidden = !kept;
    byId("kept-count").textContent = `kept only (${count(kept)})`;
  }

  #explainNothing() {
    if (!this.answer.hits.length) return this.hooks.explainEmpty();
    return [el("p", {}, this.chosen.length ? "No hit matches all filters." : "You dropped every hit of this search."), this.chosen.length ? el("button", { type: "button", class: "second", click: () => this.facets.clear() }, "Remove the filters") : null];
  }

  #keep(hit, button) {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    markWork("kept", hit.doc_id, hit.title || hit.doc_id, on);
    this.#drawCounts(this.#list(), this.#list().slice(0, this.limit));
    this.hooks.refined();
  }

  #drop(hit) {
    const next = this.cards.get(hit).nextElementSibling?.dataset.id;
    markWork("dropped", hit.doc_id, hit.title || hit.doc_id, true);
    this.draw();
    this.hooks.refined();
    const card = [...byId("hits").children].find((one) => one.dataset.id === next);
    (card?.querySelector("h3 a, .act") ?? byId("shown").querySelector("button"))?.focus();
  }

  /** The sentences of a model, or else the best kept ones; each citation mark leads to the card of its hit. */
  #drawBest(reading) {
    const place = byId("answer");
    const written = this.answer.answer;
    const ranks = new Map(this.answer.hits.map((hit) => [hit.doc_id, hit]));
    const cite = (hit) => el("button", { type: "button", class: "cite", title: hit.title || hit.doc_id, "aria-label": `To hit ${hit.rank}`, click: () => this.showCard(hit) }, `[${hit.rank}]`);
    const once = (citations) => [...new Map(citations.map((one) => [one.doc_id, ranks.get(one.doc_id)])).values()].filter(Boolean);
    place.hidden = false;
    if (written?.sentences.length) {
      const rows = written.sentences.map((one) => el("li", { dir: "auto" }, one.text, " ", once(one.citations).map(cite), one.uncertain ? " (may not answer)" : null));
      return fill(place, el("h2", {}, "Short answer"), el("ul", {}, rows), removed(written), el("p", { class: "meta" }, el("span", {}, `Written by ${written.model}. Numbers, negations and quotations were compared with the cited sentences. Whether these support it was not checked.`)));
    }
    const lack = written ? [el("p", { class: "meta" }, `The model wrote no answer: ${written.why}.`), removed(written)] : null;
    const byRank = new Map(this.answer.hits.map((hit) => [hit.rank, hit]));
    const rows = reading.best.map((one) => el("li", {}, el("span", { dir: "auto" }, plainParts(one.parts)), one.uncertain ? el("small", {}, "may not answer") : null, cite(byRank.get(one.rank))));
    place.hidden = !rows.length && !lack && !reading.unanswered;
    fill(place, el("h2", {}, rows.length ? "Best sentences" : written ? "Short answer" : "No sentence answers"), rows.length ? el("ul", { class: "best" }, rows) : reading.unanswered ? el("p", {}, reading.unanswered) : null, lack);
  }

  showCard(hit) {
    let node = this.cards.get(hit);
    if (!node?.isConnected) {
      if (!this.facets.matches(hit)) this.facets.clear();
      this.limit = Math.max(this.limit, this.#list().indexOf(hit) + 1);
      this.draw();
      node = this.cards.get(hit);
    }
    if (!node?.isConnected) return;
    node.tabIndex = -1;
    node.scrollIntoView({ block: "start" });
    node.focus({ preventScroll: true });
  }

  async save(format, hits) {
    const { kept } = works();
    const chosen = hits ?? (byId("kept-only").querySelector("input").checked && !byId("kept-only").hidden ? this.answer.hits.filter((hit) => hit.doc_id in kept) : this.#list());
    const ranks = chosen.length < this.answer.hits.length ? chosen.map((hit) => `&rank=${hit.rank}`).join("") : "";
    if (!chosen.length) this.#say("Not saved: none of these hits is kept");
    else await this.#saveFile(`export?format=${format}${ranks}`, `outrider-hits.${format}`, `${plural(chosen.length, "hit")} saved as ${FILES[format] ?? format}`);
  }

  /** The hits by year, as the server draws them: all of the answer, without the filters of the page. */
  saveTimeline() {
    return this.#saveFile("timeline.svg", "outrider-timeline.svg", `Picture of ${plural(this.answer.hits.length, "hit")} by year saved`);
  }

  async #saveFile(path, name, done) {
    try {
      await save(await ask(`${this.address}/${path}`), name);
      this.#say(done);
    } catch (error) {
      this.#say(error.status === 404 ? "Not saved: the server no longer keeps this search. Search again." : `Not saved: ${error.message}`);
    }
  }

  #say(text) {
    byId("saved").textContent = text;
  }
}

function removed(written) {
  const reasons = Object.entries(written.removed);
  const total = reasons.reduce((sum, [, number]) => sum + number, 0);
  return total ? el("p", { class: "meta" }, el("span", {}, `${plural(total, "sentence")} removed: ${reasons.map(([why, number]) => `${number} ${REMOVED[why] ?? words(why)}`).join(", ")}.`)) : null;
}
