// NodePools and nodes that need a person's attention.

import { nameOfState } from "./states.js";
import { amount, counted, duration, element, refill } from "./words.js";

/** Rows until the user asks for all, and upper bound on names of nodes in a row. */
const ROWS = 6;
const NAMES_MAX = 3;
/** Reasons that differ only in the pod are the same. */
const POD = /^pod \S+: /;

/** Shows NodePools with problems, then nodes that are stuck, those in the same state for the same reason together. */
export function showAttention(section, { pools, nodes }, now, select) {
  const troubled = pools.filter((pool) => pool.problems.length);
  const stuck = nodes.filter((node) => node.stuck);
  const alike = Map.groupBy(stuck, (node) => `${node.state}\n${node.reason?.replace(POD, "")}`);
  const groups = [...alike.values()].sort((a, b) => b.length - a.length);
  const rows = [
    ...troubled.map((pool) => element("li", {}, element("strong", {}, `NodePool ${pool.name}`), element("span", { class: "reason" }, pool.problems.join("; ")))),
    ...groups.map((group) => stuckRow(group, now, select)),
  ];
  section.hidden = rows.length === 0;
  section.querySelector("h2").textContent = `Needs attention (${amount(troubled.length + stuck.length)})`;
  const all = section.querySelector(".all");
  const isOpen = all.getAttribute("aria-expanded") === "true";
  all.hidden = rows.length <= ROWS;
  all.textContent = isOpen ? "Show fewer" : `Show all ${amount(rows.length)}`;
  all.onclick = () => {
    all.setAttribute("aria-expanded", String(!isOpen));
    showAttention(section, { pools, nodes }, now, select);
  };
  refill(section.querySelector("ul"), isOpen ? rows : rows.slice(0, ROWS));
}

function stuckRow(group, now, select) {
  const since = group.map((node) => node.since && Date.parse(node.since)).filter(Boolean);
  const longest = since.length ? ` for ${duration(now - Math.min(...since))}` : "";
  const links = group.slice(0, NAMES_MAX).flatMap((node, nth) => {
    const link = element("button", { type: "button", class: "link" }, node.name);
    link.addEventListener("click", () => select(node.name, true));
    return nth ? [" ", link] : [link];
  });
  const more = group.length > NAMES_MAX ? ` and ${amount(group.length - NAMES_MAX)} more` : "";
  const [{ state, reason }] = group;
  const text = group.length > 1 ? reason?.replace(POD, "") : reason;
  return element(
    "li", {},
    element("strong", {}, `${counted(group.length, "node")} ${nameOfState(state)}${longest}`), " ", ...links, more,
    element("span", { class: "reason" }, text ?? ""),
  );
}
