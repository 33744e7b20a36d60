#!/usr/bin/python3
"""slow_clients.py - what thousands of slow connections do to those who are not slow.

A quarter of the slow ones sends its header byte by byte, a quarter its body (half of those in chunks), a quarter asks and does not
read the answer, a quarter says nothing. Whoever is cut off comes back, so that they are all there all the time. Meanwhile 64 good
clients allocate and release calls, each with a pause before each request: as they do when nobody is slow, with whom they are compared.
At the end nobody comes back, and the router has to be rid of all of them when their time is over. Then the same with fewer
connections allowed than there are slow ones: only health is asked for then.

The router has its times as shipped. It is pinned to one core and everybody else to the other. The slow ones are one process that runs only
when nobody else wants the core, so that it does not delay the clients that are measured. Standard library only; loopback only;
every process is stopped at the end.

    slow_clients.py [--connections 10000] [--seconds 120] [--quiet-seconds 30] [--build build] [--json build/bench-slow.json]
    slow_clients.py --connections 500 --seconds 15 --quiet-seconds 5 --idle 10     a short look, with a shorter idle timeout
"""
import argparse
import collections
import contextlib
import errno
import http.client
import json
import os
import resource
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

from common import CLIENT_CORE, ROOT, SHARED, Router, load, memory_mb, pinned

KINDS = ("header", "body", "reader", "idle")
PODS = 100
PAUSE_MS = 10  # of a good client before each request: together they ask some 5,000 times a second
TICK_S = 0.004
BYTE_S = 1.0  # between two bytes of a slow one
CONNECTS_PER_S, CONNECTS_AT_ONCE = 3000, 60
RATIO_MAX = 3
LATE_S = 4  # the router lingers for two seconds with whom it refuses, and looks at its lists now and then
READ_S, WRITE_S = 5, 10  # HTTP_READ_TIMEOUT and HTTP_WRITE_TIMEOUT
ADDRESSES = 16  # of the loopback: there are not enough ports on one


class Slow:
    """One slow connection, again and again."""

    __slots__ = ("kind", "number", "sock", "since", "is_up", "to_send")

    def __init__(self, number):
        self.number = number
        self.kind = KINDS[number % len(KINDS)]
        self.sock = None
        self.is_up = False
        self.since = 0.0
        self.to_send = b""

    def connect(self, port, now):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if self.kind == "reader":
            # Small segments, because the kernel keeps room for ten of them, which on the loopback are huge.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 536)
        error = sock.connect_ex((f"127.0.0.{1 + self.number % ADDRESSES}", port))
        if error not in (0, errno.EINPROGRESS):
            sock.close()
            return False
        self.sock, self.since, self.is_up = sock, now, False
        return True

    def first_words(self):
        if self.kind == "header":
            self.to_send = b"a"
            return b"POST /api/v1/allocate HTTP/1.1\r\nHost: slow\r\nX-Slow: "
        if self.kind == "body":
            is_chunked = self.number // len(KINDS) % 2
            self.to_send = b"1\r\n \r\n" if is_chunked else b" "
            length = b"Transfer-Encoding: chunked" if is_chunked else b"Content-Length: 60000"
            return b"POST /api/v1/allocate HTTP/1.1\r\nHost: slow\r\n" + length + b"\r\n\r\n"
        self.to_send = b""
        # Enough answers to fill what the kernel takes, none of them so large that the router cuts off the oldest for want of memory.
        return b"GET /api/v1/pods?limit=20 HTTP/1.1\r\nHost: slow\r\n\r\n" * 9 if self.kind == "reader" else b""

    def send(self, data):
        try:
            self.sock.send(data)
        except OSError:
            pass  # whatever it is, the poll says so as well


class Attack:
    """The process of the slow ones: one loop, and a line of numbers every second. When its input ends, nobody comes back."""

    def __init__(self, port, count):
        self.port = port
        self.poll = select.epoll()
        self.by_fd = {}
        self.away = collections.deque(Slow(number) for number in range(count))
        self.wheel = [[] for _ in range(round(BYTE_S / TICK_S))]
        self.open = collections.Counter()
        self.cut = collections.Counter()
        self.longest = collections.Counter()
        self.failed = 0
        self.comes_back = True
        self.connected = time.monotonic()

    def connect_some(self, now):
        count = min(round((now - self.connected) * CONNECTS_PER_S), CONNECTS_AT_ONCE, len(self.away))
        self.connected = now
        for _ in range(count):
            slow = self.away.popleft()
            if not slow.connect(self.port, now):
                self.failed += 1
                self.away.append(slow)
                continue
            self.by_fd[slow.sock.fileno()] = slow
            self.poll.register(slow.sock.fileno(), select.EPOLLOUT | select.EPOLLRDHUP)

    def close(self, slow, now):
        del self.by_fd[slow.sock.fileno()]
        self.poll.unregister(slow.sock.fileno())
        slow.sock.close()
        slow.sock = None
        if slow.is_up:
            self.open[slow.kind] -= 1
            self.cut[slow.kind] += 1
            self.longest[slow.kind] = max(self.longest[slow.kind], now - slow.since)
        else:
            self.failed += 1
        if self.comes_back:
            self.away.append(slow)

    def look(self, fd, event, now):
        slow = self.by_fd.get(fd)
        if not slow:
            return
        if event & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            self.close(slow, now)
        elif not slow.is_up:
            slow.is_up = True
            slow.since = now
            self.open[slow.kind] += 1
            slow.send(slow.first_words())
            self.poll.modify(fd, select.EPOLLRDHUP)  # never for reading: that is the point
            if slow.to_send:
                self.wheel[slow.number % len(self.wheel)].append(slow)

    def trickle(self, tick):
        at = tick % len(self.wheel)
        self.wheel[at] = [slow for slow in self.wheel[at] if slow.sock]
        for slow in self.wheel[at]:
            slow.send(slow.to_send)

    def say(self):
        print(json.dumps({"open": sum(self.open.values()), "cut": dict(self.cut), "failed": self.failed, "longest_s": dict(self.longest),
                          "left": dict(self.open)}), flush=True)

    def run(self):
        self.poll.register(0, select.EPOLLIN)
        tick, started = 0, time.monotonic()
        while True:
            tick += 1
            if self.comes_back:
                self.connect_some(time.monotonic())
            self.trickle(tick)
            if tick % round(1 / TICK_S) == 0:
                self.say()
            wait = started + tick * TICK_S - time.monotonic()
            if wait < -1:
                started -= wait  # it could not keep up, and does not try to make up for it
            for fd, event in self.poll.poll(max(wait, 0), 2000):
                if fd == 0:
                    if not os.read(0, 4096):
                        if not self.comes_back:
                            return
                        self.comes_back = False
                        self.away.clear()
                        self.poll.unregister(0)
                else:
                    self.look(fd, event, time.monotonic())


def attack(port, count):
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    Attack(port, count).run()


class Attackers:
    """That process, seen from here."""

    def __init__(self, port, count):
        self.process = subprocess.Popen(
            pinned(CLIENT_CORE, [sys.executable, os.path.abspath(__file__), "--attack", str(port), "--connections", str(count)]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.latest = {"open": 0, "cut": {}, "failed": 0, "longest_s": {}, "left": {}}
        self.lowest = None
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        for line in self.process.stdout:
            self.latest = json.loads(line)
            if self.lowest is not None:
                self.lowest = min(self.lowest, self.latest["open"])

    def wait_for(self, condition, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end and not condition(self.latest["open"]):
            time.sleep(0.2)
        return condition(self.latest["open"])

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with contextlib.suppress(OSError):
            self.process.stdin.close()


class Memory:
    """The most that a process had resident while this was open."""

    def __init__(self, pid):
        self.pid = pid
        self.most = memory_mb(pid, "VmRSS")
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        while not self.is_over.wait(0.5):
            self.most = max(self.most, memory_mb(self.pid, "VmRSS"))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join()


def start_router(options, directory, name, max_connections):
    environment = {"MAX_CONNECTIONS": str(max_connections), "LOG_LEVEL": "warn", "GATEWAY_MAX": "1", "HTTP_IDLE_TIMEOUT": f"{options.idle}s"}
    return Router(os.path.join(options.build, "smart-router"), os.path.join(directory, name), SHARED, PODS, environment=environment)


def held(options, directory, stack):
    """All slow ones have a place. What do the good ones notice?"""
    router = start_router(options, directory, "held", options.connections + 200)
    stack.callback(router.stop)
    load(router, router.port, 3, "warm", PAUSE_MS)
    router.settle()
    print(f"  quiet: {options.quiet_seconds} s", file=sys.stderr)
    quiet = load(router, router.port, options.quiet_seconds, "quiet", PAUSE_MS)
    router.settle()
    found = {"quiet": quiet, "before_mb": memory_mb(router.pid, "VmRSS")}
    with Memory(router.pid) as memory:
        attackers = Attackers(router.port, options.connections)
        stack.callback(attackers.stop)
        if not attackers.wait_for(lambda count: count >= options.connections * 0.97, 60):
            raise RuntimeError(f"only {attackers.latest['open']} of {options.connections} connections came up: is the machine quiet?")
        attackers.lowest = attackers.latest["open"]
        print(f"  attacked: {options.seconds} s with {attackers.latest['open']} slow connections", file=sys.stderr)
        found["attacked"] = load(router, router.port, options.seconds, "slow", PAUSE_MS)
        found["held"] = attackers.lowest
        attackers.lowest = None
        attackers.process.stdin.close()
        print("  waiting until they are all gone", file=sys.stderr)
        attackers.wait_for(lambda count: count == 0, options.idle + LATE_S + 5)
        found["most_mb"] = memory.most
    found["attackers"] = attackers.latest
    router.settle()
    found["after_mb"] = memory_mb(router.pid, "VmRSS")
    found["ratio"] = found["attacked"]["p99_ms"] / found["quiet"]["p99_ms"]
    return found


def ask_health(port):
    """Milliseconds, or None if there was no 200."""
    started = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        is_well = connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        is_well = False
    finally:
        connection.close()
    return (time.perf_counter() - started) * 1000 if is_well else None


def flooded(options, directory, stack):
    """There are twice as many slow ones as places."""
    router = start_router(options, directory, "flooded", options.connections // 2)
    stack.callback(router.stop)
    before_mb = memory_mb(router.pid, "VmRSS")
    answers = []
    with Memory(router.pid) as memory:
        attackers = Attackers(router.port, options.connections)
        stack.callback(attackers.stop)
        attackers.wait_for(lambda count: count >= options.connections // 2, 60)
        print(f"  flooded: {options.seconds // 2} s, {options.connections} slow connections for {options.connections // 2} places", file=sys.stderr)
        end = time.monotonic() + options.seconds // 2
        while time.monotonic() < end:
            answers.append(ask_health(router.port))
            time.sleep(0.05)
    good = sorted(answer for answer in answers if answer is not None)
    return {"asked": len(answers), "failed": len(answers) - len(good), "p50_ms": good[len(good) // 2] if good else None,
            "p99_ms": good[int(len(good) * 0.99)] if good else None, "before_mb": before_mb, "most_mb": memory.most, "attackers": attackers.latest}


def report(found, flood, options):
    quiet, attacked, slow = found["quiet"], found["attacked"], found["attackers"]
    print(f"\n{options.connections} slow connections for {options.seconds} s, 64 good clients with a pause of {PAUSE_MS} ms")
    print(f"{'':10} {'req/s':>8} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8} {'busy':>6} {'errors':>7}")
    for name, row in (("quiet", quiet), ("attacked", attacked)):
        print(f"{name:10} {row['requests_per_s']:8.0f} {row['p50_ms']:8.2f} {row['p99_ms']:8.2f} {row['max_ms']:8.2f} {row['busy']:6.0%} "
              f"{row['failed'] + row['refused']:7}")
    print(f"slow connections held: never fewer than {found['held']}; cut off: "
          + ", ".join(f"{kind} {slow['cut'].get(kind, 0)} (at most {slow['longest_s'].get(kind, 0):.1f} s)" for kind in KINDS))
    print(f"router's memory: {found['before_mb']:.1f} MB before, {found['most_mb']:.1f} MB at most, {found['after_mb']:.1f} MB after")
    print(f"flood of {options.connections} for {options.connections // 2} places: health asked {flood['asked']} times, {flood['failed']} failures, "
          f"p99 {flood['p99_ms'] or 0:.1f} ms, memory {flood['most_mb']:.1f} MB at most\n")
    lives = {"header": READ_S, "body": READ_S, "reader": WRITE_S, "idle": options.idle}
    late = max(slow["longest_s"].get(kind, 0) - lives[kind] for kind in KINDS)
    targets = [
        ("p99 of the good clients, attacked over quiet", found["ratio"], RATIO_MAX),
        ("errors of the good clients", quiet["failed"] + quiet["refused"] + attacked["failed"] + attacked["refused"], 0),
        ("slow connections left when their time was over", sum(slow["left"].values()), 0),
        ("longest life of a slow connection beyond its timeout, s", late, LATE_S),
        ("memory for each slow connection, KB", (found["most_mb"] - found["before_mb"]) * 1024 / options.connections, 40),
        ("health that was not answered in the flood", flood["failed"], 0),
    ]
    for what, value, limit in targets:
        print(f"{'met' if value <= limit else 'MISSED':8} {what}: {value:.2f} (at most {limit})")
    return {what: value <= limit for what, value, limit in targets}


def need_descriptors(count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        sys.exit(f"this needs {count} descriptors for each process, and the limit is {hard}: raise it (ulimit -n), or use --connections")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=10000)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--quiet-seconds", type=int, default=30)
    parser.add_argument("--idle", type=int, default=60, help="HTTP_IDLE_TIMEOUT in seconds")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--json", default=None, help="by default bench-slow.json in the build directory")
    parser.add_argument("--attack", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    need_descriptors(options.connections + 1000)
    if options.attack:
        attack(options.attack, options.connections)
        return
    with tempfile.TemporaryDirectory(prefix="bench-slow-") as directory:
        with contextlib.ExitStack() as stack:
            found = held(options, directory, stack)
        with contextlib.ExitStack() as stack:
            flood = flooded(options, directory, stack)
    found["flood"] = flood
    found["met"] = report(found, flood, options)
    with open(options.json or os.path.join(options.build, "bench-slow.json"), "w", encoding="ascii") as file:
        json.dump(found, file, indent=1)
    sys.exit(0 if all(found["met"].values()) else 1)


if __name__ == "__main__":
    main()
