// Hourly cost of all nodes over time.

import { clock, dollars, element } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 400;
const HEIGHT = 100;

function part(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** A step curve: a price is valid until the next one. */
export function showCosts(place, costs) {
  if (!costs.length) {
    place.replaceChildren(element("figcaption", {}, "No data yet."));
    return;
  }
  const times = costs.map((cost) => Date.parse(cost.at));
  const [first, last] = [times[0], times.at(-1)];
  const most = Math.max(...costs.map((cost) => cost.hourly), 1e-9);
  const x = (time) => (last > first ? ((time - first) / (last - first)) * WIDTH : WIDTH);
  const y = (hourly) => HEIGHT - (hourly / most) * HEIGHT;
  const points = costs.map((cost, nth) => (nth ? `H${x(times[nth])}` : `M0 ${y(cost.hourly)}`) + `V${y(cost.hourly)}`);
  const curve = `${points.join("")}H${WIDTH}`;
  const now = costs.at(-1).hourly;
  const text = `Cost per hour from ${clock(first)} to ${clock(last)}: ${dollars(now)} now, ${dollars(most)} at most`;
  const svg = part("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": text });
  svg.append(
    part("path", { class: "area", d: `${curve}V${HEIGHT}H0Z` }),
    part("path", { class: "curve", d: curve }),
    part("path", { class: "mark", d: `M0 ${HEIGHT}H${WIDTH}` }),
  );
  const caption = element(
    "figcaption", {},
    element("span", {}, clock(first)),
    element("span", {}, `${dollars(now)}/h now, ${dollars(most)}/h at most`),
    element("span", {}, clock(last)),
  );
  place.replaceChildren(svg, caption);
}
