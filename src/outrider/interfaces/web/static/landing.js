// Before the first search: what is searched and how much, requests to try, recent and saved searches.

import { json } from "./api.js";
import { byId, el, fill, listNames, plural } from "./dom.js";
import { icon } from "./icons.js";
import { forgetSearch, saveSearch, searches } from "./shelf.js";

/** `search(query)` runs a request; `open(address)` runs that of an address. */
export async function drawLanding(about, { search, open }) {
  drawSearches(open);
  const model = about.answers ? "A chat model plans the search and reads the works." : "No chat model is connected: rules rank the works.";
  const others = about.sources.filter((name) => name !== "library").map((name) => about.source_names[name]);
  const scope = byId("scope");
  const say = (own) => fill(scope, `Searches ${listNames([own, ...others])}. ${model}`);
  try {
    const { records, problem, examples } = await json("api/landing");
    say(problem === "broken" ? "your library, which cannot be read at the moment" : problem === "missing" || !records ? "your library, which is still empty" : `your library of ${plural(records, "record")}`);
    if (problem === "broken") scope.append(" See Status for the reason.");
    fill(byId("examples"), examples.map((text) => el("li", {}, el("button", { type: "button", class: "example", dir: "auto", click: () => search(text) }, text))));
  } catch (error) {
    say("your library");
    fill(byId("examples"), el("li", { class: "failed" }, error.message));
  }
}

export function drawSearches(open) {
  const all = searches();
  const again = (change) => {
    change();
    drawSearches(open);
    byId("recent").querySelector("button, a")?.focus();
  };
  const row = (one) => el(
    "li",
    {},
    el("a", { href: one.address, dir: "auto", click: (event) => {
      event.preventDefault();
      open(one.address);
    } }, one.query),
    el("button", { type: "button", class: "quiet star", "aria-pressed": String(one.saved), "aria-label": `Save the search ${one.query}`, click: () => again(() => saveSearch(one.address, one.query, !one.saved)) }, icon("star")),
    el("button", { type: "button", class: "quiet", "aria-label": `Remove the search ${one.query}`, click: () => again(() => forgetSearch(one.address)) }, "×"),
  );
  const part = (name, some) => (some.length ? [el("h2", {}, name), el("ul", { class: "rows" }, some.map(row))] : null);
  fill(byId("recent"), part("Saved searches", all.filter((one) => one.saved)), part("Recent searches", all.filter((one) => !one.saved)));
}

