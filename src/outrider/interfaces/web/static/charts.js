// Charts with axes and text alternatives: a curve, and parts that add up to a bar.

import { count, el, svg } from "./dom.js";

const WIDTH = 320;
const HEIGHT = 180;
const LEFT = 34;
const RIGHT = 22;
const TOP = 10;
const BOTTOM = 40;
const STEPS = [1, 2, 5, 10, 15, 20, 50, 100, 200, 365, 500, 1000];
const MAX_TICKS = 6;
const POWERS = [0, 1, 10, 100, 1_000, 10_000, 100_000];

/** `curve` is `{label, scale, points}` of the server, its values from 0 to 1; `examples` are told to whoever does not see it. */
export function curveChart(title, curve, examples) {
  const end = curve.points.at(-1)[0];
  const place = (number) => (curve.scale === "log" ? Math.log1p(number) / Math.log1p(end) : number / end);
  const x = (number) => round(LEFT + (WIDTH - LEFT - RIGHT) * place(number));
  const y = (value) => round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value);
  const step = STEPS.find((one) => end / one <= MAX_TICKS) ?? end;
  const ticks = curve.scale === "log" ? POWERS.filter((one) => one <= end) : Array.from({ length: Math.floor(end / step) + 1 }, (_, at) => at * step);
  const said = examples.map((one) => `${count(one.given)}: ${one.value.toFixed(2)}`).join(", ");
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img" },
    svg("title", {}, title),
    svg("desc", {}, `From 0 to 1 by ${curve.label}. ${said}.`),
    [0, 0.5, 1].map((value) => [svg("line", { class: value ? "grid" : "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }), svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, String(value))]),
    svg("line", { class: "axis", x1: LEFT, x2: LEFT, y1: y(0), y2: y(1) }),
    ticks.map((tick) => [svg("line", { class: "axis", x1: x(tick), x2: x(tick), y1: y(0), y2: y(0) + 4 }), svg("text", { x: x(tick), y: y(0) + 17, "text-anchor": "middle" }, count(tick))]),
    svg("text", { class: "unit", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, curve.label),
    svg("polyline", { class: "curve-line", points: curve.points.map(([number, value]) => `${x(number)},${y(value)}`).join(" ") }),
  );
}

/** `parts` are `{name, value}`, together at most 1; what is missing to 1 stays empty. */
export function stackedBar(title, parts, digits = 2) {
  const total = parts.reduce((sum, { value }) => sum + value, 0);
  const said = parts.map(({ name, value }) => `${name} ${value.toFixed(digits)}`).join(", ");
  const segments = parts.map(({ value }, at) => {
    const segment = el("span", { class: `part part-${at}` });
    segment.style.width = `${100 * Math.max(0, value)}%`;
    return segment;
  });
  return el(
    "figure",
    { class: "stacked" },
    el("div", { class: "bar-track", role: "img", "aria-label": `${title}: ${said}; together ${total.toFixed(digits)} of 1` }, segments),
    el("div", { class: "bar-axis", "aria-hidden": "true" }, ["0", "0.25", "0.5", "0.75", "1"].map((tick) => el("span", {}, tick))),
  );
}

/** The colour of a part in a bar, for the list beside it. */
export const swatch = (at) => el("span", { class: `swatch part-${at}`, "aria-hidden": "true" });

const round = (number) => Math.round(number * 10) / 10;
