/*
 * lookup.js - finds one call and tells its story, also if it has ended or was refused.
 */

import { api } from "./api.js";
import { release } from "./actions.js";
import { byId, clockTime, dayTime, h, plural, poolName } from "./dom.js";
import { model } from "./model.js";

let asked = 0; // the newest question: answers to older ones are not shown

const entry = (time, sentence) =>
  h("li", {}, h("time", { datetime: time, title: dayTime(time) }, clockTime(time)), h("span", {}, sentence));

function title(sid, state) {
  return h("h3", {}, sid, " ", state && h("span", { class: `state ${state}` }, state));
}

function actions(sid) {
  if (!model.mayWrite) return null;
  const button = h("button", { type: "button", onclick: async () => { if (await release(sid)) find(sid); } }, "Release …");
  return h("p", {}, button);
}

function showStory(story) {
  const isLive = model.calls.has(story.call_sid) || ["allocated", "active", "connected", "expired"].includes(story.state);
  return [
    title(story.call_sid, story.state), h("p", { class: "summary" }, story.summary),
    h("ol", { class: "story-list" }, ...story.story.map((one) => entry(one.time, one.sentence))),
    isLive && actions(story.call_sid),
  ];
}

/* What a call that is not described by a story has to say. */
function showCall(call) {
  const by = { client: "a request", pod: "its pod", gateway: "the router that carries its stream" };
  const of = [call.merchant_id && ` for ${call.merchant_id}`, call.provider && ` through ${call.provider}`].filter(Boolean).join("");
  const list = [entry(call.allocated_at, `It got the pod ${call.pod_name} of the pool ${poolName(call.source_pool)}${of}.`)];
  if (call.last_renewed_at) list.push(entry(call.last_renewed_at, `It was renewed the last time, by ${by[call.renewed_by] ?? call.renewed_by}.`));
  list.push(entry(call.expires_at, "Its lease ends, unless it is renewed."));
  return [
    title(call.call_sid, call.state),
    h("p", { class: "summary" }, `The call is on ${call.pod_name}. ${call.connected ? "A stream is open." : "No stream through the router is open."}`),
    h("ol", { class: "story-list" }, ...list), actions(call.call_sid),
  ];
}

function showRefusal(sid, refusal) {
  const step = (pool) => {
    const state = ["available", "busy", "draining", "suspended"].filter((name) => pool[name] > 0).map((name) => `${pool[name]} ${name}`);
    const why = !pool.is_configured ? "there is no such pool" : pool.pods === 0 ? "it has no pods" : state.join(", ");
    return h("li", {}, h("strong", {}, pool.pool), h("span", {}, `${why}`));
  };
  return [
    title(sid, "refused"),
    h("p", { class: "summary" }, `It got no pod at ${dayTime(refusal.at)}: ${plural(refusal.chain.length, "pool was", "pools were")} tried.`),
    h("ol", { class: "story-list" }, ...refusal.chain.map(step)),
  ];
}

async function nodesFor(sid) {
  try {
    return showStory(await api.story(sid));
  } catch (error) {
    if (error.status !== 404) throw error;
  }
  // An older router, or a call without a story.
  try {
    return showCall(await api.call(sid));
  } catch (error) {
    if (error.status === 404 && error.body?.refusal) return showRefusal(sid, error.body.refusal);
    if (error.status === 404) return [title(sid, ""), h("p", { class: "summary" }, "No such call is known: it never came here, or it ended long ago.")];
    throw error;
  }
}

export async function find(sid) {
  const number = ++asked;
  const result = byId("lookup-result");
  byId("lookup-sid").value = sid;
  let nodes;
  try {
    nodes = await nodesFor(sid);
  } catch (error) {
    nodes = [title(sid, ""), h("p", { class: "error" }, `${error.message}.`)];
  }
  if (number === asked) result.replaceChildren(...nodes.filter(Boolean));
}

export function open(sid) {
  location.hash = "#overview";
  find(sid);
  byId("lookup-sid").focus();
  byId("lookup-title").scrollIntoView({ block: "nearest" });
}

export function start() {
  byId("lookup").addEventListener("submit", (event) => {
    event.preventDefault();
    const sid = byId("lookup-sid").value.trim();
    if (sid) find(sid);
  });
}
