// A search that waits for its reader: the plan as a form, or the results with a judgement for each work.

import { byId, el, fill, link, plural } from "./dom.js";
import { nameKind } from "./icons.js";

const MAX_QUERIES = 8;
const JUDGEMENTS = [["keep", "Keep"], ["drop", "Not this"], ["more_like", "More like this"]];

/** `send(answer)` resolves when the search goes on, and fails with the reason if the answer is refused; `names` are those of sources. */
export function showReview(review, names, send) {
  const place = byId("checkpoint");
  const said = el("p", { role: "alert", class: "failed" }, review.problem);
  const isPlan = review.review === "plan";
  const { parts, read } = isPlan ? plan(review, names) : results(review);
  const go = el("button", { type: "submit" }, "Go on");
  const submit = async (event) => {
    event.preventDefault();
    said.textContent = "";
    go.disabled = true;
    try {
      await send(read());
    } catch (error) {
      said.textContent = error.message;
      go.disabled = false;
    }
  };
  const title = el("h2", { id: "checkpoint-title", tabindex: "-1" }, isPlan ? "This is the plan. Change it, or go on" : "Look through the results, then go on");
  fill(place, title, el("form", { submit }, parts, said, el("p", { class: "inline" }, go)));
  place.hidden = false;
  title.focus({ preventScroll: true });
}

function plan(review, names) {
  const list = el("ol", { class: "planned" });
  const add = el("button", { type: "button", class: "second", click: () => addQuery("", "", true) }, "Add a query");
  const count = () => {
    for (const [at, one] of [...list.children].entries()) {
      one.querySelector(".text-label").textContent = `Query ${at + 1}`;
      one.querySelector(".remove").setAttribute("aria-label", `Remove query ${at + 1}`);
      one.querySelector(".remove").hidden = list.children.length < 2;
    }
    add.disabled = list.children.length >= MAX_QUERIES;
  };
  const addQuery = (text, boolean, isNew) => {
    const words = el("input", { type: "text", value: text, required: true, maxlength: "20000", dir: "auto" });
    const exact = el("textarea", { rows: "2", maxlength: "20000", spellcheck: "false", dir: "auto" }, boolean);
    const remove = el("button", { type: "button", class: "quiet remove", click: () => {
      one.remove();
      count();
      add.focus();
    } }, "×");
    const one = el("li", {}, el("div", { class: "ask" }, el("label", { class: "field" }, el("span", { class: "text-label" }), words), remove), el("details", {}, el("summary", {}, "Boolean form"), el("label", { class: "field" }, "For sources that match exactly; empty: made from the words", exact)));
    if (!isNew) words.addEventListener("input", () => (exact.value = ""), { once: true }); // it is that of the old words
    list.append(one);
    count();
    if (isNew) words.focus();
  };
  for (const query of review.queries) addQuery(query.text, query.boolean_query, false);
  const boxes = review.available_sources.map((name) => el("label", {}, el("input", { type: "checkbox", value: name, checked: review.sources.includes(name) }), ` ${names[name] ?? name}`));
  const sources = el("fieldset", {}, el("legend", {}, "Sources"), el("div", { class: "choices" }, boxes));
  const year = (value) => el("input", { type: "number", min: "0", max: "3000", inputmode: "numeric", value: value ?? "" });
  const [first, last] = [year(review.years.min), year(review.years.max)];
  const filters = el("textarea", { rows: "2", spellcheck: "false", placeholder: '{"year": {"$gte": 2020}}' }, review.filters ? JSON.stringify(review.filters) : "");
  const years = el("div", { class: "fields" }, el("label", {}, "From year ", first), el("label", {}, "To year ", last));
  const read = () => ({
    queries: [...list.children].map((one) => ({ text: one.querySelector("input").value.trim(), boolean_query: one.querySelector("textarea").value.trim() })),
    sources: boxes.map((box) => box.querySelector("input")).filter((box) => box.checked).map((box) => box.value),
    years: { ...(first.value && { min: Number(first.value) }), ...(last.value && { max: Number(last.value) }) },
    filters: parseFilters(filters.value),
  });
  const more = el("details", {}, el("summary", {}, "Filters"), el("label", { class: "field" }, "As JSON; empty for none", filters));
  return { parts: [list, el("p", {}, add), sources, years, more], read };
}

function parseFilters(text) {
  try {
    return text.trim() ? JSON.parse(text) : {};
  } catch {
    throw new Error("The filters are not JSON.");
  }
}

function results(review) {
  const chosen = new Map();
  const row = (work) => {
    const buttons = JUDGEMENTS.map(([name, text]) => el("button", { type: "button", class: "act", "aria-pressed": "false", "data-judgement": name, click: () => choose(name) }, text, el("span", { class: "hidden" }, `: ${work.title}`)));
    const choose = (name) => {
      if (chosen.get(work.doc_id) === name) chosen.delete(work.doc_id);
      else chosen.set(work.doc_id, name);
      for (const one of buttons) one.setAttribute("aria-pressed", String(chosen.get(work.doc_id) === one.dataset.judgement));
      one.classList.toggle("dropped", chosen.get(work.doc_id) === "drop");
    };
    const meta = [nameKind(work.kind), work.year, ...work.notices].filter(Boolean);
    const one = el("li", { "data-id": work.doc_id }, el("h3", {}, link(work.url, work.title)), el("p", { class: "meta" }, meta.map((part) => el("span", {}, String(part)))), work.about ? el("p", { class: "passage about", dir: "auto" }, work.about) : null, el("p", { class: "bar-of-actions" }, buttons));
    return one;
  };
  const words = el("textarea", { rows: "2", maxlength: "2000" });
  const named = (name) => [...chosen].filter(([, judgement]) => judgement === name).map(([id]) => id);
  const read = () => ({ ...Object.fromEntries(JUDGEMENTS.map(([name]) => [name, named(name)])), feedback: words.value.trim() });
  const more = review.total - review.works.length;
  return { parts: [el("ol", { class: "reviewed" }, review.works.map(row)), more > 0 ? el("p", { class: "meta" }, `${plural(more, "more hit")} not shown here stay.`) : null, el("label", { class: "field" }, "For the next search of this thread, in words", words)], read };
}
