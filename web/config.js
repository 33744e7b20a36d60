/*
 * config.js - edits the tiers and the merchants. The router checks each change before it is made,
 * and keeps the versions.
 */

import { api, configuration, merchantPath, routerNow } from "./api.js";
import { confirm, toast } from "./dialogs.js";
import { diffNode } from "./diff.js";
import { byId, dayTime, duration, h, number, plural, setText } from "./dom.js";
import { model } from "./model.js";

const MERCHANTS_SHOWN = 200;

const pretty = (value) => (value === null ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2));

/* A configuration in a text field, with its review and its versions. */
class Editor {
  /* onChanged() runs after each change. */
  constructor(root, name, path, { isRemovable = false, onChanged = () => {} } = {}) {
    this.name = name;
    this.source = configuration(path);
    this.isRemovable = isRemovable;
    this.onChanged = onChanged;
    this.build(root);
    this.load();
  }

  build(root) {
    const id = `config-${this.isRemovable ? "merchant" : "tiers"}`;
    this.area = h("textarea", { id, rows: "16", spellcheck: "false", autocomplete: "off", readonly: !model.mayWrite,
      "aria-describedby": `${id}-error` });
    this.problem = h("div", { id: `${id}-error`, class: "error", role: "alert" });
    this.review = h("div", { class: "review", "aria-live": "polite" });
    this.versions = h("ol", { class: "versions" });
    this.checkButton = h("button", { type: "button", class: "primary", onclick: () => this.check() }, "Review the change");
    this.undoButton = h("button", { type: "button", onclick: () => this.rollback(null) }, "Undo the last change");
    const buttons = [this.checkButton, h("button", { type: "button", onclick: () => this.load() }, "Reload"), this.undoButton];
    if (this.isRemovable) buttons.push(h("button", { type: "button", class: "danger", onclick: () => this.remove() }, "Remove …"));
    root.replaceChildren(h("div", { class: "editor" },
      h("div", {}, h("label", { for: id }, `${this.name}, as JSON`), this.area, this.problem,
        model.mayWrite ? h("div", { class: "buttons" }, ...buttons) : h("p", { class: "quiet" }, "Read only: your key has not the role admin."),
        this.review),
      h("div", {}, h("h3", {}, "Versions"), this.versions)));
  }

  async load() {
    this.clear();
    try {
      this.area.value = pretty(await this.source.get());
    } catch (error) {
      if (error.status !== 404) return this.fail(error);
      this.area.value = "{\n}";
      setText(this.problem, "");
    }
    return this.loadVersions();
  }

  async loadVersions() {
    let versions = [];
    try {
      ({ versions } = await this.source.history());
    } catch (error) {
      if (error.status !== 404) this.fail(error);
    }
    this.undoButton.disabled = versions.length < 2;
    this.versions.replaceChildren(...versions.map((version, i) => this.versionNode(version, i === 0, versions[0])));
  }

  versionNode(version, isPresent, present) {
    const when = version.at === null ? "at an unknown time"
      : `${duration((routerNow() - Date.parse(version.at)) / 1000)} ago`;
    const by = version.key ? ` by ${version.key}` : "";
    const back = h("button", { type: "button", class: "small", onclick: () => this.rollback(version.version) }, "Go back to this");
    back.setAttribute("aria-label", `Go back to version ${version.version}`);
    const text = isPresent ? h("p", { class: "quiet" }, "in force") : diffNode(pretty(present.value), pretty(version.value));
    return h("li", {}, h("details", {},
      h("summary", {}, h("strong", {}, `Version ${version.version}`), h("span", { class: "quiet", title: version.at ? dayTime(version.at) : "" }, ` ${when}${by}`)),
      text), isPresent ? h("span", { class: "badge ok" }, "in force") : model.mayWrite && back);
  }

  clear() {
    this.problem.replaceChildren();
    this.review.replaceChildren();
    this.area.removeAttribute("aria-invalid");
  }

  /* The sentence of the router; if it names a place, the cursor goes there. */
  fail(error) {
    const place = /line (\d+), column (\d+)/.exec(error.message);
    const nodes = [h("p", {}, error.status === 400 ? `Not accepted, and nothing was changed: ${error.message}` : error.message)];
    if (error.status === 400) this.area.setAttribute("aria-invalid", "true");
    if (place) {
      const [line, column] = [Number(place[1]), Number(place[2])];
      const lines = this.area.value.split("\n");
      const at = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
      nodes.push(h("pre", {}, `${lines[line - 1] ?? ""}\n${" ".repeat(Math.max(0, column - 1))}^`));
      this.area.focus();
      this.area.setSelectionRange(Math.max(0, at), at + 1);
    }
    this.problem.replaceChildren(...nodes);
  }

  async check() {
    this.clear();
    const text = this.area.value;
    try {
      this.showReview(await this.source.check(text), text);
    } catch (error) {
      this.fail(error);
    }
  }

  showReview(answer, text) {
    const close = h("button", { type: "button", onclick: () => this.review.replaceChildren() }, answer.changed ? "Cancel" : "Close");
    const warnings = answer.warnings.map((warning) => h("li", { class: "warn" }, warning));
    if (!answer.changed) {
      this.review.replaceChildren(h("p", {}, "Nothing would change."), h("div", { class: "buttons" }, close));
      return;
    }
    const save = h("button", { type: "button", class: "primary", onclick: () => this.save(text) }, `Save as version ${answer.version}`);
    this.review.replaceChildren(h("h3", {}, "This changes"), diffNode(pretty(answer.old), pretty(answer.new)),
      warnings.length ? h("ul", { class: "warnings" }, ...warnings) : h("p", { class: "quiet" }, "There are no warnings."),
      h("div", { class: "buttons" }, close, save));
    save.focus();
  }

  async change(action, done) {
    try {
      const answer = await action();
      toast(done(answer));
      await this.load();
      this.onChanged();
    } catch (error) {
      this.fail(error);
    }
  }

  save(text) {
    return this.change(() => this.source.save(text), (answer) => `${this.name}: version ${answer.version} is in force.`);
  }

  /* Undone with a click, and undone again with another: so there is no question. */
  rollback(version) {
    return this.change(() => this.source.rollback(version),
      (answer) => (answer.changed ? `${this.name}: the earlier configuration is version ${answer.version}.` : `${this.name}: nothing changed.`));
  }

  async remove() {
    const text = "Its next call gets the default chain. The versions are kept, and bring it back.";
    if (await confirm(`Remove the configuration of ${this.name}?`, text, "Remove"))
      await this.change(() => this.source.remove(), () => `${this.name} has no configuration any more.`);
  }
}

let merchants = [];

function renderMerchants() {
  const wanted = byId("merchant-id").value.trim().toLowerCase();
  const found = merchants.filter((id) => id.toLowerCase().includes(wanted));
  byId("merchant-list").replaceChildren(...found.slice(0, MERCHANTS_SHOWN).map((id) =>
    h("li", {}, h("button", { type: "button", class: "link", onclick: () => openMerchant(id) }, id))));
  setText(byId("merchant-note"), found.length > MERCHANTS_SHOWN
    ? `The first ${MERCHANTS_SHOWN} of ${number(found.length)}: type to find others.` : `${plural(found.length, "merchant")} with a configuration`);
}

async function loadMerchants() {
  const found = [];
  let cursor = "";
  do {
    const page = await api.merchants(cursor);
    found.push(...Object.keys(page.merchants));
    cursor = page.next_cursor;
  } while (cursor && found.length < 10000);
  merchants = found.sort();
  renderMerchants();
}

const loadMerchantsQuietly = () => loadMerchants().catch((error) => setText(byId("merchant-note"), error.message));

function openMerchant(id) {
  return new Editor(byId("merchant-editor"), id, merchantPath(id), { isRemovable: true, onChanged: loadMerchantsQuietly });
}

/* When the view is opened: what it shows may be old. */
export function open() {
  byId("merchant-editor").replaceChildren();
  new Editor(byId("tiers-editor"), "Tiers", "tiers", { onChanged: () => model.reload() });
  loadMerchantsQuietly();
}

export function start() {
  byId("merchant-id").addEventListener("input", renderMerchants);
  byId("merchant-open").addEventListener("submit", (event) => {
    event.preventDefault();
    const id = byId("merchant-id").value.trim();
    if (id) openMerchant(id);
  });
}
