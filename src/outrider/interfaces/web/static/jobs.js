// Background jobs of the server, below its status: how far they are, and a button that stops them.

import { json } from "./api.js";
import { el, fill, plural } from "./dom.js";

const KINDS = { citations: "Reads citations", code_links: "Reads repositories", fetch: "Fetches works", full_text: "Reads open full texts", saved: "Runs a saved search" };
const OPEN = new Set(["queued", "running", "paused"]);
const MOST_SHOWN = 20;

export async function showJobs(place, said = "") {
  try {
    const { jobs, paused_targets: paused, is_worked: isWorked } = await json("api/jobs");
    const open = jobs.filter((job) => OPEN.has(job.status));
    const ended = jobs.filter((job) => !OPEN.has(job.status));
    const shown = [...open, ...ended].slice(0, MOST_SHOWN);
    fill(
      place,
      el("h3", { tabindex: "-1" }, "Background jobs"),
      el("p", { role: "status" }, said || (open.length ? `${plural(open.length, "job")} to do${isWorked ? "" : ", and nothing runs them at the moment"}.` : "No job is waiting.")),
      paused.length ? el("p", {}, `Paused: ${paused.join(", ")}`) : null,
      shown.length ? el("ul", { class: "rows" }, shown.map((job) => row(job, place))) : null,
    );
  } catch (error) {
    fill(place, el("h3", {}, "Background jobs"), el("p", { class: "failed" }, error.message));
  }
}

function row(job, place) {
  const stop = async () => {
    const said = await send("api/jobs/stop", job.id);
    await showJobs(place, said || "The job was stopped.");
    place.querySelector("h3").focus();
  };
  const line = el("p", { class: "meta" }, el("span", {}, KINDS[job.kind] ?? job.kind), el("span", { class: job.status === "failed" ? "failed" : "" }, job.status), el("span", {}, job.error || job.progress || job.created_at.slice(0, 16).replace("T", " ")));
  const button = OPEN.has(job.status) ? el("button", { type: "button", class: "quiet", "aria-label": `Stop: ${job.target}`, click: stop }, "Stop") : null;
  return el("li", {}, el("div", {}, el("b", { dir: "auto" }, job.target), line), button);
}

/** The message of an error; empty if there was none. */
async function send(path, target) {
  try {
    await json(path, { method: "POST", body: { target } });
    return "";
  } catch (error) {
    return error.message;
  }
}
