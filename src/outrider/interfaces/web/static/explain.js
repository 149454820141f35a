// Why a search failed or found nothing, and the next step, in words for a reader.

import { describeFilters } from "./address.js";
import { json } from "./api.js";
import { byId, el, fill, listNames } from "./dom.js";
import { explainDown, findDown } from "./progress.js";

const ABOUT_REQUEST = new Set(["filters", "user_feedback", "new queries"]);
/** Names of sources and causes begin a sentence. */
const upper = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** Steps that failed, in words for a reader; a failure of the short answer is told where it would stand. */
export function showFailures({ failures, bypassed, hits }) {
  const causes = failures.filter((one) => one.node.split(".")[0] !== "answer").map((one) => `${nameFailure(one)}.`);
  const asked = hits.length ? listRemarks(bypassed) : []; // else they are part of the explanation
  const list = (name, texts) => (texts.length ? el("ul", { class: name }, texts.map((text) => el("li", {}, upper(text)))) : null);
  fill(byId("failures"), [list("alert", causes), list("remarks", asked)].filter(Boolean));
}

const listRemarks = (bypassed) => bypassed.filter((one) => ABOUT_REQUEST.has(one.step)).map((one) => upper(one.why));

const FAILED = { fine_scorer: "The model could not read the works, so rules ranked them", translator: "The model could not plan the search, so rules did", dedup: "The model could not look for duplicates", reranker: "The reranker failed, so the order is that of the step before", full_text: "Full texts could not be read", distiller: "The sentences that answer could not be chosen", enrich: "Some records could not be completed" };
const nameFailure = ({ node }) => FAILED[node.split(".")[0]] ?? `The step ${node.replaceAll("_", " ")} failed`;

/** The cause of an empty answer, and the next step. */
export function explainEmpty(fields, answer, about, again) {
  const name = (source) => about.source_names[source] ?? source;
  const down = findDown(answer.sources);
  const filters = describeFilters(fields, about);
  const reasons = [...down.map((source) => `${name(source)} ${explainDown(answer.sources, source)}.`), ...listRemarks(answer.bypassed).map((text) => `${text}.`)];
  const searched = [...new Set(answer.sources.map((row) => row.source))].filter((source) => !down.includes(source)).map(name);
  return [
    el("p", {}, el("b", {}, filters.length && answer.total_candidates ? "The filters leave nothing." : down.length && !searched.length ? "No source answered." : "Nothing was found."), searched.length ? ` Searched: ${listNames(searched)}.` : ""),
    reasons.length ? el("ul", {}, reasons.map((text) => el("li", {}, upper(text)))) : null,
    filters.length ? el("p", {}, `Filters: ${filters.join(", ")}.`) : el("p", {}, down.length ? "Search again in a while, or choose other sources under Options." : "Use other or fewer words, or widen the search to Exploratory under Options."),
    searched.length && answer.sources.some((row) => row.source === "library") ? emptyLibrary() : null,
    el("p", { class: "inline" }, filters.length ? again({ q: fields.q, mode: fields.mode, answer: fields.answer }, "Search without filters") : again(fields), fields.mode !== "exploratory" ? again({ ...fields, mode: "exploratory" }, "Search more widely") : null),
  ];
}

/** A line that says so if the library holds nothing; it comes when the server has counted. */
function emptyLibrary() {
  const line = el("p", {});
  json("api/landing").then(({ records }) => records === 0 && fill(line, "Your library holds no record yet: whoever runs this server adds files to it."), () => {});
  return line;
}

/** What failed, and what to do: `{cause, advice}`. `rows` are the reports of the sources so far. */
export function explainFailure(error, rows, about) {
  const down = findDown(rows).map((source) => `${about.source_names[source] ?? source} ${explainDown(rows, source)}`);
  if (error.status === 0) return { cause: error.message, advice: "Start the server again, or check the connection." };
  if (error.status === 401) return { cause: error.message, advice: "Enter the key under \"API key\" in the corner." };
  if (down.length && error.status >= 500) return { cause: `No source answered: ${down.join("; ")}.`, advice: "Check the connection, or choose other sources under Options." };
  return { cause: upper(error.message), advice: error.status >= 500 ? "Try it again in a while." : "Change the request, and search again." };
}
