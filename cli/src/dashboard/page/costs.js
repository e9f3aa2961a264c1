// Hourly cost of all nodes over time, and savings.

import { change, clock, dollars, element, percent, shared } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 400;
const HEIGHT = 100;
const DAY = 24 * 3600 * 1000;

function part(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Shows the costs up to `now`: each is valid until the next one. */
export function showCosts(place, costs, now, unpriced) {
  if (!costs.length) {
    place.replaceChildren(element("figcaption", {}, "No data yet."));
    return;
  }
  const points = costs.map(({ at, hourly, list }) => ({ at: Date.parse(at), hourly, list }));
  const [{ at: first }, last] = [points[0], points.at(-1)];
  const end = Math.max(now, last.at);
  const most = Math.max(...points.map(({ hourly, list }) => Math.max(hourly, list)), 1e-9);
  const x = (time) => (end > first ? ((time - first) / (end - first)) * WIDTH : 0).toFixed(2);
  const y = (cost) => (HEIGHT - (cost / most) * HEIGHT).toFixed(2);
  const steps = (of) => `${points.map((point, nth) => (nth ? `H${x(point.at)}V${y(of(point))}` : `M0 ${y(of(point))}`)).join("")}H${WIDTH}`;
  const curve = steps((point) => point.hourly);
  const text = `Cost per hour from ${clock(first, end)} to ${clock(end)}: ${dollars(last.hourly)} now, ${dollars(last.list)} at list price, ${dollars(most)} at most`;
  const svg = part("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": text });
  svg.append(
    part("path", { class: "area", d: `${curve}V${HEIGHT}H0Z` }),
    part("path", { class: "list", d: steps((point) => point.list) }),
    part("path", { class: "curve", d: curve }),
    part("path", { class: "mark", d: `M0 ${HEIGHT}H${WIDTH}` }),
  );
  const caption = element(
    "figcaption", {},
    element("span", {}, clock(first, end)), element("span", {}, `top: ${dollars(most)}/h`), element("span", {}, clock(end)),
  );
  place.replaceChildren(svg, caption, savings(points, end, unpriced));
}

/** The cost against list price, and against a day ago or the start of the record. */
function savings(points, end, unpriced) {
  const last = points.at(-1);
  const from = Math.max(points[0].at, end - DAY);
  const isDay = from > points[0].at;
  const before = points.findLast((point) => point.at <= from) ?? points[0];
  const [spent, listed] = [total(points, from, end, (point) => point.hourly), total(points, from, end, (point) => point.list)];
  const since = isDay ? "since yesterday" : `since ${clock(from, end)}`;
  const difference = last.hourly - before.hourly;
  const share = before.hourly > 0 ? ` (${difference > 0 ? "+" : ""}${percent(difference / before.hourly).replace("-", "−")})` : "";
  const rows = [
    ["now", "Now", `${dollars(last.hourly)}/h`, ""],
    ["list", "On-demand list price", `${dollars(last.list)}/h`, `${dollars(last.list - last.hourly)}/h saved (${percent(shared(last.list - last.hourly, last.list))})`],
    ["", isDay ? "Yesterday at this time" : `At ${clock(from, end)}`, `${dollars(before.hourly)}/h`, `${change(difference)}/h${share}`],
    ["", `Spent ${since}`, dollars(spent), `${dollars(listed - spent)} less than list price`],
  ];
  const list = element("dl", { class: "savings" }, ...rows.map(([key, name, value, note]) => element(
    "div", {}, element("dt", { class: key }, name), element("dd", {}, value), element("dd", { class: "quiet" }, note),
  )));
  const missing = unpriced ? [element("p", { class: "quiet" }, `The price of ${unpriced === 1 ? "1 node is" : `${unpriced} nodes is`} unknown and left out.`)] : [];
  return element("div", {}, list, ...missing);
}

/** Dollars between two times. */
function total(points, from, to, of) {
  let dollars = 0;
  points.forEach((point, nth) => {
    const [begin, end] = [Math.max(point.at, from), Math.min(points[nth + 1]?.at ?? to, to)];
    if (end > begin) dollars += (of(point) * (end - begin)) / 3_600_000;
  });
  return dollars;
}
