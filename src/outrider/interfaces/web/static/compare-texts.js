// The comparison of whole texts by the server: what one says and the others do not mention, with its quotes.

import { json } from "./api.js";
import { count, el, fill } from "./dom.js";
import { key } from "./radar.js";

const SCHEMES = ["doi", "arxiv", "pmid", "pmcid"];

/** What the server calls a hit; empty if no service knows it by an identifier. */
function makeTarget({ identifiers, kind }) {
  if (kind === "repository") return identifiers?.github ?? "";
  const scheme = SCHEMES.find((name) => identifiers?.[name]);
  return scheme ? `${scheme}:${identifiers[scheme]}` : "";
}

/** A button that compares the texts, or null where these hits cannot be: of different kinds, or without an identifier. */
export function compareTexts(hits, question) {
  const targets = hits.map(makeTarget);
  const isOfOneKind = new Set(hits.map((hit) => hit.kind === "repository")).size === 1;
  if (!isOfOneKind || targets.some((target) => !target) || new Set(targets).size < targets.length) return null;
  const status = el("p", { class: "meta", role: "status" });
  const place = el("div", {});
  const button = el("button", { type: "button", class: "second", click: async () => {
    button.disabled = true;
    status.textContent = "Analysing the works and reading their texts ...";
    try {
      const comparison = await json("api/compare", { method: "POST", body: { targets, question } });
      status.textContent = "";
      fill(place, differences(comparison, hits));
      button.hidden = true;
    } catch (error) {
      status.textContent = error.message;
      button.disabled = false;
    }
  } }, "Compare their texts");
  return el("section", { class: "compared-texts", "aria-label": "Their texts" }, button, status, place);
}

function differences({ works, differences: all, failures, notes }, hits) {
  const own = works.map((work, at) => [at, all.filter((one) => one.key === work.key)]).filter(([, found]) => found.length);
  return [
    failures.length ? el("ul", { class: "alert" }, failures.map(({ node, message }) => el("li", { dir: "auto" }, `${node}: ${message}`))) : null,
    el("h3", {}, "What one text says and the others do not mention"),
    own.length ? null : el("p", {}, "No sentence of one text has words that the others lack."),
    own.map(([at, found]) => el("div", {}, el("h4", {}, key(at), ` ${hits[at].title || hits[at].doc_id}`), found.map(one))),
    notes.length ? el("details", {}, el("summary", {}, "Notes"), el("ul", {}, notes.map((note) => el("li", { dir: "auto" }, note)))) : null,
  ];
}

function one({ statement, quotes, unmentioned }) {
  return el(
    "div",
    {},
    statement ? el("p", { dir: "auto" }, statement) : null,
    quotes.map(({ text, start, end }) => el("blockquote", { class: "quote open", dir: "auto" }, el("p", {}, text), el("p", { class: "meta" }, `Characters ${count(start)} to ${count(end)}`))),
    el("p", { class: "meta", dir: "auto" }, `Only here: ${unmentioned.join(", ")}`),
  );
}
