// Many nodes as cells of one canvas: a list box of which only the active option exists as an element.

import { describe, drawState, drawStuck, load, sized } from "./states.js";
import { element } from "./words.js";

const GAP = 2;
/** Sizes of cells in pixels: the first with which all nodes fit into the window, else the last. */
const SIZES = [18, 16, 14, 12, 10];
/** Share of the window's height that cells may take. */
const HEIGHT_SHARE = 0.85;

let lists = 0;

const columnsOf = (width, cell) => Math.max(1, Math.floor((width + GAP) / (cell + GAP)));

function cellSize(width, total) {
  // Fingers need the largest.
  if (matchMedia("(pointer: coarse)").matches) return SIZES[0];
  const fits = (cell) => Math.ceil(total / columnsOf(width, cell)) * (cell + GAP) <= innerHeight * HEIGHT_SHARE;
  return SIZES.find(fits) ?? SIZES.at(-1);
}

export class Cells {
  element;
  #canvas = element("canvas", { "aria-hidden": "true" });
  #option = element("div", { role: "option", class: "hidden", "aria-selected": "false" });
  #nodes = [];
  #columns = 1;
  #cell = 16;
  #active = 0;
  #drawn = {};
  #chosen;

  constructor(heading, chosen) {
    this.#chosen = chosen;
    this.#option.id = `cell-${++lists}`;
    this.element = element(
      "div", { role: "listbox", class: "cells", tabindex: "0", "aria-labelledby": heading, "aria-activedescendant": this.#option.id },
      this.#canvas, this.#option,
    );
    this.element.addEventListener("keydown", (event) => this.#move(event));
    this.element.addEventListener("focus", () => this.#draw());
    this.element.addEventListener("blur", () => this.#draw());
    this.#canvas.addEventListener("click", (event) => {
      const at = this.#at(event);
      if (at === undefined) return;
      this.#active = at;
      this.#activate();
      this.#chosen(this.#nodes[at].name);
    });
    this.#canvas.addEventListener("mousemove", (event) => {
      const node = this.#nodes[this.#at(event)];
      this.#canvas.title = node ? describe(node) + (node.reason ? `\n${node.reason}` : "") : "";
    });
  }

  /** Shows these nodes in a width of pixels; `total` is the number of nodes in all lists. */
  show(nodes, { colours, width, total, selected }) {
    const active = this.#nodes[this.#active]?.name;
    this.#nodes = nodes;
    this.#active = Math.max(0, nodes.findIndex((node) => node.name === (active ?? selected)));
    this.#cell = cellSize(width, total);
    this.#columns = columnsOf(width, this.#cell);
    this.#drawn = { colours, selected };
    this.#draw();
    this.#tell();
  }

  select(name) {
    if (name === this.#drawn.selected) return;
    this.#drawn.selected = name;
    this.#draw();
    this.#tell();
  }

  focus(name) {
    const at = this.#nodes.findIndex((node) => node.name === name);
    if (at < 0) return false;
    this.#active = at;
    this.#activate();
    this.element.focus();
    return true;
  }

  #draw() {
    const { colours, selected } = this.#drawn;
    const pitch = this.#cell + GAP;
    const rows = Math.ceil(this.#nodes.length / this.#columns);
    const columns = Math.min(this.#columns, this.#nodes.length);
    const context = sized(this.#canvas, columns * pitch, rows * pitch);
    const focused = document.activeElement === this.element;
    this.#nodes.forEach((node, nth) => {
      const x = (nth % this.#columns) * pitch + GAP / 2;
      const y = Math.floor(nth / this.#columns) * pitch + GAP / 2;
      drawState(context, colours, node.state, x, y, this.#cell, load(node));
      if (node.stuck) drawStuck(context, colours, x, y, this.#cell);
      if (node.name === selected || (focused && nth === this.#active)) {
        context.strokeStyle = node.name === selected ? colours.focus : colours.ink;
        context.lineWidth = 2;
        context.strokeRect(x, y, this.#cell, this.#cell);
        context.strokeStyle = colours.panel;
        context.lineWidth = 1;
        context.strokeRect(x + 1.5, y + 1.5, this.#cell - 3, this.#cell - 3);
      }
    });
  }

  /** Index of the cell under the pointer. */
  #at(event) {
    const pitch = this.#cell + GAP;
    const column = Math.floor(event.offsetX / pitch);
    const at = Math.floor(event.offsetY / pitch) * this.#columns + column;
    return column < this.#columns && at < this.#nodes.length ? at : undefined;
  }

  #move(event) {
    const last = this.#nodes.length - 1;
    const to = {
      ArrowRight: this.#active + 1,
      ArrowLeft: this.#active - 1,
      ArrowDown: this.#active + this.#columns,
      ArrowUp: this.#active - this.#columns,
      Home: 0,
      End: last,
    }[event.key];
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#chosen(this.#nodes[this.#active].name);
    } else if (to !== undefined) {
      event.preventDefault();
      if (to < 0 || to > last) return;
      this.#active = to;
      this.#activate();
    }
  }

  #activate() {
    this.#draw();
    this.#tell();
    // The hidden option lies on its cell, so that it can be scrolled to.
    const pitch = this.#cell + GAP;
    this.#option.style.top = `${Math.floor(this.#active / this.#columns) * pitch}px`;
    this.#option.scrollIntoView({ block: "nearest" });
  }

  /** Describes the active cell to assistive technology. */
  #tell() {
    const node = this.#nodes[this.#active];
    if (!node) return;
    this.#option.textContent = describe(node) + (node.reason ? `, ${node.reason}` : "");
    this.#option.dataset.name = node.name;
    this.#option.setAttribute("aria-setsize", this.#nodes.length);
    this.#option.setAttribute("aria-posinset", this.#active + 1);
    this.#option.setAttribute("aria-selected", String(node.name === this.#drawn.selected));
  }
}
