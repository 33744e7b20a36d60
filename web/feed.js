/*
 * feed.js - the list of events, the newest first.
 */

import { model } from "./model.js";
import { byId, clockTime, h, oncePerFrame, plural, poolName, throttle } from "./dom.js";

const SHOWN_MAX = 100;
const RENDER_MS = 250;
let isPaused = false;

const ofMerchant = (event) => (event.merchant_id ? ` for ${event.merchant_id}` : "");
const reason = (event) => (event.reason ? ` (${event.reason.replaceAll("_", " ")})` : "");

/* How a wait has ended: [level, what happened] */
const WAITS = {
  abandoned: (e) => ["warn", `${e.call_sid} waits no more${ofMerchant(e)}: its caller has gone`],
  timed_out: (e) => ["bad", `${e.call_sid} got no pod${ofMerchant(e)}: its time was over`],
};

/* kind: [level, what happened] */
const SENTENCES = {
  allocated: (e) => ["", `${e.call_sid} got ${e.pod_name}${e.source_pool ? ` of ${poolName(e.source_pool)}` : ""}${ofMerchant(e)}${reason(e)}`],
  call_waiting: (e) => ["warn", `${e.call_sid} waits for a pod${ofMerchant(e)}${e.from_pod ? `, because ${e.from_pod} broke` : ""}`],
  wait_ended: (e) => (Object.hasOwn(WAITS, e.reason) ? WAITS[e.reason](e) : ["", `${e.call_sid} waits no more${reason(e)}`]),
  refused: (e) => ["bad", `${e.call_sid} got no pod${ofMerchant(e)}${reason(e)}`],
  moved: (e) => ["warn", `${e.call_sid} moved from ${e.from_pod} to ${e.pod_name}`],
  released: (e) => ["", `${e.call_sid} was released from ${e.pod_name}`],
  ended: (e) => ["warn", `${e.call_sid} ended on ${e.pod_name}${reason(e)}`],
  draining: (e) => ["warn", `${e.pod_name} is draining${reason(e)}`],
  undrained: (e) => ["", `${e.pod_name} gets calls again`],
  pod_joined: (e) => ["", `${e.pod_name} joined ${e.tier ?? "the pods"}`],
  pod_left: (e) => ["warn", `${e.pod_name} left${reason(e)}`],
  pods_changed: (e) => ["", `${plural(e.count ?? 0, "pod")} ${e.reason ?? "changed"}`],
  leader_elected: (e) => ["", `${e.replica} leads`],
  leader_lost: (e) => ["warn", `${e.replica} does not lead any more`],
  dropped: (e) => ["warn", `${plural(e.count ?? 0, "event")} were left out: there were too many`],
  too_slow: () => ["warn", "this page read too slowly, and was disconnected"],
};

function line(event) {
  const [level, sentence] = (Object.hasOwn(SENTENCES, event.event) ? SENTENCES[event.event] : () => ["", ""])(event);
  return h("li", { class: level, "data-id": event.id },
    h("time", { datetime: event.time }, event.time ? clockTime(event.time) : ""),
    h("span", { class: "kind" }, event.event.replaceAll("_", " ")), h("span", { class: "what" }, sentence));
}

/* Only what is new is added, so that a screen reader reads nothing twice. */
function render() {
  if (isPaused) return;
  const list = byId("events");
  const newest = list.firstElementChild?.dataset.id;
  const fresh = [];
  for (const event of model.events.slice(0, SHOWN_MAX)) {
    if (newest !== undefined && event.id === newest) break;
    fresh.push(line(event));
  }
  list.prepend(...fresh);
  while (list.children.length > SHOWN_MAX) list.lastElementChild.remove();
}

export function start() {
  const soon = oncePerFrame(render);
  byId("events-pause").addEventListener("click", (event) => {
    isPaused = !isPaused;
    event.target.setAttribute("aria-pressed", String(isPaused));
    soon();
  });
  const later = throttle(soon, RENDER_MS);
  model.onChange((topic) => topic === "events" && later());
}
