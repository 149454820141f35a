// Remarks on a Boolean query, each at the line and place that it concerns.

import { byId, count, el, fill, plural, table } from "./dom.js";

const CONTEXT = 70;
const PLACE = /^(?:([\w ]+): )?line (\d+), column (\d+): (.*)$/s;
const TITLES = {
  empty: "No match", hyphen: "Hyphen", "mixed operators": "Mixed operators", "missing values": "Missing values", "only years": "Only years",
  "missing operator": "Missing operator", "operator in lower case": "Lower case", "short truncation": "Short stem", "not in a library": "Not in a library",
};

export const wide = (label, ...children) => el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, ...children);

/** Line, column and text of a remark that the server sends as one text. */
export function parseRemark(text) {
  const match = PLACE.exec(text);
  return match ? { code: match[1] ?? "", line: Number(match[2]), column: Number(match[3]), message: match[4] } : { code: "", line: 0, column: 0, message: text };
}

/** A run writes how often a remark applies behind it. */
const nameRemark = ({ line, column, message }) => `${line}:${column}:${message.replace(/ \(\d+ times\)$/, "")}`;

/** What the parser read, what a reader should look at, and the hits of each line. Remarks of the run `below` are not repeated. */
export function showExplanation(into, explanation, query, name, below = []) {
  const told = new Set(below.map((text) => nameRemark(parseRemark(text))));
  const findings = explanation.findings.filter((one) => !told.has(nameRemark(one)));
  const history = explanation.history.map((row) => [String(row.line), el("code", {}, row.query), row.hits === null ? "-" : count(row.hits)]);
  fill(
    into,
    findings.length ? inPlace(findings, query) : null,
    findings.length < explanation.findings.length ? el("p", { class: "meta" }, el("a", { href: "#exact-remarks" }, `${findings.length ? "Further remarks" : "The remarks"} stand with the run below.`)) : null,
    wide("Search history", table(["line", "query", "hits"], history, "Hits of each line in your library")),
    explanation.why_not_counted ? el("p", { class: "meta" }, `Hits are not counted: ${explanation.why_not_counted}`) : null,
    explanation.sources.map((one) => el("details", {}, el("summary", {}, `Query for ${name(one.source)}`), el("pre", {}, one.refused ? `not queried: ${one.refused}` : one.query))),
    el("details", {}, el("summary", {}, "As a tree"), el("pre", {}, explanation.outline)),
  );
}

/** An error of syntax at its place. After the error itself, indented, the message shows the place in plain text. */
export function showError(into, message, query) {
  const error = parseRemark(message.split(/\n|\s{3}/)[0]);
  fill(into, error.line ? inPlace([{ ...error, code: "error" }], query, true) : el("pre", { class: "alert" }, message));
}

/** The remarks of a run; those without a place are below the others. */
export function showRemarks(into, remarks, query) {
  const all = (remarks ?? []).map(parseRemark);
  const [placed, others] = [all.filter((one) => one.line), all.filter((one) => !one.line)];
  fill(
    into,
    all.length ? el("details", { open: all.length < 6 }, el("summary", {}, el("h3", {}, plural(all.length, "remark"))), placed.length ? inPlace(placed, query) : null, others.length ? el("ul", { class: "remarks" }, others.map((one) => el("li", {}, one.message))) : null) : null,
  );
}

/** Each line of the query that has remarks, with the place marked and the remarks below. */
function inPlace(remarks, query, isError = false) {
  const source = typeof query === "string" ? query.split("\n") : [];
  const byLine = new Map();
  for (const one of remarks) byLine.set(one.line, [...(byLine.get(one.line) ?? []), one]);
  return el("ol", { class: isError ? "places wrong" : "places" }, [...byLine].sort(([one], [other]) => one - other).map(([line, own]) => el(
    "li",
    {},
    el("code", { class: "query-line" }, el("span", { class: "line-number" }, `${line}`), ...markPlaces(source[line - 1] ?? "", own)),
    el("ul", { class: "remarks" }, own.map((one) => el(
      "li",
      {},
      isError ? el("b", {}, `Column ${one.column}: `) : one.code ? el("b", {}, `${TITLES[one.code] ?? one.code[0].toUpperCase() + one.code.slice(1)}: `) : null,
      one.message,
      one.times > 1 ? ` (${count(one.times)} times)` : "",
      " ",
      el("button", { type: "button", class: "goto", "aria-label": `Go to line ${line}, column ${one.column} of the query`, click: () => goTo(line, one.column) }, "Show"),
    ))),
  )));
}

const tokenEnd = (text, start) => {
  const quoted = /^"[^"]*"(?:\[[^\]]*\])?/.exec(text.slice(start));
  const token = quoted ?? /^[^\s()]+/.exec(text.slice(start));
  return start + Math.max(1, token?.[0].length ?? 1);
};

/** The line, cut around its first place, with the places marked. */
function markPlaces(text, remarks) {
  const starts = [...new Set(remarks.map((one) => one.column - 1))].sort((one, other) => one - other);
  const first = Math.max(0, (starts[0] ?? 0) - CONTEXT);
  const last = Math.min(text.length, Math.max(first + 2 * CONTEXT, ...starts.map((start) => start + 20)));
  const nodes = first ? ["… "] : [];
  let at = first;
  for (const start of starts) {
    if (start < at) continue;
    const end = Math.min(last, tokenEnd(text, start));
    nodes.push(text.slice(at, start), el("mark", {}, text.slice(start, end) || " "));
    at = Math.max(start, end);
  }
  nodes.push(text.slice(at, last));
  if (last < text.length) nodes.push(" …");
  return nodes;
}

/** Put the cursor of the box at a place. */
function goTo(line, column) {
  const box = byId("boolean");
  const source = box.value.split("\n");
  const start = source.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
  box.focus();
  box.setSelectionRange(start, tokenEnd(box.value, start));
}
