/*
 * main.js - starts the page: the key, the views, the theme.
 */

import { api, forgetKey, hasKey, setKey, setOnUnauthorized } from "./api.js";
import * as actions from "./actions.js";
import * as calls from "./calls.js";
import * as config from "./config.js";
import * as feed from "./feed.js";
import * as lookup from "./lookup.js";
import * as pods from "./pods.js";
import * as pools from "./pools.js";
import * as verdict from "./verdict.js";
import * as waiting from "./waiting.js";
import { askForKey } from "./dialogs.js";
import { byId, duration, setText } from "./dom.js";
import { model } from "./model.js";

const THEME = "smart-router-theme";
const THEMES = ["system", "light", "dark"];
const READS = new Set(["admin", "read"]);
const RETRY_MS = 3000;

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId("theme-button"), `Theme: ${theme}`);
}

function startTheme() {
  let theme = localStorage.getItem(THEME) ?? "system";
  setTheme(THEMES.includes(theme) ? theme : "system");
  byId("theme-button").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem(THEME, theme);
    setTheme(theme);
  });
}

function showView() {
  const name = location.hash === "#configuration" ? "configuration" : "overview";
  for (const view of ["overview", "configuration"]) {
    byId(`view-${view}`).hidden = view !== name;
    if (view === name) byId(`nav-${view}`).setAttribute("aria-current", "page");
    else byId(`nav-${view}`).removeAttribute("aria-current");
  }
  if (name === "configuration" && model.me) config.open();
}

const LIVE_WORDS = { live: "live", lost: "not live", refused: "not live", connecting: "connecting" };

function showSession(topic) {
  if (topic === "live") {
    const { state, message } = model.live;
    byId("live").className = `pulse ${state}`;
    setText(byId("live"), LIVE_WORDS[state]);
    byId("live").title = message;
  }
  if (topic === "status" && model.status) {
    const { identity, version, store, uptime_seconds: uptime, is_leader: leads, leader } = model.status;
    setText(byId("identity"), identity);
    const lead = leads ? "this router leads" : leader ? `${leader} leads` : "nobody leads";
    setText(byId("footer"), `Smart Router ${version} · store: ${store} · up for ${duration(uptime)} · ${lead}`);
  }
  if (topic === "me") {
    const { key, role } = model.me;
    setText(byId("role"), key === null ? "no key needed" : role === "admin" ? `key ${key}` : `key ${key} · read only`);
    byId("key-button").hidden = key === null;
    document.body.classList.toggle("read-only", !model.mayWrite);
  }
}

/* Takes a key if it may see anything. */
async function tryKey(key) {
  let me;
  try {
    me = await api.whoami(key);
  } catch (error) {
    throw error.status === 401 ? new Error("The router does not know this key.") : error;
  }
  if (!READS.has(me.role)) throw new Error(`The key ${me.key} has the role ${me.role}. The dashboard needs read or admin.`);
  setKey(key);
  return me;
}

let isAsking = false;

async function askAndStart(message) {
  if (isAsking) return;
  isAsking = true;
  model.stop();
  let me;
  await askForKey(message, async (key) => (me = await tryKey(key)));
  isAsking = false;
  begin(me);
}

function begin(me) {
  model.start(me);
  showView();
}

async function start() {
  try {
    const me = await api.whoami();
    if (READS.has(me.role)) begin(me);
    else await askAndStart(`The key ${me.key} has the role ${me.role}. The dashboard needs read or admin.`);
  } catch (error) {
    if (error.status === 401) return; // the question for a key is there already
    model.statusError = error.message;
    model.changed("status");
    setTimeout(start, RETRY_MS);
  }
}

startTheme();
for (const part of [verdict, pools, pods, feed, lookup, config]) part.start();
calls.start(lookup.open);
waiting.start(lookup.open);
actions.setOpenCall(lookup.open);
model.onChange(showSession);
setOnUnauthorized(() => {
  const message = hasKey() ? "The router does not know this key any more." : "";
  forgetKey();
  askAndStart(message);
});
byId("key-button").addEventListener("click", () => {
  forgetKey();
  askAndStart("");
});
window.addEventListener("hashchange", showView);
showView();
start();
