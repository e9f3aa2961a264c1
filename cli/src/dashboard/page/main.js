// Polls the server of this page, and shows one cluster or all.

import { showAttention } from "./attention.js";
import { showClusters } from "./clusters.js";
import { showCosts } from "./costs.js";
import { showDecisions } from "./decisions.js";
import { Details } from "./details.js";
import { Filters } from "./filters.js";
import { Overview } from "./overview.js";
import { showPending } from "./pending.js";
import { theme } from "./theme.js";
import { showTotals } from "./totals.js";
import { amount } from "./words.js";

/** The version of the document that this page reads. */
const VERSION = 2;
/** Milliseconds between polls; the answer is empty while nothing changes. */
const PAUSE = 1000;

/** Number of nodes below which decisions have room beneath them. */
const FEW = 60;

const by = (id) => document.getElementById(id);
const token = new URLSearchParams(location.search).get("token") ?? "";
const NOTHING = { pools: [], nodes: [], pending: [], decisions: [], costs: [] };
let state = NOTHING;
let revision = -1;
/** Time up to which the state holds, in milliseconds. */
let now = 0;
/** Number of clusters; unknown at first. */
let clusters;
/** Index of the cluster that is shown; `undefined` shows all. */
let cluster;

const details = new Details(by("details"), () => overview.focusSelected());
const overview = new Overview(by("groups"), (name) => select(name, true));
const filters = new Filters(by("filters"), by("states"), () => showNodes());
const nextTheme = theme(by("theme"), () => showNodes());

function select(name, moveFocus = false) {
  const node = state.nodes.find((node) => node.name === name);
  overview.select(node?.name);
  if (node) details.show(node, now, moveFocus);
  else details.hide();
}

function show() {
  const begun = performance.now();
  const { source } = state;
  by("source").textContent = source ? `${source.kind}: ${source.name}` : "";
  document.title = source ? `Whittle – ${source.name}` : "Whittle";
  filters.update(state.nodes, state.pools);
  showTotals(by("totals"), state);
  showNodes();
  showNow();
  decisions();
  showMessages("trouble", state.problems ?? []);
  showMessages("notes", state.notes ?? []);
  document.body.dataset.milliseconds = Math.round(performance.now() - begun);
}

function showNodes() {
  const shown = filters.apply(state.nodes);
  const pools = state.pools.filter((pool) => filters.showsEmptyPool(pool.name) || shown.some((node) => node.pool === pool.name));
  overview.show(shown, pools, by("grouping").value);
  by("cluster").classList.toggle("few", shown.length < FEW);
  by("shown").textContent = filters.active ? `${amount(shown.length)} of ${amount(state.nodes.length)} nodes` : "";
}

/** Shows what changes with time alone. */
function showNow() {
  showAttention(by("attention"), state, now, select);
  showCosts(by("costs"), state.costs, now, state.nodes.filter((node) => node.hourly === null).length);
  showPending(by("pending"), by("pending-title"), state.pending, now);
  const selected = state.nodes.find((node) => node.name === overview.selected);
  if (selected && !by("details").hidden) details.show(selected, now, false);
  else if (overview.selected && !selected) select(undefined);
}

function decisions() {
  const known = new Map(state.nodes.flatMap((node) => [[node.name, node.name], [node.claim, node.name]]));
  showDecisions(by("decisions"), state.decisions, { filter: by("filter").value, kind: by("kind").value, known, now, select });
}

/** Shows messages, and changes the element only if they differ: screen readers read a changed alert aloud again. */
function showMessages(id, texts) {
  const text = texts.join(" · ");
  const place = by(id);
  if (place.textContent !== text) place.textContent = text;
  place.hidden = text === "";
}

async function get(path) {
  const answer = await fetch(path, { headers: { "x-whittle-token": token } }).catch(() => {
    throw new Error("whittle dashboard does not answer any more; this is the last known state");
  });
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}

async function poll() {
  if (clusters === undefined || cluster === undefined) {
    const summaries = await (await get("api/clusters")).json();
    clusters = summaries.length;
    route();
    if (cluster === undefined) {
      document.title = "Whittle – all clusters";
      showClusters(by("clusters"), summaries);
      return;
    }
  }
  const asked = cluster;
  const answer = await get(`api/state?cluster=${asked}&after=${revision}`);
  const next = answer.status === 204 ? undefined : await answer.json();
  if (asked !== cluster) return;
  const before = now;
  now = Date.parse(answer.headers.get("x-whittle-observed-at"));
  if (!next) {
    if (now !== before) showNow();
    return;
  }
  if (next.version !== VERSION) throw new Error(`the program speaks version ${next.version}: reload this page`);
  state = next;
  revision = next.revision;
  show();
}

/** Shows the cluster that the address names; the only one needs no name. */
function route() {
  const named = /^#cluster=(\d+)$/.exec(location.hash)?.[1];
  const next = clusters === 1 ? 0 : named === undefined || Number(named) >= clusters ? undefined : Number(named);
  const all = next === undefined;
  by("clusters").hidden = !all;
  for (const id of ["totals", "filters", "cluster"]) by(id).hidden = all;
  by("all").hidden = all || clusters === 1;
  if (next === cluster && (all || revision >= 0)) return;
  cluster = next;
  revision = -1;
  state = NOTHING;
  select(undefined);
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
    showMessages("trouble", [error.message]);
  }
  clearTimeout(watch.next);
  watch.next = setTimeout(watch, PAUSE);
}

by("filter").addEventListener("input", decisions);
by("kind").addEventListener("change", decisions);
addEventListener("hashchange", () => {
  route();
  watch();
});
let width = 0;
new ResizeObserver(([{ contentRect }]) => {
  if (contentRect.width === width) return;
  width = contentRect.width;
  showNodes();
}).observe(by("groups"));

addEventListener("keydown", (event) => {
  const typing = event.target.matches?.("input, select");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else details.close();
  } else if (!typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const acts = {
      "/": () => by("search").focus(),
      t: nextTheme,
      g: () => {
        const grouping = by("grouping");
        grouping.selectedIndex = (grouping.selectedIndex + 1) % grouping.length;
        showNodes();
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
