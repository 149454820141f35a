// The library: what it holds, its records in pages, and the choice of records. The address holds what is shown.

import { addressOfChase } from "./address.js";
import { json } from "./api.js";
import { begin as beginAdditions } from "./additions.js";
import { byId, count, el, fill, plural } from "./dom.js";
import { showDuplicates } from "./duplicates.js";
import { histogram, makeBins, nameBin } from "./histogram.js";
import { icon, nameKind } from "./icons.js";
import { noticeMarks } from "./marks.js";
import { describeRecord, labelRecords, removeRecords, showRecord } from "./record.js";

const PAGE = 20;
const TYPING_PAUSE_MS = 300;
const MAX_LABELS = 12;
const KINDS = { paper: "papers", repository: "repositories", page: "web pages", document: "documents" };
const FIELDS = ["q", "label", "kind", "year", "sort", "page", "show", "id", "part"];
let contents = null;
let listing = null;
let shown = "";
let typing = 0;
let typed = null;
const chosen = new Map();

const readAddress = () => {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(query);
  return { isMine: path === "library", ...Object.fromEntries(FIELDS.map((name) => [name, given.get(name) ?? ""])) };
};

function makeAddress(fields) {
  const query = new URLSearchParams(FIELDS.filter((name) => fields[name]).map((name) => [name, fields[name]]));
  return `#/library${String(query) && `?${query}`}`;
}

/** Go to another state of the list; `replace` for what is typed, so that Back does not undo letters. */
function go(changes, { replace = false } = {}) {
  clearTimeout(typing);
  const query = typed === null ? {} : { q: typed }; // what was typed last counts, also where another filter is quicker than the pause
  typed = null;
  const next = makeAddress({ ...readAddress(), id: "", part: "", page: "", ...query, ...changes });
  history[replace ? "replaceState" : "pushState"](null, "", next);
  show();
}

export async function begin(about) {
  setUpForm();
  beginAdditions({ contents: () => contents, done: refresh, names: about.source_names });
  addEventListener("hashchange", follow);
  addEventListener("popstate", follow);
  await refresh();
}

/** A link counts more than what was typed just before it. */
function follow() {
  clearTimeout(typing);
  typed = null;
  show();
}

/** Read the contents again, after a change or at the start, and show what the address says. */
async function refresh({ newest = false } = {}) {
  try {
    contents = await json("api/library/contents");
    shown = "";
    showContents();
    if (newest && readAddress().isMine && !readAddress().id) return go({ sort: "added", q: "", label: "", kind: "", year: "", show: "" }, { replace: true });
  } catch (error) {
    byId("library-holds").textContent = "The library cannot be read.";
    fill(byId("library-health"), el("p", { class: "alert", role: "alert" }, error.message));
    return undefined;
  }
  return show();
}

function showContents() {
  const has = contents.exists && contents.records > 0;
  byId("add").hidden = !contents.writable;
  if (!has) byId("add").open = true;
  byId("library-tabs").hidden = !has;
  const holds = byId("library-holds");
  if (!has) {
    fill(holds, contents.exists ? "It is empty. " : "There is no library yet. ", contents.writable ? "Add papers, bibliographies, notes or repositories: they are stored on the computer that runs Outrider, and every search reads them." : "Whoever runs this server adds files to it.");
    fill(byId("library-health"));
    fill(byId("library-years"));
    return;
  }
  const kinds = Object.entries(contents.by_kind).map(([kind, number]) => (number === 1 ? `1 ${nameKind(kind).toLowerCase()}` : `${count(number)} ${KINDS[kind] ?? kind}`));
  fill(holds, el("b", {}, plural(contents.records, "record")), `: ${kinds.join(", ")}.`, contents.size_bytes === null ? "" : ` ${nameSize(contents.size_bytes)} on disk.`);
  showHealth();
  showYears();
}

const nameSize = (bytes) => (bytes < 1e6 ? `${count(Math.max(1, Math.round(bytes / 1e3)))} kB` : bytes < 1e9 ? `${count(Math.round(bytes / 1e6))} MB` : `${(bytes / 1e9).toFixed(1)} GB`);

function showHealth() {
  const { problem, vectors, records } = contents;
  const meaning = !vectors
    ? "Records are found by their words. Search by meaning is not set up."
    : vectors.without ? `Found by words, and ${count(records - vectors.without)} of ${count(records)} also by meaning.` : "Found by words and by meaning.";
  const result = el("span", { role: "status" });
  const check = el("button", {
    type: "button",
    class: "quiet small",
    click: async () => {
      check.disabled = true;
      result.textContent = "Reading every record ...";
      try {
        const { sound, problems } = await json("api/library/check", { method: "POST", body: {} });
        fill(result, sound ? "Every record and index was read: nothing is wrong." : el("ul", { class: "problems" }, problems.map((one) => el("li", {}, one))));
      } catch (error) {
        result.textContent = `Not checked: ${error.message}`;
      }
      check.disabled = false;
    },
  }, "Check everything");
  const details = el(
    "dl",
    { class: "facts" },
    [
      ["Files read", count(contents.files)],
      ["Model for search by meaning", vectors ? `${vectors.model.split("/").pop()}, ${count(vectors.vectors)} vectors of ${count(vectors.dimension)} numbers` : "none"],
      ["Connections between records", count(contents.edges)],
      ["Place", contents.uri],
      ["Version", count(contents.version)],
    ].map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))),
  );
  fill(
    byId("library-health"),
    problem ? el("p", { class: "alert", role: "alert" }, `It needs attention: ${problem}`) : el("p", { class: "health" }, el("span", { class: "sound" }, "In good order."), " ", meaning),
    contents.writable ? null : el("p", { class: "meta" }, "This server shows its library and does not change it."),
    el("details", { class: "more-facts" }, el("summary", {}, "Details"), details, el("p", { class: "inline" }, check, result)),
  );
}

function showYears() {
  const years = Object.entries(contents.years).map(([year, number]) => [Number(year), number]).filter(([year]) => year > 1000 && year < 3000);
  if (years.length < 2) {
    fill(byId("library-years"));
    return;
  }
  const on = readAddress().year;
  const rows = makeBins(years.map(([year]) => year)).map((bin) => ({
    bin,
    on: nameBin(bin) === on,
    number: years.filter(([year]) => year >= bin[0] && year <= bin[1]).reduce((sum, [, number]) => sum + number, 0),
  }));
  const undated = contents.records - years.reduce((sum, [, number]) => sum + number, 0);
  fill(byId("library-years"), histogram(rows, (bin, turnOn) => go({ year: turnOn ? nameBin(bin) : "", show: "" }), "record"), undated ? el("p", { class: "meta" }, `${count(undated)} without a year`) : null);
}

function setUpForm() {
  byId("library-form").addEventListener("submit", (event) => event.preventDefault());
  byId("library-query").addEventListener("input", () => {
    typed = byId("library-query").value.trim();
    clearTimeout(typing);
    typing = setTimeout(() => go({}, { replace: true }), TYPING_PAUSE_MS);
  });
  byId("library-kind").addEventListener("change", (event) => go({ kind: event.target.value }));
  byId("library-order").addEventListener("change", (event) => go({ sort: event.target.value === "year" ? "" : event.target.value }));
  byId("choose-all").addEventListener("change", (event) => {
    for (const box of byId("library-list").querySelectorAll("input[type=checkbox]")) if (box.checked !== event.target.checked) box.click();
  });
}

/** Show what the address says: the list, a record, or the duplicates. */
async function show() {
  const address = readAddress();
  if (!address.isMine || !contents || shown === location.hash) return;
  shown = location.hash;
  const has = contents.exists && contents.records > 0;
  const isRecord = Boolean(address.id) && has;
  byId("library-main").hidden = isRecord;
  byId("library-record").hidden = !isRecord;
  byId("library-records").hidden = !has || address.show === "duplicates";
  byId("library-duplicates").hidden = !has || address.show !== "duplicates";
  for (const link of byId("library-tabs").children) {
    if (link.hash.includes("duplicates") === (address.show === "duplicates")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = "Your library - Outrider";
  showChosen();
  if (isRecord) await showRecord(address.id, Number(address.part) || 1, { contents, changed: refresh, back: makeAddress({ ...address, id: "", part: "" }), turn: (part) => (location.hash = makeAddress({ ...address, part })) });
  else if (!has) return;
  else if (address.show === "duplicates") await showDuplicates(byId("library-duplicates"), contents.writable);
  else await list(address);
}

async function list(address) {
  if (document.activeElement !== byId("library-query")) byId("library-query").value = address.q;
  byId("library-kind").value = address.kind;
  byId("library-order").value = address.sort || "year";
  showYears();
  showLabels(address);
  const page = Math.max(1, Number(address.page) || 1);
  const query = new URLSearchParams({ order: address.sort || "year", limit: PAGE, offset: (page - 1) * PAGE });
  if (address.q) query.set("text", address.q);
  if (address.label) query.set("label", address.label);
  if (address.kind) query.set("kind", address.kind);
  const [first, last] = address.year.split("-");
  if (first) query.set("year", first);
  if (last) query.set("year_to", last);
  listing?.abort();
  const mine = (listing = new AbortController());
  try {
    const found = await json(`api/library/records?${query}`, { signal: mine.signal });
    if (listing === mine) showList(found, address, page);
  } catch (error) {
    if (error.name === "AbortError" || listing !== mine) return;
    fill(byId("library-list"), el("li", { class: "alert", role: "alert" }, `The list cannot be shown: ${error.message}`));
  }
}

function showLabels({ label }) {
  const names = Object.entries(contents.labels);
  const listed = names.slice(0, MAX_LABELS);
  if (label && !listed.some(([name]) => name === label)) listed.push([label, contents.labels[label] ?? 0]);
  byId("library-labels").hidden = !listed.length;
  fill(byId("library-labels"), listed.map(([name, number]) => el("button", { type: "button", class: "label", "aria-pressed": String(name === label), dir: "auto", click: () => go({ label: name === label ? "" : name }) }, name, el("small", {}, ` ${count(number)}`))));
}

function showList({ records, total }, address, page) {
  const narrowed = Boolean(address.q || address.label || address.kind || address.year);
  const last = Math.max(1, Math.ceil(total / PAGE));
  byId("library-count").textContent = total
    ? narrowed ? `${plural(total, "record")} of ${count(contents.records)}` : plural(total, "record")
    : "";
  byId("chase-label").hidden = !total || !address.label;
  byId("chase-label").href = addressOfChase("", address.label);
  byId("choose-page").hidden = !total || !contents.writable;
  byId("choose-all").checked = records.length > 0 && records.every((one) => chosen.has(one.doc_id));
  fill(byId("library-list"), records.map((record) => listRecord(record, address)));
  if (!total) {
    const parts = [address.q && `the words "${address.q}"`, address.label && `the label "${address.label}"`, address.kind && `the type ${KINDS[address.kind] ?? address.kind}`, address.year && `the years ${address.year}`].filter(Boolean);
    fill(byId("library-list"), el("li", { class: "nothing" }, el("p", {}, `No record fits ${parts.join(" and ")}.`), el("button", { type: "button", class: "second", click: () => go({ q: "", label: "", kind: "", year: "" }) }, "Show all records")));
  }
  const turn = (to, name) => el("a", { href: makeAddress({ ...address, page: to > 1 ? to : "" }), class: "turn" }, name);
  byId("library-pages").hidden = last === 1;
  fill(byId("library-pages"), page > 1 ? turn(page - 1, "Earlier") : null, el("span", {}, `Page ${count(page)} of ${count(last)}`), page < last ? turn(page + 1, "Later") : null);
}

function listRecord(record, address) {
  const title = record.title || record.lead?.slice(0, 80) || record.doc_id;
  const box = el("input", { type: "checkbox", "aria-label": `Select ${title}`, checked: chosen.has(record.doc_id), change: () => choose(record.doc_id, title, box.checked) });
  return el(
    "li",
    {},
    contents.writable ? el("label", { class: "pick" }, box) : null,
    el(
      "div",
      {},
      el("h2", {}, icon(record.kind, nameKind(record.kind)), " ", el("a", { href: makeAddress({ ...address, id: record.doc_id }), dir: "auto" }, title)),
      describeRecord(record),
      record.notices?.length ? el("p", { class: "meta" }, noticeMarks(record.notices)) : null,
      record.labels?.length ? el("p", { class: "labels" }, record.labels.map((name) => el("span", { class: "label", dir: "auto" }, name))) : null,
    ),
  );
}

function choose(id, title, on) {
  if (on) chosen.set(id, title);
  else chosen.delete(id);
  showChosen();
}

function showChosen() {
  const bar = byId("chosen");
  const { id, show: part } = readAddress();
  bar.hidden = !chosen.size || Boolean(id) || part === "duplicates";
  if (bar.hidden) return;
  const ids = () => [...chosen.keys()];
  const finish = async (status) => {
    if (status) await refresh();
    if (status) byId("library-count").textContent = status;
    if (document.activeElement === document.body) bar.querySelector("[data-does=label]")?.focus(); // the bar was drawn anew
  };
  fill(
    bar,
    el("p", { role: "status" }, `${plural(chosen.size, "record")} selected`),
    el("button", { type: "button", class: "second", "data-does": "label", click: async () => finish(await labelRecords(ids(), contents.labels)) }, "Add label"),
    el("button", {
      type: "button",
      class: "second",
      click: async () => {
        const status = await removeRecords(chosen);
        if (status) chosen.clear();
        await finish(status);
        showChosen();
      },
    }, "Remove"),
    el("button", {
      type: "button",
      class: "quiet",
      click: () => {
        chosen.clear();
        for (const box of byId("library-main").querySelectorAll("#library-list input, #choose-all")) box.checked = false;
        showChosen();
      },
    }, "Clear"),
  );
}
