// Pods without a node.

import { amount, bytes, counted, cpus, duration, element } from "./words.js";

/** Upper bounds on groups of pods with equal reasons, and on names in a group. */
const GROUPS_MAX = 20;
const NAMES_MAX = 5;

export function showPending(place, title, pending, now) {
  title.textContent = pending.length ? `Pending pods (${amount(pending.length)})` : "Pending pods";
  const alike = [...Map.groupBy(pending, (pod) => pod.reasons.join("\n")).values()].sort((a, b) => b.length - a.length);
  const items = alike.slice(0, GROUPS_MAX).map((pods) => {
    const names = pods.slice(0, NAMES_MAX).map((pod) => pod.name).join(", ");
    const more = pods.length > NAMES_MAX ? ` and ${counted(pods.length - NAMES_MAX, "other")}` : "";
    const [{ cpu, memory, reasons }] = pods;
    const since = pods.map((pod) => pod.since && Date.parse(pod.since)).filter(Boolean);
    const age = since.length ? ` · ${duration(now - Math.min(...since))}` : "";
    return element(
      "li", {},
      `${names}${more} `, element("small", {}, `${cpus(cpu)} · ${bytes(memory)}${age}`),
      ...reasons.map((reason) => element("span", { class: "reason" }, reason)),
    );
  });
  if (alike.length > GROUPS_MAX) items.push(element("li", { class: "quiet" }, `and ${counted(alike.length - GROUPS_MAX, "other reason")}`));
  place.replaceChildren(...(items.length ? items : [element("li", { class: "quiet" }, "No pod is pending.")]));
}
