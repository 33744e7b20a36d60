/*
 * dialogs.js - questions to the user, and short messages.
 */

import { byId, h } from "./dom.js";

const TOAST_MS = 6000;
const TOASTS_MAX = 4;

export function toast(text, level = "ok") {
  const toasts = byId("toasts");
  const one = h("div", { class: `toast ${level}` }, text);
  toasts.append(one);
  while (toasts.children.length > TOASTS_MAX) toasts.firstChild.remove();
  setTimeout(() => one.remove(), TOAST_MS);
}

/* Shows a modal dialog, and removes it when it is closed. Its first heading is its name. */
export function show(className, ...children) {
  const dialog = h("dialog", { class: className }, ...children);
  const heading = dialog.querySelector("h2");
  heading.id = `dialog-${document.querySelectorAll("dialog").length}`;
  dialog.setAttribute("aria-labelledby", heading.id);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  return dialog;
}

/*
 * Asks before something is done: resolves to true or false. `extra` is a node between the text and
 * the buttons, or null.
 */
export function confirm(title, text, action, extra = null) {
  return new Promise((resolve) => {
    const no = h("button", { type: "button" }, "Cancel");
    const yes = h("button", { type: "submit", class: "danger" }, action);
    const form = h("form", { method: "dialog" }, extra, h("div", { class: "buttons" }, no, yes));
    const dialog = show("confirm", h("h2", {}, title), h("p", {}, text), form);
    let answer = false;
    no.addEventListener("click", () => dialog.close());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = true;
      dialog.close();
    });
    dialog.addEventListener("close", () => resolve(answer));
    no.focus();
  });
}

/*
 * Asks for a key until `check(key)` takes it: resolves then. check throws an error whose message is
 * shown.
 */
export function askForKey(message, check) {
  return new Promise((resolve) => {
    const input = h("input", { type: "password", id: "key-input", autocomplete: "off", required: true, spellcheck: "false" });
    const problem = h("p", { class: "error", role: "alert" }, message);
    const form = h("form", { method: "dialog" },
      h("label", { for: "key-input" }, "API key"), input, problem,
      h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Open the dashboard")));
    const dialog = show("key", h("h2", {}, "This router needs a key"),
      h("p", {}, "A key with the role read shows everything. A key with the role admin can change things, too. "
        + "The key stays in this tab until it is closed."), form);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      problem.textContent = "";
      try {
        await check(input.value.trim());
        dialog.close();
        resolve();
      } catch (error) {
        problem.textContent = error.message;
        input.select();
      }
    });
    input.focus();
  });
}
