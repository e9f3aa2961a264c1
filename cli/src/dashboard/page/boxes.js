// A few nodes as boxes filled by the requests of their pods.

import { describe, nameOfState } from "./states.js";
import { element, replaceIfOther } from "./words.js";

const DAEMON = 1;

/** The pods of a node side by side, over the whole width of its box. */
function bar(node, part, whole) {
  if (whole <= 0) return "none";
  const stops = [];
  let at = 0;
  node.pods.forEach((pod, nth) => {
    if (pod[part] <= 0) return;
    const colour = pod[3] & DAEMON ? "var(--daemon)" : nth % 2 ? "var(--pod-a)" : "var(--pod-b)";
    const to = Math.min(100, at + (100 * pod[part]) / whole);
    stops.push(`${colour} ${at.toFixed(2)}% ${to.toFixed(2)}%`);
    at = to;
  });
  return stops.length ? `linear-gradient(90deg, ${stops.join(", ")}, transparent ${at.toFixed(2)}%)` : "none";
}

export class Boxes {
  #place;
  /** Boxes by name, each with its content. */
  #known = new Map();

  constructor(place, chosen) {
    this.#place = place;
    place.addEventListener("click", (event) => {
      const box = event.target.closest(".node");
      if (box) chosen(box.dataset.name);
    });
    place.addEventListener("keydown", (event) => this.#move(event));
    place.addEventListener("focusin", (event) => {
      if (event.target.matches(".node")) this.#reachable(event.target);
    });
  }

  /** Fills an element with the boxes of these nodes; known boxes are reused. */
  fill(place, nodes, selected) {
    replaceIfOther(place, nodes.map((node) => this.#box(node, selected)));
  }

  /** Forgets boxes that are shown no more, and keeps the focus where it was. */
  settle(focused) {
    for (const [name, { box }] of this.#known) if (!box.isConnected) this.#known.delete(name);
    if (focused?.isConnected && document.activeElement !== focused) focused.focus();
    if (!this.#place.querySelector('.node[tabindex="0"]')) this.#reachable(this.#place.querySelector(".node"));
  }

  select(name) {
    for (const { box } of this.#known.values()) box.setAttribute("aria-pressed", String(box.dataset.name === name));
  }

  focus(name) {
    this.#known.get(name)?.box.focus();
  }

  #box(node, selected) {
    const known = this.#known.get(node.name);
    const box = known?.box ?? element(
      "button", { type: "button", class: "node", tabindex: "-1", "data-name": node.name, "aria-pressed": String(node.name === selected) }, element("span"),
    );
    const shows = JSON.stringify(node);
    if (known?.shows !== shows) {
      box.className = `node ${node.state} ${node.capacityType}${node.stuck ? " stuck" : ""}`;
      box.style.setProperty("--cpu", bar(node, 1, node.cpu));
      box.style.setProperty("--memory", bar(node, 2, node.memory));
      box.setAttribute("aria-label", describe(node));
      box.title = describe(node) + (node.reason ? `\n${node.reason}` : "");
      box.firstChild.textContent = node.state === "ready" ? node.instanceType || node.name : nameOfState(node.state);
      this.#known.set(node.name, { box, shows });
    }
    return box;
  }

  /** Makes only one box at a time reachable by Tab. */
  #reachable(box) {
    if (!box) return;
    for (const other of this.#place.querySelectorAll('.node[tabindex="0"]')) other.tabIndex = -1;
    box.tabIndex = 0;
  }

  #move(event) {
    const box = event.target.closest(".node");
    if (!box) return;
    const boxes = [...this.#place.querySelectorAll(".node")];
    const at = boxes.indexOf(box);
    const to = {
      ArrowRight: () => boxes[at + 1],
      ArrowLeft: () => boxes[at - 1],
      ArrowDown: () => beyond(box, boxes.slice(at + 1)),
      ArrowUp: () => beyond(box, boxes.slice(0, at).reverse()),
      Home: () => boxes[0],
      End: () => boxes.at(-1),
    }[event.key]?.();
    if (to) {
      event.preventDefault();
      to.focus();
    }
  }
}

/** The nearest box in the next row. */
function beyond(box, others) {
  const from = box.getBoundingClientRect();
  let best;
  let row;
  for (const other of others) {
    const place = other.getBoundingClientRect();
    if (place.top === from.top) continue;
    row ??= place.top;
    if (place.top !== row) break;
    const far = Math.abs(place.left - from.left);
    if (!best || far < best.far) best = { far, other };
  }
  return best?.other;
}
