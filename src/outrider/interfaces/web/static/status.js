// Which parts of the server are on, and what that means for a search; behind a disclosure how to switch on the others.

import { json } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { nameSearch } from "./progress.js";

const NAMES = { library: "Library", "dense search": "Search by meaning", reranker: "Reranker", model: "Chat model" };
/** What it means for a search, if a part is on or off. */
const MEANINGS = {
  library: ["Your library is searched.", "There is no library to search; only other sources are."],
  "dense search": ["Works are also found by what they mean, in other words than yours.", "Works are found by the words that you write, and by words related to them."],
  reranker: ["A second model puts the first works in order.", "The first works keep the order of the search."],
  model: ["A chat model plans the search and reads the works.", "No chat model is set up: rules plan the search and rank the works. Whoever runs this server can connect one."],
};

/** `rows` are the reports of the last search: searches that are off say what they need. */
export async function showStatus(about, rows) {
  const place = byId("status");
  byId("status-dialog").showModal();
  const head = el("p", { class: "meta" }, el("span", {}, `Outrider ${about?.version ?? ""}`), el("span", {}, `Sources: ${about ? about.sources.map((name) => about.source_names[name]).join(", ") : "unknown"}`));
  const needs = new Map(rows.filter((row) => row.message && (row.status === "off" || row.command)).map((row) => [`${row.source} ${row.strategy}`, row]));
  const last = needs.size ? [el("h3", {}, "The last search"), el("dl", { class: "parts" }, [...needs.values()].map((row) => [el("dt", {}, `${about.source_names[row.source] ?? row.source}, ${nameSearch(row.strategy)}`), el("dd", {}, forOperator({ says: row.message, command: row.command }))]))] : null;
  fill(place, head, last, el("p", {}, "Looking ..."));
  try {
    const { parts } = await json("health");
    fill(place, head, last, el("dl", { class: "parts" }, parts.map((part) => [el("dt", {}, NAMES[part.what] ?? part.what, " ", el("span", { class: part.broken ? "failed" : "state" }, part.on ? "on" : part.broken ? "broken" : "off")), el("dd", {}, describe(part), forOperator(part))])));
  } catch (error) {
    fill(place, head, last, el("p", { class: "failed" }, error.message));
  }
}

const describe = ({ what, on, broken }) => (broken ? "It is set up, and does not work at the moment. " : "") + (MEANINGS[what]?.[on ? 0 : 1] ?? "");

/** Details and commands. A command is set apart, so that it can be copied as it is. */
function forOperator({ says, command }) {
  const at = command ? says.indexOf(command) : -1;
  const text = at < 0 ? says : [says.slice(0, at), el("code", { class: "command" }, command), says.slice(at + command.length)];
  return el("details", {}, el("summary", {}, "For whoever runs this server"), el("p", {}, text));
}
