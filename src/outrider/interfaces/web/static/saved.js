// Saved searches: a form for a new one, the list, and what changed between two runs. The address holds which of them.

import { ask, json } from "./api.js";
import { byId, count, el, fill, link, plural } from "./dom.js";

const CHANGES = { new: "New", changed: "Changed", gone: "Gone", missing: "Not known, because a source failed" };
const SCHEDULES = { "": "by hand", daily: "daily, at 6", weekly: "weekly, on Monday at 6", monthly: "monthly, on the first at 6", "every 6 h": "every 6 hours" };
const WAITING = new Set(["queued", "running"]);
const LOOK_MS = 1_500;
const MAX_SHOWN = 200;
let shown = "";
let watched = "";
/** What is shown, or will be when the server has answered. */
let now = null;

export async function begin() {
  addEventListener("hashchange", show);
  addEventListener("popstate", show);
  await show();
}

const addressOf = (name) => `#/saved?${new URLSearchParams({ name })}`;
const pathOf = (name) => `api/saved/${encodeURIComponent(name)}`;
const formatTime = (seconds) => `${new Date(seconds * 1_000).toISOString().slice(0, 16).replace("T", " ")} UTC`;

function readAddress() {
  const [path, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(text);
  return { isMine: path === "saved", ...Object.fromEntries(["name", "kind", "request", "from", "to"].map((name) => [name, given.get(name) ?? ""])) };
}

async function show() {
  const address = readAddress();
  if (!address.isMine || shown === location.hash) return;
  shown = location.hash;
  document.title = `${address.name || "Saved searches"} - Outrider`;
  if (address.request) return showForm(address);
  return address.name ? showChanges(address) : showList();
}

const fail = (error) => el("p", { class: "alert", role: "alert" }, error.message);

async function showList(said = "") {
  const mine = (now = {});
  const place = byId("saved-view");
  try {
    const { saved, writable } = await json("api/saved");
    if (now !== mine) return;
    fill(
      place,
      el("p", { class: "meta intro" }, "A saved search runs again, and says what is new, changed or gone since its last run, each work with the cause."),
      el("p", { id: "saved-said", role: "status", tabindex: "-1" }, said || (saved.length ? "" : "There is none yet. Run a search, or a query in Systematic, and choose \"Run it again regularly\".")),
      saved.length ? el("ul", { class: "rows saved-rows" }, saved.map((one) => row(one, writable))) : null,
    );
    if (said) byId("saved-said").focus();
  } catch (error) {
    if (now === mine) fill(place, fail(error));
  }
}

function row(one, writable) {
  const [last] = one.runs;
  const said = el("span", { role: "status" });
  const facts = [
    one.kind === "systematic" ? "every match" : "ranked",
    last ? `last run ${formatTime(last.started_at)}` : "never run",
    one.schedule_problem ? `${one.schedule}: ${one.schedule_problem}` : one.next_run_at ? `next ${formatTime(one.next_run_at)} (${one.schedule}, ${one.timezone})` : "by hand",
    ...(one.webhook ? [`sends to ${one.webhook}`] : []),
  ];
  return el(
    "li",
    {},
    el("div", {}, el("b", {}, el("a", { href: addressOf(one.name) }, one.name)), el("p", { dir: "auto" }, one.query), el("p", { class: "meta" }, facts.map((fact) => el("span", {}, fact))), last ? el("p", { class: last.status === "failed" ? "failed" : "" }, describeRun(last)) : null, el("p", { class: "meta" }, said)),
    el(
      "div",
      { class: "saved-tools" },
      writable ? el("button", { type: "button", class: "second", "aria-label": `Run ${one.name} now`, click: (event) => runNow(one.name, event.target, said) }, "Run now") : null,
      el("a", { href: `${pathOf(one.name)}/feed.atom`, "aria-label": `Atom feed of ${one.name}` }, "Feed"),
      writable ? el("button", { type: "button", class: "quiet", "aria-label": `Delete ${one.name}`, click: (event) => remove(one.name, event.target, said) }, "Delete") : null,
    ),
  );
}

function describeRun(run) {
  if (run.status === "failed") return `The last run failed: ${run.error}`;
  if (run.status === "running") return "A run is under way, or was interrupted; the next one continues it.";
  const failed = Object.keys(run.failed_sources);
  const changes = Object.entries(run.changes ?? {}).filter(([, number]) => number);
  const text = run.changes ? changes.map(([change, number]) => `${count(number)} ${change}`).join(", ") || "nothing changed" : `first run: ${plural(run.works, "work")}`;
  return failed.length ? `${text}; not read: ${failed.join(", ")}` : text;
}

/** Queue a run, and look until it has ended. */
async function runNow(name, button, said) {
  button.disabled = true;
  byId("saved-said").textContent = ""; // it may tell of an earlier run
  try {
    const { job } = await json(`${pathOf(name)}/run`, { method: "POST" });
    const mine = (watched = job);
    said.textContent = "Queued ...";
    for (;;) {
      const { status, progress, error } = await json(`api/jobs/${job}`);
      if (watched !== mine || !said.isConnected) return;
      if (!WAITING.has(status)) return showList(status === "done" ? `${name} has run.` : `${name} failed: ${error || status}`);
      said.textContent = status === "queued" ? "Queued; a background job runs it." : progress || "Running ...";
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    }
  } catch (error) {
    said.textContent = error.message;
    button.disabled = false;
  }
}

/** The first press asks, the second one deletes. */
async function remove(name, button, said) {
  if (!button.dataset.sure) {
    button.dataset.sure = "yes";
    button.textContent = "Really delete";
    said.textContent = "Its runs are deleted, too. Press again to delete it.";
    return;
  }
  try {
    await ask(pathOf(name), { method: "DELETE" });
    await showList(`${name} was deleted.`);
  } catch (error) {
    said.textContent = error.message;
  }
}

function showForm(address) {
  now = null;
  let request = {};
  try {
    request = JSON.parse(address.request);
  } catch {
    // another page's link: the server refuses an empty request
  }
  const query = typeof request.query === "string" ? request.query : Object.values(request.query ?? {}).join(" ");
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  const name = query.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-").replaceAll(/^-+|-+$/g, "").slice(0, 40);
  const said = el("p", { id: "saved-said", role: "status", class: "failed" });
  const submit = async (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.target));
    const schedule = fields.cron || fields.schedule;
    const body = { name: fields.name, kind: address.kind || "search", request, schedule, timezone: schedule ? fields.timezone : "", webhook: fields.webhook };
    try {
      await json("api/saved", { method: "POST", body });
      history.pushState(null, "", "#/saved");
      shown = location.hash;
      await showList(`${fields.name} is saved. ${schedule ? "It runs by its schedule." : "Run it with \"Run now\"."}`);
    } catch (error) {
      said.textContent = error.message;
    }
  };
  fill(
    byId("saved-view"),
    el("p", { dir: "auto" }, address.kind === "systematic" ? "Every match of: " : "The search: ", el("b", {}, query)),
    el(
      "form",
      { class: "saved-form", submit },
      el("label", {}, "Name", el("input", { name: "name", type: "text", required: true, maxlength: "64", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", title: "Letters, digits, dots, - and _", value: name })),
      el("label", {}, "Runs", el("select", { name: "schedule" }, Object.entries(SCHEDULES).map(([value, text]) => el("option", { value }, text)))),
      el("label", {}, "or by a cron expression", el("input", { name: "cron", type: "text", maxlength: "200", placeholder: "30 7 * * 1-5" })),
      el("label", {}, "Time zone", el("input", { name: "timezone", type: "text", maxlength: "100", value: zone })),
      el("label", {}, "Send changes to (webhook)", el("input", { name: "webhook", type: "text", inputmode: "url", maxlength: "4000", placeholder: "a public address" })),
      said,
      el("div", { class: "ask" }, el("button", { type: "submit" }, "Save"), el("a", { href: "#/saved" }, "All saved searches")),
    ),
  );
}

async function showChanges(address) {
  const mine = (now = {});
  const place = byId("saved-view");
  fill(place, el("p", {}, "Comparing ..."));
  try {
    const info = await json(pathOf(address.name));
    if (now !== mine) return;
    const runs = info.runs.filter((run) => run.status === "complete");
    const head = [el("p", {}, el("a", { href: "#/saved" }, "All saved searches")), el("h2", { dir: "auto" }, info.name), el("p", { dir: "auto" }, info.query)];
    if (runs.length < 2) return fill(place, head, el("p", { role: "status" }, runs.length ? "It ran once; the next run is compared with that." : "It has not run yet."));
    const difference = await json(`${pathOf(address.name)}/diff?${new URLSearchParams(["from", "to"].filter((name) => address[name]).map((name) => [name, address[name]]))}`);
    if (now !== mine) return;
    const choose = (name, label, value) => el("label", {}, label, el("select", { name }, runs.map((run) => el("option", { value: run.number, selected: run.number === value }, `run ${run.number}, ${formatTime(run.started_at)}`))));
    const submit = (event) => {
      event.preventDefault();
      const fields = new FormData(event.target);
      location.hash = `#/saved?${new URLSearchParams({ name: info.name, from: fields.get("from"), to: fields.get("to") })}`;
    };
    const files = ["feed.atom", "feed.rss", "digest.md", ...(info.kind === "systematic" ? ["prisma.svg"] : [])];
    fill(
      place,
      head,
      el("form", { class: "saved-form runs", submit }, choose("from", "From", difference.before), choose("to", "To", difference.after), el("button", { type: "submit", class: "second" }, "Compare")),
      el("p", { role: "status" }, `${plural(difference.works_before, "work")} before, ${count(difference.works_after)} now. ${difference.works.length ? "" : "Nothing changed."}`, difference.counts_only ? ` Only counts, such as citations, changed in ${count(difference.counts_only)}.` : ""),
      difference.remarks.length ? el("ul", { class: "remarks" }, difference.remarks.map((remark) => el("li", {}, remark))) : null,
      Object.entries(CHANGES).map(([change, title]) => group(title, difference.works.filter((work) => work.change === change))),
      el("p", { class: "inline" }, files.map((file) => el("a", { href: `${pathOf(info.name)}/${file}` }, file))),
    );
  } catch (error) {
    if (now === mine) fill(place, el("p", {}, el("a", { href: "#/saved" }, "All saved searches")), fail(error));
  }
}

function group(title, works) {
  if (!works.length) return null;
  const rest = works.length - MAX_SHOWN;
  return [el("h3", {}, `${title} (${count(works.length)})`), el("ul", { class: "changes" }, works.slice(0, MAX_SHOWN).map(change)), rest > 0 ? el("p", { class: "meta" }, `${count(rest)} more are in the digest.`) : null];
}

function change(work) {
  const facts = [work.authors.slice(0, 3).join(", "), work.venue, work.year, work.doc_id].filter(Boolean);
  const cause = [work.cause, work.fields.length ? ` (${work.fields.join(", ")})` : "", work.why ? `: ${work.why}` : ""].join("");
  return el("li", {}, el("b", {}, link(work.url, work.title || work.doc_id)), el("p", { class: "meta", dir: "auto" }, facts.map((fact) => el("span", {}, fact))), el("p", { class: work.cause === "retracted" ? "failed" : "" }, cause));
}
