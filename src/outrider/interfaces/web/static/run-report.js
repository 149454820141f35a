// The report of a systematic run, its hits page by page, and its proof.

import { ask, json } from "./api.js";
import { copyLink, count, el, fill, link, plural, save, table } from "./dom.js";
import { noticeMarks } from "./marks.js";
import { wide } from "./remarks.js";

const ROWS = 100;
const FILES = { ris: "RIS", bibtex: "BibTeX", csv: "CSV", jsonl: "JSON Lines" };
const PROOFS = {
  verified: ["Verified", "Outrider's own reading of the query matches this record."],
  "as the source says": ["As the source says", "The source returned it for the query; the record shows too little to check it here."],
};

/** Counts, PRISMA flow and exports into `report`, hashes into `proof`. */
export function showReport({ report: into, proof }, report, drawing, about, name) {
  const address = URL.createObjectURL(drawing);
  const own = (one) => (one.source === "library" ? [] : one.remarks); // those on the library are among the remarks of the run
  const rows = report.sources.map((one) => [name(one.source), count(one.hits), one.total === null ? "-" : count(one.total), one.complete ? "yes" : "no", [...own(one), one.refused].filter(Boolean).join("; ")]);
  const flow = report.flow;
  const spoken = `Identified ${count(flow.total)}, duplicates removed ${count(flow.duplicates)}, outside the query ${count(flow.outside)}, to be screened ${count(flow.for_screening)}.`;
  fill(
    into,
    report.complete ? null : el("p", { class: "alert" }, report.missing.join("; ")),
    exports(report, about),
    el("details", { class: "report-part" }, el("summary", {}, "Hits of each source"), wide("Hits of each source", table(["source", "hits", "total reported", "complete", "remarks"], rows, ""))),
    el("details", { class: "report-part" }, el("summary", {}, "PRISMA 2020 flow"), el("figure", { class: "prisma" }, el("img", { src: address, alt: `PRISMA 2020 flow diagram. ${spoken}` }), el("figcaption", {}, spoken, " ", el("a", { href: address, download: "prisma-2020.svg" }, "Save the diagram")))),
  );
  const command = `outrider verify ${report.run}`;
  fill(
    proof,
    el("details", { class: "report-part" }, el("summary", {}, "Proof of the run"), el("p", { class: "meta" }, "Equal runs have equal provenance hashes. Every hit, its order and this report are sealed; ", el("code", {}, command), " checks the files on the server."), el("pre", {}, `run ${report.run}\nprovenance ${report.provenance_hash}\nseal ${report.seal}\nfrom ${report.times.started_at} to ${report.times.finished_at}`)),
  );
}

function exports(report, about) {
  const status = el("span", { role: "status" });
  const buttons = about.run_formats.map((format) => el("button", {
    type: "button",
    class: "second small",
    click: async () => {
      try {
        const file = await ask(`api/systematic/${report.run}/export?format=${format}`);
        await save(file, `outrider-run.${format}`);
        const cut = Number(file.headers.get("Outrider-Cut-Cells") ?? 0);
        status.textContent = `Saved as ${FILES[format] ?? format}.${cut ? ` ${plural(cut, "cell")} too long for a spreadsheet cut; JSON Lines has the whole text.` : ""}`;
      } catch (error) {
        status.textContent = `Not saved: ${error.message}`;
      }
    },
  }, FILES[format] ?? format));
  const copy = el("button", { type: "button", class: "second small", click: () => copyLink(status) }, "Copy link");
  return el("p", { class: "inline" }, el("span", { class: "meta" }, "Save all hits:"), buttons, copy, status);
}

/** Hits of the present page: of a run that has ended from the server, with abstracts; else those received so far. */
export async function showHits(into, mine, name) {
  const { page } = mine;
  const first = page * ROWS;
  let hits = mine.hits.slice(first, first + ROWS).map((hit) => ({ ...hit, source: name(hit.source ?? "") }));
  if (mine.ended && mine.run) {
    try {
      hits = (await json(`api/systematic/${mine.run}/hits?after=${first}&limit=${ROWS}`, { signal: mine.controller.signal })).hits;
      if (mine.page !== page) return;
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(into, el("p", { class: "alert" }, `The hits cannot be shown: ${error.message}`));
      return;
    }
  }
  const total = mine.total || mine.hits.length;
  const pages = Math.max(1, Math.ceil(total / ROWS));
  const turn = (by, text) => el("button", {
    type: "button",
    class: "second small",
    disabled: mine.page + by < 0 || mine.page + by >= pages,
    click: async () => {
      mine.page += by;
      await showHits(into, mine, name);
      into.querySelector("h3").focus();
    },
  }, text);
  const names = new Set(hits.map((hit) => hit.source));
  const same = new Set(hits.map((hit) => hit.proof)).size === 1;
  fill(
    into,
    el("div", { class: "bar" }, el("h3", { tabindex: "-1" }, "Hits"), el("p", { class: "inline" }, turn(-1, "Earlier"), el("span", { id: "exact-page" }, `${count(first + 1)} to ${count(first + hits.length)} of ${count(total)}`), turn(1, "Later"))),
    el("div", { class: "exact-head", "aria-hidden": "true" }, el("span", {}), el("span", {}, "Work"), el("span", {}, "Proof")),
    el("ol", { class: "exact-list", start: first + 1 }, hits.map((hit) => listHit(hit, mine.ended && mine.run, names.size > 1 || hit.source !== name("library")))),
    same && PROOFS[hits[0]?.proof] ? el("p", { class: "meta" }, `${PROOFS[hits[0].proof][0]}: ${PROOFS[hits[0].proof][1]}`) : el("p", { class: "meta" }, Object.values(PROOFS).map(([title, why]) => `${title}: ${why} `)),
  );
}

const FIELDS = { text: "Full text", mesh: "Subject headings", heading: "Subject heading", journal_words: "Journal", publication_type: "Type" };
const nameField = (name) => FIELDS[name] ?? name.charAt(0).toUpperCase() + name.slice(1);

/** On demand: the fields that match, with the terms marked. */
function whereItMatches(hit, run) {
  const list = el("div", { class: "matches" });
  const show = async () => {
    if (list.hasChildNodes()) return;
    fill(list, el("p", { class: "meta" }, "Looking ..."));
    try {
      const { places } = await json(`api/systematic/${run}/hits/${hit.rank}/places`);
      const onlyBody = places.length && places.every((one) => one.field === "text");
      fill(
        list,
        onlyBody ? el("p", { class: "verdict" }, "Only its full text matches, neither title nor abstract.") : null,
        places.map((one) => el("p", {}, el("b", {}, `${nameField(one.field)}: `), el("span", { dir: "auto" }, one.pieces.map((piece) => (piece.is_match ? el("mark", {}, piece.text) : piece.text))))),
        places.length ? null : el("p", { class: "meta" }, "The record shows no term of the query."),
      );
    } catch (error) {
      fill(list, el("p", { class: "failed" }, error.message));
    }
  };
  return el("details", { toggle: show }, el("summary", { "aria-label": `Where it matches: ${hit.title || hit.doc_id}` }, "Where it matches"), list);
}

function listHit(hit, run, withSource) {
  const authors = [hit.authors?.join("; "), hit.more_authors ? `and ${count(hit.more_authors)} more` : ""].filter(Boolean).join(" ");
  const parts = [authors, hit.year && String(hit.year), hit.venue, withSource && hit.source].filter(Boolean);
  const [title, why] = PROOFS[hit.proof] ?? [hit.proof, ""];
  return el(
    "li",
    {},
    el("span", { class: "number" }, count(hit.rank)),
    el(
      "div",
      { class: "work" },
      el("p", { class: "title" }, link(hit.url, hit.title || hit.doc_id)),
      hit.notices?.length ? el("p", { class: "meta" }, noticeMarks(hit.notices)) : null,
      parts.length ? el("p", { class: "meta" }, parts.map((part) => el("span", {}, el("bdi", {}, part)))) : null,
      hit.abstract ? el("details", {}, el("summary", { "aria-label": `Abstract of ${hit.title || hit.doc_id}` }, "Abstract"), el("p", { class: "abstract", dir: "auto" }, hit.abstract)) : null,
      run ? whereItMatches(hit, run) : null,
    ),
    el("span", { class: hit.proof === "verified" ? "proof sound" : "proof", title: why }, title),
  );
}
