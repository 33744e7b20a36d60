/*
 * diff.js - two texts side by side, as lines that went, came or stayed.
 */

import { h } from "./dom.js";

const LINES_MAX = 2000; // of both together; longer texts are shown one after the other
const CONTEXT = 2;

/* How many lines the rests of both texts have in common, at each pair of positions. */
function commonLengths(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  return table;
}

/* [["-" | "+" | " ", line]] */
export function diffLines(a, b) {
  if (a.length + b.length > LINES_MAX) return [...a.map((line) => ["-", line]), ...b.map((line) => ["+", line])];
  const table = commonLengths(a, b);
  const found = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push([" ", a[i++]]);
      j++;
    } else if (i < a.length && (j === b.length || table[i + 1][j] >= table[i][j + 1])) {
      found.push(["-", a[i++]]);
    } else {
      found.push(["+", b[j++]]);
    }
  }
  return found;
}

const CLASSES = { "-": "went", "+": "came", " ": "stayed" };
const WORDS = { "-": "removed: ", "+": "added: ", " ": "" };

/* Changed lines, and a few around each. */
export function diffNode(oldText, newText) {
  const lines = diffLines(oldText.split("\n"), newText.split("\n"));
  const isNear = lines.map((_, i) =>
    lines.slice(Math.max(0, i - CONTEXT), i + CONTEXT + 1).some(([kind]) => kind !== " "));
  const nodes = [];
  lines.forEach(([kind, line], i) => {
    if (isNear[i])
      nodes.push(h("span", { class: CLASSES[kind] },
        h("span", { "aria-hidden": "true" }, `${kind} `), WORDS[kind] && h("span", { class: "hidden" }, WORDS[kind]), `${line}\n`));
    else if (i > 0 && isNear[i - 1]) nodes.push(h("span", { class: "stayed" }, "  …\n"));
  });
  return h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "The change" }, ...nodes);
}
