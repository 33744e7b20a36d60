/*
 * dom.js - makes elements, and writes numbers and times for people.
 *
 * All text comes in as text nodes: a name of a call, a pod or a merchant can never become markup.
 */

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/* h("p", {class: "quiet"}, "text", other): children are nodes or texts. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

export const number = (value) => value.toLocaleString("en-US");
export const plural = (count, one, many = one + "s") => `${number(count)} ${count === 1 ? one : many}`;

/* Seconds as "42 s", "5 min", "2 h 05 min", "3 d 4 h". */
export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const minutes = Math.floor(whole / 60);
  const hours = Math.floor(minutes / 60);
  if (whole < 60) return `${whole} s`;
  if (hours < 1) return minutes < 10 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  if (hours < 24) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const clockTime = (iso) =>
  new Date(iso).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const dayTime = (iso) =>
  new Date(iso).toLocaleString("en-GB", {
    day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit",
  });

/* "pool:gold" is the pool "gold"; "merchant:acme" stays. */
export const poolName = (pool) => (pool ?? "").replace(/^pool:/, "");

/* Runs fn soon, and then at most every `ms`, however often it is asked for. */
export function throttle(fn, ms) {
  let isWaiting = false;
  let isAsked = false;
  const run = () => {
    isWaiting = true;
    isAsked = false;
    fn();
    setTimeout(() => {
      isWaiting = false;
      if (isAsked) run();
    }, ms);
  };
  return () => {
    if (isWaiting) isAsked = true;
    else run();
  };
}

/* Runs fn at most once per frame, however often it is asked for. */
export function oncePerFrame(fn) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      fn();
    });
  };
}
