// "How we score": what each number means, an example, curves, and the formulas, prompts and code of the server.

import { json } from "./api.js";
import { curveChart, stackedBar, swatch } from "./charts.js";
import { byId, count, el, fill, words } from "./dom.js";
import { namePart as label } from "./part-names.js";

const WRITTEN = [[/ \* DAY_S/g, " days"], [/ \* YEAR_S/g, " years"], [/ \*\* /g, " ^ "], [/ \* /g, " × "]];
/** A calculation as people write it. */
const written = (text) => WRITTEN.reduce((shown, [from, to]) => shown.replace(from, to), text);

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
  const worked = [...explanation.worked].sort((one) => ((one.by === "model") === explanation.has_model ? -1 : 1));
  const now = explanation.has_model ? "On this server a model scores the works, and rules score those that it cannot read." : "On this server rules score every work, since no model is connected.";
  return [
    el("p", { class: "lead" }, `${now} Every figure on this page is computed by the code that scores, with the weights of this server.`),
    el("h2", {}, "What each number means"),
    el("dl", { class: "meanings" }, explanation.meanings.map((one) => el("div", {}, el("dt", {}, label(one.name)), el("dd", {}, one.text)))),
    el("h2", {}, "An example, step by step"),
    worked.map(example),
    el("h2", {}, "How much each part counts"),
    el("p", {}, `Without a model a score is the weighted mean of ${explanation.rules.length} parts, for every kind of work.`),
    weights("Weights of the rules", explanation.rules),
    el("p", {}, `Recency and citations count only where the request asks for new or well-known works, the words half where search by meaning took part. For a repository, ${(100 * explanation.rule_constants.about_share).toFixed(0)} % of the weight of ${label("fused")} is that of its subject. "Why this?" beside a result has the weights that counted.`),
    el("p", {}, `With a model it is, for a repository, that of relevance and ${explanation.dimensions.length} dimensions, and at most twice its relevance. Papers, pages and documents have their relevance alone.`),
    weights("Weights of a repository's score", [explanation.relevance, ...explanation.dimensions]),
    el("h2", {}, "How a fact becomes a number"),
    el("p", {}, "Each curve gives the part, from 0 to 1, for what is known of a work."),
    el("div", { class: "charts" }, explanation.rule_parts.map((part) => chart(part, label(part.name)))),
    explanation.dimensions.filter((one) => one.parts.length).map(dimension),
    el("p", { class: "meta" }, Object.entries(explanation.constants).map(([name, value]) => `${name} = ${count(value)} `), "seconds; age_s is an age in seconds. A dimension is ten times the mean of its parts; the radar shows the mean of those whose inputs are known."),
    el("h2", {}, "What is unknown"),
    el("p", {}, "What no source says is shown as unknown. It counts as the mean of the candidates, shrunk towards that of a small living project, and at most as that project's: a gap never lifts a repository above a known one."),
    el("h2", {}, "What is left out, and the order"),
    el("p", {}, `A work that a model scores below ${explanation.threshold} is not shown. Rules leave nothing out. A model may call a paper ${list(explanation.tags)}.`),
    more("The exact order", el("p", { class: "prose" }, explanation.order)),
    el("h2", {}, "To check it"),
    more("Formulas and constants of the rules", explanation.rule_formulas.map((one) => el("p", {}, `${words(one.name)} = `, formula(one.text))), el("p", { class: "meta" }, Object.entries(explanation.rule_constants).map(([name, value]) => `${words(name)} = ${value}`).join(", "))),
    more("Formula of a repository's score", el("p", {}, formula(explanation.overall[0].text)), el("p", { class: "meta" }, "mean is the weighted mean of relevance and the dimensions, each divided by 10.")),
    explanation.prompts.map((one) => more(`What the model is told: ${words(one.name)}`, el("pre", { tabindex: "0" }, one.text))),
    explanation.sources.map((one) => more(`The code: ${one.name}`, el("pre", { tabindex: "0" }, one.text))),
  ];
}

const formula = (text) => el("code", { class: "formula" }, text);
const more = (title, ...content) => el("details", {}, el("summary", {}, title), content);
const list = (names) => names.map(words).join(", ").replace(/, ([^,]*)$/, " or $1");

function example(worked) {
  const parts = worked.steps.filter((one) => one.weight).map((one) => ({ name: label(one.name), value: one.share }));
  const title = worked.by === "rules" ? "A paper, by rules" : "A repository, with a model";
  return el(
    "section",
    { class: "worked panel" },
    el("h3", {}, title),
    el("p", {}, el("b", {}, worked.title), " (made up)"),
    el("ul", { class: "given" }, worked.facts.map((one) => el("li", {}, one))),
    stackedBar(`Parts of the score of ${worked.title}`, parts, 3),
    el("ol", { class: "steps" }, worked.steps.filter((one) => one.weight).map(step)),
    el("p", { class: "result" }, formula(written(worked.calculation)), " = ", el("b", {}, worked.score.toFixed(3))),
  );
}

function step(one, at) {
  return el(
    "li",
    {},
    el("p", {}, swatch(at), el("b", { class: "name" }, label(one.name)), `: ${one.given}`),
    el("p", { class: "sum" }, one.calculation ? [formula(written(one.calculation)), " = "] : null, one.value.toFixed(3), el("span", { class: "times" }, ` × ${one.weight} = `), el("b", {}, one.share.toFixed(3))),
    one.figures.length ? more("Show the figures", el("ul", {}, one.figures.map(figure))) : null,
  );
}

function figure(one) {
  const shown = one.is_known ? [formula(written(one.calculation)), ` = ${one.value.toFixed(3)}`] : [el("span", { class: "unknown" }, "unknown"), `, counts as ${one.value.toFixed(3)}`];
  return el("li", {}, `${one.name} (${one.given}): `, shown);
}

function weights(title, rows) {
  const total = rows.reduce((sum, row) => sum + row.weight, 0);
  const parts = rows.filter((row) => row.weight).map((row) => ({ name: label(row.name), value: row.weight / total, by: row.by }));
  const items = parts.map((part, at) => el("li", {}, swatch(at), `${part.name} `, el("b", {}, `${(100 * part.value).toFixed(0)} %`), part.by ? el("small", {}, ` from ${part.by === "model" ? "a model" : "facts"}`) : null));
  return [stackedBar(title, parts), el("ul", { class: "legend" }, items)];
}

function dimension(one) {
  return el("section", { class: "dimension" }, el("h3", {}, words(one.name)), el("div", { class: "charts" }, one.parts.map((part) => chart(part, part.curve.label))));
}

function chart(part, name) {
  const examples = part.examples.map((one) => `${count(one.given)}${one.unit ? ` ${one.unit}` : ""}: ${one.value.toFixed(2)}`).join(" · ");
  return el(
    "figure",
    { class: "chart-figure" },
    el("figcaption", {}, el("b", {}, name)),
    curveChart(`What ${name} counts`, part.curve, part.examples),
    formula(part.formula),
    el("small", {}, `${examples} · unknown: at most ${part.typical.toFixed(2)}`),
  );
}
