"""Webhooks byte by byte, those who sign them, and the providers' own libraries as judges (test/sdk)."""

import base64
import functools
import hashlib
import hmac
import json
import os
import pathlib
import socket
import subprocess
import urllib.parse

import basics

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENCE_S = 60
FORM = "application/x-www-form-urlencoded"


@functools.cache
def find_judges():
    """({name: path}, why they are missing)"""
    done = subprocess.run(
        [str(ROOT / "scripts/sdk-judges"), "--find"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    return dict(line.split("=", 1) for line in done.stdout.splitlines()), done.stderr.strip()


def need_judges():
    """Where they are. Skips the test where they are missing; on a machine of the CI that is a failure."""
    found, reason = find_judges()
    if found:
        return found
    return basics.skip(reason)


class Judge:
    """The libraries of Twilio and Plivo, in a process of their own."""

    def __init__(self):
        found = need_judges()
        self.process = subprocess.Popen(
            [found["node"], str(ROOT / "test/sdk/judge.js")],
            env={**os.environ, "NODE_PATH": found["modules"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask_all(self, questions):
        self.process.stdin.write(json.dumps(questions) + "\n")
        self.process.stdin.flush()
        answers = json.loads(self.process.stdout.readline())
        assert len(answers) == len(questions)
        return answers

    def ask(self, what, **question):
        (answer,) = self.ask_all([{"ask": what, **question}])
        assert "error" not in answer, answer
        return answer.get("ok")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(PATIENCE_S)


class Wire:
    """One connection to a router, for requests exactly as they are given."""

    def __init__(self, router):
        self.router = router
        self.sock = None
        self.file = None

    def _open(self):
        self.sock = socket.create_connection(("127.0.0.1", self.router.port), timeout=PATIENCE_S)
        self.file = self.sock.makefile("rb")

    def close(self):
        if self.sock:
            self.file.close()
            self.sock.close()
        self.sock = None

    def send(self, method, target, headers=None, body=b"", host=None):
        """(status, body); the host is the router's own address if none is given."""
        if not self.sock:
            self._open()
        host = host if host is not None else f"127.0.0.1:{self.router.port}"
        head = method.encode() + b" " + as_bytes(target) + b" HTTP/1.1\r\nHost: " + as_bytes(host) + b"\r\n"
        for name, value in (headers or {}).items():
            head += name.encode() + b": " + as_bytes(value) + b"\r\n"
        if body or method != "GET":
            head += b"Content-Length: %d\r\n" % len(as_bytes(body))
        self.sock.sendall(head + b"\r\n" + as_bytes(body))
        return self._receive()

    def _receive(self):
        status = int(self.file.readline().split()[1])
        length, closes = 0, False
        while (line := self.file.readline()) not in (b"\r\n", b""):
            name, value = line.decode("latin-1").split(":", 1)
            if name.lower() == "content-length":
                length = int(value)
            closes = closes or (name.lower() == "connection" and value.strip() == "close")
        body = self.file.read(length)
        if closes:
            self.close()
        return status, body


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode("latin-1")


def sign_twilio(token, url, params=()):
    """X-Twilio-Signature; each name occurs once."""
    text = url + "".join(name + value for name, value in sorted(dict(params).items()))
    return base64.b64encode(hmac.digest(token.encode(), text.encode(), hashlib.sha1)).decode()


def sign_plivo(token, url, nonce, params=()):
    """X-Plivo-Signature-V3 of a POST."""
    base, _, query = url.partition("?")
    query = "&".join(sorted(f"{name}={value}" for name, value in urllib.parse.parse_qsl(query, keep_blank_values=True)))
    text = base + "?" + query + ("." if query else "") + "".join(name + value for name, value in sorted(dict(params).items())) + "." + nonce
    return base64.b64encode(hmac.digest(token.encode(), text.encode(), hashlib.sha256)).decode()


def form(params):
    return urllib.parse.urlencode(params)
