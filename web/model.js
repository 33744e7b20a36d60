/*
 * model.js - what the page knows of the router: loaded once, then changed by events.
 *
 * After each gap in the events everything is loaded again, and once a minute in any case. All lists
 * are bounded.
 */

import { api, pages, routerNow } from "./api.js";
import { Stream } from "./stream.js";

export const PODS_MAX = 20000;
export const CALLS_MAX = 5000;
export const WAITING_MAX = 1000;
const EVENTS_MAX = 300;
const STATUS_MS = 1000; // between two requests for the status while events come
const PODS_MS = 3000; // between two requests for all pods
const PODS_AT_ONCE = 8; // more changed pods than that: all are loaded
const RELOAD_MS = 60000;
const REFUSED_MS = 3600000;
/* Events that can be applied twice, and that a list may not know yet when it is loaded. */
const REPEATABLE = new Set([
  "allocated", "moved", "released", "ended", "draining", "undrained", "pod_joined", "pod_left", "call_waiting", "wait_ended",
]);

/* At most one run at a time, and no two within `ms`; a request meanwhile leads to one more run. */
function throttled(fn, ms) {
  let isRunning = false;
  let isWanted = false;
  const run = async () => {
    isRunning = true;
    isWanted = false;
    const since = Date.now();
    try {
      await fn();
    } catch (error) {
      console.debug("a request failed:", error.message);
    }
    setTimeout(() => {
      isRunning = false;
      if (isWanted) run();
    }, Math.max(0, ms - (Date.now() - since)));
  };
  return () => {
    if (isRunning) isWanted = true;
    else run();
  };
}

class Model {
  constructor() {
    this.me = null; // of whoami
    this.status = null;
    this.statusError = "";
    this.history = null;
    this.pods = new Map();
    this.podsTotal = 0;
    this.calls = new Map();
    this.callsTotal = 0;
    this.waiting = new Map(); // in the order of the line
    this.waitingTotal = 0;
    this.events = []; // the newest first
    this.count = 0;
    this.refused = []; // times of refusals that this page has seen
    this.live = { state: "connecting", message: "" };
    this.isLoaded = false;
    this.listeners = [];
    this.stale = new Set(); // pods that must be asked for
    this.stream = new Stream((event) => this.take(event), (state, message) => this.setLive(state, message));
    this.isOn = false; // a request that was wanted before stop() is not sent after it: there may be no key any more
    const soon = (load, ms) => throttled(async () => this.isOn && load(), ms);
    this.loadStatusSoon = soon(() => this.loadStatus(), STATUS_MS);
    this.loadPodsSoon = soon(() => this.loadPods(), PODS_MS);
    this.loadCallsSoon = soon(() => this.loadCalls(), PODS_MS);
    this.loadWaitingSoon = soon(() => this.loadWaiting(), STATUS_MS);
    this.loadStaleSoon = soon(() => this.loadStale(), STATUS_MS / 4);
    this.timer = null;
  }

  get mayWrite() {
    return this.me?.role === "admin";
  }

  /* Can calls wait here? Nothing is asked for where they cannot. */
  get waits() {
    return this.status?.waiting !== undefined || this.waitingTotal > 0;
  }

  /* fn(topic): "status", "pods", "calls", "waiting", "events", "live" or "me". */
  onChange(fn) {
    this.listeners.push(fn);
  }

  changed(...topics) {
    for (const topic of topics) for (const fn of this.listeners) fn(topic);
  }

  start(me) {
    this.me = me;
    this.isOn = true;
    this.changed("me");
    this.stream.start();
    clearInterval(this.timer);
    this.timer = setInterval(() => this.reload(), RELOAD_MS);
    this.reload();
  }

  stop() {
    this.isOn = false;
    this.stream.stop();
    clearInterval(this.timer);
  }

  setLive(state, message) {
    this.live = { state, message };
    if (state !== "live") this.loadStatusSoon();
    this.changed("live");
  }

  reload() {
    this.loadStatusSoon();
    this.loadPodsSoon();
    this.loadCallsSoon();
    if (this.waits) this.loadWaitingSoon();
    api.history().then((history) => {
      this.history = history;
      this.changed("status");
    }, () => {});
  }

  async loadStatus() {
    try {
      this.status = await api.status();
      this.statusError = "";
      this.isLoaded = true;
      if (this.waits && this.status.waiting !== this.waitingTotal) this.loadWaitingSoon();
    } catch (error) {
      this.statusError = error.message;
    }
    this.changed("status");
  }

  /* A list was loaded: events that came meanwhile count once more. `since`: this.count before. */
  repeat(since) {
    const later = this.events.filter((event) => event.seq > since && REPEATABLE.has(event.event));
    for (const event of later.reverse()) this.apply(event);
  }

  async loadPods() {
    const since = this.count;
    const { entries, total } = await pages("pods", "pods", PODS_MAX);
    this.pods = new Map(entries.map((pod) => [pod.pod_name, pod]));
    this.podsTotal = total;
    this.stale.clear();
    this.repeat(since);
    this.changed("pods");
  }

  async loadCalls() {
    const since = this.count;
    const { entries, total } = await pages("calls", "calls", CALLS_MAX);
    this.calls = new Map(entries.map((call) => [call.call_sid, call]));
    this.callsTotal = total;
    this.repeat(since);
    this.changed("calls");
  }

  /* An event tells of one call, but changes the positions of others: so the line is loaded again. */
  async loadWaiting() {
    const since = this.count;
    const { entries, total } = await pages("waiting", "waiting", WAITING_MAX);
    const now = routerNow();
    this.waiting = new Map(entries.map((call) => [call.call_sid, { ...call, since: this.sinceOf(call, now) }]));
    this.waitingTotal = total;
    this.repeat(since);
    this.changed("waiting");
  }

  /* The router tells whole seconds: a time that is known stays, so that ages do not jump. */
  sinceOf(call, now) {
    const known = this.waiting.get(call.call_sid)?.since ?? 0;
    const since = now - call.waited_seconds * 1000;
    return Math.abs(known - since) < 2000 ? known : since;
  }

  async loadStale() {
    const names = [...this.stale];
    this.stale.clear();
    if (names.length > PODS_AT_ONCE) {
      this.loadPodsSoon();
      return;
    }
    await Promise.all(names.map((name) => this.loadPod(name)));
  }

  async loadPod(name) {
    try {
      this.pods.set(name, await api.pod(name));
    } catch (error) {
      if (error.status !== 404) throw error;
      this.pods.delete(name);
    }
    this.podsTotal = Math.max(this.podsTotal, this.pods.size);
    this.changed("pods");
  }

  refreshPod(name) {
    if (!name) return;
    this.stale.add(name);
    this.loadStaleSoon();
  }

  /* One event of the router. */
  take(event) {
    if (event.event === "listening") {
      if (event.missed !== false) this.reload();
      return;
    }
    // Not all have an id and a time: those that are about this connection.
    const seq = ++this.count;
    this.events.unshift({ id: `here:${seq}`, time: new Date(routerNow()).toISOString(), ...event, seq });
    this.events.length = Math.min(this.events.length, EVENTS_MAX);
    this.apply(event);
    this.loadStatusSoon();
    this.changed("events");
  }

  apply(event) {
    switch (event.event) {
      case "allocated":
        this.addCall(event);
        this.removeWaiting(event.call_sid);
        break;
      case "call_waiting":
        this.addWaiting(event);
        break;
      case "wait_ended":
        this.removeWaiting(event.call_sid);
        break;
      case "moved":
        this.removeCall(event.call_sid, event.from_pod);
        this.addCall(event);
        this.removeWaiting(event.call_sid);
        break;
      case "released":
      case "ended":
        this.removeCall(event.call_sid, event.pod_name);
        this.removeWaiting(event.call_sid);
        break;
      case "draining":
      case "undrained":
      case "pod_joined":
        this.refreshPod(event.pod_name);
        break;
      case "pod_left":
        if (this.pods.delete(event.pod_name)) this.podsTotal--;
        this.changed("pods");
        break;
      case "pods_changed":
        this.loadPodsSoon();
        break;
      case "refused":
        this.refused.push(Date.parse(event.time));
        this.refused = this.refused.filter((at) => at > routerNow() - REFUSED_MS).slice(-10000);
        break;
      case "dropped":
      case "too_slow":
        this.reload();
        break;
      default:
        break;
    }
  }

  addCall(event) {
    if (!this.calls.has(event.call_sid)) this.callsTotal++;
    if (this.calls.size < CALLS_MAX)
      this.calls.set(event.call_sid, {
        call_sid: event.call_sid,
        pod_name: event.pod_name,
        source_pool: event.source_pool ?? "",
        merchant_id: event.merchant_id ?? "",
        provider: event.provider ?? "",
        allocated_at: event.time,
        state: "allocated",
      });
    this.changePodCalls(event.pod_name, (calls) => (calls.includes(event.call_sid) ? calls : [...calls, event.call_sid]));
    this.changed("calls");
  }

  removeCall(sid, pod) {
    if (this.calls.delete(sid)) this.callsTotal = Math.max(0, this.callsTotal - 1);
    this.changePodCalls(pod, (calls) => calls.filter((one) => one !== sid));
    this.changed("calls");
  }

  /* A rescued call has lost its pod. Where the call stands in line, only the router knows. */
  addWaiting(event) {
    const live = this.calls.get(event.call_sid);
    if (live) this.removeCall(event.call_sid, live.pod_name);
    this.loadWaitingSoon();
    if (this.waiting.has(event.call_sid)) return;
    this.waitingTotal++;
    if (this.waiting.size < WAITING_MAX)
      this.waiting.set(event.call_sid, {
        call_sid: event.call_sid,
        merchant_id: event.merchant_id ?? "",
        position: event.position ?? 0,
        pools: event.pools ?? [],
        rescued: event.from_pod !== undefined,
        since: Date.parse(event.time) || routerNow(),
      });
    this.changed("waiting");
  }

  removeWaiting(sid) {
    if (!this.waiting.delete(sid)) return;
    this.waitingTotal = Math.max(0, this.waitingTotal - 1);
    this.loadWaitingSoon();
    this.changed("waiting");
  }

  /* The state follows from the calls only for a pod that takes calls; else the router is asked. */
  changePodCalls(name, change) {
    const pod = this.pods.get(name);
    if (!pod) return;
    pod.calls = change(pod.calls);
    if (pod.state === "available" || pod.state === "busy") {
      const max = this.status?.tiers?.[pod.tier]?.max_concurrent ?? 1;
      pod.state = pod.calls.length >= max ? "busy" : "available";
    } else {
      this.refreshPod(name);
    }
    this.changed("pods");
  }

  /* How many calls were refused in the last `ms`, as far as this router or this page knows. */
  refusedWithin(ms) {
    const since = routerNow() - ms;
    const seen = this.refused.filter((at) => at > since).length;
    if (!this.history) return seen;
    const { refused, interval_seconds: interval } = this.history;
    const slots = Math.ceil(ms / 1000 / interval);
    const kept = refused.slice(-slots).reduce((sum, count) => sum + count, 0);
    return Math.max(seen, kept);
  }
}

export const model = new Model();
