// A hit as a card: what it is, the sentences that answer, and what one can do with it. Why it is there stands behind a disclosure.

import { citations } from "./cite.js";
import { codeEvidence, codeLine } from "./code-links.js";
import { count, el, link, plural, table, webAddress } from "./dom.js";
import { icon, nameKind } from "./icons.js";
import { FLAGGED, marks } from "./marks.js";
import { passages, showContext } from "./passages.js";
import { namePart } from "./part-names.js";
import { nameSearch } from "./progress.js";
import { legend, radar } from "./radar.js";
import { similarWorks } from "./similar.js";
import { works } from "./shelf.js";

export { passages } from "./passages.js";

const SHOWN_AUTHORS = 3;
const OPEN_TEXT = "opentext";

/** Open the text of a card at the sentence that begins at `start`, whether the card lists that sentence or not. */
export const openText = (node, start) => node.querySelector(".pieces").dispatchEvent(new CustomEvent(OPEN_TEXT, { detail: start }));

/** `actions` are the functions of a search that is over: `address`, `names`, `compare`, `similar`, `keep`, `drop`, `exportOne`. */
export function card(hit, actions) {
  const id = `hit-${hit.rank}`;
  const heading = el("h3", { id, title: hit.title?.length > 120 ? hit.title : null }, link(hit.url ?? identifierAddress(hit), hit.title || `Untitled (${hit.doc_id})`));
  return el(
    "li",
    { class: actions ? "hit done" : "hit", "data-id": hit.doc_id, "data-rank": hit.rank },
    el(
      "article",
      { "aria-labelledby": id },
      el("header", {}, el("span", { class: "rank" }, hit.rank), icon(hit.kind, nameKind(hit.kind)), heading),
      el("p", { class: "meta" }, marks(hit), meta(hit), (hit.reading?.labels ?? []).map((name) => el("b", { class: "mark", title: "Your label", dir: "auto" }, name))),
      codeLine(hit),
      actions ? details(hit, actions) : null,
    ),
  );
}

export function meta(hit) {
  const authors = hit.authors ?? [];
  const more = authors.length - SHOWN_AUTHORS;
  const by = authors.slice(0, SHOWN_AUTHORS).join("; ") + (more > 0 ? ` and ${count(more)} more` : "");
  const known = (value) => value !== null && value !== undefined;
  const file = !hit.url && ["document", "page"].includes(hit.kind) ? hit.file : "";
  return [by, hit.year, hit.venue, known(hit.citations) ? plural(hit.citations, "citation") : "", known(hit.stars) ? plural(hit.stars, "star") : "", hit.kind === "repository" ? hit.language : "", file]
    .filter(Boolean)
    .map((part) => el("span", {}, el("bdi", {}, String(part))));
}

function details(hit, actions) {
  const box = el("div", { class: "context", hidden: true });
  let opened = null;
  const open = (start, button) => {
    const again = opened === button;
    opened?.setAttribute("aria-expanded", "false");
    opened = again ? null : button;
    box.hidden = again;
    if (again) return;
    button.setAttribute("aria-expanded", "true");
    button.closest(".piece")?.after(box);
    showContext(hit, actions.address, start, box);
  };
  const pieces = el("div", { class: "pieces" }, passages(hit, open), box);
  pieces.addEventListener(OPEN_TEXT, ({ detail: start }) => {
    const button = pieces.querySelector(`[data-piece="${start}"]`) ?? pieces.parentNode.querySelector(".read-text");
    if (opened === button) showContext(hit, actions.address, start, box);
    else open(start, button);
  });
  return [
    hit.flags.length ? el("p", { class: "flag" }, FLAGGED) : null,
    pieces,
    actionBar(hit, actions, open),
  ];
}

function actionBar(hit, actions, open) {
  const panel = el("div", {});
  const toggle = (name, make) =>
    el("button", { type: "button", class: "act", "aria-expanded": "false", click: (event) => {
      const isOpen = panel.dataset.open === name;
      for (const one of panel.parentNode.querySelectorAll(".act[aria-expanded]")) one.setAttribute("aria-expanded", "false");
      panel.dataset.open = isOpen ? "" : name;
      panel.replaceChildren(...(isOpen ? [] : [make()]));
      event.target.setAttribute("aria-expanded", String(!isOpen));
    } }, name);
  const said = el("span", { class: "meta", role: "status" });
  const cite = toggle("Cite", () => citations(hit, actions.address, async () => {
    cite.click();
    cite.focus();
    said.textContent = await actions.exportOne(hit);
  }));
  cite.classList.add("opens-citation");
  const text = hit.reading?.known ? null : el("button", { type: "button", class: "act read-text", "aria-expanded": "false", click: (event) => open(hit.spans?.[0]?.[0], event.target) }, "Read text");
  const keep = el("button", { type: "button", class: "act keep", "aria-pressed": String(hit.doc_id in works().kept), click: (event) => actions.keep(hit, event.target) }, icon("star"), "Keep");
  const compare = el("label", { class: "act compare" }, el("input", { type: "checkbox", change: (event) => actions.compare(hit, event.target) }), "Compare", el("span", { class: "hidden" }, ` ${hit.title}`));
  const similar = toggle("Similar works", () => similarWorks(hit, (isMissing) => actions.similar(hit, isMissing)));
  const drop = el("button", { type: "button", class: "act", click: () => actions.drop(hit) }, "Not this");
  return el("div", { class: "actions" }, el("p", { class: "bar-of-actions" }, ...[text].filter(Boolean), cite, documentLink(hit), keep, compare, similar, drop, toggle("Why this?", () => reasons(hit, actions)), said), panel);
}

/** The work itself, where the record names it: a PDF, or the repository. */
function documentLink(hit) {
  const pdf = webAddress(hit.full_text?.url ?? hit.metadata?.pdf_url ?? hit.metadata?.pdf ?? (/\.pdf($|[?#])/i.test(hit.url ?? "") ? hit.url : hit.identifiers?.arxiv ? `https://arxiv.org/pdf/${hit.identifiers.arxiv}` : ""));
  const own = hit.kind === "repository" ? webAddress(hit.url) : "";
  if (!pdf && !own) return null;
  return el("a", { class: "act", href: pdf || own, rel: "noopener noreferrer", target: "_blank" }, pdf ? (hit.full_text && hit.full_text.form !== "pdf" ? "Open full text" : "Open PDF") : "Open repository");
}

export function identifierAddress({ identifiers }) {
  if (identifiers?.doi) return `https://doi.org/${identifiers.doi}`;
  if (identifiers?.pmid) return `https://pubmed.ncbi.nlm.nih.gov/${identifiers.pmid}/`;
  return identifiers?.arxiv ? `https://arxiv.org/abs/${identifiers.arxiv}` : "";
}

/** Reason and trail: who ranked it, which lists found it at which rank, scores, duplicates, related works. */
function reasons(hit, { names }) {
  const why = hit.reading?.why?.length ? hit.reading.why : [hit.reason].filter(Boolean);
  return el(
    "div",
    { class: "why panel" },
    el("div", {},
      el("p", { class: "score" }, el("b", {}, hit.scored_by === "unscored" ? "Not scored" : `Score ${figure(hit.score)}`), scored(hit), hit.reason ? el("span", { dir: "auto" }, ` - ${hit.reason}`) : null),
      scoreParts(hit),
      el("ul", {}, why.filter((text) => text !== hit.reason).map((text) => el("li", { dir: "auto" }, text.charAt(0).toUpperCase() + text.slice(1)))),
      foundBy(hit, names),
      notCounted(hit),
      duplicates(hit, names),
      related(hit),
      codeEvidence(hit)),
    hit.radar.length ? el("div", {}, radar([hit.radar], `Dimensions of ${hit.title}`), legend([hit.radar])) : null,
  );
}

const figure = (value) => Number(value).toFixed(3);
const scored = (hit) => (hit.scored_by === "unscored" ? "" : `: orders the results of this search. Rank ${hit.rank}, ${hit.scored_by === "model" ? "by the model" : "by rules"}`);

/** Each part that counts, under its name in "How we score". */
function scoreParts(hit) {
  const parts = hit.reading?.parts ?? [];
  const link = el("p", { class: "meta" }, el("a", { href: "#/scoring" }, "How we score"), parts.length ? `: each value goes from 0 to 1${hit.scored_by === "rules" ? `, and 1 for "${namePart("text")}" is the best among the works of this search` : ""}.` : null);
  if (!parts.length) return link;
  const rows = parts.map((one) => [namePart(one.name), `${Number((100 * one.weight).toFixed(1))} %`, figure(one.value), figure(one.adds)]);
  const sum = parts.reduce((all, one) => all + one.adds, 0);
  const made = table(["Part", "Weight", "Value", "Adds"], [...rows, [el("b", {}, sum > hit.score + 0.006 ? "together; at most twice the relevance counts" : "Score"), "", "", el("b", {}, figure(sum))]]);
  made.classList.add("score-parts");
  return [made, link];
}

const COUNTED_AS = { bm25: "text", meaning: "subject", summary: "subject" };
const FOR_INFORMATION = { lance_dense: "similarity of meaning (cosine)", lance_fts: "score of the list by words", bm25: namePart("text"), fused: namePart("fused"), citations: namePart("citations") };

/** Figures of the steps that are no part of the score. */
function notCounted(hit) {
  const counted = new Set([...(hit.reading?.parts ?? []).map((one) => one.name), "rules", "model", "overall"]);
  const rest = Object.entries(hit.scores).filter(([name]) => !counted.has(COUNTED_AS[name] ?? name));
  return rest.length ? el("p", { class: "meta" }, el("span", {}, `For information, not counted: ${rest.map(([name, value]) => `${FOR_INFORMATION[name] ?? nameSearch(name)} ${figure(value)}`).join(", ")}`)) : null;
}

/** Each source and search once, with its best rank over all queries. */
function foundBy(hit, names) {
  const places = new Map();
  for (const one of hit.found_by) {
    const name = one.source === "library" ? `${names.library ?? "your library"}, ${nameSearch(one.strategy)}` : names[one.source] ?? one.source;
    const before = places.get(name) ?? { rank: Infinity, queries: new Set() };
    places.set(name, { rank: Math.min(before.rank, one.rank), queries: before.queries.add(one.query) });
  }
  const rows = [...places].map(([name, { rank, queries }]) => el("li", {}, `${name}: rank ${rank} of its list`, el("span", { class: "meta", dir: "auto" }, ` for ${[...queries].map((text) => `"${text}"`).join(", ")}`)));
  return rows.length ? [el("p", {}, el("b", {}, "Found by"), " (its place in each list, before the lists were merged)"), el("ul", { class: "lists" }, rows)] : null;
}

function duplicates(hit, names) {
  if (!hit.duplicates.length) return null;
  const rows = hit.duplicates.map((one) => el("li", {}, el("b", {}, names[one.source] ?? one.source), ` ${one.doc_id}`, one.why ? ` - ${one.why}` : ""));
  return [el("p", {}, el("b", {}, `${plural(hit.duplicates.length, "duplicate")} merged into it`)), el("ul", { class: "folded" }, rows)];
}

function related(hit) {
  if (!hit.related.length) return null;
  return el("ul", { class: "related" }, hit.related.map((one) => el("li", { title: one.why }, el("b", {}, one.relation), ` ${one.title || one.doc_id}`)));
}
