// judge.js - the providers' own libraries as judges. Reads a line of JSON, an array of questions, and answers with a
// line of JSON, an array of answers. Started by test/functional/webhooks.py with NODE_PATH set: scripts/sdk-judges.
"use strict";

const fs = require("fs");
const { Module } = require("module");
const querystring = require("querystring");
const readline = require("readline");

const plivo = require("plivo");
const twilio = require("twilio");
const xml2js = require("xml2js");

// Plivo's library checks signatures but keeps to itself how it makes them: this is its file with one more export.
function loadPlivoSigner() {
  const path = require.resolve("plivo/dist/utils/v3Security.js");
  const signer = new Module(path, module);
  signer.filename = path;
  signer.paths = Module._nodeModulePaths(path);
  signer._compile(
    fs.readFileSync(path, "utf8") +
      `
exports.sign = (method, uri, nonce, token, params) => {
  uri = utf8.encode(uri);
  const text = method === 'GET' ? construct_get_url(uri, params) : construct_post_url(uri, params);
  return get_signature_v3(utf8.encode(token), text, utf8.encode(nonce));
};`,
    path
  );
  return signer.exports.sign;
}

const signPlivo = loadPlivoSigner();

// As express.urlencoded gives them to who uses the libraries.
function fields(question) {
  return { ...querystring.parse(question.body || "", "&", "=", { maxKeys: 0 }) };
}

const answers = {
  "twilio sign": (q) => twilio.getExpectedTwilioSignature(q.token, q.url, fields(q)),
  "twilio sign body": (q) => {
    const url = q.url + (q.url.includes("?") ? "&" : "?") + "bodySHA256=" + twilio.getExpectedBodyHash(q.body);
    return { url, signature: twilio.getExpectedTwilioSignature(q.token, url, {}) };
  },
  "twilio valid": (q) => twilio.validateRequest(q.token, q.signature, q.url, fields(q)),
  "twilio valid body": (q) => twilio.validateRequestWithBody(q.token, q.signature, q.url, q.body),
  "plivo sign": (q) => signPlivo(q.method, q.url, q.nonce, q.token, fields(q)),
  "plivo valid": (q) => plivo.validateV3Signature(q.method, q.url, q.nonce, q.token, q.signature, fields(q)),
  "twilio stream": (q) => {
    const response = new twilio.twiml.VoiceResponse();
    response.connect().stream({ url: q.url });
    return response.toString();
  },
  "twilio busy": (q) => {
    const response = new twilio.twiml.VoiceResponse();
    response.say(q.text);
    response.hangup();
    return response.toString();
  },
  "plivo stream": (q) => {
    const response = plivo.Response();
    const attributes = { bidirectional: true, keepCallAlive: true, contentType: "audio/x-mulaw;rate=8000" };
    response.addStream(q.url, attributes);
    return response.toXML();
  },
  "twilio stream and after": (q) => {
    const response = new twilio.twiml.VoiceResponse();
    response.connect({ action: q.after, method: "POST" }).stream({ url: q.url });
    return response.toString();
  },
  "twilio later": (q) => {
    const response = new twilio.twiml.VoiceResponse();
    response.pause({ length: 1 });
    response.redirect({ method: "POST" }, q.after);
    return response.toString();
  },
  "twilio hangup": () => {
    const response = new twilio.twiml.VoiceResponse();
    response.hangup();
    return response.toString();
  },
  "plivo stream and after": (q) => {
    const response = plivo.Response();
    const attributes = { bidirectional: true, keepCallAlive: true, contentType: "audio/x-mulaw;rate=8000" };
    response.addStream(q.url, attributes);
    response.addRedirect(q.after, { method: "POST" });
    return response.toXML();
  },
  "plivo later": (q) => {
    const response = plivo.Response();
    response.addWait({ length: 1 });
    response.addRedirect(q.after, { method: "POST" });
    return response.toXML();
  },
  "plivo hangup": () => {
    const response = plivo.Response();
    response.addHangup({});
    return response.toXML();
  },
  "plivo busy": (q) => {
    const response = plivo.Response();
    response.addSpeak(q.text);
    response.addHangup({});
    return response.toXML();
  },
  // What a document says, whatever way it is written.
  parse: (q) => {
    let parsed;
    xml2js.parseString(q.xml, { strict: true, explicitChildren: true, preserveChildrenOrder: true }, (error, tree) => {
      if (error) throw error;
      parsed = tree;
    });
    return parsed;
  },
};

function answer(question) {
  try {
    return { ok: answers[question.ask](question) };
  } catch (error) {
    return { error: String(error) };
  }
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  process.stdout.write(JSON.stringify(JSON.parse(line).map(answer)) + "\n");
});
