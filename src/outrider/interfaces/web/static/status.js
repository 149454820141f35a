// Which parts of the server are on, and how to switch on the others: for whoever runs it.

import { json } from "./api.js";
import { byId, el, fill } from "./dom.js";
import { nameSearch } from "./progress.js";

const NAMES = { library: "Library", "dense search": "Search by meaning", reranker: "Reranker", model: "Chat model" };

/** `rows` are the reports of the last search: searches that are off say what they need. */
export async function showStatus(about, rows) {
  const place = byId("status");
  byId("status-dialog").showModal();
  const head = el("p", { class: "meta" }, el("span", {}, `Outrider ${about?.version ?? ""}`), el("span", {}, `Sources: ${about ? about.sources.map((name) => about.source_names[name]).join(", ") : "unknown"}`));
  const needs = new Map(rows.filter((row) => row.message && (row.status === "off" || row.command)).map((row) => [`${row.source} ${row.strategy}`, row]));
  const last = needs.size ? [el("h3", {}, "The last search"), el("dl", { class: "parts" }, [...needs.values()].map((row) => [el("dt", {}, `${about.source_names[row.source] ?? row.source}, ${nameSearch(row.strategy)}`), el("dd", {}, explain({ says: row.message, command: row.command }))]))] : null;
  fill(place, head, last, el("p", {}, "Looking ..."));
  try {
    const { parts } = await json("health");
    fill(place, head, last, el("dl", { class: "parts" }, parts.map((part) => [el("dt", {}, NAMES[part.what] ?? part.what, " ", el("span", { class: part.broken ? "failed" : "state" }, part.on ? "on" : part.broken ? "broken" : "off")), el("dd", {}, explain(part))])));
  } catch (error) {
    fill(place, head, last, el("p", { class: "failed" }, error.message));
  }
}

/** The message, with the command that it offers set apart, so that it can be copied as it is. */
function explain({ says, command }) {
  const at = command ? says.indexOf(command) : -1;
  return at < 0 ? says : [says.slice(0, at), el("code", { class: "command" }, command), says.slice(at + command.length)];
}
