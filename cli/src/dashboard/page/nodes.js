// Nodes as boxes filled by the requests of their pods.

import { counted, dollars, element, percent, shared } from "./words.js";

/** Number of nodes from which boxes are small. */
const MANY = 300;
const DAEMON = 1;
const STATES = {
  launching: "being launched", joining: "joining", ready: "ready", notReady: "not ready", cordoned: "cordoned", leaving: "leaving",
};

const requested = (node, part) => node.pods.reduce((sum, pod) => sum + pod[part], 0);

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

export const describe = (node) =>
  `Node ${node.name}, ${node.instanceType || "unknown type"} ${node.capacityType || ""} in ${node.zone || "no zone"}, ` +
  `${STATES[node.state] ?? node.state}, CPU ${percent(shared(requested(node, 1), node.cpu))}, ` +
  `memory ${percent(shared(requested(node, 2), node.memory))}, ${counted(node.pods.length, "pod")}`;

export class Nodes {
  selected;
  #place;
  #chosen;
  /** Boxes by name, each with its content. */
  #boxes = new Map();

  constructor(place, chosen) {
    this.#place = place;
    this.#chosen = chosen;
    place.addEventListener("click", (event) => {
      const box = event.target.closest(".node");
      if (box) chosen(box.dataset.name);
    });
    place.addEventListener("keydown", (event) => this.#move(event));
    place.addEventListener("focusin", (event) => {
      if (event.target.matches(".node")) this.#reachable(event.target);
    });
  }

  /** Shows nodes in groups by one of their fields; remaining boxes keep their place and focus. */
  show(nodes, field) {
    const groups = Map.groupBy(nodes, (node) => node[field] || "none");
    const names = [...groups.keys()].sort();
    this.#place.classList.toggle("many", nodes.length >= MANY);
    const sections = new Map([...this.#place.children].map((section) => [section.dataset.key, section]));
    const focused = document.activeElement;
    const seen = new Set();
    const shown = names.map((name) => {
      const key = `${field}/${name}`;
      const section = sections.get(key) ?? this.#section(key);
      this.#fill(section, name, groups.get(name), seen);
      return section;
    });
    replaceIfOther(this.#place, shown);
    for (const name of this.#boxes.keys()) if (!seen.has(name)) this.#boxes.delete(name);
    if (focused?.isConnected && document.activeElement !== focused) focused.focus();
    if (!this.#place.querySelector('.node[tabindex="0"]')) this.#reachable(this.#place.querySelector(".node"));
    if (!nodes.length) this.#place.replaceChildren(element("p", { class: "quiet" }, "No nodes."));
  }

  select(name) {
    this.selected = name;
    for (const { box } of this.#boxes.values()) box.setAttribute("aria-pressed", String(box.dataset.name === name));
  }

  focusSelected() {
    this.#boxes.get(this.selected)?.box.focus();
  }

  #section(key) {
    const heading = element("h2", { id: `group-${key}` });
    return Object.assign(element("section", { class: "group", "data-key": key, "aria-labelledby": `group-${key}` }, heading, element("div", { class: "tiles" })));
  }

  #fill(section, name, nodes, seen) {
    const [heading, tiles] = section.children;
    const cost = nodes.reduce((sum, node) => sum + (node.hourly ?? 0), 0);
    const cpu = shared(nodes.reduce((sum, node) => sum + requested(node, 1), 0), nodes.reduce((sum, node) => sum + node.cpu, 0));
    const text = `${counted(nodes.length, "node")} · ${dollars(cost)}/h · CPU ${percent(cpu)}`;
    if (heading.dataset.text !== text + name) {
      heading.dataset.text = text + name;
      heading.replaceChildren(name, element("small", {}, text));
    }
    nodes.sort((a, b) => a.instanceType.localeCompare(b.instanceType) || a.name.localeCompare(b.name));
    replaceIfOther(tiles, nodes.map((node) => {
      seen.add(node.name);
      return this.#box(node);
    }));
  }

  #box(node) {
    const known = this.#boxes.get(node.name);
    const box = known?.box ?? element("button", { type: "button", class: "node", tabindex: "-1", "data-name": node.name, "aria-pressed": "false" }, element("span"));
    const shows = JSON.stringify(node);
    if (known?.shows !== shows) {
      box.className = `node ${node.state} ${node.capacityType}`;
      box.style.setProperty("--cpu", bar(node, 1, node.cpu));
      box.style.setProperty("--memory", bar(node, 2, node.memory));
      box.setAttribute("aria-label", describe(node));
      box.title = describe(node);
      box.firstChild.textContent = node.instanceType || node.name;
      this.#boxes.set(node.name, { box, shows });
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

function replaceIfOther(place, children) {
  const same = place.children.length === children.length && children.every((child, nth) => child === place.children[nth]);
  if (!same) place.replaceChildren(...children);
}
