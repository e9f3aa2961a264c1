// One node, with its pods.

import { bytes, counted, cpus, dollars, element, percent, shared } from "./words.js";

export class Details {
  #place;
  #closed;

  constructor(place, closed) {
    this.#place = place;
    this.#closed = closed;
    place.querySelector(".close").addEventListener("click", () => this.close());
  }

  show(node, moveFocus) {
    const used = (part) => node.pods.reduce((sum, pod) => sum + pod[part], 0);
    const facts = [
      ["Type", node.instanceType],
      ["Capacity", node.capacityType],
      ["Zone", node.zone],
      ["NodePool", node.pool],
      ["NodeClaim", node.claim],
      ["State", node.state],
      ["Since", node.since && new Date(node.since).toLocaleString("en-GB")],
      ["Price", node.hourly != null && `${dollars(node.hourly)}/h${parts(node.priceParts)}`],
      ["CPU", `${cpus(used(1))} of ${cpus(node.cpu)} requested (${percent(shared(used(1), node.cpu))})`],
      ["Memory", `${bytes(used(2))} of ${bytes(node.memory)} requested (${percent(shared(used(2), node.memory))})`],
    ].filter(([, value]) => value);
    const title = this.#place.querySelector("h2");
    title.textContent = node.name;
    this.#place.querySelector("#facts").replaceChildren(
      ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
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

/** Parts of a price, where there are others than the instance. */
function parts(of) {
  const named = [" for the instance", " for its volumes", " for the node itself"].map((what, nth) => [of?.[nth] ?? 0, what]);
  const paid = named.filter(([price]) => price > 0).map(([price, what]) => dollars(price) + what);
  return paid.length > 1 ? ` (${paid.join(", ")})` : "";
}
