// The next round of a search: what was kept and dropped, feedback in words, and works like one of them.

import { byId, el, fill } from "./dom.js";
import { markWork, works } from "./shelf.js";

const MAX_FEEDBACK = 2000;
const SHOWN = 5;
const MAX_TAGS = 3;

/** A request for works like one: its title and its first keywords. */
export function askForSimilar(hit) {
  const tags = (hit.tags ?? []).filter((tag) => tag.length < 40 && !/[:/]/.test(tag)).slice(0, MAX_TAGS);
  const about = hit.kind === "repository" && hit.description ? hit.description.slice(0, 200) : hit.title || hit.doc_id;
  return [about, ...tags].join(" ").trim();
}

const quote = (titles) => titles.slice(-SHOWN).map((title) => `"${title.slice(0, 120)}"`).join("; ");

/** What a model reads: works to be like, works to avoid, and the reader's words. */
export function makeFeedback(text) {
  const { kept, dropped } = works();
  const [liked, disliked] = [Object.values(kept), Object.values(dropped)];
  return [liked.length ? `More like: ${quote(liked)}.` : "", disliked.length ? `Not like: ${quote(disliked)}.` : "", text.trim()].filter(Boolean).join(" ").slice(0, MAX_FEEDBACK);
}

export function drawRefine(about) {
  const { kept, dropped } = works();
  const chips = (list, titles) => Object.entries(titles).slice(-SHOWN).map(([id, title]) => el("li", { dir: "auto" }, el("b", {}, list === "kept" ? "More like " : "Not this: "), title.slice(0, 90), " ", el("button", { type: "button", class: "quiet", "aria-label": `Take ${title} off the list`, click: () => {
    markWork(list, id, title, false);
    byId("refine").dispatchEvent(new Event("changed"));
  } }, "×")));
  fill(byId("refine-works"), [...chips("kept", kept), ...chips("dropped", dropped)]);
  byId("refine-words").hidden = !about.answers;
  byId("refine-note").textContent = about.answers
    ? "A model reads your words and the titles that you kept and dropped, and writes new queries."
    : "Without a chat model, the next round varies the words of your query, and cannot read feedback. Works you drop stay hidden in this tab. \"Similar works\" of a card lists what your library connects with it.";
}
