// The first view of the search: its form, and what is offered before a search. What searches is loaded behind it.

import { nameTab, readAddress } from "./address.js";
import { byId, loadStyle } from "./dom.js";
import { fillForm, readForm, setUpForm } from "./form.js";
import { drawLanding } from "./landing.js";

let about = null;
let searching = null;

/** `isAsked`: the form was sent before the server had answered. */
export async function begin(serverInfo, isAsked = false) {
  about = serverInfo;
  setUpForm(about, start);
  byId("threads-button").addEventListener("click", async () => (await load()).openThreads());
  addEventListener("hashchange", follow);
  const typed = readForm(); // before the server had answered
  const isAddressed = Boolean(readAddress().q);
  await follow();
  const { answer, text } = readForm();
  if (!isAddressed) fillForm({ ...typed, answer, text });
  if (isAsked && typed.q) start({ ...typed, answer, text });
  load();
}

/** The module that searches. Nobody needs it to read or to type, so that it does not delay the first view. */
export function load() {
  searching ??= Promise.all([import("./search.js"), loadStyle("charts")]).then(([module]) => {
    module.begin(about);
    return module;
  });
  searching.catch(() => (searching = null)); // the server may be back when it is asked again
  return searching;
}

const start = async (fields) => (await load()).start(fields);

async function follow() {
  const { view, q } = readAddress();
  if (view !== "search") return;
  if (q || searching) (await load()).follow();
  else showLanding();
}

export function showLanding() {
  const fields = readAddress();
  nameTab(fields);
  fillForm(fields);
  byId("landing").hidden = false;
  byId("view-search").classList.remove("asked");
  byId("run").hidden = byId("results").hidden = true;
  if (!byId("search-form").contains(document.activeElement)) byId("query").focus();
  drawLanding(about, { search: (query) => start({ ...readForm(), q: query }), open: (address) => start({ ...readAddress(address), run: "", f: [], sort: "" }) });
}
