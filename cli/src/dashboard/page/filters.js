// Search and filters of nodes.

import { drawState, nameOfState, ORDER, palette, sized } from "./states.js";
import { amount, element } from "./words.js";

/** Fields that a node can be filtered by, and their select elements. */
const FIELDS = ["pool", "zone", "instanceType", "capacityType"];
const SYMBOL = 13;

export class Filters {
  #form;
  #chips;
  /** States to show; empty shows all. */
  #states = new Set();
  #options = new Map();

  constructor(form, chips, changed) {
    this.#form = form;
    this.#chips = chips;
    form.addEventListener("input", changed);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.querySelector(".more").addEventListener("click", (event) => {
      const open = form.classList.toggle("open");
      event.target.setAttribute("aria-expanded", String(open));
    });
    form.querySelector(".clear").addEventListener("click", () => {
      for (const field of ["search", ...FIELDS]) form.elements[field].value = "";
      this.#states.clear();
      changed();
    });
    chips.addEventListener("click", (event) => {
      const state = event.target.closest("button")?.dataset.state;
      if (!state) return;
      if (!this.#states.delete(state)) this.#states.add(state);
      changed();
    });
  }

  get active() {
    return this.#words.length > 0 || this.#states.size > 0 || FIELDS.some((field) => this.#value(field));
  }

  /** Whether a NodePool without nodes is to be shown. */
  showsEmptyPool(name) {
    const wanted = this.#value("pool");
    const others = FIELDS.slice(1).some((field) => this.#value(field)) || this.#states.size > 0;
    return !others && (!wanted || wanted === name) && this.#words.every((word) => name.toLowerCase().includes(word));
  }

  /** Nodes that pass all filters. */
  apply(nodes) {
    const wanted = FIELDS.map((field) => [field, this.#value(field)]).filter(([, value]) => value);
    const words = this.#words;
    const passed = nodes.filter((node) => wanted.every(([field, value]) => node[field] === value) && words.every((word) => has(node, word)));
    this.#showChips(passed);
    return this.#states.size ? passed.filter((node) => this.#states.has(node.state)) : passed;
  }

  /** Updates the choices to the values that exist. */
  update(nodes, pools) {
    for (const field of FIELDS) {
      const values = new Set(nodes.map((node) => node[field]).filter(Boolean));
      if (field === "pool") for (const pool of pools) values.add(pool.name);
      const select = this.#form.elements[field];
      // A chosen value stays until the user clears it.
      if (select.value) values.add(select.value);
      const sorted = [...values].sort();
      const known = this.#options.get(field);
      if (known?.length === sorted.length && known.every((value, nth) => value === sorted[nth])) continue;
      this.#options.set(field, sorted);
      const chosen = select.value;
      select.replaceChildren(select.options[0], ...sorted.map((value) => element("option", { value }, value)));
      select.value = chosen;
    }
  }

  #value(field) {
    return this.#form.elements[field].value;
  }

  get #words() {
    return this.#form.elements.search.value.toLowerCase().split(/\s+/).filter(Boolean);
  }

  /** One button per state: its symbol, name and number of nodes. Together they are the legend. */
  #showChips(nodes) {
    if (!this.#chips.children.length) {
      this.#chips.append(...ORDER.map((state) => element(
        "button", { type: "button", "data-state": state }, element("canvas", { "aria-hidden": "true" }), element("span"),
      )));
    }
    const colours = palette();
    const counts = Map.groupBy(nodes, (node) => node.state);
    for (const chip of this.#chips.children) {
      const { state } = chip.dataset;
      const count = counts.get(state)?.length ?? 0;
      const [canvas, text] = chip.children;
      drawState(sized(canvas, SYMBOL, SYMBOL), colours, state, 0, 0, SYMBOL);
      text.textContent = `${nameOfState(state)} ${amount(count)}`;
      chip.setAttribute("aria-pressed", String(this.#states.has(state)));
      chip.classList.toggle("none", count === 0);
    }
  }
}

const has = (node, word) =>
  [node.name, node.claim, node.pool, node.zone, node.instanceType, node.capacityType, node.reason].some((text) => text?.toLowerCase().includes(word)) ||
  node.pods.some(([name]) => name.toLowerCase().includes(word));
