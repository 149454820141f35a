// The form of a search: the fields of an address to its inputs, and back.

import { DEFAULTS, describeFilters } from "./address.js";
import { json } from "./api.js";
import { byId, checkedValues, count, el, fill } from "./dom.js";

const TYPING_PAUSE_MS = 200;
const MIN_CHARS = 2;
const MAX_CHARS = 300;
let about = null;

/** Offer past queries, and words of the library, that continue what was typed. */
async function complete() {
  const text = byId("query").value;
  if (text.trim().length < MIN_CHARS || text.length > MAX_CHARS) return offer([]);
  const { completions } = await json(`api/complete?${new URLSearchParams({ q: text })}`).catch(() => ({ completions: [] }));
  if (byId("query").value === text) offer(completions);
}

/** The box is one with a list only while the list has something. */
function offer(completions) {
  fill(byId("completions"), completions.map((one) => el("option", { value: one.text })));
  if (completions.length) byId("query").setAttribute("list", "completions");
  else byId("query").removeAttribute("list");
}

/** Draw what depends on the server; `submitted(fields)` is called with the fields of a request. */
export function setUpForm(serverInfo, submitted) {
  about = serverInfo;
  const form = byId("search-form");
  byId("answer-choice").hidden = !about.answers;
  byId("text-choice").hidden = !about.full_text;
  fill(byId("search-sources"), about.sources.map((name) => el("label", {}, el("input", { type: "checkbox", name: "sources", value: name }), ` ${about.source_names[name]}`)));
  let typing = 0;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    offer([]);
    const fields = readForm();
    if (fields.q) submitted(fields);
  });
  form.addEventListener("input", () => showFilters(readForm()));
  byId("query").addEventListener("input", ({ inputType }) => {
    clearTimeout(typing);
    if (inputType !== "insertReplacementText") typing = setTimeout(complete, TYPING_PAUSE_MS); // one that was chosen is complete
  });
  const showLabels = async () => {
    if (byId("narrow").open) drawLabels((await json("api/landing").catch(() => ({}))).labels ?? {});
  };
  byId("narrow").addEventListener("toggle", showLabels);
  showLabels();
}

/** The library's labels as boxes, with the number of their records; those of the address are kept, whatever the library has. */
function drawLabels(labels) {
  const chosen = checkedValues(byId("search-form"), "label");
  const numbers = new Map([...chosen.map((name) => [name, null]), ...Object.entries(labels)]);
  byId("search-labels").closest("fieldset").hidden = !numbers.size;
  fill(byId("search-labels"), [...numbers].map(([name, number]) => el("label", {}, el("input", { type: "checkbox", name: "label", value: name, checked: chosen.includes(name) }), " ", el("span", { dir: "auto" }, name), number === null ? null : [" ", el("small", {}, count(number))])));
}

/** The fields of an address, from the form. */
export function readForm() {
  const form = byId("search-form");
  const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  return { q: given.query, mode: given.search_mode, from: given.year_from, to: given.year_to, stars: given.stars, lang: given.language, n: given.top_k || DEFAULTS.n, thread: given.thread, src: checkedValues(form, "sources"), ask: checkedValues(form, "ask"), label: checkedValues(form, "label"), answer: about?.answers && given.answer_enabled === "on" ? "1" : "", text: about?.full_text && given.full_text_enabled === "on" ? "1" : "" };
}

export function fillForm(fields) {
  const { elements } = byId("search-form");
  const values = { query: fields.q, year_from: fields.from, year_to: fields.to, stars: fields.stars, language: fields.lang, top_k: fields.n || DEFAULTS.n, thread: fields.thread };
  for (const [name, value] of Object.entries(values)) elements[name].value = value ?? "";
  elements.search_mode.value = fields.mode || DEFAULTS.mode;
  elements.answer_enabled.checked = fields.q ? fields.answer === "1" : about.answers && about.answer_enabled;
  elements.full_text_enabled.checked = fields.q ? fields.text === "1" : about.full_text && about.full_text_enabled;
  for (const box of byId("search-sources").querySelectorAll("input")) box.checked = (fields.src ?? []).includes(box.value);
  for (const box of elements.ask) box.checked = (fields.ask ?? []).includes(box.value);
  fill(byId("search-labels"), (fields.label ?? []).map((name) => el("input", { type: "checkbox", name: "label", value: name, checked: true, hidden: true })));
  drawLabels({});
  showFilters(readForm());
}

function showFilters(fields) {
  const parts = describeFilters(fields, about);
  byId("narrowed").textContent = parts.length ? `(${parts.join(", ")})` : "";
}
