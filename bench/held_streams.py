#!/usr/bin/python3
"""held_streams.py - what callers who wait cost the router, beside idle connections of nginx, and what others notice of them.

provider-sim opens 10,000 streams of calls for which there is no pod. The router holds them: it plays the built-in tone, answers
marks, and keeps their places in line. Their memory and CPU are read while nothing else happens. nginx gets as many connections
that have asked for something once and then say nothing. Then 1,000 calls are carried to an agent while all the others wait:
nothing of them may be lost.

Real callers send audio while they wait, which the router drops; 10,000 of them would need more cores for the simulators than
there are. So that is measured with fewer callers (--speaking), by itself.

The router and nginx are pinned to one core, everybody else to the other. Standard library only; loopback only; every process is
stopped at the end. Exit status 1 if a frame was lost, if a caller was not held, or if one takes too much memory.

    held_streams.py [--held 10000] [--seconds 20] [--carried 1000] [--at-once 200] [--speaking 300] [--build build]
                    [--json build/bench-held.json]
"""
import argparse
import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time

from common import CLIENT_CORE, ROOT, SERVER_CORE, Client, Router, cpu_seconds, free_ports, memory_mb, pinned
from gateway import Agent, worker_of

SECRET = "a-secret-of-the-bench-0123456789"
SPARE_DESCRIPTORS = 500  # beside those of streams
TONE_S = 4  # one round of it
WAIT_S = 300
KB_MAX = 16  # of a held stream, beside the clip that all share
# Who waits is in line for a pool without pods; who is carried has room.
TIERS = {"tiers": {"gold": {"type": "exclusive", "target": 0},
                   "standard": {"type": "shared", "target": 1, "max_concurrent": 1000}},
         "default_chain": ["standard", "gold"]}
WAITS, TALKS = "waits", "talks"


def most_streams(wanted, carried):
    """As many as the descriptors allow: one for each held stream, two for each carried one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(wanted, hard - 2 * carried - SPARE_DESCRIPTORS)


def wait_until(done, what):
    until = time.monotonic() + WAIT_S
    while not done():
        if time.monotonic() > until:
            raise RuntimeError(f"not in time: {what}")
        time.sleep(0.2)


class Provider:
    """A provider-sim that runs until it is told to end, or until its calls are over."""

    def __init__(self, options, router, merchant, arguments):
        command = [os.path.join(options.build, "tools", "provider-sim"), "--router", f"http://127.0.0.1:{router.port}",
                   "--provider", "twilio", "--merchant", merchant, "--json", "--quiet", *map(str, arguments)]
        self.process = subprocess.Popen(pinned(CLIENT_CORE, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def end(self):
        self.process.terminate()
        return self.result()

    def result(self):
        return json.loads(self.process.communicate(timeout=WAIT_S)[0])

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def observe(pid, seconds):
    """The share of a core that a process uses."""
    before, started = cpu_seconds(pid), time.monotonic()
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - started)


class Nginx:
    """One worker, keep-alive without an end."""

    def __init__(self, directory, connections):
        os.makedirs(directory)
        self.port = free_ports(1)[0]
        config = os.path.join(directory, "nginx.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(f"""
daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log;
worker_rlimit_nofile {connections + SPARE_DESCRIPTORS};
events {{ worker_connections {connections + SPARE_DESCRIPTORS}; }}
http {{ access_log off; keepalive_timeout 3600s; keepalive_requests 1000;
        client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
        uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
        server {{ listen 127.0.0.1:{self.port} backlog=4096; return 200 "ok"; }} }}
""")
        self.process = subprocess.Popen(pinned(SERVER_CORE, ["/usr/sbin/nginx", "-c", config, "-p", directory]),
                                        stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.pid = worker_of(self.process)

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


def measure_nginx(options, directory, count):
    """Memory and CPU of a worker with so many connections that have asked once."""
    nginx = Nginx(os.path.join(directory, "nginx"), count)
    idle = []
    try:
        before_kb = memory_mb(nginx.pid, "VmRSS") * 1024
        for number in range(count):
            # From several addresses, so that there are enough ports.
            sock = socket.socket()
            sock.bind((f"127.0.0.{2 + number % 8}", 0))
            sock.connect(("127.0.0.1", nginx.port))
            sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            sock.recv(4096)
            idle.append(sock)
        time.sleep(2)
        busy = observe(nginx.pid, options.seconds)
        return {"connections": count, "kb": (memory_mb(nginx.pid, "VmRSS") * 1024 - before_kb) / count, "busy": busy}
    finally:
        for sock in idle:
            sock.close()
        nginx.stop()


def environment_of(port, count):
    return {
        "GATEWAY_SECRET": SECRET, "LOG_LEVEL": "warn", "GATEWAY_RELEASE_GRACE": "0s",
        "PUBLIC_BASE_URL": f"http://127.0.0.1:{port}", "HOLD_MAX_WAIT": "1h", "HOLD_MAX_CALLS": "100000",
        "GATEWAY_MAX": str(count + 2000), "MAX_CONNECTIONS": "2000",
    }


class World:
    """An agent, and a router at which calls of one merchant wait."""

    def __init__(self, options, directory, stack, count):
        self.options = options
        self.agent = Agent(options.build)
        stack.callback(self.agent.stop)
        self.router = Router(os.path.join(options.build, "smart-router"), os.path.join(directory, "router"), TIERS, 0,
                             environment=lambda port: environment_of(port, count))
        stack.callback(self.router.stop)
        client = Client(self.router.port)
        client.must("POST", "/api/v1/pods",
                    {"pod_name": "voice-agent-0", "address": f"127.0.0.1:{self.agent.port}", "tier": "standard"})
        client.must("PUT", f"/api/v1/merchants/{WAITS}", {"fallback": ["gold"], "hold_seconds": 3600})
        client.must("PUT", f"/api/v1/merchants/{TALKS}", {"fallback": ["standard"], "hold_seconds": 0})

    def waiting(self):
        return json.loads(Client(self.router.port).must("GET", "/api/v1/waiting?limit=1"))["total"]

    def hold(self, count, *arguments):
        """So many callers, all of them in line."""
        provider = Provider(self.options, self.router, WAITS,
                            ["--calls", count, "--concurrent", count, "--rate", self.options.rate, "--timeout", 60, *arguments])
        wait_until(lambda: self.waiting() == count or provider.process.poll() is not None, f"{count} callers wait")
        # Every one of them has heard something: what is made for the first round is made.
        time.sleep(2 * TONE_S)
        return provider

    def measure_held(self, count):
        before_kb = memory_mb(self.router.pid, "VmRSS") * 1024
        provider = self.hold(count, "--mute")
        try:
            busy = observe(self.router.pid, self.options.seconds)
            held_kb = memory_mb(self.router.pid, "VmRSS") * 1024 - before_kb
            still = self.waiting()
            carried = self.carry()
            after = self.waiting()
            summary = provider.end()
        finally:
            provider.stop()
        return {
            "callers": count,
            "kb": held_kb / count,
            "busy": busy,
            "us_per_round": busy * 1e6 * TONE_S / count,
            "lost_places": count - min(still, after),
            "silent_ms": summary["hold_silent_ms"],
            "heard_s": summary["hold_ms"] / 1000,
            "carried": carried,
        }

    def carry(self):
        """Calls for an agent, while the others wait."""
        options = self.options
        provider = Provider(options, self.router, TALKS,
                            ["--calls", options.carried, "--concurrent", options.at_once, "--rate", 100, "--seconds", 2])
        try:
            found = provider.result()
        finally:
            provider.stop()
        return {key: found[key] for key in ("calls", "completed", "busy", "failed", "frames_sent", "frames_echoed", "frames_lost",
                                            "frames_reordered", "frames_corrupt", "failures")} | {
            "p99_ms": found["echo_us"]["p99"] / 1000, "late_ms": found["late_ms"]}

    def measure_speaking(self, count):
        """Held callers who send a frame every 20 ms, as real ones do."""
        provider = self.hold(count)
        try:
            busy = observe(self.router.pid, self.options.seconds)
            provider.end()
        finally:
            provider.stop()
        return {"callers": count, "busy": busy, "us_per_frame": busy * 1e6 / (50 * count)}


def report(found):
    """Prints it; False if something was lost, or is too large."""
    held, nginx, carried = found["held"], found["nginx"], found["held"]["carried"]
    print(f"\n{'':32} {'number':>8} {'KB each':>8} {'of a core':>10}")
    print(f"{'held streams of the router':32} {held['callers']:8} {held['kb']:8.1f} {held['busy']:10.1%}")
    print(f"{'idle connections of nginx':32} {nginx['connections']:8} {nginx['kb']:8.1f} {nginx['busy']:10.1%}")
    print(f"\nEach held caller hears {TONE_S} s of tone again and again: {held['us_per_round']:.0f} us of CPU a round; "
          f"{held['heard_s'] / 3600:.1f} hours were heard, the longest silence between two rounds was {held['silent_ms']} ms.")
    if found["speaking"]:
        speaking = found["speaking"]
        print(f"{speaking['callers']} held callers who send audio: {speaking['busy']:.1%} of a core, "
              f"{speaking['us_per_frame']:.1f} us for each frame that is dropped.")
    print(f"Carried meanwhile: {carried['completed']} of {carried['calls']} calls, {carried['frames_echoed']} of "
          f"{carried['frames_sent']} frames back, {carried['frames_lost']} lost, {carried['frames_reordered']} out of order; "
          f"echo p99 {carried['p99_ms']:.1f} ms (the simulator itself was up to {carried['late_ms']} ms late).")
    is_whole = (carried["completed"] == carried["calls"] and not carried["frames_lost"] and not carried["frames_reordered"]
                and not carried["frames_corrupt"] and held["lost_places"] == 0)
    print("met         nothing was lost" if is_whole else f"MISSED      lost: {carried['failures']}, "
          f"{held['lost_places']} places in line")
    is_small = held["kb"] <= KB_MAX
    print(f"{'met' if is_small else 'MISSED':11} memory of a held stream: {held['kb']:.1f} KB (at most {KB_MAX} KB)")
    return is_whole and is_small


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held", type=int, default=10000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--carried", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=200, help="of the carried ones")
    parser.add_argument("--speaking", type=int, default=300, help="held callers who send audio; 0: leave that out")
    parser.add_argument("--rate", type=int, default=300, help="new callers a second")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--json", default=None, help="by default bench-held.json in the build directory")
    options = parser.parse_args()
    count = most_streams(options.held, options.at_once)
    if count < options.held:
        print(f"This machine allows {count} held streams, not {options.held}: its limit of descriptors.", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="bench-held-") as directory, contextlib.ExitStack() as stack:
        print("  idle connections of nginx", file=sys.stderr)
        found = {"nginx": measure_nginx(options, directory, count)}
        world = World(options, directory, stack, count)
        print(f"  {count} held streams", file=sys.stderr)
        found["held"] = world.measure_held(count)
        wait_until(lambda: world.waiting() == 0, "the line is empty again")
        found["speaking"] = None
        if options.speaking:
            print(f"  {options.speaking} held streams with audio", file=sys.stderr)
            found["speaking"] = world.measure_speaking(options.speaking)
    is_met = report(found)
    path = options.json or os.path.join(options.build, "bench-held.json")
    with open(path, "w", encoding="ascii") as file:
        json.dump(found, file, indent=1)
    print(f"\nwritten to {path}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
