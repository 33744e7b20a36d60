/*
 * pools.js - a card for each pool: what is free now, and the last hour as a small chart.
 */

import { model } from "./model.js";
import { judgePool } from "./verdict.js";
import { byId, h, number, oncePerFrame, plural, svg } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 56;
const SLOTS = 240;
const MARKS = { ok: "✓", warn: "!", bad: "✖" };

/* The samples of a pool, and what is true now as the last one. */
function samplesOf(name, tier) {
  const kept = model.history?.pools[name] ?? { free: [], capacity: [] };
  return {
    free: [...kept.free.slice(0, -1), tier.free],
    capacity: [...kept.capacity.slice(0, -1), tier.capacity],
  };
}

/* Pieces of a line; where a sample is missing the line has a gap. */
function pieces(values, top) {
  const found = [];
  let piece = [];
  values.forEach((value, i) => {
    if (value === null) {
      if (piece.length) found.push(piece);
      piece = [];
      return;
    }
    const x = WIDTH - ((values.length - 1 - i) / (SLOTS - 1)) * WIDTH;
    const y = HEIGHT - 2 - (value / top) * (HEIGHT - 6);
    piece.push([x.toFixed(1), y.toFixed(1)]);
  });
  if (piece.length) found.push(piece);
  return found;
}

/* A line with steps: a number of calls does not change gradually. */
function steps(piece) {
  let path = `M${piece[0][0]} ${piece[0][1]}`;
  for (const [x, y] of piece.slice(1)) path += `H${x}V${y}`;
  return piece.length === 1 ? `${path}h0.1` : path;
}

function chart(name, tier) {
  const { free, capacity } = samplesOf(name, tier);
  const top = Math.max(1, ...capacity.map((value) => value ?? 0), ...free.map((value) => value ?? 0));
  const known = free.filter((value) => value !== null);
  const label = `${name}: room for ${plural(tier.free, "more call")} now, at least ${number(Math.min(...known))} in the last hour`;
  const areas = pieces(free, top).map((piece) =>
    svg("path", { class: "area", d: `${steps(piece)}V${HEIGHT}H${piece[0][0]}Z` }));
  const lines = pieces(free, top).map((piece) => svg("path", { class: "line", d: steps(piece) }));
  const limits = pieces(capacity, top).map((piece) => svg("path", { class: "limit", d: steps(piece) }));
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    ...areas, ...limits, ...lines);
}

const STATES = ["available", "busy", "draining", "suspended"];

function podsOf(tier) {
  const parts = STATES.filter((state) => tier[state] > 0).map((state) => `${number(tier[state])} ${state}`);
  const wanted = tier.target > 0 && tier.assigned !== tier.target ? ` (target ${number(tier.target)})` : "";
  return `${plural(tier.assigned, "pod")}${wanted}${parts.length ? ": " + parts.join(", ") : ""}`;
}

function card(name, tier) {
  const { level, word } = judgePool(name, tier);
  return h("article", { class: `pool ${level}`, "data-pool": name, "aria-label": `Pool ${name}` },
    h("header", {},
      h("h3", {}, name, h("span", { class: "quiet kind" }, tier.type)),
      h("span", { class: `badge ${level}` }, h("span", { "aria-hidden": "true" }, MARKS[level] + " "), word)),
    h("p", { class: "figure" },
      h("strong", { class: "free" }, number(tier.free)), ` free of ${number(tier.capacity)} · ${plural(tier.calls, "call")}`,
      tier.waiting > 0 && h("span", { class: "waits" }, ` · ${number(tier.waiting)} waiting`)),
    chart(name, tier),
    h("p", { class: "quiet small" }, podsOf(tier)));
}

const RANK = { bad: 0, warn: 1, ok: 2 };

/* The order of the router, but with many pools those with a problem come first. */
function ordered(tiers) {
  const all = Object.entries(tiers);
  if (all.length <= 8) return all;
  return all.sort(([a, x], [b, y]) => RANK[judgePool(a, x).level] - RANK[judgePool(b, y).level] || (a < b ? -1 : 1));
}

function render() {
  const tiers = model.status?.tiers;
  if (!tiers) return;
  byId("pools").replaceChildren(...ordered(tiers).slice(0, 256).map(([name, tier]) => card(name, tier)));
}

export function start() {
  const soon = oncePerFrame(render);
  model.onChange((topic) => topic === "status" && soon());
}
