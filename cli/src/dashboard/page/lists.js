// Pending pods, and decisions.

import { amount, bytes, counted, cpus, element, when } from "./words.js";

/** Upper bound on the names of pods shown per group of equal reasons. */
const NAMES = 5;
/** Upper bound on the decisions shown. */
const DECISIONS = 200;

export function showPending(place, title, pending) {
  title.textContent = pending.length ? `Pending pods (${amount(pending.length)})` : "Pending pods";
  const alike = Map.groupBy(pending, (pod) => JSON.stringify(pod.reasons));
  const items = [...alike.values()].map((pods) => {
    const names = pods.slice(0, NAMES).map((pod) => pod.name).join(", ");
    const more = pods.length > NAMES ? ` and ${counted(pods.length - NAMES, "other")}` : "";
    const [{ cpu, memory, reasons }] = pods;
    return element(
      "li", {},
      `${names}${more} `, element("small", {}, `${cpus(cpu)} · ${bytes(memory)}`),
      ...reasons.map((reason) => element("span", { class: "reason" }, reason)),
    );
  });
  place.replaceChildren(...(items.length ? items : [element("li", { class: "quiet" }, "No pod is pending.")]));
}

/** Decisions, newest first; names of existing nodes are links. */
export function showDecisions(place, decisions, filter, known, select) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (decision) => {
    const text = `${decision.act} ${decision.subject} ${decision.why}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const items = decisions.filter(fits).slice(-DECISIONS).reverse().map((decision) => {
    const node = known.get(decision.subject);
    const subject = node ? element("button", { type: "button" }, decision.subject) : decision.subject;
    if (node) subject.addEventListener("click", () => select(node, true));
    return element(
      "li", { class: decision.isTrouble ? "trouble" : undefined },
      when(decision.at), `${decision.act} `, subject, element("span", { class: "why" }, decision.why),
    );
  });
  const none = words.length ? "No decision matches." : "No decisions yet.";
  place.replaceChildren(...(items.length ? items : [element("li", { class: "quiet" }, none)]));
}
