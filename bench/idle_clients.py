#!/usr/bin/python3
"""idle_clients.py - webhooks while idle clients hold every connection that the router allows.

As many connections as MAX_CONNECTIONS are held by clients of whom half say nothing and half have asked for health once. Whoever is
closed comes back at once. Meanwhile 500 webhooks a second are sent, each at its time whether or not the ones before it have been
answered (an open loop), and each on a connection of its own. How long one took is counted from when it was due.

The router is pinned to one core and everybody else to the other; the idle ones are one process. Standard library only; loopback
only; every process is stopped at the end. The exit status is 1 if a webhook was not answered.

    idle_clients.py [--connections 10000] [--rate 500] [--seconds 20] [--build build] [--json build/bench-idle.json]
"""
import argparse
import collections
import contextlib
import errno
import json
import os
import re
import resource
import select
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from common import CLIENT_CORE, ROOT, SHARED, Router, pinned
from slow_clients import ADDRESSES, need_descriptors

PODS = 100
PATIENCE_S = 10  # with one webhook
CONNECTS_AT_ONCE = 200  # of the idle ones, before they look who was closed
HEALTH = b"GET /health HTTP/1.1\r\nHost: idle\r\n\r\n"


class Holders:
    """The process of the idle ones. Says how many it holds and how many came back, twice a second, until its input ends."""

    def __init__(self, port, count):
        self.port = port
        self.poll = select.epoll()
        self.open = {}
        self.away = collections.deque(range(count))
        self.came_back = 0
        self.failed = 0

    def connect(self, number):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.settimeout(PATIENCE_S)
        try:
            sock.connect((f"127.0.0.{1 + number % ADDRESSES}", self.port))
            if number % 2:
                sock.send(HEALTH)
        except OSError:
            self.failed += 1
            self.away.append(number)
            sock.close()
            return
        sock.setblocking(False)
        self.open[sock.fileno()] = (sock, number)
        self.poll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP)

    def look(self, fd):
        sock, number = self.open[fd]
        try:
            if sock.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self.poll.unregister(fd)
        sock.close()
        del self.open[fd]
        self.away.append(number)
        self.came_back += 1

    def run(self):
        self.poll.register(0, select.EPOLLIN)
        said = 0
        while True:
            for _ in range(min(len(self.away), CONNECTS_AT_ONCE)):
                self.connect(self.away.popleft())
            for fd, _ in self.poll.poll(0.1 if not self.away else 0, 1000):
                if fd == 0:
                    return
                self.look(fd)
            if time.monotonic() - said > 0.5:
                said = time.monotonic()
                print(json.dumps({"open": len(self.open), "came_back": self.came_back, "failed": self.failed}), flush=True)


class Webhooks:
    """Sends them when they are due."""

    def __init__(self, port, rate, seconds):
        self.port, self.rate, self.count = port, rate, rate * seconds
        self.poll = select.epoll()
        self.open = {}
        self.times_ms = []
        self.errors = collections.Counter()

    def send(self, number, due):
        body = f"CallSid=CAidle{number:08}"
        head = ("POST /api/v1/twilio/allocate HTTP/1.1\r\nHost: router\r\nContent-Type: application/x-www-form-urlencoded\r\n"
                f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n")
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        error = sock.connect_ex(("127.0.0.1", self.port))
        if error not in (0, errno.EINPROGRESS):
            self.errors[errno.errorcode[error]] += 1
            sock.close()
            return
        self.open[sock.fileno()] = [sock, due, (head + body).encode(), b""]
        self.poll.register(sock.fileno(), select.EPOLLOUT)

    def end(self, fd, error=None):
        sock, due, _, answer = self.open.pop(fd)
        self.poll.unregister(fd)
        sock.close()
        if not error and not answer.startswith(b"HTTP/1.1 200 "):
            error = answer[:12].decode("latin-1") or "closed without an answer"
        if error:
            self.errors[error] += 1
        else:
            self.times_ms.append((time.monotonic() - due) * 1000)

    def look(self, fd, event):
        one = self.open[fd]
        try:
            if event & select.EPOLLOUT:
                one[0].send(one[2])
                self.poll.modify(fd, select.EPOLLIN)
                return
            piece = one[0].recv(65536)
        except OSError as problem:
            self.end(fd, errno.errorcode.get(problem.errno, str(problem)))
            return
        one[3] += piece
        if not piece:
            self.end(fd)

    def run(self):
        started = time.monotonic()
        sent = 0
        while sent < self.count or self.open:
            now = time.monotonic()
            while sent < self.count and started + sent / self.rate <= now:
                self.send(sent, started + sent / self.rate)
                sent += 1
            for fd, event in self.poll.poll(0.001, 1000):
                self.look(fd, event)
            if sent == self.count:
                for fd in [fd for fd, one in self.open.items() if now - one[1] > PATIENCE_S]:
                    self.end(fd, "no answer")
        return self


def counter(router, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{router.metrics_port}/metrics", timeout=PATIENCE_S) as answer:
        text = answer.read().decode()
    return int(float(re.search(rf'^smart_router_http_{name}{{listener="http"}} (\S+)$', text, re.M).group(1)))


@contextlib.contextmanager
def held(options, router):
    """The idle ones, once they hold every connection. Yields a function that says how they are, and ends them afterwards."""
    process = subprocess.Popen(
        pinned(CLIENT_CORE, [sys.executable, os.path.abspath(__file__), "--hold", str(router.port), "--connections", str(options.connections)]),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while json.loads(process.stdout.readline())["open"] < options.connections or counter(router, "connections") < options.connections:
            if time.monotonic() > end:
                raise RuntimeError("the idle clients do not get all connections: is the machine quiet?")
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def measure(options, directory):
    environment = {"MAX_CONNECTIONS": str(options.connections), "LOG_LEVEL": "warn", "HTTP_IDLE_TIMEOUT": "10m"}
    router = Router(os.path.join(options.build, "smart-router"), os.path.join(directory, "idle"), SHARED, PODS, environment=environment)
    try:
        os.sched_setaffinity(0, {int(CLIENT_CORE)} if os.cpu_count() > 1 else {0})
        with held(options, router) as process:
            print(f"  {options.connections} idle clients hold every connection; {options.rate} webhooks a second for {options.seconds} s", file=sys.stderr)
            hooks = Webhooks(router.port, options.rate, options.seconds).run()
            evicted, refused = counter(router, "connections_evicted_total"), counter(router, "connections_refused_total")
            process.stdin.close()
            holders = json.loads(collections.deque(process.stdout, maxlen=1)[0])
    finally:
        router.stop()
    times = sorted(hooks.times_ms) or [0.0]
    return {"sent": hooks.count, "answered": len(hooks.times_ms), "errors": dict(hooks.errors), "p50_ms": times[len(times) // 2],
            "p99_ms": times[int(len(times) * 0.99)], "max_ms": times[-1], "evicted": evicted, "refused": refused, "holders": holders}


def report(found, options):
    print(f"\n{options.connections} idle clients, MAX_CONNECTIONS={options.connections}, {options.rate} webhooks a second for {options.seconds} s")
    print(f"answered {found['answered']} of {found['sent']}, errors {found['errors'] or 0}, "
          f"p50 {found['p50_ms']:.2f} ms, p99 {found['p99_ms']:.2f} ms, max {found['max_ms']:.2f} ms")
    print(f"idle connections closed to make room: {found['evicted']}; refused: {found['refused']}; came back: {found['holders']['came_back']}\n")
    missed = found["sent"] - found["answered"]
    print(f"{'met' if missed == 0 else 'MISSED':8} webhooks that were not answered with 200: {missed} (at most 0)")
    return missed == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--json", default=None, help="by default bench-idle.json in the build directory")
    parser.add_argument("--hold", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # Where few files can be open the router allows fewer connections, and the clients cannot hold more either.
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    options.connections = min(options.connections, files * 45 // 100)
    need_descriptors(options.connections + 1000)
    if options.hold:
        Holders(options.hold, options.connections).run()
        return
    with tempfile.TemporaryDirectory(prefix="bench-idle-") as directory:
        found = measure(options, directory)
    found["met"] = report(found, options)
    with open(options.json or os.path.join(options.build, "bench-idle.json"), "w", encoding="ascii") as file:
        json.dump(found, file, indent=1)
    sys.exit(0 if found["met"] else 1)


if __name__ == "__main__":
    main()
