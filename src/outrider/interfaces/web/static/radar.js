// Dimensions as a radar chart: each corner can be pointed at or tabbed to, and shows its figures and reasons.

import { el, svg, words } from "./dom.js";

const WIDTH = 330;
const HEIGHT = 236;
const RADIUS = 78;
const RINGS = [2, 4, 6, 8, 10];
export const LETTERS = "ABCD";

/**
 * `shapes`: one list of `{dimension, score, counted, reason, missing}` for each work; the first names the corners. A list may have `place`, that of
 * its work among all that are compared, which gives it a letter, a colour and a mark.
 */
export function radar(shapes, label) {
  const corners = shapes[0].map((one, at) => ({ ...one, angle: (2 * Math.PI * at) / shapes[0].length - Math.PI / 2 }));
  const tooltip = el("p", { class: "radar-said", role: "tooltip", hidden: true });
  const hide = () => (tooltip.hidden = true);
  const chart = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "radar", role: "group", "aria-label": `${label}, from 0 to 10` });
  for (const ring of RINGS) chart.append(svg("polygon", { class: "ring", points: outline(corners.map(() => ring), corners) }));
  for (const corner of corners) chart.append(svg("line", { class: "spoke", ...from(WIDTH / 2, HEIGHT / 2), ...to(...at(corner, 10)) }));
  shapes.forEach((shape, number) => {
    chart.append(svg("polygon", { class: `shape shape-${shape.place ?? number}`, points: outline(shape.map(height), corners) }));
  });
  for (const ring of [0, ...RINGS]) chart.append(svg("text", { class: "scale", x: WIDTH / 2 - 6, y: HEIGHT / 2 - (RADIUS * ring) / 10 + 3, "text-anchor": "end", "aria-hidden": "true" }, String(ring)));
  for (const corner of corners) chart.append(makeCorner(corner, shapes, tooltip));
  return el("figure", { class: "radar-figure", pointerleave: hide, focusout: hide, keydown: (event) => hideByKey(event, tooltip) }, chart, tooltip);
}

/** Escape hides the figures; only a second one closes a dialog around them. */
function hideByKey(event, tooltip) {
  if (event.key !== "Escape" || tooltip.hidden) return;
  event.preventDefault();
  tooltip.hidden = true;
}

function makeCorner(corner, shapes, tooltip) {
  const [x, y] = at(corner, 10);
  const [labelX, labelY] = at(corner, 11.6);
  const own = shapes.map((shape, number) => [shape.find((one) => one.dimension === corner.dimension) ?? { dimension: corner.dimension }, shape.place ?? number]);
  const text = shapes.length === 1 ? describeDimension(own[0][0]) : `${words(corner.dimension)}: ${own.map(([one, place]) => `${LETTERS[place]} ${figure(one)}`).join(", ")}`;
  const show = () => {
    tooltip.textContent = text;
    tooltip.hidden = false;
  };
  const label = { x: labelX, "text-anchor": anchor(corner.angle), "dominant-baseline": "middle" };
  const top = labelY + (shapes.length > 1 ? 0 : Math.sin(corner.angle) < -0.9 ? -10 : -4);
  return svg(
    "g",
    { class: "corner", tabindex: "0", role: "img", "aria-label": text, pointerenter: show, focus: show },
    svg("circle", { class: "reach", cx: (x + labelX) / 2, cy: (y + labelY) / 2, r: 20 }),
    own.map(([one, place]) => mark(place, ...at(corner, height(one)), isUnknown(one))),
    svg("text", { ...label, y: top }, words(corner.dimension)),
    shapes.length > 1 ? null : svg("text", { ...label, class: isUnknown(corner) ? "unknown" : "known", y: top + 12 }, isUnknown(corner) ? "unknown" : Number(corner.score).toFixed(1)),
  );
}

/** A circle, square, triangle or diamond; hollow for what is unknown. */
function mark(place, x, y, isHollow) {
  const name = `dot dot-${place}${isHollow ? " none" : ""}`;
  if (place === 0) return svg("circle", { class: name, cx: x, cy: y, r: 4 });
  const outlines = [[[-3.5, -3.5], [3.5, -3.5], [3.5, 3.5], [-3.5, 3.5]], [[0, -4.5], [4.5, 3.5], [-4.5, 3.5]], [[0, -5], [4.5, 0], [0, 5], [-4.5, 0]]];
  return svg("polygon", { class: name, points: outlines[place - 1].map(([dx, dy]) => `${round(x + dx)},${round(y + dy)}`).join(" ") });
}

/** The letter and mark of a work. */
export function key(place) {
  return el("span", { class: `key key-${place}` }, svg("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" }, mark(place, 7, 7, false)), LETTERS[place]);
}

/** What a hollow mark means, if there is one. */
export function legend(shapes) {
  if (!shapes.some((shape) => shape.some(isUnknown))) return null;
  return el("p", { class: "meta" }, el("span", {}, "A hollow mark is unknown. It stands at the estimate that counts in the score."));
}

export const isUnknown = ({ score }) => score === null || score === undefined;
/** What the corner shows: the known score, or what an unknown one counts. */
const height = ({ score, counted }) => score ?? counted ?? 0;
const figure = (one) => (isUnknown(one) ? "unknown" : `${Number(one.score).toFixed(1)} of 10`);

export function describeDimension(one) {
  const { dimension, counted, reason, missing } = one;
  const lacking = (missing ?? []).length ? `unknown: ${missing.map(words).join(", ")}` : "";
  const counts = counted === undefined ? "" : `counts as ${Number(counted).toFixed(1)}`;
  return [`${words(dimension)}: ${figure(one)}`, reason, lacking, counts].filter(Boolean).join(". ");
}

const from = (x, y) => ({ x1: x, y1: y });
const to = (x, y) => ({ x2: x, y2: y });

function at(corner, score) {
  const far = (RADIUS * Math.min(score, 12)) / 10;
  return [round(WIDTH / 2 + far * Math.cos(corner.angle)), round(HEIGHT / 2 + far * Math.sin(corner.angle))];
}

const round = (number) => Math.round(number * 10) / 10;
const outline = (scores, corners) => scores.map((score, number) => at(corners[number], score).join(",")).join(" ");

function anchor(angle) {
  const across = Math.cos(angle);
  return Math.abs(across) < 0.1 ? "middle" : across > 0 ? "start" : "end";
}
