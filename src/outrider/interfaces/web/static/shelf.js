// What the browser remembers: recent and saved searches (until removed), kept and dropped works (until the tab is closed).

const SEARCHES = "outrider.searches";
const WORKS = "outrider.works";
const MAX_RECENT = 8;

function read(storage, name, otherwise) {
  try {
    return JSON.parse(storage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function write(storage, name, value) {
  try {
    storage.setItem(name, JSON.stringify(value));
  } catch {
    // storage is full or switched off: nothing is remembered
  }
}

/** `[{address, query, saved}]`, the newest first. */
export const searches = () => read(localStorage, SEARCHES, []).filter((one) => typeof one?.address === "string" && typeof one.query === "string");

/** Saved searches stay; of the others the newest. */
function keepSearches(all) {
  let recent = 0;
  write(localStorage, SEARCHES, all.filter((one) => one.saved || ++recent <= MAX_RECENT));
}

export function rememberSearch(address, query) {
  const before = searches().find((one) => one.address === address);
  keepSearches([{ address, query, saved: before?.saved ?? false }, ...searches().filter((one) => one.address !== address)]);
}

export function saveSearch(address, query, saved) {
  if (!searches().some((one) => one.address === address)) rememberSearch(address, query);
  keepSearches(searches().map((one) => (one.address === address ? { ...one, saved } : one)));
}

export const isSaved = (address) => searches().some((one) => one.address === address && one.saved);
export const forgetSearch = (address) => keepSearches(searches().filter((one) => one.address !== address));

/** Works by their id: `{kept: {id: title}, dropped: {id: title}}`. */
export const works = () => ({ kept: {}, dropped: {}, ...read(sessionStorage, WORKS, {}) });

/** Put a work on one of the two lists, or take it off; it is never on both. */
export function markWork(list, id, title, on) {
  const all = works();
  delete all.kept[id];
  delete all.dropped[id];
  if (on) all[list][id] = title;
  write(sessionStorage, WORKS, all);
}

export function clearDropped() {
  write(sessionStorage, WORKS, { ...works(), dropped: {} });
}
