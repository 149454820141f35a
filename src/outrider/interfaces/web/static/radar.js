// Six dimensions as a radar chart: each corner can be pointed at or tabbed to, and shows its figure and reason.

import { el, svg, words } from "./dom.js";

const WIDTH = 330;
const HEIGHT = 212;
const RADIUS = 78;

/** `shapes`: one list of `{dimension, score, counted, reason, missing}` for each work; the first names the corners. */
export function radar(shapes, label) {
  const corners = shapes[0].map((one, at) => ({ ...one, angle: (2 * Math.PI * at) / shapes[0].length - Math.PI / 2 }));
  const tooltip = el("p", { class: "radar-said", role: "tooltip", hidden: true });
  const hide = () => (tooltip.hidden = true);
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "radar", role: "group", "aria-label": label });
  for (const share of [0.25, 0.5, 0.75, 1]) chart.append(svg("polygon", { class: "ring", points: outline(corners.map(() => 10 * share), corners) }));
  for (const corner of corners) chart.append(svg("line", { class: "spoke", ...from(WIDTH / 2, HEIGHT / 2), ...to(...at(corner, 10)) }));
  shapes.forEach((shape, number) => {
    chart.append(svg("polygon", { class: `shape shape-${number}`, points: outline(shape.map(height), corners) }));
  });
  for (const corner of corners) chart.append(makeCorner(corner, shapes, tooltip));
  return el("figure", { class: "radar-figure", pointerleave: hide, focusout: hide, keydown: (event) => event.key === "Escape" && hide() }, chart, tooltip);
}

function makeCorner(corner, shapes, tooltip) {
  const [x, y] = at(corner, 10);
  const [labelX, labelY] = at(corner, 11.6);
  const text = describeDimension(corner);
  const show = () => {
    tooltip.textContent = text;
    tooltip.hidden = false;
  };
  const dots = shapes.map((shape, number) => {
    const match = shape.find((one) => one.dimension === corner.dimension);
    const [dotX, dotY] = at(corner, match ? height(match) : 0);
    return svg("circle", { class: !match || isUnknown(match) ? "dot none" : `dot shape-${number}`, cx: dotX, cy: dotY, r: 4 });
  });
  return svg(
    "g",
    { class: "corner", tabindex: "0", role: "img", "aria-label": text, pointerenter: show, focus: show },
    svg("circle", { class: "reach", cx: (x + labelX) / 2, cy: (y + labelY) / 2, r: 20 }),
    ...dots,
    svg("text", { x: labelX, y: labelY, "text-anchor": anchor(corner.angle), "dominant-baseline": "middle" }, words(corner.dimension)),
    isUnknown(corner) ? svg("text", { class: "unknown", x: labelX, y: labelY + 12, "text-anchor": anchor(corner.angle), "dominant-baseline": "middle" }, "unknown") : null,
  );
}

const isUnknown = ({ score }) => score === null || score === undefined;
/** What the corner shows: the known score, or what an unknown one counts. */
const height = ({ score, counted }) => score ?? counted ?? 0;

export function describeDimension(one) {
  const { dimension, score, counted, reason, missing } = one;
  const figure = isUnknown(one) ? "unknown" : `${Number(score).toFixed(1)} of 10`;
  const lacking = (missing ?? []).length ? `unknown: ${missing.map(words).join(", ")}` : "";
  const counts = counted === undefined ? "" : `counts as ${Number(counted).toFixed(1)}`;
  return [`${words(dimension)}: ${figure}`, reason, lacking, counts].filter(Boolean).join(". ");
}

const from = (x, y) => ({ x1: x, y1: y });
const to = (x, y) => ({ x2: x, y2: y });

function at(corner, score) {
  const far = (RADIUS * score) / 10;
  return [round(WIDTH / 2 + far * Math.cos(corner.angle)), round(HEIGHT / 2 + far * Math.sin(corner.angle))];
}

const round = (number) => Math.round(number * 10) / 10;
const outline = (scores, corners) => scores.map((score, number) => at(corners[number], score).join(",")).join(" ");

function anchor(angle) {
  const across = Math.cos(angle);
  return Math.abs(across) < 0.1 ? "middle" : across > 0 ? "start" : "end";
}
