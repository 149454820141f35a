// Facets that filter: a hit matches any checked value within a group, and all groups. They filter the loaded hits at once;
// their numbers count everything above the threshold, as the server does.

import { byId, count, el, fill, words } from "./dom.js";

const MAX_VALUES = 8;
const plain = (text) => String(text).split(/\s+/).filter(Boolean).join(" ").replace(/[.,;]+$/, "").toLowerCase();

const GROUPS = [
  { name: "Kind", values: (hit) => [hit.kind] },
  { name: "Found by", values: (hit) => hit.found_by.map((one) => one.source) },
  { name: "Year", of: "by_year", values: (hit) => [hit.year] },
  { name: "Venue", of: "by_venue", values: (hit) => [hit.venue] },
  { name: "Language", of: "by_language", values: (hit) => [hit.language] },
  { name: "Author", of: "top_authors", values: (hit) => hit.authors },
  { name: "Theme", of: "key_themes", values: (hit) => hit.title.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [] },
];

const valuesOf = (group, hit) => new Set(group.values(hit).filter((value) => value !== null && value !== undefined).map(plain));

/** Draw the facets; `changed(test)` receives a function that decides whether a hit is shown. */
export function facets(answer, changed) {
  const checked = new Map();
  const test = (hit) => [...checked].every(([group, wanted]) => !wanted.size || [...valuesOf(group, hit)].some((value) => wanted.has(value)));
  const groups = GROUPS.map((group) => drawGroup(group, answer, (value, on) => {
    const wanted = checked.get(group) ?? new Set();
    if (on) wanted.add(value);
    else wanted.delete(value);
    checked.set(group, wanted);
    changed(test);
  }));
  fill(byId("facets").querySelector("div"), groups.some(Boolean) ? groups : el("p", { class: "meta" }, "There is nothing to filter."));
}

function drawGroup(group, answer, toggled) {
  const here = countValues(answer.hits, group);
  const all = group.of ? Object.entries(answer.facets[group.of]) : [...here].sort(([a, many], [b, more]) => more - many || (a < b ? -1 : 1));
  const order = group.of === "by_year" ? all.sort(([a], [b]) => Number(b) - Number(a)) : all;
  if (!order.length || (!group.of && order.length < 2)) return null;
  const boxes = order.map(([value, number]) => box(value, number, here.get(plain(value)) ?? 0, toggled));
  const rest = boxes.splice(MAX_VALUES);
  return el("fieldset", {}, el("legend", {}, group.name), boxes, rest.length ? el("details", {}, el("summary", {}, `${count(rest.length)} more`), rest) : null);
}

function countValues(hits, group) {
  const counts = new Map();
  for (const hit of hits) for (const value of valuesOf(group, hit)) counts.set(value, (counts.get(value) ?? 0) + 1);
  return counts;
}

/** A value that no loaded hit has is shown, and cannot be chosen. */
function box(value, number, here, toggled) {
  const input = el("input", { type: "checkbox", disabled: !here, change: (event) => toggled(plain(value), event.target.checked) });
  return el("label", { class: here ? "" : "off", title: here ? "" : "No loaded hit has this value; search for more hits." }, input, el("span", { dir: "auto" }, words(value)), el("small", {}, count(number)));
}
