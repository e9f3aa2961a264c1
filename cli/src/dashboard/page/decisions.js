// Decisions, newest first: action, node, change of cost and reason.

import { amount, change, element, refill, sum, when } from "./words.js";

/** Upper bound on the rows shown, and on the names in a row. */
const ROWS_MAX = 100;
const NAMES_MAX = 3;
const SIGNS = { launch: "+", delete: "−", keep: "=", warning: "!", note: "·" };

/** `known` maps names of nodes and NodeClaims to nodes; they are links. */
export function showDecisions(place, decisions, { filter, kind, known, now, select }) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (decision) => {
    const isWanted = kind === "all" || (kind === "changes" ? decision.kind !== "keep" : decision.kind === kind);
    const text = `${decision.act} ${decision.subject} ${decision.why}`.toLowerCase();
    return isWanted && words.every((word) => text.includes(word));
  };
  const groups = grouped(decisions.filter(fits).reverse());
  const items = groups.slice(0, ROWS_MAX).map((group) => row(group, known, now, select));
  if (groups.length > ROWS_MAX) items.push(element("li", { class: "quiet" }, `${amount(groups.length - ROWS_MAX)} older ones: filter to see them`));
  const none = words.length || kind !== "changes" ? "No decision matches." : "No decisions yet.";
  refill(place, items.length ? items : [element("li", { class: "quiet" }, none)]);
}

/** Consecutive decisions with the same action and reason together. */
function grouped(decisions) {
  const groups = [];
  for (const decision of decisions) {
    const [last] = groups.at(-1) ?? [];
    if (last && decision.subject && last.act === decision.act && last.why === decision.why) groups.at(-1).push(decision);
    else groups.push([decision]);
  }
  return groups;
}

function row(group, known, now, select) {
  const [{ at, kind, act, why }] = group;
  const names = group.slice(0, NAMES_MAX).flatMap(({ subject }, nth) => {
    const node = known.get(subject);
    const name = node ? element("button", { type: "button", class: "link" }, subject) : subject;
    if (node) name.addEventListener("click", () => select(node, true));
    return nth ? [node ? " " : ", ", name] : [name];
  });
  const more = group.length > NAMES_MAX ? ` and ${amount(group.length - NAMES_MAX)} more` : "";
  const priced = group.filter((decision) => decision.hourly !== null);
  const cost = priced.length ? element("span", { class: "cost" }, `${change(sum(priced, ({ hourly }) => hourly))}/h`) : "";
  return element(
    "li", { class: kind },
    when(at, now), element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[kind] ?? ""), `${act} `, ...names, more, cost,
    element("span", { class: "reason" }, why),
  );
}
