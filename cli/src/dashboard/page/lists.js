// Pods that wait, and what was decided.

import { amount, bytes, counted, cpus, element, when } from "./words.js";

/** So many names of pods with the same reasons are shown. */
const NAMES = 5;
/** So many decisions are shown. */
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
  place.replaceChildren(...(items.length ? items : [element("li", { class: "quiet" }, "No pod waits for a node.")]));
}

/** The newest first; names of nodes that there are lead to them. */
export function showDecisions(place, decisions, filter, known, select) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (one) => {
    const text = `${one.act} ${one.subject} ${one.why}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const items = decisions.filter(fits).slice(-DECISIONS).reverse().map((one) => {
    const node = known.get(one.subject);
    const subject = node ? element("button", { type: "button" }, one.subject) : one.subject;
    if (node) subject.addEventListener("click", () => select(node, true));
    return element(
      "li", { class: one.isTrouble ? "trouble" : undefined },
      when(one.at), `${one.act} `, subject, element("span", { class: "why" }, one.why),
    );
  });
  const none = words.length ? "No decision has these words." : "Nothing was decided yet.";
  place.replaceChildren(...(items.length ? items : [element("li", { class: "quiet" }, none)]));
}
