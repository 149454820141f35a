// Elements from data. Text from outside becomes a text node or an attribute, never HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Attributes that are functions become listeners of the event of their name; false and null ones are omitted. */
export function el(name, attributes = {}, ...children) {
  return setUp(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return setUp(document.createElementNS(SVG, name), attributes, children);
}

function setUp(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A link to another site, or only its text if the address is no web address. */
export function link(address, ...children) {
  const href = webAddress(address);
  if (!href) return el("span", { dir: "auto" }, ...children);
  return el("a", { href, rel: "noopener noreferrer", target: "_blank", dir: "auto" }, ...children);
}

export function webAddress(address) {
  try {
    const parsed = new URL(address);
    return ["http:", "https:"].includes(parsed.protocol) ? parsed.href : "";
  } catch {
    return "";
  }
}

export const byId = (id) => document.getElementById(id);

export function fill(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
}

const NUMBERS = new Intl.NumberFormat("en");
export const count = (number) => NUMBERS.format(number);
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
export const listNames = (names) => (names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`);
/** `ease_of_use` as `ease of use`. */
export const words = (name) => String(name).replaceAll("_", " ");

export function table(heads, rows, caption) {
  return el(
    "table",
    {},
    caption ? el("caption", {}, caption) : null,
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell) => el("td", { dir: "auto" }, cell))))),
  );
}

const styles = new Map();

/** A style sheet, once; it is over when the sheet is there, or cannot be had. */
export function loadStyle(name) {
  if (!styles.has(name)) styles.set(name, new Promise((resolve) => document.head.append(el("link", { rel: "stylesheet", href: `page/${name}.css`, load: resolve, error: resolve }))));
  return styles.get(name);
}

/** Copy the address of what is shown, and say so. */
export async function copyLink(status) {
  try {
    await navigator.clipboard.writeText(location.href);
    status.textContent = "Link copied";
  } catch {
    status.textContent = "Copy the address of this page";
  }
}

/** The values of the checked boxes of one name. */
export const checkedValues = (form, name) => new FormData(form).getAll(name).map(String);

/** Save a response as a file. */
export async function save(response, fallback) {
  const match = /filename="([\w.-]+)"/.exec(response.headers.get("content-disposition") ?? "");
  const address = URL.createObjectURL(await response.blob());
  el("a", { href: address, download: match ? match[1] : fallback }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
