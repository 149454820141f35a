// Citation chasing: candidates to decide on, rounds with their yield, and the citation map. The address holds the target.

import { addressOfChase } from "./address.js";
import { ask, json } from "./api.js";
import { byId, count, el, fill, link, plural, save, table } from "./dom.js";
import { identifierAddress } from "./hits.js";
import { noticeMarks } from "./marks.js";
import { describeRecord } from "./record.js";
import { wide } from "./remarks.js";
import { FILES, FILE_CHOICES } from "./results.js";

const PAGE = 20;
const MAX_SHOWN = 500;
const FIELDS = ["target", "request", "direction", "hops"];
const OPEN = new Set(["queued", "running", "paused"]);
const DIRECTIONS = { "": "both ways", references: "works that these cite", citations: "works that cite these" };
const HOPS = { "": "one citation away", 2: "two citations away", 3: "three citations away" };
/** What is fetched, by the boxes that are checked. */
const MODES = { include: "Only the works that I include", exclude: "All works but those that I exclude", all: "All works" };
const ROLES = { target: "Works of the target", included: "Included", candidate: "Candidates", excluded: "Excluded" };
let about = null;
let shown = "";
let now = null;

export async function begin(serverInfo) {
  about = serverInfo;
  addEventListener("hashchange", show);
  addEventListener("popstate", show);
  await show();
}

function readAddress() {
  const [path, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(text);
  return { isMine: path === "citations", ...Object.fromEntries(FIELDS.map((name) => [name, given.get(name) ?? ""])) };
}

async function show() {
  const address = readAddress();
  if (!address.isMine) return;
  const label = address.target.startsWith("label:") ? address.target.slice(6) : "";
  document.title = `Citations${address.target && ` of ${(label || address.target).slice(0, 80)}`} - Outrider`;
  if (shown === location.hash) return;
  shown = location.hash;
  now = null;
  if (!address.target) return showTargets();
  now = { ...address, limit: PAGE, mode: "include", chosen: new Set() };
  const home = label ? `#/library?${new URLSearchParams({ label })}` : "";
  fill(
    byId("citations"),
    el("p", {}, label ? "They cite the records labelled " : "They cite the works of the thread ", home ? el("a", { href: home, dir: "auto" }, label) : el("b", { dir: "auto" }, address.target), ", or are cited by them. None of them was read yet."),
    el("p", { id: "chase-complete", class: "caution meta" }),
    form(address),
    el("p", { id: "chase-said", role: "status", tabindex: "-1" }, "Looking ..."),
    el("div", { id: "chase-candidates" }),
    el("div", { id: "chase-rounds" }),
    el("div", { id: "chase-map" }),
  );
  await refresh(now);
}

/** Without a target: those that there are. */
async function showTargets() {
  const place = byId("citations");
  fill(place, el("p", {}, "Looking ..."));
  const read = (path, name, none) => json(path).then((answer) => answer[name] ?? none).catch(() => none);
  const [threads, labels] = await Promise.all([read("api/threads", "threads", []), read("api/library/contents", "labels", {})]);
  if (now) return;
  const list = (title, rows) => [el("h2", {}, title), el("ul", { class: "rows" }, rows.map(([href, name]) => el("li", {}, el("a", { href, dir: "auto" }, name))))];
  const names = Object.keys(labels);
  fill(
    place,
    el("p", {}, threads.length || names.length ? "Choose the works to begin with." : "Keep a search as a thread, or label records of your library: their citations lead to further works."),
    names.length ? list("Labels of your library", names.map((name) => [addressOfChase("", name), name])) : null,
    threads.length ? list("Threads", threads.map(({ thread, query }) => [addressOfChase(thread), `${thread}: ${query}`])) : null,
  );
}

function form(address) {
  const choose = (name, choices) => el("select", { name }, Object.entries(choices).map(([value, text]) => el("option", { value, selected: address[name] === value }, text)));
  const submit = (event) => {
    event.preventDefault();
    const fields = new FormData(event.target);
    const next = new URLSearchParams(FIELDS.map((name) => [name, name === "target" ? address.target : String(fields.get(name) ?? "")]).filter(([, value]) => value));
    if (`#/citations?${next}` === location.hash) refresh(now);
    else location.hash = `#/citations?${next}`;
  };
  return el(
    "form",
    { class: "chase-form", submit },
    el("label", {}, "Works that fit these words come first", el("input", { name: "request", type: "text", maxlength: "2000", value: address.request })),
    el("label", {}, "Follow", choose("direction", DIRECTIONS)),
    el("label", {}, "As far as", choose("hops", HOPS)),
    el("button", { type: "submit", class: "second" }, "List"),
  );
}

/** Read candidates, rounds and map. `said` stands in the status line instead of what is listed. */
async function refresh(mine, said = "") {
  const turn = (mine.turn = {});
  const isLeft = () => now !== mine || mine.turn !== turn;
  const target = new URLSearchParams({ target: mine.target });
  const { target: name, request, direction, limit } = mine;
  try {
    const status = await json(`api/cite/status?${target}`);
    if (isLeft()) return;
    mine.writable = status.writable;
    byId("chase-complete").textContent = status.completeness;
    drawRounds(mine, status);
    const list = await json("api/cite/candidates", { method: "POST", body: { target: name, request, direction, hops: Number(mine.hops) || 1, limit } });
    if (isLeft()) return;
    mine.list = list;
    drawCandidates(mine);
    byId("chase-said").textContent = said || describe(mine.list);
    if (said) byId("chase-said").focus(); // the button that was pressed is gone
  } catch (error) {
    if (isLeft()) return;
    byId("chase-said").textContent = "";
    fill(byId("chase-candidates"), el("p", { class: "alert", role: "alert" }, error.status === 404 ? "This server has no such thread. It may have been deleted." : error.message));
    return;
  }
  await drawMap(mine, target, isLeft);
}

const describe = ({ total, works, candidates }) => (total ? `${plural(total, "candidate")} around ${plural(works, "work")}${candidates.length < total ? `; the first ${count(candidates.length)} are listed` : ""}.` : `No candidate around ${plural(works, "work")}.`);

function drawCandidates(mine) {
  const { candidates, total, round, stop, remarks } = mine.list;
  const known = new Set(candidates.map((one) => one.key));
  for (const key of mine.chosen) if (!known.has(key)) mine.chosen.delete(key);
  const more = candidates.length < total && mine.limit < MAX_SHOWN
    ? el("button", { type: "button", class: "second", click: () => showMore(mine) }, "Show more")
    : null;
  fill(
    byId("chase-candidates"),
    el("h2", {}, `Round ${count(round)}`),
    stop ? el("p", { class: "caution" }, `It may be enough: ${stop}.`) : null,
    remarks.length ? el("ul", { class: "remarks" }, remarks.map((one) => el("li", {}, one))) : null,
    candidates.length && mine.writable ? modes(mine) : null,
    candidates.length ? el("ol", { class: "candidates" }, candidates.map((one) => row(one, mine))) : null,
    more,
    candidates.length && mine.writable ? el("div", { id: "decide", class: "decide", role: "region", "aria-label": "Your decision" }) : null,
    mine.writable ? null : el("p", { class: "meta" }, "This server shows candidates and does not fetch them."),
  );
  drawDecision(mine);
}

function modes(mine) {
  const pick = (mode) => {
    mine.mode = mode;
    mine.chosen.clear();
    drawCandidates(mine);
    byId("chase-candidates").querySelector(`[name=mode][value=${mode}]`).focus();
  };
  return el("fieldset", { class: "modes" }, el("legend", {}, "What to fetch"), Object.entries(MODES).map(([mode, text]) => el("label", {}, el("input", { type: "radio", name: "mode", value: mode, checked: mine.mode === mode, change: () => pick(mode) }), ` ${text}`)));
}

function row(one, mine) {
  const title = one.title || one.key;
  const address = identifierAddress(one);
  const box = el("input", { type: "checkbox", checked: mine.chosen.has(one.key), "aria-label": `${mine.mode === "include" ? "Include" : "Exclude"}: ${title}`, change: () => {
    mine.chosen[box.checked ? "add" : "delete"](one.key);
    drawDecision(mine);
  } });
  const own = one.is_placeholder ? null : el("a", { href: `#/library?${new URLSearchParams({ id: one.key })}` }, "In your library");
  return el(
    "li",
    {},
    mine.writable && mine.mode !== "all" ? el("label", { class: "pick" }, box, el("span", { "aria-hidden": "true" }, mine.mode === "include" ? "Include" : "Exclude")) : null,
    el(
      "div",
      {},
      el("h3", { dir: "auto" }, address ? link(address, title) : title),
      describeRecord(one),
      el("p", { class: "meta" }, one.retracted ? noticeMarks([{ kind: "retracted" }]) : null, el("span", {}, one.why.replace("retracted; ", "")), own ? el("span", {}, own) : null),
    ),
  );
}

async function showMore(mine) {
  const first = mine.list.candidates.length;
  mine.limit = Math.min(MAX_SHOWN, mine.limit + PAGE);
  await refresh(mine);
  if (now !== mine) return;
  byId("chase-candidates").querySelectorAll(".candidates > li")[first]?.querySelector("input, a")?.focus();
}

/** How many works will be fetched, before they are. */
function drawDecision(mine) {
  const bar = byId("decide");
  if (!bar) return;
  const marked = mine.chosen.size;
  const number = mine.mode === "include" ? marked : mine.list.total - marked;
  const isReady = mine.mode === "all" ? number > 0 : marked > 0;
  const said = { include: `${plural(marked, "work")} included`, exclude: `${plural(marked, "work")} excluded`, all: `All ${plural(number, "candidate")}` };
  fill(
    bar,
    el("p", { role: "status" }, said[mine.mode]),
    el("button", { type: "button", class: "second", disabled: !isReady, click: () => decide(mine, true) }, "Preview"),
    el("button", { type: "button", disabled: !isReady, click: () => decide(mine, false) }, isReady ? `Queue ${plural(number, "work")}` : "Queue"),
  );
}

/** Works are queued once, however often the button is pressed meanwhile; a preview that comes later says nothing. */
async function decide(mine, isPreview) {
  if (mine.isQueuing) return;
  mine.isQueuing = !isPreview;
  const turn = (mine.decision = {});
  const isLeft = () => now !== mine || mine.decision !== turn;
  const keys = [...mine.chosen];
  const choice = mine.mode === "all" ? { all: true } : { [mine.mode]: keys };
  const said = byId("chase-said");
  try {
    const report = await json("api/cite/queue", { method: "POST", body: { target: mine.target, ...choice, dry_run: isPreview } }).finally(() => (mine.isQueuing &&= isPreview));
    if (isLeft()) return;
    const what = `${plural(report.queued.length, "work")}${report.excluded.length ? `, ${count(report.excluded.length)} excluded` : ""}`;
    if (!isPreview) {
      mine.chosen.clear();
      await refresh(mine, `Round ${count(report.round)}: ${what} queued in ${plural(report.jobs.length, "background job")}. Status lists and stops them.`);
      return;
    }
    said.textContent = `Round ${count(report.round)} would fetch ${what}. Nothing was queued.`;
  } catch (error) {
    if (isLeft()) return;
    said.textContent = `Not queued: ${error.message}`;
  }
  said.focus();
}

function drawRounds(mine, { rounds, yields, jobs, is_worked: isWorked }) {
  const open = jobs.filter((job) => OPEN.has(job.status)).length;
  const failed = jobs.filter((job) => job.status === "failed").length;
  const rows = rounds.map((one, at) => [one.number, one.new_works, one.included.length + one.excluded.length, one.included.length, yields[at].read, yields[at].included].map(count));
  const work = [open ? `${plural(open, "background job")} to do${isWorked ? "" : ", and nothing runs them at the moment"}.` : "", failed ? `${plural(failed, "background job")} failed; Status says why.` : ""].filter(Boolean).join(" ");
  fill(
    byId("chase-rounds"),
    el("h2", {}, "Rounds and their yield"),
    rows.length ? wide("Rounds", table(["round", "new candidates", "read", "included", "read so far", "included so far"], rows, "")) : el("p", { class: "meta" }, "No round yet: a decision makes one."),
    work ? el("p", { class: "meta" }, work) : null,
    el("p", { class: "inline" }, el("button", { type: "button", class: "second small", click: () => refresh(mine) }, "Look again"), exports(mine, rounds)),
  );
}

/** The works of a round, of the next one its candidates; or the counts of all rounds. */
function exports(mine, rounds) {
  const status = el("span", { role: "status" });
  const names = [...rounds.map(({ number }) => [number, `Round ${count(number)}`]), [rounds.length + 1, "The candidates"], ["", "PRISMA counts (SVG)"]];
  const round = el("select", { "aria-label": "What to save" }, names.map(([value, text]) => el("option", { value, selected: value === rounds.length }, text)));
  const format = el("select", { "aria-label": "Format" }, [...about.formats].sort((one, other) => (other === "ris") - (one === "ris")).map((name) => el("option", { value: name }, FILE_CHOICES[name] ?? FILES[name] ?? name)));
  round.addEventListener("change", () => (format.disabled = !round.value));
  const saveRound = async () => {
    const form = round.value ? format.value : "prisma-svg";
    const query = new URLSearchParams({ target: mine.target, format: form, ...(round.value && { round: round.value }) });
    try {
      await save(await ask(`api/cite/export?${query}`), round.value ? `outrider-citations.${form}` : "prisma-citations.svg");
      status.textContent = `Saved as ${FILES[form] ?? "SVG"}.`;
    } catch (error) {
      status.textContent = `Not saved: ${error.message}`;
    }
  };
  return [round, format, el("button", { type: "button", class: "second small", click: saveRound }, "Save"), status];
}

async function drawMap(mine, target, isLeft) {
  const place = byId("chase-map");
  try {
    const map = await json(`api/cite/map?${target}`);
    if (isLeft()) return;
    const isOpen = Boolean(place.querySelector("details")?.open);
    if (mine.picture) URL.revokeObjectURL(mine.picture);
    mine.picture = URL.createObjectURL(new Blob([map.svg], { type: "image/svg+xml" }));
    fill(
      place,
      el("h2", {}, "Citation map"),
      el(
        "figure",
        { class: "citation-map" },
        wide("Citation map", el("img", { src: mine.picture, alt: `${plural(map.works.length, "work")} by year, role and round, and ${plural(map.links.length, "citation")} among them. The list below has the same works.` })),
        el("figcaption", {}, el("a", { href: mine.picture, download: "citation-map.svg" }, "Save the map"), el("details", { open: isOpen }, el("summary", {}, "The map as a list"), listOf(map))),
      ),
    );
  } catch (error) {
    if (!isLeft()) fill(place, el("h2", {}, "Citation map"), el("p", { class: "alert" }, `The map cannot be shown: ${error.message}`));
  }
}

/** The works under their numbers in the picture, by role. */
function listOf(map) {
  let first = 1;
  return Object.entries(ROLES).map(([role, title]) => {
    const works = map.works.filter((one) => one.role === role);
    if (!works.length) return null;
    const start = first;
    first += works.length;
    return [el("h3", {}, title), el("ol", { start }, works.map((one) => el("li", { dir: "auto" }, one.title || one.key, one.year ? ` (${one.year})` : "", one.round ? `, round ${count(one.round)}` : "", one.retracted ? [" ", noticeMarks([{ kind: "retracted" }])] : null)))];
  });
}
