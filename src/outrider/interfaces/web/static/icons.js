// Icons of kinds and actions as inline SVG.

import { svg } from "./dom.js";

const PATHS = {
  paper: "M6 2h8l5 5v15H6zM14 2v5h5M9 12h7M9 16h7",
  repository: "M8 6l-5 6 5 6M16 6l5 6-5 6M14 4l-4 16",
  page: "M12 3a9 9 0 100 18 9 9 0 000-18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  document: "M5 3h14v18H5zM8 8h8M8 12h8M8 16h5",
  star: "M12 3l2.8 5.8 6.2.9-4.5 4.4 1 6.3L12 17.4 6.500 20.400l1-6.300L3 9.700l6.200-.9z",
};
const NAMES = { paper: "Paper", repository: "Repository", page: "Web page", document: "Document" };

export const nameKind = (kind) => NAMES[kind] ?? String(kind).replaceAll("_", " ");

export function icon(name, label = "") {
  const path = PATHS[name] ?? PATHS.document;
  return svg("svg", { viewBox: "0 0 24 24", class: `icon icon-${name}`, ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) }, svg("path", { d: path }));
}
