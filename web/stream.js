/*
 * stream.js - the router's events, live.
 *
 * EventSource cannot send a key, so this reads the stream with fetch. If it breaks, it is opened
 * again with the id of the last event, and the router sends what came meanwhile.
 */

import { send, ApiError } from "./api.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15000;
const SILENCE_MS = 40000; // the router sends something every 15 seconds

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/* Cuts a text into events: {event, id, data}. */
export class Parser {
  constructor(onEvent) {
    this.onEvent = onEvent;
    this.rest = "";
    this.fields = {};
  }

  feed(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") {
      if (this.fields.data !== undefined) this.onEvent(this.fields);
      this.fields = {};
      return;
    }
    const colon = line.indexOf(":");
    if (colon <= 0) return; // a comment
    this.fields[line.slice(0, colon)] = line.slice(colon + 1).replace(/^ /, "");
  }
}

export class Stream {
  /* onEvent(data), onState("live" | "lost" | "refused", message) */
  constructor(onEvent, onState) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.lastId = null;
    this.generation = 0;
    this.abort = null;
  }

  start() {
    this.stop();
    this.run(++this.generation);
  }

  stop() {
    this.generation++;
    this.abort?.abort();
  }

  async run(generation) {
    let wait = FIRST_WAIT_MS;
    while (generation === this.generation) {
      try {
        await this.read(() => (wait = FIRST_WAIT_MS));
      } catch (error) {
        if (generation !== this.generation) return;
        if (error.status === 401 || error.status === 403) {
          this.onState("refused", error.message);
          return;
        }
      }
      if (generation !== this.generation) return;
      this.onState("lost", `reconnecting in ${Math.ceil(wait / 1000)} s`);
      await sleep(wait * (0.75 + Math.random() / 2)); // not all pages at once
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    }
  }

  async read(onOpen) {
    const abort = new AbortController();
    this.abort = abort;
    const headers = this.lastId === null ? {} : { "Last-Event-ID": this.lastId };
    const response = await send("events", { headers, signal: abort.signal });
    if (!response.ok) throw new ApiError(response.status, `the router answered ${response.status}`, null);
    const parser = new Parser((fields) => this.take(fields, onOpen));
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const silence = setTimeout(() => abort.abort(), SILENCE_MS);
      try {
        const { done, value } = await reader.read();
        if (done) return;
        parser.feed(value);
      } finally {
        clearTimeout(silence);
      }
    }
  }

  take(fields, onOpen) {
    let data;
    try {
      data = JSON.parse(fields.data);
    } catch {
      return;
    }
    if (fields.id !== undefined) this.lastId = fields.id;
    if (data.event === "listening") {
      onOpen();
      this.onState("live", "");
    }
    this.onEvent(data);
  }
}
