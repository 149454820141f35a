// The address of a search: `#/search?q=...`. It holds the request, the run, and how its hits are shown.

const LISTS = ["src", "label", "ask", "f"];
const FIELDS = ["q", "mode", "from", "to", "stars", "lang", "n", "answer", "text", "thread", "run", "sort"];
export const DEFAULTS = { mode: "balanced", n: "30", sort: "rank" };

/** `{view, q, mode, src: [], f: [], ...}` of a hash; an unknown view is that of the search. */
export function readAddress(hash = location.hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(query);
  const fields = Object.fromEntries(FIELDS.map((name) => [name, given.get(name) ?? ""]));
  return { view: path || "search", ...fields, ...Object.fromEntries(LISTS.map((name) => [name, given.getAll(name)])) };
}

/** The hash of a search. Empty fields and defaults are left out, so that equal searches have equal addresses. */
export function makeAddress(fields) {
  const query = new URLSearchParams();
  for (const name of FIELDS) if (fields[name] && String(fields[name]) !== DEFAULTS[name]) query.set(name, fields[name]);
  for (const name of LISTS) for (const value of fields[name] ?? []) query.append(name, value);
  const text = query.toString();
  return `#/search${text ? `?${text}` : ""}`;
}

/** Citation chasing from a thread, or from the records of a label. */
export const addressOfChase = (thread, label = "") => `#/citations?${new URLSearchParams({ target: label ? `label:${label}` : thread })}`;

/** The form that saves a request to run again. */
export const addressOfSaved = (kind, request) => `#/saved?${new URLSearchParams({ kind, request: JSON.stringify(request) })}`;

/** The request of an address, as `POST /api/search` takes it. */
export function makeRequest(fields, about) {
  const filters = {};
  const year = { ...(fields.from && { $gte: Number(fields.from) }), ...(fields.to && { $lte: Number(fields.to) }) };
  if (Object.keys(year).length) filters.year = year;
  if (fields.stars) filters.stars = { $gte: Number(fields.stars) };
  if (fields.lang) filters.language = fields.lang;
  if (fields.label?.length) filters.labels = { $in: fields.label };
  return {
    query: fields.q,
    search_mode: fields.mode || DEFAULTS.mode,
    top_k: Number(fields.n || DEFAULTS.n),
    ...(about?.answers && { answer_enabled: fields.answer === "1" }),
    ...(about?.full_text && { full_text_enabled: fields.text === "1" }),
    ...(Object.keys(filters).length && { filters }),
    ...(fields.src?.length && { sources: fields.src }),
    ...(fields.ask?.length && { checkpoints: fields.ask }),
  };
}

/** What narrows a search, in words; it explains an empty answer. */
export function describeFilters(fields, about) {
  const parts = [];
  if (fields.from || fields.to) parts.push(fields.from && fields.to ? `years ${fields.from} to ${fields.to}` : fields.from ? `from ${fields.from}` : `until ${fields.to}`);
  if (fields.stars) parts.push(`at least ${fields.stars} stars`);
  if (fields.lang) parts.push(`language ${fields.lang}`);
  if (fields.label?.length) parts.push(`labelled ${fields.label.join(" or ")}`);
  if (fields.src?.length) parts.push(`only ${fields.src.map((name) => about?.source_names?.[name] ?? name).join(", ")}`);
  return parts;
}

/** Change the address without a new entry in the history. */
export const replace = (fields) => history.replaceState(null, "", makeAddress(fields));
export const push = (fields) => history.pushState(null, "", makeAddress(fields));
export const nameTab = ({ q }) => (document.title = q ? `${q.slice(0, 80)} - Outrider` : "Outrider: search papers, code and your library");
