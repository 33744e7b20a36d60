/*
 * calls.js - the table of live calls: age, merchant, pod. The oldest come first.
 */

import { model, CALLS_MAX } from "./model.js";
import { openPod, release } from "./actions.js";
import { routerNow } from "./api.js";
import { byId, duration, h, number, oncePerFrame, plural, poolName, setText, throttle } from "./dom.js";

const ROWS_MAX = 200;
const AGE_MS = 1000;
const RENDER_MS = 300; // between two changes of the table while events come

const COLUMNS = [
  ["call_sid", "Call"], ["allocated_at", "Age"], ["merchant_id", "Merchant"], ["state", "State"],
  ["pod_name", "Pod"], ["source_pool", "Pool"],
];
const sorting = { by: "allocated_at", isDown: false };
let filter = "";
let openCall = () => {};
const rows = new Map(); // call: {key, node}

function chosen() {
  const wanted = filter.trim().toLowerCase();
  const calls = [...model.calls.values()].filter((call) => wanted === "" ||
    [call.call_sid, call.merchant_id, call.pod_name].some((text) => text.toLowerCase().includes(wanted)));
  const sign = sorting.isDown ? -1 : 1;
  return calls.sort((a, b) => (a[sorting.by] < b[sorting.by] ? -sign : a[sorting.by] > b[sorting.by] ? sign : 0));
}

const ageOf = (call) => duration((routerNow() - Date.parse(call.allocated_at)) / 1000);

function row(call) {
  const end = h("button", { type: "button", class: "small", "aria-label": `Release ${call.call_sid}`, onclick: () => release(call.call_sid) }, "Release");
  return h("tr", { "data-call": call.call_sid },
    h("th", { scope: "row" }, h("button", { type: "button", class: "link", onclick: () => openCall(call.call_sid) }, call.call_sid)),
    h("td", { class: "age", "data-at": call.allocated_at }, ageOf(call)),
    h("td", {}, call.merchant_id || "–"),
    h("td", {}, h("span", { class: `state ${call.state}` }, call.state)),
    h("td", {}, h("button", { type: "button", class: "link", onclick: () => openPod(call.pod_name) }, call.pod_name)),
    h("td", {}, poolName(call.source_pool)),
    model.mayWrite && h("td", {}, end));
}

function head([name, title]) {
  const isSorted = sorting.by === name;
  // The column shows an age, but is sorted by time: the oldest has the earliest one.
  const order = isSorted ? (sorting.isDown !== (name === "allocated_at") ? "descending" : "ascending") : null;
  const button = h("button", { type: "button", class: "head", onclick: () => {
    sorting.isDown = isSorted && !sorting.isDown;
    sorting.by = name;
    renderHeads();
    render();
  } }, title, h("span", { "aria-hidden": "true" }, order === null ? "" : order === "ascending" ? " ↑" : " ↓"));
  return h("th", { scope: "col", "aria-sort": order }, button);
}

function renderHeads() {
  byId("call-heads").replaceChildren(...COLUMNS.map(head),
    ...(model.mayWrite ? [h("th", { scope: "col" }, h("span", { class: "hidden" }, "Actions"))] : []));
}

function note(count) {
  if (model.callsTotal === 0) return "There are no calls.";
  if (count === 0) return "No call is like that.";
  const shown = count > ROWS_MAX ? `The first ${ROWS_MAX} of ${number(count)} are shown. ` : "";
  const loaded = model.callsTotal > model.calls.size ? `This page knows ${number(CALLS_MAX)} of ${plural(model.callsTotal, "call")}. Find others by their name.` : "";
  return shown + loaded || plural(count, "call");
}

/* The row of a call stays the same element while it shows the same: clicks and the focus survive. */
function rowOf(call) {
  const key = JSON.stringify([call.pod_name, call.merchant_id, call.state, call.source_pool, call.allocated_at, model.mayWrite]);
  const known = rows.get(call.call_sid);
  if (known?.key === key) return known.node;
  const node = row(call);
  rows.set(call.call_sid, { key, node });
  return node;
}

function render() {
  const calls = chosen();
  const body = byId("call-rows");
  const wanted = new Set(calls.slice(0, ROWS_MAX).map(rowOf));
  for (const node of [...body.children]) {
    if (!wanted.has(node)) node.remove();
  }
  let at = body.firstElementChild;
  for (const node of wanted) {
    if (node === at) at = at.nextElementSibling;
    else body.insertBefore(node, at);
  }
  for (const [sid, { node }] of rows) {
    if (!wanted.has(node)) rows.delete(sid);
  }
  setText(byId("call-note"), note(calls.length));
}

function renderAges() {
  for (const cell of byId("call-rows").querySelectorAll("td.age")) setText(cell, ageOf({ allocated_at: cell.dataset.at }));
}

export function start(onOpenCall) {
  const soon = oncePerFrame(render);
  openCall = onOpenCall;
  byId("call-filter").addEventListener("input", (event) => { filter = event.target.value; soon(); });
  renderHeads();
  setInterval(renderAges, AGE_MS);
  const later = throttle(soon, RENDER_MS);
  model.onChange((topic) => {
    if (topic === "me") renderHeads();
    if (topic === "calls" || topic === "me") later();
  });
}
