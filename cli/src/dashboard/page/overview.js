// All nodes in groups: as boxes if they are few, as cells if they are many.

import { Boxes } from "./boxes.js";
import { Cells } from "./cells.js";
import { load, ORDER, palette, requested } from "./states.js";
import { amount, counted, dollars, element, percent, replaceIfOther, shared, sum } from "./words.js";

/** Number of nodes from which they are cells. */
const CELLS_FROM = 150;
/** Upper bound on the groups shown; grouping by instance type can make hundreds. */
const GROUPS_MAX = 100;

const KEYS = {
  pool: (node) => node.pool || "no NodePool",
  poolZone: (node) => `${node.pool || "no NodePool"} · ${node.zone || "no zone"}`,
  zone: (node) => node.zone || "no zone",
  capacityType: (node) => node.capacityType || "no capacity type",
  instanceType: (node) => node.instanceType || "unknown type",
};

export class Overview {
  selected;
  #place;
  #chosen;
  #boxes;
  /** Lists of cells by the key of their group. */
  #cells = new Map();
  #more = element("p", { class: "quiet more-groups" });

  constructor(place, chosen) {
    this.#place = place;
    this.#chosen = chosen;
    this.#boxes = new Boxes(place, chosen);
  }

  /** Shows nodes in groups; remaining elements keep their place and focus. `pools` are the NodePools to show even without nodes. */
  show(nodes, pools, grouping) {
    const groups = Map.groupBy(nodes, KEYS[grouping]);
    const problems = new Map();
    if (grouping === "pool") {
      for (const pool of pools) {
        if (!groups.has(pool.name)) groups.set(pool.name, []);
        problems.set(pool.name, pool.problems);
      }
    }
    const urgency = (name) => Number((problems.get(name)?.length ?? 0) > 0) * 2 + Number(groups.get(name).some((node) => node.stuck));
    const names = [...groups.keys()].sort((a, b) => urgency(b) - urgency(a) || a.localeCompare(b));
    const asCells = nodes.length >= CELLS_FROM;
    const view = { colours: asCells && palette(), width: this.#place.clientWidth, total: nodes.length, selected: this.selected };
    const sections = new Map([...this.#place.children].map((section) => [section.dataset.key, section]));
    const focused = document.activeElement;
    const shown = names.slice(0, GROUPS_MAX).map((name) => {
      const key = `${grouping}/${name}`;
      const section = sections.get(key) ?? newSection(key);
      head(section, name, groups.get(name), problems.get(name) ?? []);
      this.#fill(section, key, groups.get(name), asCells, view);
      return section;
    });
    for (const [key, cells] of this.#cells) if (!asCells || !shown.includes(cells.element.closest("section"))) this.#cells.delete(key);
    if (names.length > GROUPS_MAX) {
      this.#more.textContent = `${amount(names.length - GROUPS_MAX)} more groups are left out: search or filter to see them.`;
      shown.push(this.#more);
    }
    if (!shown.length) shown.push(element("p", { class: "quiet" }, "No nodes."));
    replaceIfOther(this.#place, shown);
    this.#boxes.settle(focused);
  }

  select(name) {
    this.selected = name;
    this.#boxes.select(name);
    for (const cells of this.#cells.values()) cells.select(name);
  }

  focusSelected() {
    const found = [...this.#cells.values()].some((cells) => cells.focus(this.selected));
    if (!found) this.#boxes.focus(this.selected);
  }

  #fill(section, key, nodes, asCells, view) {
    const body = section.lastChild;
    body.classList.toggle("tiles", !asCells);
    if (!asCells) {
      const order = (a, b) => a.instanceType.localeCompare(b.instanceType) || a.name.localeCompare(b.name);
      this.#boxes.fill(body, [...nodes].sort(order), this.selected);
      return;
    }
    if (!nodes.length) {
      body.replaceChildren();
      return;
    }
    const cells = this.#cells.get(key) ?? new Cells(section.getAttribute("aria-labelledby"), this.#chosen);
    this.#cells.set(key, cells);
    replaceIfOther(body, [cells.element]);
    cells.show(nodes.map((node) => [node, ORDER.indexOf(node.state), load(node)]).sort(byState).map(([node]) => node), view);
  }
}

const byState = ([a, stateA, loadA], [b, stateB, loadB]) =>
  Number(b.stuck) - Number(a.stuck) || stateA - stateB || loadB - loadA || (a.name < b.name ? -1 : 1);

function newSection(key) {
  const id = `group-${key.replaceAll(/\s/g, "_")}`;
  return element(
    "section", { class: "group", "data-key": key, "aria-labelledby": id },
    element("h2", { id }), element("ul", { class: "problems" }), element("div"),
  );
}

function head(section, name, nodes, problems) {
  const [heading, list] = section.children;
  const cpu = shared(sum(nodes, (node) => requested(node, 1)), sum(nodes, (node) => node.cpu));
  const cost = sum(nodes, (node) => node.hourly ?? 0);
  const text = nodes.length ? `${counted(nodes.length, "node")} · ${dollars(cost)}/h · CPU ${percent(cpu)}` : "no nodes";
  const shows = JSON.stringify([name, text, problems]);
  if (heading.dataset.shows === shows) return;
  heading.dataset.shows = shows;
  heading.replaceChildren(name, element("small", {}, text));
  list.replaceChildren(...problems.map((problem) => element("li", {}, problem)));
  list.hidden = problems.length === 0;
}
