/*
 * pods.js - the pods as a grid by state. Only the cells that can be seen are in the document, so ten
 * thousand pods cost no more than a hundred.
 */

import { model, PODS_MAX } from "./model.js";
import { openPod } from "./actions.js";
import { byId, h, number, oncePerFrame, plural, setAttribute, setText, throttle } from "./dom.js";

const STATES = ["suspended", "draining", "busy", "available"]; // what needs a look comes first
const RANK = Object.fromEntries(STATES.map((state, i) => [state, i]));
const MARKS = { suspended: "✖", draining: "↓", busy: "●", available: "" };
const TILES_UP_TO = 150; // pods; more are shown as squares
const TILE = { width: 156, height: 44 };
const SQUARE = { width: 28, height: 28 };
const GAP = 4;
const RENDER_MS = 200; // between two changes of the grid while events come

const filter = { state: null, tier: "", name: "" };
let shown = []; // the pods that pass the filter, in their order
let active = null; // the name of the pod that the keyboard is at
const cells = [];
const collator = new Intl.Collator("en", { numeric: true });

function choose() {
  const wanted = filter.name.trim().toLowerCase();
  shown = [...model.pods.values()].filter((pod) =>
    (filter.state === null || pod.state === filter.state) &&
    (filter.tier === "" || pod.tier === filter.tier) &&
    (wanted === "" || pod.pod_name.toLowerCase().includes(wanted)));
  shown.sort((a, b) => RANK[a.state] - RANK[b.state] || collator.compare(a.pod_name, b.pod_name));
}

function layout() {
  const size = shown.length <= TILES_UP_TO ? TILE : SQUARE;
  const width = byId("pod-grid").clientWidth;
  const columns = Math.max(1, Math.floor((width + GAP) / (size.width + GAP)));
  const stretched = size === TILE ? Math.floor((width + GAP) / columns) - GAP : size.width;
  return { size, columns, cell: stretched, rows: Math.ceil(shown.length / columns) };
}

function newCell() {
  const cell = h("button", { type: "button", class: "pod", tabindex: "-1" },
    h("span", { class: "mark", "aria-hidden": "true" }), h("span", { class: "name" }), h("span", { class: "load" }));
  cell.addEventListener("click", () => openPod(cell.dataset.pod));
  byId("pod-grid").append(cell);
  return cell;
}

function fillCell(cell, pod, place) {
  const [mark, name, load] = cell.children;
  const calls = pod.calls.length;
  cell.hidden = false;
  setAttribute(cell, "class", `pod ${pod.state}${place.isTile ? " tile" : ""}`);
  setAttribute(cell, "aria-label", `${pod.pod_name}, ${pod.state}, ${pod.tier}, ${plural(calls, "call")}`);
  setAttribute(cell, "title", `${pod.pod_name} · ${pod.state} · ${pod.tier} · ${plural(calls, "call")}`);
  setAttribute(cell, "tabindex", pod.pod_name === active ? "0" : "-1");
  cell.dataset.pod = pod.pod_name;
  setText(mark, MARKS[pod.state]);
  setText(name, place.isTile ? pod.pod_name : "");
  setText(load, place.isTile ? `${pod.tier} · ${plural(calls, "call")}` : "");
  cell.style.width = `${place.width}px`;
  cell.style.height = `${place.height}px`;
  cell.style.transform = `translate(${place.x}px, ${place.y}px)`;
}

/* The visible rows, and one more on each side. */
function draw() {
  const scroll = byId("pod-scroll");
  const { size, columns, cell, rows } = layout();
  const rowHeight = size.height + GAP;
  const first = Math.max(0, Math.floor(scroll.scrollTop / rowHeight) - 1);
  const last = Math.min(rows, Math.ceil((scroll.scrollTop + scroll.clientHeight) / rowHeight) + 1);
  byId("pod-grid").style.height = `${Math.max(0, rows * rowHeight - GAP)}px`;
  let used = 0;
  for (let i = first * columns; i < Math.min(shown.length, last * columns); i++) {
    cells[used] ??= newCell();
    fillCell(cells[used++], shown[i], {
      isTile: size === TILE, width: cell, height: size.height,
      x: (i % columns) * (cell + GAP), y: Math.floor(i / columns) * rowHeight,
    });
  }
  for (const unused of cells.slice(used)) unused.hidden = true;
}

/* The arrow keys: the pod at that place becomes visible and gets the focus. */
function moveTo(index) {
  if (shown.length === 0) return;
  const at = Math.min(Math.max(index, 0), shown.length - 1);
  const { size, columns } = layout();
  const scroll = byId("pod-scroll");
  const top = Math.floor(at / columns) * (size.height + GAP);
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  if (top + size.height > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = top + size.height - scroll.clientHeight;
  active = shown[at].pod_name;
  draw();
  cells.find((cell) => !cell.hidden && cell.dataset.pod === active)?.focus();
}

function onKey(event) {
  const { columns } = layout();
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -Infinity, End: Infinity };
  if (!(event.key in moves)) return;
  event.preventDefault();
  const at = shown.findIndex((pod) => pod.pod_name === document.activeElement?.dataset?.pod);
  moveTo(at + moves[event.key]);
}

function renderChips() {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  for (const pod of model.pods.values()) counts[pod.state]++;
  for (const chip of byId("pod-states").children) {
    const { state } = chip.dataset;
    setText(chip.lastChild, `${state} ${number(counts[state])}`);
    setAttribute(chip, "aria-pressed", String(filter.state === state));
  }
}

function renderTiers() {
  const select = byId("pod-tier");
  const names = [...new Set([...model.pods.values()].map((pod) => pod.tier))].sort();
  const key = names.join("\n");
  if (select.dataset.names === key) return;
  select.dataset.names = key;
  select.replaceChildren(h("option", { value: "" }, "all"), ...names.map((name) => h("option", { value: name }, name)));
  select.value = names.includes(filter.tier) ? filter.tier : "";
  filter.tier = select.value;
}

function note() {
  if (model.pods.size === 0) return "There are no pods.";
  if (shown.length === 0) return "No pod is like that.";
  if (model.podsTotal > model.pods.size) return `The first ${number(PODS_MAX)} of ${number(model.podsTotal)} pods are shown.`;
  return shown.length < model.pods.size ? `${number(shown.length)} of ${plural(model.pods.size, "pod")}` : "";
}

function render() {
  renderTiers();
  renderChips();
  choose();
  if (!shown.some((pod) => pod.pod_name === active)) active = shown[0]?.pod_name ?? null;
  setText(byId("pod-note"), note());
  draw();
}

export function start() {
  const soon = oncePerFrame(render);
  const drawSoon = oncePerFrame(draw);
  byId("pod-states").append(...STATES.map((state) =>
    h("button", { type: "button", class: `chip ${state}`, "data-state": state, "aria-pressed": "false",
      onclick: () => {
        filter.state = filter.state === state ? null : state;
        soon();
      } }, h("span", { class: "swatch", "aria-hidden": "true" }, MARKS[state]), state)));
  byId("pod-tier").addEventListener("change", (event) => { filter.tier = event.target.value; soon(); });
  byId("pod-name").addEventListener("input", (event) => { filter.name = event.target.value; soon(); });
  byId("pod-scroll").addEventListener("scroll", drawSoon, { passive: true });
  byId("pod-grid").addEventListener("keydown", onKey);
  new ResizeObserver(drawSoon).observe(byId("pod-scroll"));
  const later = throttle(soon, RENDER_MS);
  model.onChange((topic) => topic === "pods" && later());
}
