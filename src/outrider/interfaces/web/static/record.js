// One record of the library with its text, and the changes to records: labels and removal.

import { json } from "./api.js";
import { codeEvidence } from "./code-links.js";
import { byId, count, el, fill, link, plural } from "./dom.js";
import { icon, nameKind } from "./icons.js";
import { describeNotice, describeText, noticeMarks } from "./marks.js";

const MAX_AUTHORS = 5;
const MAX_NAMED = 10;
const RESOLVERS = {
  doi: ["DOI", (value) => `https://doi.org/${value}`],
  pmid: ["PubMed", (value) => `https://pubmed.ncbi.nlm.nih.gov/${value}/`],
  pmcid: ["PubMed Central", (value) => `https://pmc.ncbi.nlm.nih.gov/articles/${value}/`],
  arxiv: ["arXiv", (value) => `https://arxiv.org/abs/${value}`],
  github: ["GitHub", (value) => `https://github.com/${value}`],
  pypi: ["PyPI", (value) => `https://pypi.org/project/${value}/`],
};

export function nameAuthors(authors = []) {
  const shown = authors.slice(0, MAX_AUTHORS).join("; ");
  return authors.length > MAX_AUTHORS ? `${shown} and ${count(authors.length - MAX_AUTHORS)} more` : shown;
}

/** Authors, year, venue, and where a record came from, on one line. */
export function describeRecord({ authors, year, venue, origin }) {
  const parts = [nameAuthors(authors), year && String(year), venue, origin && `from ${origin}`].filter(Boolean);
  return el("p", { class: "meta" }, parts.map((part) => el("span", {}, el("bdi", {}, part))));
}

let asked = null;

/** Show a record, at a part of its text, unless another one, or the list, is wanted by then. `back` is the address of the list. */
export async function showRecord(id, part, { contents, changed, back, turn }) {
  const into = byId("library-record");
  const isOther = into.dataset.id !== id;
  const home = el("p", {}, el("a", { href: back, class: "back" }, "Back to the list"));
  const mine = (asked = {});
  const isLeft = () => asked !== mine || into.hidden;
  into.dataset.id = id;
  if (isOther) fill(into, home, el("p", { class: "meta" }, "Opening the record ..."));
  try {
    const record = await json(`api/library/record?${new URLSearchParams({ id, part })}`);
    if (isLeft()) return;
    const title = record.title || "A record without a title";
    if (!byId("view-library").hidden) document.title = `${title.slice(0, 80)} - Outrider`;
    const known = await json(`api/library/links?id=${encodeURIComponent(record.doc_id)}`).catch(() => ({}));
    if (isLeft()) return;
    const heading = el("h1", { dir: "auto", tabindex: "-1" }, icon(record.kind, nameKind(record.kind)), " ", title);
    fill(into, home, heading, facts(record), codeEvidence(known), contents.writable ? labelEditor(record, contents, changed, back) : null, ...lead(record), ...text(record, turn));
    (part > 1 || !isOther ? into.querySelector(".text") ?? heading : heading).focus({ preventScroll: !isOther });
    if (isOther) scrollTo(0, 0);
    else into.querySelector(".text")?.scrollIntoView({ block: "start" });
  } catch (error) {
    if (isLeft()) return;
    fill(into, home, el("h1", {}, "Record"), el("p", { class: "alert", role: "alert" }, error.status === 404 ? "The library holds no such record. It may have been removed." : error.message));
  } finally {
    if (into.hidden) delete into.dataset.id;
  }
}

function facts(record) {
  const links = Object.entries(record.identifiers ?? {}).filter(([name]) => RESOLVERS[name]).map(([name, value]) => link(RESOLVERS[name][1](value), `${RESOLVERS[name][0]} ${value}`));
  if (record.url && !links.length) links.push(link(record.url, "Open its page"));
  const keywords = [...new Set([...(record.tags ?? []), ...(record.mesh ?? [])])];
  return el(
    "div",
    {},
    describeRecord(record),
    record.notices?.length ? el("ul", { class: "remarks" }, record.notices.map((one) => el("li", {}, noticeMarks([one]), describeNotice(one)))) : null,
    links.length ? el("p", { class: "inline ids" }, links) : null,
    record.metadata?.full_text ? el("p", { class: "meta" }, `Full text: ${describeText(record.metadata.full_text)}`) : null,
    keywords.length ? el("p", { class: "meta keywords", dir: "auto" }, `Keywords: ${keywords.slice(0, 30).join(", ")}${keywords.length > 30 ? " ..." : ""}`) : null,
    el("p", { class: "meta" }, record.embedded ? "Found by words and by meaning." : "Found by words."),
  );
}

function labelEditor(record, contents, changed, back) {
  const status = el("span", { role: "status", class: "meta" });
  const drop = (name) => el("button", {
    type: "button",
    class: "label",
    "aria-label": `Remove the label ${name}`,
    click: async () => {
      try {
        await json("api/library/labels", { method: "POST", body: { ids: [record.doc_id], remove: [name] } });
        await changed();
      } catch (error) {
        status.textContent = error.message;
      }
    },
  }, el("span", { dir: "auto" }, name), " ×");
  return el(
    "div",
    { class: "inline record-tools" },
    record.labels.map(drop),
    el("button", { type: "button", class: "quiet small", "data-does": "label", click: async () => {
      if (!(await labelRecords([record.doc_id], contents.labels))) return;
      await changed();
      byId("library-record").querySelector("[data-does=label]")?.focus(); // the record was drawn anew
    } }, "Add label"),
    el("button", {
      type: "button",
      class: "quiet small",
      click: async () => {
        if (!(await removeRecords(new Map([[record.doc_id, record.title || record.doc_id]])))) return;
        history.replaceState(null, "", back);
        await changed();
        byId("main").focus();
      },
    }, "Remove from the library"),
    status,
  );
}

const lead = (record) => (record.lead?.length ? [el("h2", {}, record.kind === "paper" ? "Abstract" : "Description"), record.lead.map((one) => el("p", { class: "reading", dir: "auto" }, one))] : []);

function text(record, turn) {
  if (!record.characters) return record.lead?.length ? [] : [el("p", { class: "meta" }, "This record has no abstract and no text.")];
  const pager = () => el(
    "p",
    { class: "inline" },
    el("button", { type: "button", class: "second", disabled: record.part === 1, click: () => turn(record.part - 1) }, "Earlier part"),
    el("span", {}, `Part ${count(record.part)} of ${count(record.parts)}`),
    el("button", { type: "button", class: "second", disabled: record.part === record.parts, click: () => turn(record.part + 1) }, "Next part"),
  );
  const isLong = record.parts > 1;
  return [
    el("h2", {}, "Text ", el("small", {}, plural(record.characters, "character"))),
    el("div", { class: "text reading", tabindex: "-1", role: "region", "aria-label": isLong ? `Text, part ${record.part} of ${record.parts}` : "Text" }, isLong && record.part > 1 ? pager() : null, gather(record.blocks), isLong ? pager() : null),
  ];
}

/** Blocks as elements; items that follow each other are one list. */
function gather(blocks) {
  const nodes = [];
  for (const block of blocks) {
    const inline = block.parts.map((part) => (part.is_code ? el("code", {}, part.text) : part.text));
    if (block.kind === "code") nodes.push(el("pre", { tabindex: "0", role: "region", "aria-label": "Code" }, block.parts.map((part) => part.text)));
    else if (block.kind === "heading") nodes.push(el(`h${Math.min(6, Math.max(3, block.level + 2))}`, { dir: "auto" }, inline));
    else if (block.kind === "item") {
      if (nodes.at(-1)?.tagName !== "UL") nodes.push(el("ul"));
      nodes.at(-1).append(el("li", { dir: "auto" }, inline));
    } else nodes.push(el("p", { dir: "auto", ...(block.kind === "paragraph" ? {} : { class: "meta" }) }, inline));
  }
  return nodes;
}

/** Ask for a label and add it; a sentence for the status line, or "" if the reader changed their mind. */
export async function labelRecords(ids, known) {
  const dialog = byId("label-dialog");
  fill(byId("label-known"), Object.keys(known).map((name) => el("option", { value: name })));
  byId("label-title").textContent = ids.length === 1 ? "Label this record" : `Label ${plural(ids.length, "record")}`;
  byId("label-input").value = "";
  if ((await open(dialog)) !== "add") return "";
  const name = byId("label-input").value.trim();
  return change("api/library/labels", { ids, add: [name] }, ({ labels }) => `${plural(Object.keys(labels).length, "record")} labelled "${name}"`);
}

/** Ask, naming what goes, and remove; a sentence for the status line, or "". `records` maps ids to titles. */
export async function removeRecords(records) {
  const titles = [...records.values()];
  byId("remove-title").textContent = titles.length === 1 ? "Remove this record?" : `Remove ${plural(titles.length, "record")}?`;
  fill(byId("remove-list"), titles.slice(0, MAX_NAMED).map((title) => el("li", { dir: "auto" }, title)), titles.length > MAX_NAMED ? el("li", {}, `and ${count(titles.length - MAX_NAMED)} more`) : null);
  if ((await open(byId("remove-dialog"))) !== "remove") return "";
  return change("api/library/remove", { ids: [...records.keys()] }, ({ removed }) => `${plural(Object.keys(removed).length, "record")} removed`);
}

async function change(path, body, describe) {
  try {
    return describe(await json(path, { method: "POST", body }));
  } catch (error) {
    byId("library-count").textContent = `Nothing was changed: ${error.message}`;
    return "";
  }
}

function open(dialog) {
  dialog.returnValue = "cancel";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
}
