// States of nodes: their names, order and symbols.

import { counted, percent, shared, sum } from "./words.js";

/** In the order in which a user should look at them. */
export const STATES = {
  notReady: { name: "not ready", colour: "--broken" },
  leaving: { name: "leaving", colour: "--leaving" },
  launching: { name: "being launched", colour: "--young" },
  joining: { name: "joining", colour: "--young" },
  cordoned: { name: "cordoned", colour: "--leaving" },
  ready: { name: "ready", colour: "--pod-a" },
};
export const ORDER = Object.keys(STATES);
export const nameOfState = (state) => STATES[state]?.name ?? state;

export const requested = (node, part) => sum(node.pods, (pod) => pod[part]);

/** Share of a node's CPU that is requested, between 0 and 1. */
export const load = (node) => Math.min(1, shared(requested(node, 1), node.cpu));

export const describe = (node) =>
  `Node ${node.name}, ${[node.instanceType || "unknown type", node.capacityType].filter(Boolean).join(" ")} in ${node.zone || "no zone"}, ` +
  `${nameOfState(node.state)}${node.stuck ? " (stuck)" : ""}, CPU ${percent(shared(requested(node, 1), node.cpu))}, ` +
  `memory ${percent(shared(requested(node, 2), node.memory))}, ${counted(node.pods.length, "pod")}`;

/** The colours of the current theme, for canvases. */
export function palette() {
  const style = getComputedStyle(document.body);
  // Canvases do not resolve light-dark(); a computed property does.
  const probe = document.body.appendChild(document.createElement("i"));
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = { empty: colour("--empty"), panel: colour("--panel"), focus: colour("--focus"), ink: style.color };
  for (const state of ORDER) colours[state] = colour(STATES[state].colour);
  colours.stuck = colour("--broken");
  probe.remove();
  return colours;
}

/** Draws the symbol of a state. Each has a shape of its own, so that colour is not needed to tell them apart. */
export function drawState(context, colours, state, x, y, size, share = 0.6) {
  const line = size > 14 ? 2 : 1.5;
  const half = line / 2;
  context.fillStyle = context.strokeStyle = colours[state] ?? colours.ink;
  context.lineWidth = line;
  context.setLineDash(state === "launching" ? [2, 2] : []);
  if (state === "notReady") {
    context.fillRect(x, y, size, size);
    context.strokeStyle = colours.panel;
    const inset = size * 0.25;
    strokes(context, [x + inset, y + inset, x + size - inset, y + size - inset], [x + size - inset, y + inset, x + inset, y + size - inset]);
    return;
  }
  if (state === "ready") {
    context.fillStyle = colours.empty;
    context.fillRect(x, y, size, size);
    context.fillStyle = colours.ready;
    const height = Math.round(share * (size - 2));
    context.fillRect(x, y + size - height, size, height);
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
    return;
  }
  context.strokeRect(x + half, y + half, size - line, size - line);
  context.setLineDash([]);
  const [middle, centre] = [y + size / 2, x + size / 2];
  if (state === "joining") context.fillRect(centre - size / 6, middle - size / 6, size / 3, size / 3);
  if (state === "cordoned") strokes(context, [x, middle, x + size, middle]);
  if (state === "leaving") {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x + size, y + size);
    context.lineTo(x, y + size);
    context.fill();
  }
}

/** The mark of a stuck node: a corner. */
export function drawStuck(context, colours, x, y, size) {
  const corner = Math.max(5, size / 2.4);
  context.fillStyle = colours.stuck;
  context.strokeStyle = colours.panel;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x + size - corner, y);
  context.lineTo(x + size, y);
  context.lineTo(x + size, y + corner);
  context.closePath();
  context.fill();
  context.stroke();
}

function strokes(context, ...lines) {
  context.beginPath();
  for (const [x, y, toX, toY] of lines) {
    context.moveTo(x, y);
    context.lineTo(toX, toY);
  }
  context.stroke();
}

/** A canvas of this size in CSS pixels, sharp on any screen, and its cleared context. */
export function sized(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  return context;
}
