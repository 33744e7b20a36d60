#!/usr/bin/python3
"""gateway.py - what it costs to carry the streams of calls: directly to the agent, through nginx, through the router.

One agent-sim answers all of them, and provider-sim places the same calls each time: a webhook, a stream, a frame of 20 ms
audio every 20 ms and the same one back. nginx has the configuration of deploy/nginx, with one worker. A second router has
RESCUE=false: it does not follow the frames that it carries. nginx and the routers are pinned to one core, agent and provider to the
other. They take turns, round after round; differences and ratios are taken within a round. Latency is a frame's time to the agent
and back, as provider-sim measures it. CPU is counted while all calls are up, so that neither webhooks nor handshakes are in it.
Standard library only; loopback only; every process is stopped at the end.

A thousand calls are 200,000 reads and writes a second for the simulators and as many for whoever is between them: more than two
cores have. So the same is done with fewer calls as well, and what a size cannot show is not judged there. Exit status 1 if a target
was missed.

    gateway.py [--calls 1000,300] [--rounds 3] [--seconds 10] [--build build] [--json build/bench-gateway.json]
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

from common import CLIENT_CORE, ROOT, SERVER_CORE, Client, Router, cpu_seconds, free_ports, memory_mb, pinned, spread

sys.path.insert(0, os.path.join(ROOT, "test", "functional"))
import streams  # the shipped configuration of nginx, as the tests start it

FRAMES_PER_S = 50
WAYS = ("direct", "nginx", "router", "bare")  # bare: RESCUE=false
ADDED_P99_MS = 5
MEMORY_KB = 40
CPU_RATIO = 1.1
FOLLOWING_RATIO = 1.05  # what following the frames may cost
CHILDREN_WAIT_S = 10
LATE_MS = 20  # a whole frame
RATE_TOLERANCE = 0.05  # of the frames that should pass; frames that pile up are carried several at once, which is cheaper
# Many calls share one pod here: only a ticket says which of them a stream belongs to.
SECRET = "a-secret-of-the-bench-0123456789"
CALLS_MAX = 1000  # of one pod


def worker_of(process):
    """nginx's worker does the work; its master sleeps."""
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    for _ in range(CHILDREN_WAIT_S * 100):
        with open(children, encoding="ascii") as file:
            pids = file.read().split()
        if pids:
            return int(pids[0])
        time.sleep(0.01)
    raise RuntimeError("nginx has no worker")


class Agent:
    """agent-sim: one agent for all calls."""

    def __init__(self, build):
        self.port, self.control_port = free_ports(2)
        self.process = subprocess.Popen(
            pinned(CLIENT_CORE, [os.path.join(build, "tools", "agent-sim"), "--base-port", str(self.port),
                                 "--control-port", str(self.control_port)]),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        raise RuntimeError("agent-sim does not get ready")

    def frames(self):
        """That it has received or sent so far: those that passed whoever is between it and the provider."""
        found = json.loads(Client(self.control_port).must("GET", "/"))
        return found["messages"] + found["echoed"]

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()


class Nginx:
    """The shipped configuration; streams go to the agent directly, as its address stands where the pod's name would."""

    def __init__(self, directory, agent_port, router_port):
        command = pinned(SERVER_CORE, ["/usr/sbin/nginx"])
        self.nginx = streams.Nginx(directory, router_port, command=command, target=f"127.0.0.1:{agent_port}")
        self.port = self.nginx.port
        self.pid = worker_of(self.nginx.process)

    def stop(self):
        self.nginx.close()


class Ways:
    """All servers, up all the time."""

    def __init__(self, options, calls, directory, stack):
        self.options = options
        self.calls = calls
        self.agent = Agent(options.build)
        stack.callback(self.agent.stop)
        self.routers = {}
        for way, rescue in (("router", "true"), ("bare", "false")):
            self.routers[way] = self.start_router(os.path.join(directory, way), rescue)
            stack.callback(self.routers[way].stop)
        self.router = self.routers["router"]
        self.nginx = Nginx(os.path.join(directory, "nginx"), self.agent.port, self.router.port)
        stack.callback(self.nginx.stop)

    def start_router(self, directory, rescue):
        tiers = {"tiers": {"standard": {"type": "shared", "target": 1, "max_concurrent": CALLS_MAX}}}
        router = Router(os.path.join(self.options.build, "smart-router"), directory, tiers, 0,
                        environment={"GATEWAY_RELEASE_GRACE": "0s", "LOG_LEVEL": "warn", "GATEWAY_SECRET": SECRET, "RESCUE": rescue})
        Client(router.port).must("POST", "/api/v1/pods",
                                 {"pod_name": "voice-agent-0", "address": f"127.0.0.1:{self.agent.port}"})
        return router

    def target(self, way):
        """What tells provider-sim where to go, and who carries it."""
        if way == "direct":
            return ["--ws-url", f"ws://127.0.0.1:{self.agent.port}/bench"], None
        if way == "nginx":
            return ["--ws-url", f"ws://{streams.HOST}/ws/pod/voice-agent-0/bench",
                    "--connect-to", f"127.0.0.1:{self.nginx.port}"], self.nginx.pid
        router = self.routers[way]
        return ["--router", f"http://127.0.0.1:{router.port}", "--no-status",
                "--connect-to", f"127.0.0.1:{router.port}"], router.pid

    def run(self, way):
        """All calls at once, each for as long as the slot: returns what provider-sim and /proc say."""
        calls, seconds = self.calls, self.options.seconds
        where, pid = self.target(way)
        ramp = calls / self.options.rate
        idle_kb = memory_mb(pid, "VmRSS") * 1024 if pid else 0
        command = [os.path.join(self.options.build, "tools", "provider-sim"), *where, "--provider", "twilio", "--json", "--quiet",
                   "--calls", str(calls), "--concurrent", str(calls), "--rate", str(self.options.rate),
                   "--seconds", str(seconds + 2 * ramp + 2)]
        started = time.monotonic()
        with subprocess.Popen(pinned(CLIENT_CORE, command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as provider:
            time.sleep(ramp * 1.5 + 1)
            frames, from_s, before = self.agent.frames(), time.monotonic(), cpu_seconds(pid) if pid else 0
            time.sleep(seconds)
            used, span = (cpu_seconds(pid) if pid else 0) - before, time.monotonic() - from_s
            frames = self.agent.frames() - frames
            busy_kb = memory_mb(pid, "VmRSS") * 1024 if pid else 0
            text = provider.communicate(timeout=120 + seconds)[0]
        found = json.loads(text)
        time.sleep(1)
        left = sum(json.loads(Client(router.port).must("GET", "/api/v1/calls?limit=1"))["total"] for router in self.routers.values())
        return {
            "left": left,
            "calls": found["completed"],
            "failed": found["failed"] + found["busy"],
            "frames": found["frames_sent"],
            "lost": found["frames_lost"] + found["frames_reordered"] + found["frames_corrupt"],
            "late_ms": found["late_ms"],
            "concurrent": found["concurrent_max"],
            "p50_ms": found["echo_us"]["p50"] / 1000,
            "p99_ms": found["echo_us"]["p99"] / 1000,
            "rate": frames / span / (FRAMES_PER_S * 2 * calls),
            "cpu_us": used * 1e6 / frames,
            "busy": used / span,
            "idle_kb": idle_kb,
            "kb_per_call": max(0, busy_kb - idle_kb) / calls,
            "seconds": time.monotonic() - started,
        }


def summarise(slots):
    """Over all rounds; differences and ratios within each."""
    summary = {}
    for way in WAYS:
        mine = slots[way]
        summary[way] = {key: spread([slot[key] for slot in mine])
                        for key in ("p50_ms", "p99_ms", "rate", "cpu_us", "busy", "kb_per_call")}
        summary[way]["lost"] = sum(slot["lost"] for slot in mine)
        summary[way]["left"] = max(slot["left"] for slot in mine)
        summary[way]["failed"] = sum(slot["failed"] for slot in mine)
        summary[way]["frames"] = sum(slot["frames"] for slot in mine)
        summary[way]["late_ms"] = max(slot["late_ms"] for slot in mine)
        summary[way]["concurrent"] = min(slot["concurrent"] for slot in mine)
        summary[way]["added_p99_ms"] = spread([a["p99_ms"] - b["p99_ms"] for a, b in zip(mine, slots["direct"])])
        # The first round's: later ones find memory that the first one left.
        summary[way]["first_kb_per_call"] = mine[0]["kb_per_call"]
    summary["cpu_ratio"] = spread([a["cpu_us"] / b["cpu_us"] for a, b in zip(slots["router"], slots["nginx"])])
    summary["following_ratio"] = spread([a["cpu_us"] / b["cpu_us"] for a, b in zip(slots["router"], slots["bare"])])
    return summary


def report(summary, calls, options):
    """Prints it; returns for each target whether it was met, None if it could not be judged."""
    print(f"\n{calls} calls at once, a frame of 20 ms each way, {options.rounds} rounds of {options.seconds} s; medians")
    print(f"{'':8} {'p50 ms':>8} {'p99 ms':>8} {'added':>8} {'rate':>6} {'us/frame':>9} {'busy':>6} {'KB/call':>8} {'lost':>6} "
          f"{'failed':>7} {'late ms':>8}")
    for way in WAYS:
        row = summary[way]
        print(f"{way:8} {row['p50_ms']['median']:8.2f} {row['p99_ms']['median']:8.2f} {row['added_p99_ms']['median']:8.2f} "
              f"{row['rate']['median']:6.0%} {row['cpu_us']['median']:9.2f} {row['busy']['median']:6.0%} {row['first_kb_per_call']:8.1f} {row['lost']:6} "
              f"{row['failed']:7} {row['late_ms']:8}")
    print("rate: frames that passed, of those that should; late: how far behind its time provider-sim sent one\n")
    router = summary["router"]
    is_late = any(summary[way]["late_ms"] > LATE_MS for way in WAYS)
    is_short = any(abs(summary[way]["rate"]["median"] - 1) > RATE_TOLERANCE for way in WAYS)
    targets = [
        ("frames lost or reordered, calls failed or left behind", router["lost"] + router["failed"] + router["left"], 0, "", None),
        ("added latency, p99, over a direct connection", router["added_p99_ms"]["median"], ADDED_P99_MS, " ms",
         "the simulators were late themselves" if is_late else None),
        ("memory of the router for a call", router["first_kb_per_call"], MEMORY_KB, " KB", None),
        ("CPU for a frame, in nginx's", summary["cpu_ratio"]["median"], CPU_RATIO, "",
         "the ways did not carry the same number of frames" if is_short else None),
        ("CPU for a frame, in that without RESCUE", summary["following_ratio"]["median"], FOLLOWING_RATIO, "",
         "the ways did not carry the same number of frames" if is_short else None),
    ]
    for what, value, limit, unit, doubt in targets:
        verdict = "NOT JUDGED" if doubt else "met" if value <= limit else "MISSED"
        print(f"{verdict:10}  {what}: {value:.2f}{unit} (at most {limit}{unit}){'; ' + doubt if doubt else ''}")
    if is_late or is_short:
        print("\nSo many calls are too much for this machine, or it is not quiet.")
    return {what: None if doubt else value <= limit for what, value, limit, _, doubt in targets}


def measure(calls, options):
    """All rounds with so many calls, with servers of their own."""
    slots = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as directory, contextlib.ExitStack() as stack:
        ways = Ways(options, calls, directory, stack)
        for number in range(options.rounds):
            for way in WAYS:
                print(f"  {calls} calls, round {number + 1} of {options.rounds}: {way}", file=sys.stderr)
                slots[way].append(ways.run(way))
    return slots


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", default="1000,300", help="at once; several sizes, one after the other")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=200, help="new calls a second, until all are up")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--json", default=None, help="by default bench-gateway.json in the build directory")
    options = parser.parse_args()
    sizes = [int(size) for size in options.calls.split(",")]
    if max(sizes) > CALLS_MAX or min(sizes) < 1:
        parser.error(f"one pod carries at most {CALLS_MAX} calls")
    results = {}
    for calls in sizes:
        slots = measure(calls, options)
        summary = summarise(slots)
        results[calls] = {"summary": summary, "slots": slots, "met": report(summary, calls, options)}
    with open(options.json or os.path.join(options.build, "bench-gateway.json"), "w", encoding="ascii") as file:
        json.dump(results, file, indent=1)
    return 1 if any(met is False for result in results.values() for met in result["met"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
