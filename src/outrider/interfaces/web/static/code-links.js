// The code of a paper and the papers of a repository: the first ones as a line, all of them with their evidence as a list.

import { el, link } from "./dom.js";

const OWN = new Set(["paper's own code", "repository's paper"]);
const RESOLVERS = { doi: (value) => `https://doi.org/${value}`, arxiv: (value) => `https://arxiv.org/abs/${value}`, pmid: (value) => `https://pubmed.ncbi.nlm.nih.gov/${value}/` };
const SHOWN = 2;

const bare = (name) => name.slice(name.indexOf(":") + 1);
const paperAddress = (name) => RESOLVERS[name.slice(0, name.indexOf(":"))]?.(bare(name)) ?? "";
const life = (code) => el("b", { class: `mark life ${code.liveness}`, title: code.why }, code.liveness);

/** `Code: lab/snowfall alive`, or `Paper: ...`; nothing for a work without links of its own. */
export function codeLine(hit) {
  const code = (hit.code ?? []).filter((one) => OWN.has(one.kind)).slice(0, SHOWN);
  const papers = (hit.papers ?? []).filter((one) => OWN.has(one.kind)).slice(0, SHOWN);
  if (!code.length && !papers.length) return null;
  return el(
    "p",
    { class: "meta code-line" },
    code.length ? ["Code: ", code.flatMap((one, at) => [at ? ", " : "", link(one.url, bare(one.name)), " ", life(one)])] : null,
    papers.length ? ["Paper: ", papers.flatMap((one, at) => [at ? ", " : "", link(paperAddress(one.name), one.title || bare(one.name))])] : null,
  );
}

/** All links with the words that say so and where they stand. */
export function codeEvidence({ code = [], papers = [] }) {
  const rows = [
    ...code.map((one) => [link(one.url, bare(one.name)), " ", life(one), ` ${one.why}`, one]),
    ...papers.map((one) => [link(paperAddress(one.name), one.title || bare(one.name)), one]),
  ];
  if (!rows.length) return null;
  return el("ul", { class: "code-links" }, rows.map((parts) => {
    const one = parts.pop();
    const agree = one.agree ? "; paper and repository name each other" : "";
    return el(
      "li",
      {},
      el("span", {}, el("b", {}, `${one.kind.charAt(0).toUpperCase()}${one.kind.slice(1)} `), parts),
      el("ul", {}, one.evidence.map((place) => el("li", { class: "meta", dir: "auto" }, `${[place.place, place.field, place.line ? `line ${place.line}` : ""].filter(Boolean).join(", ")}: "${place.words}"${agree}`))),
    );
  }));
}
