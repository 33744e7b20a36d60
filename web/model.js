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
const EVENTS_MAX = 300;
const STATUS_MS = 1000; // between two requests for the status while events come
const PODS_MS = 3000; // between two requests for all pods
const PODS_AT_ONCE = 8; // more changed pods than that: all are loaded
const RELOAD_MS = 60000;
const REFUSED_MS = 3600000;
/* Events that can be applied twice, and that a list may not know yet when it is loaded. */
const REPEATABLE = new Set(["allocated", "moved", "released", "ended", "draining", "undrained", "pod_joined", "pod_left"]);

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
    this.loadStaleSoon = soon(() => this.loadStale(), STATUS_MS / 4);
    this.timer = null;
  }

  get mayWrite() {
    return this.me?.role === "admin";
  }

  /* fn(topic): "status", "pods", "calls", "events", "live" or "me". */
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
        break;
      case "moved":
        this.removeCall(event.call_sid, event.from_pod);
        this.addCall(event);
        break;
      case "released":
      case "ended":
        this.removeCall(event.call_sid, event.pod_name);
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
