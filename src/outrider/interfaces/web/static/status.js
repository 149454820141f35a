// Which parts of the server are on, and what that means for a search; behind a disclosure how to switch on the others.

import { json } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { showJobs } from "./jobs.js";
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
  showJobs(byId("jobs"));
  byId("status-dialog").showModal();
  const head = el("p", { class: "meta" }, el("span", {}, `Outrider ${about?.version ?? ""}`), el("span", {}, `Sources: ${about ? about.sources.map((name) => about.source_names[name]).join(", ") : "unknown"}`));
  fill(place, head, el("p", {}, "Looking ..."));
  try {
    const { parts } = await json("health");
    fill(place, head, el("dl", { class: "parts" }, parts.map((part) => [el("dt", {}, nameOf(part), " ", el("span", { class: part.broken ? "failed" : "state" }, part.on ? "on" : part.broken ? "broken" : "off")), el("dd", {}, describe(part))])), forOperator(about, parts, rows));
  } catch (error) {
    fill(place, head, el("p", { class: "failed" }, error.message));
  }
}

const nameOf = ({ what }) => NAMES[what] ?? what;
const describe = ({ what, on, broken }) => (broken ? "It is set up, and does not work at the moment. " : "") + (MEANINGS[what]?.[on ? 0 : 1] ?? "");

/** Details, settings and commands of all parts, and what the searches of the last answer need. */
function forOperator(about, parts, rows) {
  const needs = new Map(rows.filter((row) => row.message && (row.status === "off" || row.command)).map((row) => [`${row.source} ${row.strategy}`, row]));
  const searches = [...needs.values()].map((row) => [`The last search: ${about.source_names[row.source] ?? row.source}, ${nameSearch(row.strategy)}`, row.message, row.command]);
  const all = [...parts.map((part) => [nameOf(part), part.says, part.command]), ...searches];
  return el("details", {}, el("summary", {}, "For whoever runs this server"), el("dl", { class: "parts" }, all.map(([name, says, command]) => [el("dt", {}, name), el("dd", {}, explain(says, command))])));
}

/** The message, with the command that it offers set apart, so that it can be copied as it is. */
function explain(says, command) {
  const at = command ? says.indexOf(command) : -1;
  return at < 0 ? says : [says.slice(0, at), el("code", { class: "command" }, command), says.slice(at + command.length)];
}
