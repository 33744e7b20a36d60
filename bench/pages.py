#!/usr/bin/python3
"""pages.py - how much an allocation is delayed by a client that fetches /metrics or pages of 1,000 pods without pause.

wrk allocates and releases with 64 connections, alone and beside a second wrk that has one connection and fetches one path
as fast as it is answered. All are measured in turn, round after round; ratios of p99 are taken within a round. The router has
one core, both clients the other; with Redis, Redis has the first core and the router shares the other. Standard library
only; loopback only; every process is stopped at the end. Exits with 1 if the goal is missed.

    pages.py [--rounds 5] [--seconds 3] [--binary build/smart-router] [--json build/bench-pages.json]
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

from common import CLIENT_CORE, ROOT, SERVER_CORE, SHARED, Client, Router, load, pinned
from redis_store import Redis

PODS = 2000
CALLS = 1000
PATHS = {"/metrics": "/metrics", "pods": "/api/v1/pods?limit=1000", "calls": "/api/v1/calls?limit=1000"}
GOAL = 2.0  # of the quiet p99


def fetch(router, path, seconds):
    return subprocess.Popen(
        pinned(CLIENT_CORE, ["wrk", "-t1", "-c1", f"-d{seconds}s", f"http://127.0.0.1:{router.port}{path}"]),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)


def fetched(process):
    text = process.communicate()[0]
    return next((int(line.split()[0]) for line in text.splitlines() if "requests in" in line), 0)


def start_routers(options, directory, stack):
    redis = Redis(os.path.join(directory, "redis"))
    stack.callback(redis.stop)
    routers = {}
    for store, core, environment in (("embedded", SERVER_CORE, {}),
                                     ("redis", CLIENT_CORE, {"REDIS_URL": f"redis://127.0.0.1:{redis.port}"})):
        router = Router(options.binary, os.path.join(directory, "router-" + store), SHARED, PODS, core, environment)
        stack.callback(router.stop)
        client = Client(router.port)
        for number in range(CALLS):
            client.must("POST", "/api/v1/allocate", {"call_sid": f"stays-{number}"})
        routers[store] = router
    return routers


def measure(options, routers):
    slots = {(store, name): [] for store in routers for name in ("quiet", *PATHS)}
    for number in range(options.rounds):
        for (store, name), found in slots.items():
            print(f"  {store}, {name}, round {number + 1}", file=sys.stderr)
            router = routers[store]
            beside = fetch(router, PATHS[name], options.seconds + 1) if name in PATHS else None
            found.append(load(router, router.port, options.seconds, f"{name.strip('/')}{number}-"))
            found[-1]["fetched"] = fetched(beside) if beside else 0
            os.truncate(router.log, 0)
    return slots


def summarise(slots):
    rows = []
    for (store, name), found in slots.items():
        quiet = slots[store, "quiet"]
        rows.append({"store": store, "beside": name,
                     **{key: statistics.median(slot[key] for slot in found)
                        for key in ("requests_per_s", "p50_ms", "p99_ms", "max_ms", "fetched")},
                     "p99_ratio": statistics.median(a["p99_ms"] / b["p99_ms"] for a, b in zip(found, quiet)),
                     "failed": sum(slot["failed"] + slot["refused"] for slot in found)})
    return rows


def show(rows, options):
    print(f"\nallocate + release with 64 connections beside a client that fetches without pause; {options.rounds} rounds of "
          f"{options.seconds} s, medians\n")
    for row in rows:
        print(f"  {row['store']:9} {row['beside']:9} {row['requests_per_s']:8,.0f}/s  p50 {row['p50_ms']:5.2f}  "
              f"p99 {row['p99_ms']:5.2f} ms ({row['p99_ratio']:.2f} of quiet)  fetched {row['fetched']:,.0f}"
              + (f"  FAILED {row['failed']}" if row["failed"] else ""))
    worst = max(row["p99_ratio"] for row in rows)
    met = worst <= GOAL and not any(row["failed"] for row in rows)
    print(f"\n  {'met   ' if met else 'MISSED'}  p99 beside another client, of the quiet one: {worst:.2f} (at most {GOAL})")
    return met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "smart-router"))
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "bench-pages.json"))
    options = parser.parse_args()
    options.binary = os.path.abspath(options.binary)
    if os.cpu_count() > 1:
        os.sched_setaffinity(0, {int(CLIENT_CORE)})
    directory = tempfile.mkdtemp(prefix="bench-", dir=os.path.dirname(os.path.abspath(options.json)))
    try:
        with contextlib.ExitStack() as stack:
            rows = summarise(measure(options, start_routers(options, directory, stack)))
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    met = show(rows, options)
    with open(options.json, "w", encoding="ascii") as file:
        json.dump(rows, file, indent=2)
        file.write("\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
