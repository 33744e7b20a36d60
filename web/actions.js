/*
 * actions.js - what an operator can do to pods and calls: look at a pod, drain, undrain, release.
 */

import { api, routerNow } from "./api.js";
import { confirm, show, toast } from "./dialogs.js";
import { dayTime, duration, h, plural } from "./dom.js";
import { model } from "./model.js";

let openCall = () => {};
export const setOpenCall = (fn) => (openCall = fn);

async function attempt(action, done) {
  try {
    toast(done(await action()));
    return true;
  } catch (error) {
    toast(`Nothing was changed: ${error.message}`, "bad");
    return false;
  }
}

const TIMES = [["", "the router's default time"], ["600", "10 minutes"], ["3600", "an hour"], ["0", "until it is undrained"]];

export async function drain(name) {
  const select = h("select", { id: "drain-time" }, ...TIMES.map(([value, text]) => h("option", { value }, text)));
  const extra = h("p", {}, h("label", {}, "How long: ", select));
  const text = "The pod gets no new calls. Its calls go on until they end by themselves.";
  if (!(await confirm(`Drain ${name}?`, text, "Drain", extra))) return;
  const seconds = select.value === "" ? null : Number(select.value);
  await attempt(() => api.drain(name, seconds), (answer) => `${name} is draining: ${plural(answer.calls_left, "call")} left.`);
  model.refreshPod(name);
}

export async function undrain(name) {
  if (!(await confirm(`Undrain ${name}?`, "The pod gets calls again, if it is ready and has room.", "Undrain"))) return;
  await attempt(() => api.undrain(name), () => `${name} gets calls again.`);
  model.refreshPod(name);
}

export async function release(sid) {
  const text = model.waiting.has(sid)
    ? "The call leaves the line and gets no pod. If it has got one meanwhile, it ends there."
    : "The call ends here: its streams through the router are closed, and its pod is free for the next call.";
  if (!(await confirm(`Release ${sid}?`, text, "Release"))) return false;
  // With the pod's name it ends the call there, also if the call moved to it a moment ago.
  return attempt(() => api.release(sid, model.calls.get(sid)?.pod_name), (answer) => (answer.pod_name ? `${sid} is released from ${answer.pod_name}.` : `${sid} waits no more.`));
}

const until = (pod) => {
  if (!pod.is_draining) return "no";
  return pod.draining_until ? `until ${dayTime(pod.draining_until)}` : "until it is undrained";
};

function facts(pod) {
  const heartbeat = pod.last_heartbeat_at
    ? `${duration((routerNow() - Date.parse(pod.last_heartbeat_at)) / 1000)} ago` : "none";
  return [
    ["State", pod.state], ["Pool", pod.tier], ["Ready", pod.is_ready ? "yes" : "no"], ["Draining", until(pod)],
    ["Address", pod.address || "not known"], ["Known from", pod.source], ["Last heartbeat", heartbeat],
  ].flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
}

export async function openPod(name) {
  let pod;
  try {
    pod = await api.pod(name);
  } catch (error) {
    toast(`${name}: ${error.message}`, "bad");
    model.refreshPod(name);
    return;
  }
  const close = h("button", { type: "button" }, "Close");
  const act = h("button", { type: "button", class: pod.is_draining ? "primary" : "danger", disabled: !model.mayWrite },
    pod.is_draining ? "Undrain …" : "Drain …");
  const calls = pod.calls.slice(0, 100).map((sid) =>
    h("li", {}, h("button", { type: "button", class: "link", onclick: () => { dialog.close(); openCall(sid); } }, sid)));
  const dialog = show("pod-dialog", h("h2", {}, name), h("dl", {}, ...facts(pod)),
    h("h3", {}, plural(pod.calls.length, "call")), h("ul", { class: "plain" }, ...calls),
    h("div", { class: "buttons" }, close, model.mayWrite && act));
  close.addEventListener("click", () => dialog.close());
  act.addEventListener("click", async () => {
    dialog.close();
    await (pod.is_draining ? undrain(name) : drain(name));
  });
  close.focus();
}
