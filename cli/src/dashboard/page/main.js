// Polls the server of this page for the state, and shows it.

import { showCosts } from "./costs.js";
import { Details } from "./details.js";
import { showDecisions, showPending } from "./lists.js";
import { Nodes } from "./nodes.js";
import { theme } from "./theme.js";
import { amount, counted, dollars, percent, element, shared } from "./words.js";

/** The version of the document that this page reads. */
const VERSION = 1;
/** Milliseconds between polls; the answer is empty while nothing changes. */
const PAUSE = 1000;

const by = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token") ?? "";
let state = { nodes: [], pending: [], decisions: [], costs: [] };
let revision = -1;

const details = new Details(by("details"), () => nodes.focusSelected());
const nodes = new Nodes(by("groups"), (name) => select(name, true));

function select(name, moveFocus = false) {
  const node = state.nodes.find((node) => node.name === name);
  nodes.select(node?.name);
  if (node) details.show(node, moveFocus);
  else details.hide();
}

function show() {
  const { source } = state;
  by("source").textContent = source ? `${source.kind}: ${source.name}` : "";
  document.title = source ? `Whittle – ${source.name}` : "Whittle";
  showTotals();
  nodes.show(state.nodes, by("grouping").value);
  showCosts(by("costs"), state.costs);
  showPending(by("pending"), by("pending-title"), state.pending);
  decisions();
  const selected = state.nodes.find((node) => node.name === nodes.selected);
  if (selected) details.show(selected, false);
  else if (nodes.selected) select(undefined);
  showMessages("trouble", state.problems ?? []);
  showMessages("notes", state.notes ?? []);
}

function decisions() {
  const known = new Map(state.nodes.flatMap((node) => [[node.name, node.name], [node.claim, node.name]]));
  showDecisions(by("decisions"), state.decisions, by("filter").value, known, select);
}

function showTotals() {
  const sum = (of) => state.nodes.reduce((total, node) => total + of(node), 0);
  const used = (part) => shared(sum((node) => node.pods.reduce((all, pod) => all + pod[part], 0)), 1);
  const share = (part, of) => percent(shared(used(part), sum(of)));
  const totals = [
    ["Nodes", amount(state.nodes.length)],
    ["Pods", amount(sum((node) => node.pods.length))],
    ["Pending", amount(state.pending.length)],
    ["Cost", `${dollars(sum((node) => node.hourly ?? 0))}/h`],
    ["CPU requested", share(1, (node) => node.cpu)],
    ["Memory requested", share(2, (node) => node.memory)],
  ];
  by("totals").replaceChildren(
    ...totals.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

/** Shows messages, and changes the element only if they differ: screen readers read a changed alert aloud again. */
function showMessages(id, texts) {
  const text = texts.join(" · ");
  const place = by(id);
  if (place.textContent !== text) place.textContent = text;
  place.hidden = text === "";
}

async function poll() {
  const answer = await fetch(`api/state?after=${revision}`, { headers: { "x-whittle-token": token } });
  if (answer.status === 204) return;
  if (!answer.ok) throw new Error(await answer.text());
  const next = await answer.json();
  if (next.version !== VERSION) throw new Error(`the program speaks version ${next.version}: reload this page`);
  state = next;
  revision = next.revision;
  show();
}

async function watch() {
  try {
    await poll();
    if (by("trouble").dataset.lost) {
      delete by("trouble").dataset.lost;
      showMessages("trouble", state.problems ?? []);
    }
  } catch (error) {
    by("trouble").dataset.lost = "yes";
    const gone = error instanceof TypeError;
    showMessages("trouble", [gone ? "whittle dashboard does not answer any more; this is the last known state" : error.message]);
  }
  setTimeout(watch, PAUSE);
}

by("grouping").addEventListener("change", show);
by("filter").addEventListener("input", decisions);
const nextTheme = theme(by("theme"));

addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input, select");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else details.close();
  } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const acts = {
      "/": () => by("filter").focus(),
      t: nextTheme,
      g: () => {
        const grouping = by("grouping");
        grouping.selectedIndex = (grouping.selectedIndex + 1) % grouping.length;
        show();
      },
    };
    if (Object.hasOwn(acts, event.key)) {
      event.preventDefault();
      acts[event.key]();
    }
  }
});

document.body.dataset.ready = "yes";
watch();
