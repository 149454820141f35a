// Citations to copy: APA from the fields of a hit, BibTeX from the server.

import { ask } from "./api.js";
import { el } from "./dom.js";

const MAX_AUTHORS = 20;
/** Words that name a body and no person. */
const GROUP = /(?<!\p{L})(?:agency|archives?|associat\p{L}*|bank|cent(?:er|re)|collaboration|commission|committee|consortium|council|department|federation|foundation|gesellschaft|group|institut\p{L}*|laborator\p{L}*|library|ministr\p{L}*|museum|network|office|organi[sz]ation|program(?:me)?|project|societ\p{L}*|stiftung|team|union|universi\p{L}*)(?!\p{L})/iu;

/** "Jane Mary Doe" and "Doe, Jane Mary" as "Doe, J. M."; a name of one word, or of a group, as it is. */
export function makeInitials(author) {
  const name = author.trim();
  const comma = name.indexOf(",");
  const words = name.split(/\s+/);
  const family = comma > 0 ? name.slice(0, comma).trim() : words.at(-1);
  const given = comma > 0 ? name.slice(comma + 1).trim().split(/\s+/) : words.slice(0, -1);
  if (comma <= 0 && (words.length < 2 || words.length > 4 || !/^\p{Lu}/u.test(family) || GROUP.test(name))) return name;
  const initials = given.filter(Boolean).map((word) => word.split("-").map((part) => `${Array.from(part)[0]}.`).join("-"));
  return initials.length ? `${family}, ${initials.join(" ")}` : family;
}

/** Seventh edition, as far as the record goes: authors, year, title, venue, address. */
export function makeApa(hit) {
  const names = hit.authors.map(makeInitials);
  const shown = names.length > MAX_AUTHORS ? [...names.slice(0, MAX_AUTHORS - 1), `. . . ${names.at(-1)}`] : names;
  const by = shown.length > 1 ? `${shown.slice(0, -1).join(", ")}, ${names.length > MAX_AUTHORS ? "" : "& "}${shown.at(-1)}` : shown.join("");
  const title = (hit.title || hit.doc_id).replace(/\.$/, "");
  const software = hit.kind === "repository" ? " [Computer software]" : "";
  const place = hit.identifiers?.doi ? `https://doi.org/${hit.identifiers.doi}` : hit.url ?? "";
  const head = by ? `${by}${by.endsWith(".") ? "" : "."} (${hit.year ?? "n.d."}). ${title}${software}.` : `${title}${software}. (${hit.year ?? "n.d."}).`;
  return [head, hit.venue ? `${hit.venue}.` : "", place].filter(Boolean).join(" ");
}

export const readBibtex = async (address, rank) => (await (await ask(`${address}/export?format=bibtex&rank=${rank}`)).text()).trim();

/** A panel with both forms, and an export of the one work. Where the browser gives no clipboard, the text is selected instead. */
export function citations(hit, address, saveOne) {
  const bibtex = el("pre", { tabindex: "0", "aria-label": "BibTeX" }, "Loading ...");
  readBibtex(address, hit.rank).then(
    (text) => (bibtex.textContent = text),
    (error) => (bibtex.textContent = error.message),
  );
  const apa = el("p", { class: "apa", dir: "auto" }, makeApa(hit));
  const said = el("span", { role: "status" });
  const copy = (name, node) => el("button", { type: "button", class: "second", click: () => copyText(name, node, said) }, `Copy ${name}`);
  return el("div", { class: "cite-panel panel" }, apa, bibtex, el("p", { class: "inline" }, copy("APA", apa), copy("BibTeX", bibtex), el("button", { type: "button", class: "second", click: saveOne }, "Export this work"), said));
}

async function copyText(name, node, said) {
  try {
    await navigator.clipboard.writeText(node.textContent);
    said.textContent = `${name} copied`;
  } catch {
    getSelection().selectAllChildren(node);
    said.textContent = "Selected; copy it with the keyboard";
  }
}
