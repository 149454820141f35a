// Kept sentences of a hit, and the text around them, as the server has read them: plain pieces and code.

import { json } from "./api.js";
import { el, fill, plural } from "./dom.js";

export const VERDICTS = { perhaps: "May not answer:", no: "No sentence here answers." };

const inline = (parts, mark) => parts.map((part) => (part.is_code ? el("code", {}, part.text) : mark && part.kept !== null ? el("mark", { "data-start": part.kept }, part.text) : part.text));

export const plainParts = (parts) => inline(parts, false);

/** A hit as the server reads it; without that, the beginning of its text. */
export const readHit = (hit) => hit.reading ?? { pieces: [], summary: hit.summary || hit.content || "", hidden: 0 };

/** Whether a click ends the selection of text, which opens nothing. */
export const isSelecting = () => getSelection().toString() !== "";

/** The verdict, and the kept pieces or the beginning of the text. `open(start, node)` opens a piece in its text. */
export function passages(hit, open) {
  const { pieces, summary, known, hidden } = readHit(hit);
  if (!pieces.length && !summary) return known ? [el("p", { class: "meta", dir: "auto" }, el("span", {}, known))] : [];
  const verdict = VERDICTS[hit.answers] ? el("p", { class: "verdict" }, VERDICTS[hit.answers]) : null;
  if (!pieces.length && hit.answers === "no" && summary) return [verdict, el("p", { class: "passage about" }, el("b", {}, "About: "), el("bdi", {}, summary))];
  if (!pieces.length) return [verdict, summary ? el("p", { class: "passage about", dir: "auto" }, summary) : null];
  const shown = pieces.map((piece) => {
    const node = piece.kind === "code"
      ? el("pre", { tabindex: "0", "aria-label": "Code" }, piece.parts[0].text, piece.more_lines ? `\n… ${plural(piece.more_lines, "more line")}` : null)
      : el("p", { class: "passage", dir: "auto" }, plainParts(piece.parts));
    if (!open) return node;
    const button = el("button", { type: "button", class: "where", "aria-expanded": "false", "data-piece": piece.start, click: () => open(piece.start, button) }, "In context", el("span", { class: "hidden" }, ": this sentence in its text"));
    node.addEventListener("click", () => isSelecting() || open(piece.start, button));
    return el("div", { class: "piece" }, node, button);
  });
  return [verdict, ...shown, hidden > 0 && open ? el("p", { class: "meta" }, `${plural(hidden, "more sentence")} in its text`) : null];
}

/** The text of a hit in a box of its own, at the piece that begins at `start`. */
export async function showContext(hit, address, start, box) {
  const waiting = el("p", { class: "meta" }, "Opening the text ...");
  const isLeft = () => waiting.parentNode !== box; // another sentence was opened meanwhile
  fill(box, waiting);
  try {
    const text = await json(`${address}/hits/${hit.rank}/text`);
    if (isLeft()) return;
    const body = el("div", { class: "text", tabindex: "0", role: "region", "aria-label": `Text of ${hit.title || hit.doc_id}` }, text.blocks.map(block), text.is_cut ? el("p", { class: "meta" }, "The text is longer; this is the part around the sentence.") : null);
    if (!text.blocks.length) body.append("This record has no text.");
    fill(box, body);
    const mark = (start !== undefined && body.querySelector(`[data-start="${start}"]`)) || body.querySelector("[data-start]");
    mark?.classList.add("here");
    if (mark) body.scrollTop = mark.offsetTop - body.clientHeight / 3;
    body.focus({ preventScroll: true });
  } catch (error) {
    if (isLeft()) return;
    fill(box, el("p", { class: "failed" }, error.status === 404 ? "The server no longer keeps this search. Search again to read the text." : error.message));
  }
}

function block({ kind, level, parts }) {
  if (kind === "code") return el("pre", { tabindex: "0", "aria-label": "Code", ...(parts[0].kept === null ? {} : { class: "kept", "data-start": parts[0].kept }) }, parts[0].text);
  if (kind === "heading") return el("p", { class: `heading heading-${Math.min(level, 3)}`, dir: "auto" }, inline(parts, true));
  return el("p", { class: kind === "item" ? "item" : "", dir: "auto" }, inline(parts, true));
}
