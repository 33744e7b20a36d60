#!/usr/bin/python3
"""compare.py - two builds of the router side by side: requests per second, latency and CPU, by connections.

Both are up all the time and are measured in turn, round after round; ratios are taken within a round. So whatever
else the machine does hits both. The cores are shared out as in run.py (embedded: the router has a core, wrk the other)
and in redis_store.py (Redis has a core, the router and wrk share the other). Standard library only; loopback only.

    compare.py --old OTHER/build/smart-router [--new build/smart-router] [--stores redis,embedded]
               [--connections 1,8,16,64,256,1000] [--rounds 5] [--seconds 3] [--set NAME=VALUE …]
               [--json build/bench-compare.json]
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile

from common import CLIENT_CORE, EXCLUSIVE, ROOT, SERVER_CORE, SHARED, Router, cpu_seconds, load, spread
from redis_store import Redis

PODS = 1000
FIGURES = ("requests_per_s", "p50_ms", "p99_ms", "cpu_us", "redis_cpu_us")


class Side:
    """One build with one store."""

    def __init__(self, options, stack, directory, binary, store):
        self.redis = None
        environment = dict(pair.split("=", 1) for pair in options.set)
        os.makedirs(directory)
        if store == "redis":
            self.redis = Redis(os.path.join(directory, "redis"))
            stack.callback(self.redis.stop)
            environment["REDIS_URL"] = f"redis://127.0.0.1:{self.redis.port}"
        self.router = Router(binary, os.path.join(directory, "router"), EXCLUSIVE if options.exclusive else SHARED,
                             PODS, CLIENT_CORE if self.redis else SERVER_CORE, environment)
        stack.callback(self.router.stop)

    def measure(self, seconds, prefix, connections):
        before = cpu_seconds(self.redis.pid) if self.redis else 0
        found = load(self.router, self.router.port, seconds, prefix, connections=connections)
        used = cpu_seconds(self.redis.pid) - before if self.redis else 0
        found["redis_cpu_us"] = used * 1e6 / found["requests"]
        self.router.settle()
        return found


def ratio(new, old):
    """Of each round, so that both have seen the same machine. None: the figure does not exist with this store."""
    return {key: spread([a[key] / b[key] for a, b in zip(new, old)]) if old[0][key] else None for key in FIGURES}


def measure(options, stack, directory):
    rows = []
    for store in options.stores:
        sides = {name: Side(options, stack, os.path.join(directory, f"{store}-{name}"), binary, store)
                 for name, binary in (("old", options.old), ("new", options.new))}
        for connections in options.connections:
            slots = {"old": [], "new": []}
            for number in range(-1, options.rounds):
                print(f"  {store}, {connections} connections, round {number + 1} of {options.rounds}", file=sys.stderr)
                # Turn about, so that neither is always the first.
                for name in ("old", "new") if number % 2 else ("new", "old"):
                    slot = sides[name].measure(options.seconds if number >= 0 else 1,
                                               f"c{connections}-{number + 1}-", connections)
                    if number >= 0:
                        slots[name].append(slot)
            rows.append({"store": store, "connections": connections, "ratio": ratio(slots["new"], slots["old"]),
                         "failed": sum(s["failed"] + s["refused"] for side in slots.values() for s in side),
                         **{name: {key: spread([s[key] for s in side]) for key in FIGURES}
                            for name, side in slots.items()}})
            show_row(rows[-1])
    return rows


def show_row(row):
    def pair(key, digits):
        return f"{row['old'][key]['median']:.{digits}f} -> {row['new'][key]['median']:.{digits}f}"

    def times(key):
        found = row["ratio"][key]
        return f"{found['median']:.2f} ({found['min']:.2f}-{found['max']:.2f})" if found else ""

    print(f"{row['store']:9}{row['connections']:5}  requests/s {pair('requests_per_s', 0):16} {times('requests_per_s'):18}"
          f" p50 ms {pair('p50_ms', 2):14} {times('p50_ms'):18} p99 ms {pair('p99_ms', 2):14} {times('p99_ms'):18}"
          f" router us {pair('cpu_us', 1):13} {times('cpu_us'):18} Redis us {pair('redis_cpu_us', 1):13} "
          f"{times('redis_cpu_us')}" + (f"  FAILED {row['failed']}" if row["failed"] else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", default=os.path.join(ROOT, "build", "smart-router"))
    parser.add_argument("--stores", type=lambda text: text.split(","), default=["redis", "embedded"])
    parser.add_argument("--connections", type=lambda text: [int(part) for part in text.split(",")],
                        default=[1, 8, 16, 64, 256, 1000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--exclusive", action="store_true", help="pods for one call each, instead of shared ones")
    parser.add_argument("--set", action="append", default=[], help="a setting for both: NAME=VALUE")
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "bench-compare.json"))
    options = parser.parse_args()
    options.old, options.new = os.path.abspath(options.old), os.path.abspath(options.new)
    if os.cpu_count() > 1:
        os.sched_setaffinity(0, {int(CLIENT_CORE)})
    directory = tempfile.mkdtemp(prefix="bench-", dir=os.path.dirname(os.path.abspath(options.json)))
    try:
        with contextlib.ExitStack() as stack:
            rows = measure(options, stack, directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    with open(options.json, "w", encoding="ascii") as file:
        json.dump(rows, file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
