// Records that may be one work, side by side, for a reader to decide; and the decisions so far.

import { json } from "./api.js";
import { count, el, fill, link, plural } from "./dom.js";
import { nameAuthors } from "./record.js";

const ROWS = [
  ["Title", (one) => one.title],
  ["Authors", (one) => nameAuthors(one.authors)],
  ["Year", (one) => one.year && String(one.year)],
  ["Published in", (one) => one.venue],
  ["DOI", (one) => one.identifiers?.doi && link(`https://doi.org/${one.identifiers.doi}`, one.identifiers.doi)],
  ["PubMed", (one) => one.identifiers?.pmid],
  ["Came from", (one) => one.origin],
  ["Begins", (one) => one.lead],
];
const SAID = { merge: "the same work", split: "different works", forget: "undecided again" };

export async function showDuplicates(into, writable) {
  if (!into.hasChildNodes()) fill(into, el("p", { role: "status" }, "Comparing all records ..."));
  try {
    showPairs(into, await json("api/library/duplicates"), writable);
  } catch (error) {
    fill(into, el("p", { class: "alert", role: "alert" }, `The records could not be compared: ${error.message}`));
  }
}

function showPairs(into, { total, pairs, records, decisions }, writable, status = "") {
  const said = el("p", { role: "status", tabindex: "-1" }, status || (total ? `${plural(total, "pair")} may be one work. Searches show them as two until you decide.` : "No two records look like one work without being treated as one already."));
  const decide = async (decision, ids) => {
    try {
      await json("api/library/decisions", { method: "POST", body: { decision, ids } });
      const next = await json("api/library/duplicates");
      const now = { same: "Treated as one work from now on.", different: "Kept apart from now on.", undo: "The decision is undone." }[decision];
      showPairs(into, next, writable, `${now} ${next.total ? `${plural(next.total, "pair")} left.` : "None is left."}`);
      into.querySelector("[role=status]").focus();
    } catch (error) {
      said.textContent = `Not stored: ${error.message}`;
    }
  };
  fill(
    into,
    said,
    pairs.map((pair, at) => showPair(pair, at, records, writable && decide)),
    total > pairs.length ? el("p", { class: "meta" }, `The ${count(pairs.length)} most likely are shown; the next ones follow as you decide.`) : null,
    decisions.length ? history(decisions, records, writable && decide) : null,
  );
}

function showPair({ ids, why }, at, records, decide) {
  const [one, other] = ids.map((id) => records[id]);
  const rows = ROWS.map(([name, read]) => [name, read(one), read(other)]).filter(([, first, second]) => first || second);
  const differs = (first, second) => (first?.textContent ?? first) !== (second?.textContent ?? second);
  return el(
    "section",
    { class: "pair panel", "aria-label": `Pair ${at + 1}: ${one.title || ids[0]}` },
    el("div", { class: "pair-table" }, rows.map(([name, first, second]) => el(
      "dl",
      { class: differs(first, second) ? "differs" : "" },
      el("dt", {}, name),
      el("dd", { dir: "auto" }, first || "-"),
      el("dd", { dir: "auto" }, second || "-"),
    ))),
    decide ? el("div", { class: "inline" }, el("button", { type: "button", click: () => decide("same", ids) }, "Same work"), el("button", { type: "button", class: "second", click: () => decide("different", ids) }, "Different works")) : null,
    el("details", {}, el("summary", {}, "Why in doubt"), el("p", { class: "meta" }, why)),
  );
}

function history(decisions, records, decide) {
  const nameIds = (ids) => ids.map((id) => records[id]?.title || id);
  return el(
    "details",
    { class: "decisions" },
    el("summary", {}, `Decisions so far (${count(decisions.length)})`),
    el("ul", { class: "rows" }, [...decisions].reverse().map(({ what, ids, by, at, why }) => el(
      "li",
      {},
      el("span", { dir: "auto" }, el("b", {}, SAID[what] ?? what), `: ${nameIds(ids).join(" / ")}`, el("small", {}, ` ${[by, at.slice(0, 10), why].filter(Boolean).join(", ")}`)),
      decide && what !== "forget" && ids.length === 2 ? el("button", { type: "button", class: "second small", "aria-label": `Undo: ${nameIds(ids).join(" / ")}`, click: () => decide("undo", ids) }, "Undo") : null,
    ))),
  );
}
