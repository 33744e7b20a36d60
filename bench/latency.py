#!/usr/bin/python3
"""latency.py - how long an allocation takes at a constant arrival rate, and how many there are per second.

First the maximum: wrk, a closed loop, with 1 to 1,000 connections. Then open_loop.c sends requests at 10 %, 50 % and
80 % of the maximum with 64 connections, whether or not the answers before have come. Latency counts from the moment
at which a request was due, so that a pause of the server is in every request that it has delayed. Last a burst: 300
allocations that are all due at the same moment.

The embedded store: the router has one core, the client the other. Redis: Redis has one core, the router and the
client share the other. The two are measured in turn, round after round. Standard library only; loopback only; every
process is stopped at the end.

    latency.py [--rounds 3] [--seconds 5] [--binary build/smart-router] [--json build/bench-latency.json]
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

from common import CLIENT_CORE, CONNECTIONS, ROOT, SHARED, Router, load, pinned
from redis_store import Redis

CONNECTION_COUNTS = (1, 8, 16, 64, 256, 1000)
SHARES = (0.1, 0.5, 0.8)
BURST = 300
BURSTS = 10
PODS = 1000
FIGURES = ("p50_ms", "p99_ms", "p999_ms", "max_ms")


def build_tool(directory):
    tool = os.path.join(directory, "open_loop")
    subprocess.run(["cc", "-O2", "-o", tool, os.path.join(ROOT, "bench", "open_loop.c")], check=True)
    return tool


def open_loop(tool, router, prefix, *arguments):
    run = subprocess.run(pinned(CLIENT_CORE, [tool, "--port", str(router.port), "--prefix", prefix, *arguments]),
                         capture_output=True, text=True, timeout=120, check=False)
    if not run.stdout:
        raise RuntimeError(f"open_loop: {run.stderr}")
    router.settle()
    return json.loads(run.stdout)


def start_routers(options, directory, stack):
    routers = {"embedded": Router(options.binary, os.path.join(directory, "embedded"), SHARED, PODS)}
    stack.callback(routers["embedded"].stop)
    redis = Redis(os.path.join(directory, "redis"))
    stack.callback(redis.stop)
    routers["Redis"] = Router(options.binary, os.path.join(directory, "router"), SHARED, PODS, CLIENT_CORE,
                              {"REDIS_URL": f"redis://127.0.0.1:{redis.port}"})
    stack.callback(routers["Redis"].stop)
    return routers


def medians(slots, keys):
    found = {key: statistics.median(slot[key] for slot in slots) for key in keys}
    found["refused"] = sum(slot["refused"] + slot["failed"] for slot in slots)
    return found


def measure_rates(options, routers):
    """Closed loop: requests per second for each number of connections."""
    rounds = {(name, count): [] for name in routers for count in CONNECTION_COUNTS}
    for number in range(options.rounds):
        for count in CONNECTION_COUNTS:
            for name, router in routers.items():
                print(f"  {name}, {count} connections, round {number + 1}", file=sys.stderr)
                rounds[name, count].append(load(router, router.port, options.seconds, f"rate{number:02d}-{count}-",
                                                connections=count))
                router.settle()
    return {name: [{"connections": count, **medians(rounds[name, count], ("requests_per_s", "p50_ms", "p99_ms"))}
                   for count in CONNECTION_COUNTS] for name in routers}


def measure_latencies(options, routers, rates, tool):
    """Open loop: percentiles for each share of the maximum, and for a burst."""
    maximum = {name: next(row["requests_per_s"] for row in rows if row["connections"] == CONNECTIONS)
               for name, rows in rates.items()}
    rounds = {(name, share): [] for name in routers for share in (*SHARES, "burst")}
    for number in range(options.rounds):
        for share in SHARES:
            for name, router in routers.items():
                print(f"  {name}, {share:.0%} of the maximum, round {number + 1}", file=sys.stderr)
                rounds[name, share].append(open_loop(
                    tool, router, f"open{number:02d}-{share}-", "--rate", str(maximum[name] * share), "--seconds",
                    str(options.seconds), "--connections", str(CONNECTIONS)))
        for name, router in routers.items():
            rounds[name, "burst"].append(open_loop(tool, router, f"burst{number:02d}-", "--burst", str(BURST),
                                                   "--repeat", str(BURSTS), "--connections", str(BURST)))
    found = {}
    for name in routers:
        found[name] = [{"share": share, "rate": maximum[name] * share, **medians(rounds[name, share], FIGURES)}
                       for share in SHARES]
        found[name].append({"share": "burst", "rate": None, **medians(rounds[name, "burst"], FIGURES)})
    return found


def show(found):
    print(f"\nallocate + release; {found['rounds']} interleaved rounds of {found['seconds']} s; medians.\n"
          "Closed loop (wrk): requests per second, by connections.\n")
    for name, rows in found["rates"].items():
        for row in rows:
            print(f"  {name:9} {row['connections']:5} connections {row['requests_per_s']:8,.0f}/s  "
                  f"p50 {row['p50_ms']:7.2f} ms  p99 {row['p99_ms']:7.2f} ms  refused {row['refused']}")
    print("\nOpen loop: latency from the moment at which a request was due.\n")
    for name, rows in found["latencies"].items():
        for row in rows:
            label = (f"burst of {BURST}" if row["share"] == "burst"
                     else f"{row['share']:.0%} of the maximum, {row['rate']:,.0f}/s")
            print(f"  {name:9} {label:32} p50 {row['p50_ms']:7.2f}  p99 {row['p99_ms']:7.2f}  "
                  f"p99.9 {row['p999_ms']:7.2f}  max {row['max_ms']:7.2f} ms  refused {row['refused']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "smart-router"))
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "bench-latency.json"))
    options = parser.parse_args()
    options.binary = os.path.abspath(options.binary)
    options.json = os.path.abspath(options.json)

    if os.cpu_count() > 1:
        os.sched_setaffinity(0, {int(CLIENT_CORE)})
    else:
        print("One core only: servers and load share it, the numbers say little.", file=sys.stderr)
    directory = tempfile.mkdtemp(prefix="bench-", dir=os.path.dirname(options.json))
    try:
        with contextlib.ExitStack() as stack:
            tool = build_tool(directory)
            routers = start_routers(options, directory, stack)
            rates = measure_rates(options, routers)
            found = {"rounds": options.rounds, "seconds": options.seconds, "connections": CONNECTIONS,
                     "pods": PODS, "burst": BURST, "rates": rates,
                     "latencies": measure_latencies(options, routers, rates, tool)}
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    show(found)
    with open(options.json, "w", encoding="ascii") as file:
        json.dump(found, file, indent=2)
        file.write("\n")
    print(f"\nAll numbers: {os.path.relpath(options.json)}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
