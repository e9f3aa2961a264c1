// One node, with its pods.

import { nameOfState, requested } from "./states.js";
import { bytes, change, counted, cpus, dollars, duration, element, percent, shared } from "./words.js";

export class Details {
  #place;
  #closed;

  constructor(place, closed) {
    this.#place = place;
    this.#closed = closed;
    place.querySelector(".close").addEventListener("click", () => this.close());
  }

  show(node, now, moveFocus) {
    const use = (part, whole, words) => `${words(requested(node, part))} of ${words(whole)} requested (${percent(shared(requested(node, part), whole))})`;
    const since = node.since && ` for ${duration(now - Date.parse(node.since))}`;
    const facts = [
      ["State", `${nameOfState(node.state)}${node.state !== "ready" && since ? since : ""}`],
      ["Why", node.reason],
      ["Type", node.instanceType],
      ["Capacity", node.capacityType],
      ["Zone", node.zone],
      ["NodePool", node.pool],
      ["NodeClaim", node.claim],
      ["Since", node.since && new Date(node.since).toLocaleString("en-GB")],
      ["Price", node.hourly !== null ? `${dollars(node.hourly)}/h${parts(node.priceParts)}` : "unknown"],
      ["List price", node.listHourly !== null && node.listHourly !== node.hourly && `${dollars(node.listHourly)}/h on demand (${change(node.hourly - node.listHourly)}/h)`],
      ["CPU", use(1, node.cpu, cpus)],
      ["Memory", use(2, node.memory, bytes)],
    ].filter(([, value]) => value);
    const title = this.#place.querySelector("h2");
    title.textContent = node.name;
    this.#place.querySelector("#facts").replaceChildren(
      ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", name === "Why" ? { class: "reason" } : {}, value)]),
    );
    this.#place.querySelector("#pods-title").textContent = counted(node.pods.length, "pod");
    this.#place.querySelector("#pods").replaceChildren(
      ...node.pods.map(([name, cpu, memory]) => element("li", {}, element("span", {}, name), element("span", {}, `${cpus(cpu)} · ${bytes(memory)}`))),
    );
    this.#place.hidden = false;
    if (moveFocus) title.focus();
  }

  hide() {
    this.#place.hidden = true;
  }

  /** Returns focus to the element that had it before. */
  close() {
    if (this.#place.hidden) return;
    this.hide();
    this.#closed();
  }
}

/** Parts of a price, if there are others than the instance. */
function parts(of) {
  const named = [" for the instance", " for its volumes", " for the node itself"].map((what, nth) => [of?.[nth] ?? 0, what]);
  const paid = named.filter(([price]) => price > 0).map(([price, what]) => dollars(price) + what);
  return paid.length > 1 ? ` (${paid.join(", ")})` : "";
}
