/*
 * verdict.js - the first lines of the page: is anything wrong, and what?
 */

import { model } from "./model.js";
import { routerNow } from "./api.js";
import { byId, duration, h, number, oncePerFrame, plural, setText } from "./dom.js";

const FIVE_MINUTES = 300000;
const HOUR = 3600000;
const LOW_SHARE = 0.1;
const LOW_FROM = 10; // calls: below that, a tenth is less than one

export const totals = (tiers) =>
  Object.values(tiers).reduce(
    (sum, tier) => ({ free: sum.free + tier.free, capacity: sum.capacity + tier.capacity, suspended: sum.suspended + tier.suspended }),
    { free: 0, capacity: 0, suspended: 0 });

/*
 * One pool: {level: "ok" | "warn" | "bad", word, sentence}. A full pool is no news by itself, so it
 * has no sentence: its calls go on to the next pool of their chain.
 */
export function judgePool(name, tier) {
  if (tier.target > 0 && tier.assigned === 0)
    return { level: "bad", word: "no pods", sentence: `${name} has no pods, but wants ${number(tier.target)}.` };
  if (tier.capacity > 0 && tier.free === 0)
    return { level: "warn", word: "full", sentence: "" };
  if (tier.assigned < tier.target)
    return { level: "warn", word: "too few pods", sentence: `${name} has ${number(tier.assigned)} of ${plural(tier.target, "pod")}.` };
  if (tier.capacity >= LOW_FROM && tier.free < tier.capacity * LOW_SHARE)
    return { level: "warn", word: "low", sentence: "" };
  if (!tier.is_configured && tier.assigned > 0)
    return { level: "warn", word: "removed", sentence: `${name} was removed from the tiers, and still has ${plural(tier.assigned, "pod")}.` };
  return { level: "ok", word: "fine", sentence: "" };
}

/* ", the longest for 41 s"; the time of a rescued call counts from its first pod, and would mislead. */
function longest() {
  const since = Math.min(...[...model.waiting.values()].filter((call) => !call.rescued).map((call) => call.since));
  return Number.isFinite(since) ? `, the longest for ${duration((routerNow() - since) / 1000)}` : "";
}

function problemsOfStatus(found) {
  const { status } = model;
  if (status.status === "down") {
    found.push(["bad", "The store cannot be reached: calls are refused."]);
    return;
  }
  const sum = totals(status.tiers);
  if (!status.leader) found.push(["bad", "There is no leader: nobody watches over the pods."]);
  if (status.pods === 0) found.push(["bad", "There are no pods: every call is refused."]);
  else if (sum.free === 0)
    found.push(["bad", status.waiting === undefined ? "No pod is free: the next call is refused." : "No pod is free: the next call must wait."]);
  else if (sum.capacity >= LOW_FROM && sum.free < sum.capacity * LOW_SHARE)
    found.push(["warn", `All pools together have room for ${plural(sum.free, "more call")} of ${number(sum.capacity)}.`]);
  if (status.waiting > 0) found.push(["warn", `${plural(status.waiting, "call waits", "calls wait")} for a pod${longest()}.`]);
  for (const [name, tier] of Object.entries(status.tiers)) {
    const { level, sentence } = judgePool(name, tier);
    if (sentence) found.push([level, sentence]);
  }
  if (sum.suspended > 0) found.push(["warn", `${plural(sum.suspended, "pod is", "pods are")} not ready (suspended).`]);
}

function problemsOfCalls(found) {
  const recent = model.refusedWithin(FIVE_MINUTES);
  const hour = model.refusedWithin(HOUR);
  if (recent > 0) found.push(["bad", `${plural(recent, "call was", "calls were")} refused in the last five minutes.`]);
  else if (hour > 0) found.push(["warn", `${plural(hour, "call was", "calls were")} refused in the last hour.`]);
  const expired = [...model.calls.values()].filter((call) => call.state === "expired").length;
  if (expired > 0) found.push(["warn", `${plural(expired, "call has", "calls have")} a lease that has ended.`]);
}

/* [[level, sentence]], the worst first. */
export function problems() {
  const found = [];
  if (model.statusError) found.push(["bad", `No answer from the router: ${model.statusError}.`]);
  if (model.live.state === "refused") found.push(["warn", `Events are not shown: ${model.live.message}.`]);
  else if (model.live.state === "lost") found.push(["warn", `The connection for events is lost: ${model.live.message}.`]);
  if (model.status) problemsOfStatus(found);
  problemsOfCalls(found);
  return [...found.filter(([level]) => level === "bad"), ...found.filter(([level]) => level === "warn")];
}

function facts() {
  const { status } = model;
  if (!status?.tiers) return "";
  const sum = totals(status.tiers);
  return [
    plural(status.active_calls, "call"),
    ...(status.waiting === undefined ? [] : [`${number(status.waiting)} waiting`]),
    `room for ${number(sum.free)} more, of ${number(sum.capacity)}`,
    plural(status.pods, "pod"),
  ].join(" · ");
}

const TITLES = { ok: "All is well", warn: "Look at this", bad: "Something is wrong" };

function render() {
  if (!model.isLoaded && !model.statusError) return;
  const found = problems();
  const level = found.length ? found[0][0] : "ok";
  byId("verdict").className = `verdict ${level}`;
  setText(byId("verdict-title"), TITLES[level]);
  setText(byId("verdict-facts"), facts());
  const sentences = found.map(([one, sentence]) => `${one} ${sentence}`).join("\n");
  const list = byId("verdict-problems");
  if (list.dataset.shown !== sentences) {
    list.dataset.shown = sentences;
    list.replaceChildren(...found.map(([one, sentence]) => h("li", { class: one }, sentence)));
  }
  document.title = level === "ok" ? "Smart Router" : `${level === "bad" ? "✖" : "!"} ${TITLES[level]} – Smart Router`;
}

export function start() {
  const soon = oncePerFrame(render);
  model.onChange((topic) => topic !== "me" && soon());
  setInterval(soon, 10000); // refusals get old
}
