// The playground of a LangServe endpoint: a form from its input schema, and its stream from the first chunk to the output.

import { ask, askForKey, json, parseEvents } from "./api.js";
import { byId, el, fill, link, words } from "./dom.js";
import { duration } from "./pipeline.js";

const endpoint = new URL("../", document.baseURI);
const JSON_ROWS = 2;
let schema = null;
let running = null;

/** The schemas that a value may have, references resolved and without null: an optional field is left out instead. */
function alternatives(field) {
  if (field.$ref) return alternatives({ ...schema.$defs[field.$ref.split("/").pop()] });
  const options = field.anyOf ?? field.oneOf ?? field.allOf;
  return options ? options.flatMap(alternatives) : field.type === "null" ? [] : [field];
}

/** The control of a field. Lists, objects and values of several types are JSON; a text may also be given as JSON if it could be an object. */
function control(name, field, required) {
  const kinds = alternatives(field);
  const only = kinds.length === 1 ? kinds[0] : null;
  const fallback = field.default ?? null;
  const shown = fallback === null ? "" : JSON.stringify(fallback);
  const attributes = { name, id: `field-${name}`, "aria-describedby": `about-${name}` };
  const choices = only?.enum ?? (only?.type === "boolean" ? [true, false] : null);
  if (choices) {
    const options = choices.map((value) => el("option", { value: JSON.stringify(value) }, words(value)));
    return el("select", { ...attributes, "data-kind": "json" }, el("option", { value: "" }, `default${shown ? `: ${words(fallback)}` : ""}`), options);
  }
  if (only?.type === "integer" || only?.type === "number")
    return el("input", { ...attributes, "data-kind": "json", type: "number", min: only.minimum, max: only.maximum, step: only.type === "integer" ? 1 : "any", placeholder: shown, required });
  const items = only?.type === "array" ? alternatives(only.items) : [];
  const example = items.length ? JSON.stringify(items[0].enum ?? (items[0].type === "string" ? ["..."] : [])) : "{}";
  const isText = kinds.some((kind) => kind.type === "string");
  const kind = !isText ? "json" : kinds.some((one) => one.type === "object") ? "text or object" : "text";
  return el("textarea", { ...attributes, "data-kind": kind, rows: JSON_ROWS, spellcheck: "false", placeholder: isText ? "" : shown || `JSON, such as ${example}`, required });
}

function showForm() {
  const required = new Set(schema.required ?? []);
  const rows = { true: [], false: [] };
  for (const [name, field] of Object.entries(schema.properties)) {
    const about = el("small", { id: `about-${name}` }, field.description ?? alternatives(field)[0]?.description ?? "");
    rows[required.has(name)].push(el("p", { class: "field" }, el("label", { for: `field-${name}` }, words(name)), control(name, field, required.has(name)), about));
  }
  fill(byId("required"), rows.true);
  fill(byId("optional"), rows.false);
  byId("more").hidden = !rows.false.length;
}

/** The input of the form. Throws an error that names the field whose JSON cannot be read. */
function readInput() {
  const input = {};
  for (const one of byId("input-form").querySelectorAll("[data-kind]")) {
    const text = one.value.trim();
    if (!text) continue;
    const isJson = one.dataset.kind === "json" || (one.dataset.kind === "text or object" && text.startsWith("{"));
    try {
      input[one.name] = isJson ? JSON.parse(text) : text;
    } catch (error) {
      one.focus();
      throw new Error(`${words(one.name)} takes JSON: ${error.message}`);
    }
  }
  return input;
}

async function start() {
  stop();
  fill(byId("problem"));
  let body;
  try {
    const thread = byId("input-form").elements.thread.value.trim();
    body = { input: readInput(), ...(thread && { config: { configurable: { thread_id: thread } } }) };
  } catch (error) {
    return showProblem(error);
  }
  const mine = (running = { controller: new AbortController(), began: performance.now(), output: {} });
  setRunning(true);
  showStart(body);
  try {
    const response = await ask(new URL("stream", endpoint), { method: "POST", body, signal: mine.controller.signal });
    for await (const event of parseEvents(response)) handleEvent(mine, event);
    showOutput(mine.output);
    byId("status").textContent = `Done in ${duration(performance.now() - mine.began)}${describeCount(mine.output)}.`;
  } catch (error) {
    if (running === mine && error.name !== "AbortError") showProblem(error);
  } finally {
    if (running === mine) setRunning(false);
  }
}

function showStart(body) {
  byId("run").hidden = false;
  byId("status").textContent = "Running ...";
  fill(byId("steps"));
  fill(byId("hits"));
  byId("output").textContent = "";
  const address = new URL("invoke", endpoint);
  byId("command").textContent = `curl -s ${address} -H 'Content-Type: application/json' -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`;
}

function handleEvent(mine, { name, data }) {
  if (name === "error") throw new Error(data.message ?? "the run failed; the server's log has details");
  if (name !== "data") return;
  for (const [node, update] of Object.entries(data)) {
    Object.assign(mine.output, update);
    const took = update?.timings_ms?.[node];
    byId("steps").append(el("li", { "data-state": "done", "data-step": node }, el("b", {}, words(node)), el("span", { class: "time" }, duration(took))));
  }
}

function showOutput(output) {
  const failures = (output.failures ?? []).map((one) => el("li", {}, el("b", {}, words(one.node)), ` ${one.message}`));
  fill(byId("problem"), failures.length ? el("ul", { class: "alert" }, failures) : null);
  const hits = output.hits ?? [];
  fill(byId("hits"), hits.map((hit) => el("li", { class: "hit" }, el("h3", {}, link(hit.url, hit.title)), el("p", { class: "meta" }, `${hit.kind}, ${hit.score.toFixed(3)} by ${words(hit.scored_by)}`), el("p", { dir: "auto" }, hit.distilled_text ?? hit.content ?? ""))));
  byId("output-open").open = !hits.length;
  byId("output").textContent = JSON.stringify(output, null, 2);
}

/** How much a search found: an output without works must not look like a page that failed to show them. */
function describeCount({ result_set: systematic, hits, total_found: total }) {
  if (systematic) return `: ${systematic.total.toLocaleString("en")} records match; they are in the ledger that the output names`;
  if (!hits) return "";
  return hits.length ? `: ${hits.length} of ${total.toLocaleString("en")} works` : ": no work was found";
}

function showProblem(error) {
  byId("status").textContent = "This run failed.";
  fill(byId("problem"), el("p", { class: "alert" }, error.message));
}

function setRunning(on) {
  byId("stop-button").disabled = !on;
  byId("run").setAttribute("aria-busy", String(on));
}

function stop() {
  if (!running || byId("stop-button").disabled) return;
  running.controller.abort();
  running = null;
  byId("status").textContent = "Stopped.";
  setRunning(false);
}

const path = endpoint.pathname.replace(/\/$/, "");
byId("title").textContent = `Playground of ${path}`;
byId("key-button").addEventListener("click", () => askForKey());
byId("stop-button").addEventListener("click", stop);
byId("input-form").addEventListener("submit", (event) => {
  event.preventDefault();
  start();
});
try {
  schema = await json(new URL("input_schema", endpoint));
  showForm();
} catch (error) {
  showProblem(error);
}
document.documentElement.dataset.ready = "yes";
