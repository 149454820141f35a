// Years of the hits as bars; each bar is a check box that filters.

import { el, plural, svg } from "./dom.js";

const WIDTH = 220;
const HEIGHT = 64;
const MAX_BARS = 16;
const STEPS = [1, 2, 5, 10, 20, 50, 100, 500];

/** Bins `[first, last]` of equal width that cover the years; the last one ends with the last year. */
export function makeBins(years) {
  if (!years.length) return [];
  const [low, high] = [Math.min(...years), Math.max(...years)];
  const step = STEPS.find((one) => Math.floor(high / one) - Math.floor(low / one) < MAX_BARS) ?? 1000;
  const first = Math.floor(low / step) * step;
  return Array.from({ length: Math.floor((high - first) / step) + 1 }, (_, at) => [first + at * step, Math.min(high, first + at * step + step - 1)]);
}

export const nameBin = ([first, last]) => (first === last ? String(first) : `${first}-${last}`);

/** `rows` are `{bin, number, on}`; `toggled(bin, on)` is called at a click, Enter or the space bar. `noun` is what is counted. */
export function histogram(rows, toggled, noun = "hit") {
  const most = Math.max(1, ...rows.map((row) => row.number));
  const wide = WIDTH / rows.length;
  const bars = rows.map(({ bin, number, on }, at) => {
    const tall = number ? Math.max(4, (number / most) * (HEIGHT - 4)) : 0;
    const set = () => toggled(bin, !on);
    const key = (event) => {
      if (event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      set();
    };
    const name = `${nameBin(bin)}: ${plural(number, noun)}`;
    const able = number || on ? { tabindex: "0", role: "checkbox", "aria-checked": String(on), "aria-label": name, "data-bin": nameBin(bin), click: set, keydown: key } : { "aria-hidden": "true" };
    return svg(
      "g",
      { class: on ? "bin on" : "bin", ...able },
      svg("title", {}, name),
      svg("rect", { class: "reach", x: at * wide, y: 0, width: wide, height: HEIGHT }),
      svg("rect", { class: "height", x: at * wide + wide * 0.1, y: HEIGHT - tall, width: wide * 0.8, height: tall, rx: 1 }),
    );
  });
  const [first, last] = [rows[0].bin[0], rows.at(-1).bin[1]];
  return el(
    "div",
    { class: "histogram" },
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": `${noun[0].toUpperCase()}${noun.slice(1)}s by year`, preserveAspectRatio: "none" }, bars),
    el("p", { class: "axis", "aria-hidden": "true" }, el("span", {}, first), el("span", {}, rows.length > 1 || first !== last ? last : "")),
  );
}
