// Totals of one cluster.

import { requested } from "./states.js";
import { amount, dollars, element, percent, shared, sum } from "./words.js";

export function showTotals(place, { nodes, pending }) {
  const use = (part, of) => percent(shared(sum(nodes, (node) => requested(node, part)), sum(nodes, of)));
  const cost = sum(nodes, (node) => node.hourly ?? 0);
  const list = sum(nodes, (node) => (node.hourly === null ? 0 : (node.listHourly ?? node.hourly)));
  const ready = nodes.filter((node) => node.state === "ready").length;
  const totals = [
    ["Nodes", amount(nodes.length)],
    ["Ready", amount(ready)],
    ["Pods", amount(sum(nodes, (node) => node.pods.length))],
    ["Pending", amount(pending.length)],
    ["Cost", `${dollars(cost)}/h`],
    ["Below list price", percent(shared(list - cost, list))],
    ["CPU requested", use(1, (node) => node.cpu)],
    ["Memory requested", use(2, (node) => node.memory)],
  ];
  place.replaceChildren(...totals.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
}
