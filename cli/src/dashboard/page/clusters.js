// All clusters of the source, one per row.

import { amount, dollars, element, percent, refill, shared, sum } from "./words.js";

const COLUMNS = ["Cluster", "Nodes", "Ready", "Stuck", "Pending pods", "NodePools with problems", "Cost", "Below list price"];

/** Those that need attention first; a row's link shows the cluster in detail. */
export function showClusters(place, clusters) {
  const indexed = clusters.map((cluster, index) => ({ cluster, index }));
  const problems = ({ cluster }) => cluster.problems.length * 1e6 + cluster.stuck + cluster.poolsWithProblems + cluster.pending;
  indexed.sort((a, b) => problems(b) - problems(a) || a.cluster.source.name.localeCompare(b.cluster.source.name));
  const rows = indexed.map(({ cluster, index }) => row(cluster, index));
  const total = (of) => sum(clusters, of);
  const cost = total((cluster) => cluster.hourly);
  const list = total((cluster) => cluster.list);
  const totals = [
    amount(total((cluster) => cluster.nodes)), amount(total((cluster) => cluster.ready)), amount(total((cluster) => cluster.stuck)),
    amount(total((cluster) => cluster.pending)), amount(total((cluster) => cluster.poolsWithProblems)), `${dollars(cost)}/h`, percent(shared(list - cost, list)),
  ];
  const foot = element("tr", {}, element("th", { scope: "row" }, `${amount(clusters.length)} clusters`), ...totals.map((text, nth) => cell(nth + 1, text)));
  refill(place, [element(
    "table", {},
    element("thead", {}, element("tr", {}, ...COLUMNS.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows), element("tfoot", {}, foot),
  )]);
}

const cell = (column, text, attributes = {}) => element("td", { "data-name": COLUMNS[column], ...attributes }, text);

function row({ source, nodes, ready, stuck, pending, poolsWithProblems, hourly, list, problems }, index) {
  const name = element("th", { scope: "row" }, element("a", { href: `#cluster=${index}` }, source.name));
  if (problems.length) name.append(element("span", { class: "reason trouble" }, problems.join("; ")));
  const marked = (column, number) => cell(column, amount(number), number ? { class: "trouble" } : {});
  return element(
    "tr", {}, name, cell(1, amount(nodes)), cell(2, amount(ready)), marked(3, stuck), cell(4, amount(pending)), marked(5, poolsWithProblems),
    cell(6, `${dollars(hourly)}/h`), cell(7, percent(shared(list - hourly, list))),
  );
}
