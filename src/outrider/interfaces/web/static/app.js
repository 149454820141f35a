// The frame of the page: view, theme, API key, and the server's capabilities.

import { json, askForKey } from "./api.js";
import { byId } from "./dom.js";
import { begin as beginScoring } from "./scoring.js";
import { begin as beginSearch } from "./search.js";
import { begin as beginSystematic } from "./systematic.js";

const VIEWS = ["search", "systematic", "scoring"];
const THEME = "outrider.theme";

function showView() {
  const hash = location.hash.replace("#/", "");
  if (location.hash && !location.hash.startsWith("#/")) return;
  const view = VIEWS.includes(hash) ? hash : "search";
  for (const name of VIEWS) byId(`view-${name}`).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${byId(`${view}-title`).textContent} - Outrider`;
  if (view === "scoring") beginScoring();
}

function applyTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  byId("theme-button").textContent = dark ? "Light" : "Dark";
  return dark;
}

function setUpControls() {
  applyTheme(localStorage.getItem(THEME));
  byId("theme-button").addEventListener("click", () => {
    const next = applyTheme(document.documentElement.dataset.theme) ? "light" : "dark";
    localStorage.setItem(THEME, next);
    applyTheme(next);
  });
  byId("key-button").addEventListener("click", async () => (await askForKey("")) && loadServerInfo());
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, dialog");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      (byId("view-systematic").hidden ? byId("query") : byId("boolean")).focus();
    }
  });
}

let ready = false;

async function loadServerInfo() {
  try {
    const about = await json("api/about");
    byId("about").textContent = `Outrider ${about.version} - model: ${about.model}`;
    if (!ready) {
      ready = true;
      beginSearch(about);
      beginSystematic(about);
    }
    document.documentElement.dataset.ready = "yes";
  } catch (error) {
    byId("about").textContent = `Not ready: ${error.message}`;
    byId("about").setAttribute("role", "alert");
  }
}

addEventListener("hashchange", () => {
  showView();
  // the event comes after the jump: whoever types by then keeps the focus
  const typing = document.activeElement.closest("#main input, #main textarea, #main select");
  if (!typing?.offsetParent) byId("main").focus({ preventScroll: true });
});
setUpControls();
showView();
loadServerInfo();
