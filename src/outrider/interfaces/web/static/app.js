// The frame of the page: view, theme, API key, and the server's capabilities.

import { json, askForKey } from "./api.js";
import { byId, el, loadStyle } from "./dom.js";

const VIEWS = [...document.querySelectorAll("main > section")].map((section) => section.id.replace("view-", ""));
const THEME = "outrider.theme";
/** Loaded while the server is asked what it has. */
const firstView = import("./first-view.js");
let about = null;
let isWaiting = false;
/** The form of a view that was sent before the view had begun. */
let early = null;
const begun = new Set();

function findView() {
  const name = location.hash.replace(/^#\/?/, "").split("?")[0];
  return VIEWS.includes(name) ? name : "search";
}

function showView() {
  if (location.hash && !location.hash.startsWith("#/")) return;
  const view = findView();
  for (const name of VIEWS) byId(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (view === "search") return;
  document.title = `${byId(`${view}-title`).textContent} - Outrider`;
  if (about) beginView(view);
}

/** The module and the style sheet of a view are loaded when the view is first shown. */
async function beginView(view) {
  if (begun.has(view)) return;
  begun.add(view);
  const section = byId(`view-${view}`);
  section.classList.add("coming"); // until its style is there, it keeps its place and is not painted
  try {
    const [module] = await Promise.all([import(`./${view}.js`), loadStyle(view), loadStyle("charts")]);
    section.classList.remove("coming");
    await module.begin(about);
    if (section.contains(early)) early.requestSubmit();
  } catch (error) {
    begun.delete(view);
    section.classList.remove("coming");
    section.append(el("p", { class: "alert", role: "alert" }, "This view could not be loaded. Choose it again when the server can be reached."));
    throw error;
  }
}

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  byId("theme-button").textContent = dark ? "Light" : "Dark";
  return dark;
}

function setUpControls() {
  applyTheme(localStorage.getItem(THEME));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme(document.documentElement.dataset.theme));
  byId("theme-button").addEventListener("click", () => {
    const next = applyTheme(document.documentElement.dataset.theme) ? "light" : "dark";
    localStorage.setItem(THEME, next);
    applyTheme(next);
  });
  byId("key-button").addEventListener("click", async () => (await askForKey("")) && loadServerInfo());
  byId("status-button").addEventListener("click", async () => {
    const [{ showStatus }, { load }] = await Promise.all([import("./status.js"), firstView]);
    showStatus(about, about ? (await load()).lastReports() : []);
  });
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    isWaiting = !about; // the search begins when the server has answered
  });
  byId("main").addEventListener("submit", (event) => {
    early = event.defaultPrevented ? null : event.target;
    event.preventDefault();
  });
  byId("status-close").addEventListener("click", () => byId("status-dialog").close());
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select, dialog");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      (document.querySelector("main > section:not([hidden]) :is(input[type=search], textarea)") ?? byId("main")).focus();
    }
  });
}

async function loadServerInfo() {
  try {
    const isFirst = !about;
    about = await json("api/about");
    byId("about").textContent = `Outrider ${about.version}`;
    byId("about").removeAttribute("role");
    if (isFirst) await (await firstView).begin(about, isWaiting);
    showView();
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    byId("about").textContent = error.status === 401 ? "The server wants a key: enter it under \"API key\"." : `Not ready: ${error.message}`;
    byId("about").setAttribute("role", "alert");
    if (!(error.status >= 0)) throw error;
  }
}

addEventListener("hashchange", () => {
  showView();
  // the event comes after the jump: whoever types by then keeps the focus
  const typing = document.activeElement.closest("#main input, #main textarea, #main select");
  if (!typing?.offsetParent) byId("main").focus({ preventScroll: true });
});
setUpControls();
performance.mark("interactive");
showView();
loadServerInfo();
