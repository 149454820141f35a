// Which parts of the server are on, and how to switch on the others: for whoever runs it.

import { json } from "./api.js";
import { byId, el, fill } from "./dom.js";

const NAMES = { library: "Library", "dense search": "Search by meaning", reranker: "Reranker", model: "Chat model" };

export async function showStatus(about) {
  const place = byId("status");
  fill(place, el("p", {}, "Looking ..."));
  byId("status-dialog").showModal();
  const head = el("p", { class: "meta" }, el("span", {}, `Outrider ${about?.version ?? ""}`), el("span", {}, `Sources: ${about ? about.sources.map((name) => about.source_names[name]).join(", ") : "unknown"}`));
  try {
    const { parts } = await json("health");
    fill(place, head, el("dl", { class: "parts" }, parts.map((part) => [el("dt", {}, NAMES[part.what] ?? part.what, " ", el("span", { class: part.broken ? "failed" : "state" }, part.on ? "on" : part.broken ? "broken" : "off")), el("dd", {}, explain(part))])));
  } catch (error) {
    fill(place, head, el("p", { class: "failed" }, error.message));
  }
}

/** The message, with the command that it offers set apart, so that it can be copied as it is. */
function explain({ says, command }) {
  const at = command ? says.indexOf(command) : -1;
  return at < 0 ? says : [says.slice(0, at), el("code", { class: "command" }, command), says.slice(at + command.length)];
}
