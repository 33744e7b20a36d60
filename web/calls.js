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

/* A row that has the focus keeps it: the focus goes to the same call again. */
function render() {
  const calls = chosen();
  const focused = document.activeElement?.closest?.("tr[data-call]")?.dataset.call;
  const index = focused === undefined ? -1
    : [...document.activeElement.closest("tr").querySelectorAll("button")].indexOf(document.activeElement);
  byId("call-rows").replaceChildren(...calls.slice(0, ROWS_MAX).map(row));
  setText(byId("call-note"), note(calls.length));
  if (focused !== undefined) byId("call-rows").querySelector(`tr[data-call="${CSS.escape(focused)}"]`)?.querySelectorAll("button")[index]?.focus();
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
