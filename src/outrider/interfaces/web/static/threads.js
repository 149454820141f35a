// Searches that the server keeps as threads: listed, opened or continued, deleted.

import { ask, json } from "./api.js";
import { byId, el, fill } from "./dom.js";

const STATES = { waiting: "waiting for you", begun: "interrupted or running", ended: "complete", failed: "interrupted" };

/** `open({thread, query, id})` is called with the number of the run that continues a thread. */
export async function showThreads(open) {
  const dialog = byId("threads-dialog");
  const place = byId("threads");
  fill(place, el("p", {}, "Looking ..."));
  if (!dialog.open) dialog.showModal();
  try {
    const { threads } = await json("api/threads");
    fill(place, threads.length ? el("ul", { class: "rows" }, threads.map((one) => row(one, open))) : el("p", {}, "There is no thread yet. Give a search a name under \"Options\", and the server keeps it: it survives a restart, and later searches of that name know the earlier ones."));
  } catch (error) {
    fill(place, el("p", { class: "failed" }, error.message));
  }
}

function row(one, open) {
  const address = `api/threads/${one.thread.split("/").map(encodeURIComponent).join("/")}`;
  const said = el("span", { role: "status", class: "failed" });
  const attempt = async (work) => {
    try {
      await work();
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const resume = () => attempt(async () => {
    const { id } = await json(`${address}/resume`, { method: "POST", headers: { Prefer: "respond-async" } });
    byId("threads-dialog").close();
    open({ thread: one.thread, query: one.query, id });
  });
  const remove = () => attempt(async () => {
    await ask(address, { method: "DELETE" });
    await showThreads(open);
  });
  const line = el("p", { class: "meta" }, el("span", {}, one.thread), el("span", {}, STATES[one.state] ?? one.state), el("span", {}, one.touched.slice(0, 16).replace("T", " ")));
  return el("li", {}, el("div", {}, el("b", { dir: "auto" }, one.query), line, said), el("button", { type: "button", class: "second", click: resume }, one.state === "ended" ? "Open" : "Continue"), el("button", { type: "button", class: "quiet", "aria-label": `Delete thread ${one.thread}`, click: remove }, "Delete"));
}
