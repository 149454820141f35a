// The scoring tab: formulas, weights and prompts of the server.

import { json } from "./api.js";
import { byId, count, el, fill, svg, table, words } from "./dom.js";

let isDrawn = false;

export async function begin() {
  if (isDrawn) return;
  isDrawn = true;
  try {
    fill(byId("scoring"), page(await json("api/scoring")));
  } catch (error) {
    isDrawn = false;
    fill(byId("scoring"), el("p", { class: "alert", role: "alert" }, error.message));
  }
}

function page(explanation) {
  return [
    el("p", { class: "lead" }, "Every formula and figure on this page is read from the code and settings that this server runs."),
    el("h2", {}, "Repositories: relevance and six dimensions"),
    el("p", {}, `Model: ${explanation.model}`),
    wide("Weights", weights([{ ...explanation.relevance, by: "model" }, ...explanation.dimensions])),
    el("p", {}, "The score is ", formula(explanation.overall[0].text), ", where mean is the weighted mean of relevance and the dimensions, each divided by 10. What is unknown is shown as unknown. It counts as the mean of the candidates, shrunk towards that of a small living project, and at most as that project's: a gap never lifts a repository above a known one."),
    explanation.dimensions.filter((one) => one.parts.length).map(dimension),
    el("p", { class: "meta" }, Object.entries(explanation.constants).map(([name, value]) => `${name} = ${count(value)} `), "seconds; age_s is an age in seconds. A dimension is ten times the mean of its parts; the radar shows the mean of those whose inputs are known."),
    el("h2", {}, "Papers, pages and documents"),
    el("p", {}, `A model reads them and gives a relevance from 0 to 1; below ${explanation.threshold} a work is dropped. It may call a work ${explanation.tags.join(", ")}.`),
    explanation.prompts.map((one) => el("details", {}, el("summary", {}, `The prompt for the model: ${words(one.name)}`), el("pre", {}, one.text))),
    el("h2", {}, "Without a model: rules"),
    el("p", {}, "The weighted mean of four parts, each 0 to 1:"),
    wide("Weights of the rules", weights(explanation.rules)),
    explanation.rule_formulas.map((one) => el("p", {}, `${words(one.name)} = `, formula(one.text))),
    el("p", { class: "meta" }, Object.entries(explanation.rule_constants).map(([name, value]) => `${words(name)} = ${value}`).join(", ")),
    el("h2", {}, "The order"),
    el("pre", {}, explanation.order),
    el("h2", {}, "The code"),
    explanation.sources.map((one) => el("details", {}, el("summary", {}, one.name), el("pre", { tabindex: "0" }, one.text))),
  ];
}

const wide = (label, ...children) => el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": label }, ...children);
const formula = (text) => el("code", { class: "formula" }, text);

function weights(rows) {
  const total = rows.reduce((sum, row) => sum + row.weight, 0);
  const from = rows.some((row) => row.by);
  const share = (row) => el("meter", { min: 0, max: 1, value: row.weight / total, "aria-label": `share of ${words(row.name)}` });
  return table(
    ["part", "weight", "share", ...(from ? ["from"] : []), "what it is"],
    rows.map((row) => [words(row.name), String(row.weight), share(row), ...(from ? [row.by] : []), row.about]),
  );
}

function dimension(one) {
  return el(
    "section",
    { class: "dimension" },
    el("h3", {}, words(one.name)),
    el("ul", {}, one.parts.map((part) => el("li", {}, el("div", {}, el("b", {}, words(part.name)), formula(part.formula), examples(part)), curve(part)))),
  );
}

function examples({ examples: inputs, typical }) {
  return el("small", {}, inputs.map((one) => `${count(one.given)}${one.unit ? ` ${one.unit}` : ""}: ${one.value.toFixed(2)}`).join(" · "), ` · unknown: at most ${typical.toFixed(2)}`);
}

/** Over the examples, evenly spaced. */
function curve(part) {
  const points = part.examples.map((one, at) => `${4 + (92 * at) / (part.examples.length - 1)},${36 - 32 * one.value}`).join(" ");
  return svg("svg", { viewBox: "0 0 100 40", class: "curve", role: "img", "aria-label": `Curve of ${words(part.name)}` }, svg("polyline", { points }));
}
