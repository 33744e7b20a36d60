/*
 * waiting.js - the calls that wait for a pod, in their order. Where no call can wait, there is no such list.
 */

import { model, WAITING_MAX } from "./model.js";
import { release } from "./actions.js";
import { routerNow } from "./api.js";
import { byId, duration, h, number, oncePerFrame, plural, poolName, setText, throttle } from "./dom.js";

const ROWS_MAX = 200;
const AGE_MS = 1000;
const RENDER_MS = 300; // between two changes of the list while events come
const HEADS = ["Position", "Call", "Waited", "Merchant", "Waits for"];

let openCall = () => {};
const rows = new Map(); // call: {key, node}

const ageOf = (since) => duration((routerNow() - since) / 1000);

function row(call) {
  const end = h("button", { type: "button", class: "small", "aria-label": `Release ${call.call_sid}`, onclick: () => release(call.call_sid) }, "Release");
  return h("tr", { "data-waiting": call.call_sid },
    h("td", { class: "position" }, call.position ? number(call.position) : "…"),
    h("th", { scope: "row" },
      h("button", { type: "button", class: "link", onclick: () => openCall(call.call_sid) }, call.call_sid),
      " ", call.rescued && h("span", { class: "state rescued", title: "It had a pod, which broke." }, "rescued")),
    h("td", { class: "age", "data-since": call.since }, ageOf(call.since)),
    h("td", {}, call.merchant_id || "–"),
    h("td", {}, call.pools.map(poolName).join(", ") || "–"),
    model.mayWrite && h("td", {}, end));
}

/* The row of a call stays the same element while it shows the same: clicks and the focus survive. */
function rowOf(call) {
  const key = JSON.stringify([call.position, call.rescued, call.merchant_id, call.pools, call.since, model.mayWrite]);
  const known = rows.get(call.call_sid);
  if (known?.key === key) return known.node;
  const node = row(call);
  rows.set(call.call_sid, { key, node });
  return node;
}

function note(shown) {
  const total = model.waitingTotal;
  if (total === 0) return "Nobody waits.";
  const known = total > model.waiting.size ? ` This page knows ${number(WAITING_MAX)} of them.` : "";
  return shown < total ? `The first ${number(shown)} of ${plural(total, "call")} are shown.${known}` : plural(total, "call");
}

function renderHeads() {
  byId("waiting-heads").replaceChildren(...HEADS.map((title) => h("th", { scope: "col" }, title)),
    ...(model.mayWrite ? [h("th", { scope: "col" }, h("span", { class: "hidden" }, "Actions"))] : []));
}

function render() {
  byId("waiting-section").hidden = !model.waits;
  if (!model.waits) return;
  const body = byId("waiting-rows");
  const wanted = [...model.waiting.values()].slice(0, ROWS_MAX).map(rowOf);
  const focused = document.activeElement;
  if (wanted.length !== body.children.length || wanted.some((node, i) => node !== body.children[i])) {
    body.replaceChildren(...wanted);
    if (wanted.some((node) => node.contains(focused))) focused.focus();
  }
  for (const sid of rows.keys()) {
    if (!model.waiting.has(sid)) rows.delete(sid);
  }
  setText(byId("waiting-note"), note(wanted.length));
}

function renderAges() {
  for (const cell of byId("waiting-rows").querySelectorAll("td.age")) setText(cell, ageOf(Number(cell.dataset.since)));
}

export function start(onOpenCall) {
  const soon = oncePerFrame(render);
  openCall = onOpenCall;
  renderHeads();
  setInterval(renderAges, AGE_MS);
  const later = throttle(soon, RENDER_MS);
  model.onChange((topic) => {
    if (topic === "me") renderHeads();
    if (topic === "waiting" || topic === "status" || topic === "me") later();
  });
}
