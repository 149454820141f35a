// Facets that filter the hits on the page: any checked value within a group, and all groups. Each number counts hits that are shown if
// the value is chosen; a value without one is hidden.

import { byId, count, el, fill } from "./dom.js";
import { nameKind } from "./icons.js";
import { histogram, makeBins, nameBin } from "./histogram.js";

const MAX_VALUES = 6;
const fold = (text) => String(text).split(/\s+/).filter(Boolean).join(" ").replace(/[.,;]+$/, "").toLowerCase();

const ownCode = (hit) => hit.code?.find((one) => one.kind === "paper's own code" || one.kind === "repository's paper");

const GROUPS = [
  { name: "Type", values: (hit) => [hit.kind], shown: nameKind },
  { name: "Notices", values: (hit) => (hit.notices?.length ? [...new Set(hit.notices.map((one) => one.kind))] : ["none"]), shown: (value) => value === "none" ? "No notice" : value.charAt(0).toUpperCase() + value.slice(1) },
  { name: "Code", values: (hit) => [ownCode(hit)?.liveness], shown: (value) => `Has code, ${value}` },
  { name: "Year", values: (hit) => [hit.year] },
  { name: "Source", values: (hit) => hit.found_by.map((one) => one.source), shown: (value, names) => names[value] ?? value },
  { name: "Venue", values: (hit) => [hit.venue] },
  { name: "Language", values: (hit) => [hit.language] },
  { name: "Author", values: (hit) => hit.authors },
];
const isKnown = (value) => value !== null && value !== undefined && value !== "";

/** Filters of one answer. `chosen` are texts of an address, such as `Type:paper`; `changed()` is called after each choice. */
export class Facets {
  constructor(hits, chosen, names, changed) {
    this.hits = hits;
    this.names = names;
    this.changed = changed;
    this.checked = new Map(GROUPS.map((group) => [group.name, new Set()]));
    this.bins = makeBins(hits.map((hit) => hit.year).filter(isKnown));
    this.open = new Set();
    for (const text of chosen) {
      const at = text.indexOf(":");
      this.checked.get(text.slice(0, at))?.add(text.slice(at + 1));
    }
    this.values = new Map(hits.map((hit) => [hit, new Map(GROUPS.map((group) => [group.name, this.#read(group, hit)]))]));
  }

  #read(group, hit) {
    const values = group.values(hit).filter(isKnown);
    if (group.name !== "Year") return new Set(values.map(fold));
    return new Set(this.bins.filter(([first, last]) => values[0] >= first && values[0] <= last).map(nameBin));
  }

  get chosen() {
    return [...this.checked].flatMap(([name, values]) => [...values].map((value) => `${name}:${value}`));
  }

  matches(hit, except) {
    return [...this.checked].every(([name, wanted]) => name === except || !wanted.size || [...this.values.get(hit).get(name)].some((value) => wanted.has(value)));
  }

  clear() {
    for (const values of this.checked.values()) values.clear();
    this.changed();
  }

  #toggle(name, value, on) {
    if (on) this.checked.get(name).add(value);
    else this.checked.get(name).delete(value);
    this.changed();
  }

  #count(name) {
    const counts = new Map();
    for (const hit of this.hits) if (this.matches(hit, name)) for (const value of this.values.get(hit).get(name)) counts.set(value, (counts.get(value) ?? 0) + 1);
    return counts;
  }

  /** Drawn anew after each choice; the focus stays on its value. */
  draw() {
    const place = byId("facets").querySelector("div");
    const before = place.contains(document.activeElement) ? document.activeElement.dataset : {};
    const { value, bin } = before;
    const groups = GROUPS.map((group) => (group.name === "Year" ? this.#drawYears() : this.#drawGroup(group))).filter(Boolean);
    const clear = this.chosen.length ? el("button", { type: "button", class: "second", click: () => this.clear() }, "Clear filters") : null;
    fill(place, groups.length ? [clear, groups] : el("p", { class: "meta" }, "There is nothing to filter."));
    byId("facets-count").textContent = this.chosen.length ? ` (${this.chosen.length})` : "";
    const again = [...place.querySelectorAll("[data-value], [data-bin]")].find((node) => (value && node.dataset.value === value) || (bin && node.dataset.bin === bin));
    again?.focus();
  }

  #drawYears() {
    if (!this.bins.length) return null;
    const counts = this.#count("Year");
    const wanted = this.checked.get("Year");
    const rows = this.bins.map((bin) => ({ bin, number: counts.get(nameBin(bin)) ?? 0, on: wanted.has(nameBin(bin)) }));
    return el("fieldset", {}, el("legend", {}, "Year"), histogram(rows, (bin, on) => this.#toggle("Year", nameBin(bin), on)), wanted.size ? el("p", { class: "meta" }, [...wanted].join(", ")) : null);
  }

  #drawGroup(group) {
    const { name } = group;
    const counts = this.#count(name);
    const wanted = this.checked.get(name);
    for (const value of wanted) if (!counts.has(value)) counts.set(value, 0);
    const all = this.hits.filter((hit) => this.matches(hit, name)).length;
    if (!wanted.size && [...counts.values()].every((number) => number === all)) return null; // it narrows nothing
    const spelled = new Map(this.hits.flatMap((hit) => group.values(hit).filter(isKnown).map((value) => [fold(value), value])));
    const order = [...counts].sort(([a, many], [b, more]) => wanted.has(b) - wanted.has(a) || more - many || (a < b ? -1 : 1));
    const box = ([value, number]) => {
      const shown = group.shown ? group.shown(value, this.names) : spelled.get(value) ?? value;
      const input = el("input", { type: "checkbox", checked: wanted.has(value), "data-value": `${name}:${value}`, change: (event) => this.#toggle(name, value, event.target.checked) });
      return el("label", {}, input, el("span", { dir: "auto" }, String(shown)), el("small", {}, count(number)));
    };
    const rest = order.slice(MAX_VALUES);
    return el("fieldset", {}, el("legend", {}, name), order.slice(0, MAX_VALUES).map(box), rest.length ? this.#drawRest(name, rest, box) : null);
  }

  /** Made when it is opened: a group may have a thousand values. */
  #drawRest(name, rest, box) {
    const list = el("div", { class: "rest" });
    const show = () => list.hasChildNodes() || list.append(...rest.map(box));
    const details = el("details", { open: this.open.has(name), toggle: () => {
      if (details.open) this.open.add(name);
      else this.open.delete(name);
      if (details.open) show();
    } }, el("summary", {}, `${count(rest.length)} more`), list);
    if (this.open.has(name)) show();
    return details;
  }
}

/** Where the filters stand above the hits, they are folded. */
export function foldOnNarrowScreens() {
  const narrow = matchMedia("(max-width: 46rem)");
  const fold = () => (byId("facets-open").open = !narrow.matches);
  narrow.addEventListener("change", fold);
  fold();
}
