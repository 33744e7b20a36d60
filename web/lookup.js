/*
 * lookup.js - finds one call and tells its story, also if it has ended or was refused.
 */

import { api } from "./api.js";
import { release } from "./actions.js";
import { byId, clockTime, dayTime, h } from "./dom.js";
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
  const isLive = model.calls.has(story.call_sid) || ["allocated", "active", "connected", "expired", "granted", "waiting"].includes(story.state);
  return [
    title(story.call_sid, story.state), h("p", { class: "summary" }, story.summary),
    h("ol", { class: "story-list" }, ...story.story.map((one) => entry(one.time, one.sentence))),
    isLive && actions(story.call_sid),
  ];
}

async function nodesFor(sid) {
  try {
    return showStory(await api.story(sid));
  } catch (error) {
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
