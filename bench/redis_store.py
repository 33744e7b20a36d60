#!/usr/bin/python3
"""redis_store.py - what an allocation costs with the store in Redis, compared with redis-benchmark.

Redis is pinned to one core; the router and wrk share the other, or redis-benchmark has it. Both load the same Redis
with the same scripts and the same arguments (those that the router was seen sending), allocations and releases in
equal numbers, over 64 connections without pipelining. They take turns, round after round, so that whatever else the
machine does hits both; ratios are taken within a round. redis-benchmark sends one command only, so that it allocates a
few thousand calls and then releases them. Redis does not save to disk. Standard library only; loopback only; every
process is stopped at the end.

    redis_store.py [--rounds 5] [--seconds 4] [--binary build/smart-router] [--json build/bench-redis.json]
"""
import argparse
import contextlib
import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from common import (CLIENT_CORE, CONNECTIONS, EXCLUSIVE, ROOT, SERVER_CORE, SHARED, Client, Router, cpu_seconds,
                    free_ports, load, pinned, spread, waited_seconds)

CALLS = 8000  # that redis-benchmark has at once: ten pods of the shared tier have room for 10,000
SIZES = {"10 pods": (SHARED, 10), "10,000 pods": (SHARED, 10000), "10,000 exclusive": (EXCLUSIVE, 10000)}
# What a script with nine plain commands costs on this machine: the measure for what ours cost in Redis.
YARDSTICK = """
local key, lease = 'yardstick:' .. ARGV[1], 'yardstick:lease:' .. ARGV[1]
redis.call('HGET', key, 'pod')
redis.call('HSET', key, 'pod', 'voice-agent-0', 'pool', 'gold', 'merchant', '', 'at', '1', 'provider', '')
redis.call('PEXPIRE', key, '100000')
redis.call('SET', lease, ARGV[1], 'PX', '100000')
redis.call('ZADD', 'yardstick:calls', '1', ARGV[1])
redis.call('ZREM', 'yardstick:calls', ARGV[1])
redis.call('SADD', 'yardstick:free', ARGV[1])
redis.call('SREM', 'yardstick:free', ARGV[1])
redis.call('DEL', key, lease)
return 1
"""
YARDSTICK_COMMANDS = 9
CPU_IN_COMMANDS = 8.6  # of the yardstick: 18 us where one of them takes 2.1 us
CALL_SID = "call__rand_int__"  # as long as the ones that wrk sends, once the number is in it


class Redis:
    def __init__(self, directory):
        os.makedirs(directory)
        self.port, = free_ports(1)
        self.process = subprocess.Popen(
            pinned(SERVER_CORE, ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                                 "--appendonly", "no", "--dir", directory, "--logfile", directory + "/log"]),
            stdin=subprocess.DEVNULL)
        for _ in range(500):
            with contextlib.suppress(OSError):
                if self.ask("PING") == "PONG":
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.01)
        raise RuntimeError("Redis does not start")

    @property
    def pid(self):
        return self.process.pid

    def connect(self, *command):
        connection = socket.create_connection(("127.0.0.1", self.port), 10)
        connection.sendall(f"*{len(command)}\r\n".encode()
                           + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in command))
        return connection

    def ask(self, *command):
        with self.connect(*command) as connection, connection.makefile("rb") as file:
            head = file.readline().decode().rstrip()
            if head[:1] == "-":
                raise RuntimeError(head[1:])
            return file.read(int(head[1:])).decode() if head[:1] == "$" else head[1:]

    def watch(self, act):
        """The scripts that Redis is asked to run while act() runs, as lists of arguments."""
        with self.connect("MONITOR") as connection:
            assert connection.recv(5) == b"+OK\r\n"
            act()
            self.ask("ECHO", "that-was-all")
            text = b""
            while b'"that-was-all"' not in text:
                text += connection.recv(65536)
        commands = [[re.sub(r"\\(x..|.)", unescaped, word) for word in re.findall(r'"((?:[^"\\]|\\.)*)"', line)]
                    for line in text.decode().splitlines()]
        return [command for command in commands if command and command[0].upper() == "EVALSHA"]

    def stats(self):
        """How often each command has run since the last CONFIG RESETSTAT."""
        return {name: int(calls) for name, calls in
                re.findall(r"cmdstat_(\S+):calls=(\d+)", self.ask("INFO", "commandstats"))}

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)


def unescaped(match):
    what = match.group(1)
    return chr(int(what[1:], 16)) if what[0] == "x" else {"n": "\n", "r": "\r", "t": "\t"}.get(what, what)


def undated(command):
    """A script that changes something has a deadline, its last argument: here it may be called at any time."""
    return command[:-1] + ["9" * 15] if re.fullmatch(r"\d{15}", command[-1]) else command


class Site:
    """One Redis with its router, and the commands that the router sends."""

    def __init__(self, options, directory, stack, name):
        tiers, pods = SIZES[name]
        directory = os.path.join(directory, re.sub(r"\W+", "-", name))
        self.redis = Redis(directory + "-redis")
        stack.callback(self.redis.stop)
        self.router = Router(options.binary, directory, tiers, pods, CLIENT_CORE,
                             {"REDIS_URL": f"redis://127.0.0.1:{self.redis.port}"})
        stack.callback(self.router.stop)
        client = Client(self.router.port)
        self.commands = []
        for path in ("allocate", "release"):
            seen = self.redis.watch(lambda: client.must("POST", f"/api/v1/{path}", {"call_sid": "seen-00010000000"}))
            # Twice the same if Redis did not know the script yet.
            mine = [undated(command) for command in seen if "seen-00010000000" in command]
            if not mine or mine[0] != mine[-1]:
                raise RuntimeError(f"{path} is not one script: {seen}")
            self.commands.append([CALL_SID if word == "seen-00010000000" else word for word in mine[0]])

    def measured(self, act):
        """Calls act(), which gives a dictionary with "requests", and adds what that cost."""
        self.redis.ask("CONFIG", "RESETSTAT")
        before, waited_before = cpu_seconds(self.redis.pid), waited_seconds(self.redis.pid)
        found = act()
        used, waited = cpu_seconds(self.redis.pid) - before, waited_seconds(self.redis.pid) - waited_before
        stats = self.redis.stats()
        scripts = stats.pop("evalsha", 0)
        inner = sum(calls for name, calls in stats.items() if name not in ("config|resetstat", "info"))
        found.update({"redis_cpu_us": used * 1e6 / found["requests"], "redis_cpu_s": used,
                      "waited": waited / (used + waited),
                      "scripts_per_op": scripts / found["requests"], "commands_per_op": inner / found["requests"]})
        return found


def benchmark_once(site, command, shim):
    """redis-benchmark with one of the two scripts. Returns seconds, p50 and p99 as it tells them."""
    run = subprocess.run(
        pinned(CLIENT_CORE, ["redis-benchmark", "-p", str(site.redis.port), "-c", str(CONNECTIONS), "-n", str(CALLS),
                             "-P", "1", "-r", "1000000000", "--csv", *command]),
        capture_output=True, text=True, timeout=60, check=True,
        env={**os.environ, "LD_PRELOAD": shim} if shim else None)
    row = list(csv.reader(run.stdout.splitlines(keepends=True)))[-1]
    return CALLS / float(row[1]), float(row[4]), float(row[6])


def benchmark(site, seconds, shim):
    def act():
        spent, runs, latencies = 0, 0, []
        while spent < seconds:
            for command, left in zip(site.commands, (CALLS, 0)):
                took, p50, p99 = benchmark_once(site, command, shim)
                spent += took
                runs += 1
                latencies.append((p50, p99))
                live = int(site.redis.ask("ZCARD", "voice:calls:active"))
                if live != left:
                    raise RuntimeError(f"redis-benchmark left {live} calls, not {left}")
        return {"requests": runs * CALLS, "requests_per_s": runs * CALLS / spent, "spent": spent,
                "p50_ms": sum(p50 for p50, _ in latencies) / runs, "p99_ms": max(p99 for _, p99 in latencies)}

    found = site.measured(act)
    found["busy"] = found["redis_cpu_s"] / found["spent"]
    return found


def yardstick(site):
    """What Redis spends on each command of a plain script, in microseconds."""
    command = ["EVALSHA", site.redis.ask("SCRIPT", "LOAD", YARDSTICK), "0", CALL_SID]

    def act():
        benchmark_once(site, command, None)
        return {"requests": CALLS}

    return site.measured(act)["redis_cpu_us"] / YARDSTICK_COMMANDS


def route(site, seconds, prefix):
    found = site.measured(lambda: load(site.router, site.router.port, seconds, prefix))
    found["busy"] = found["redis_cpu_s"] * found["requests_per_s"] / found["requests"]
    site.router.settle()
    return found


def build_shim(directory):
    shim = os.path.join(directory, "in_order.so")
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", shim, os.path.join(ROOT, "bench", "in_order.c")], check=True)
    return shim


def summarise(slots):
    keys = ("requests_per_s", "p50_ms", "p99_ms", "redis_cpu_us", "busy", "waited", "scripts_per_op", "commands_per_op")
    summary = {key: spread([slot[key] for slot in slots]) for key in keys}
    if "cpu_us" in slots[0]:
        summary["router_cpu_us"] = spread([slot["cpu_us"] for slot in slots])
        summary["failed"] = sum(slot["failed"] + slot["refused"] for slot in slots)
    return summary


def measure(options, directory, stack):
    shim = build_shim(directory)
    sites = {}
    for name in SIZES:
        print(f"  starting Redis and a router with {name}", file=sys.stderr)
        sites[name] = Site(options, directory, stack, name)
    benched, routed = {name: [] for name in SIZES}, {name: [] for name in SIZES}
    yardsticks = []
    for number in range(-1, options.rounds):
        print(f"  round {number + 1} of {options.rounds}" if number >= 0 else "  warming up", file=sys.stderr)
        yardsticks.append(yardstick(sites["10 pods"]))
        for name, site in sites.items():
            seconds = options.seconds if number >= 0 else 1
            slots = benchmark(site, seconds, shim), route(site, seconds, f"round{number + 1:02d}-")
            if number >= 0:
                benched[name].append(slots[0])
                routed[name].append(slots[1])
    found = {"connections": CONNECTIONS, "rounds": options.rounds, "seconds": options.seconds, "sizes": {},
             "yardstick_us": spread(yardsticks)}
    for name in SIZES:
        found["sizes"][name] = {
            "redis_benchmark": summarise(benched[name]), "router": summarise(routed[name]),
            "ratio": spread([a["requests_per_s"] / b["requests_per_s"] for a, b in zip(routed[name], benched[name])])}
    found["flat"] = {
        key: spread([a[key] / b[key] for a, b in zip(routed["10,000 pods"], routed["10 pods"])])
        for key in ("redis_cpu_us", "cpu_us")}
    return found


def judge(found):
    """The targets, each with what was measured and whether it is met: always the worst of the sizes."""
    sizes = found["sizes"].values()
    ratio = min(size["ratio"]["median"] for size in sizes)
    redis_cpu = max(size["router"]["redis_cpu_us"]["median"] for size in sizes)
    busy = min(size["router"]["busy"]["median"] for size in sizes)
    command = found["yardstick_us"]["median"]
    flat = max(value["median"] for value in found["flat"].values())
    failed = sum(size["router"]["failed"] for size in sizes)
    scripts = max(size["router"]["scripts_per_op"]["median"] for size in sizes)
    return [
        ("operations, of redis-benchmark's", "at least 1.0", f"{ratio:.2f}", ratio >= 1),
        ("Redis is busy", "at least 70%", f"{busy:.0%}", busy >= 0.7),
        ("Redis CPU per operation", f"at most {CPU_IN_COMMANDS} plain commands",
         f"{redis_cpu:.1f} us, {redis_cpu / command:.1f} plain commands", redis_cpu <= CPU_IN_COMMANDS * command),
        ("CPU at 10,000 pods, of that at 10", "at most 1.15", f"{flat:.2f}", flat <= 1.15),
        ("scripts per operation", "at most 1", f"{scripts:.2f}", scripts < 1.02),
        ("requests that failed or were refused", "none", str(failed), failed == 0),
    ]


def show(found):
    print(f"\nallocate + release with the store in Redis, {found['connections']} connections, {found['rounds']} "
          f"interleaved rounds of {found['seconds']} s; medians.\nRedis has one core, the router and wrk share the "
          "other. An operation is an allocation or a release; ratios are (least-most).\n")
    head = (f"{'':18} {'':15} {'ops/s':>8} {'pairs/s':>8} {'p50 ms':>7} {'p99 ms':>7} {'Redis us':>8} {'busy':>5} "
            f"{'router us':>9} {'scripts':>7} {'commands':>8}  {'of redis-benchmark':>18}")
    print(head)
    print("-" * len(head))
    for name, size in found["sizes"].items():
        for who, one in (("redis-benchmark", size["redis_benchmark"]), ("router", size["router"])):
            router_us = f"{one['router_cpu_us']['median']:9.1f}" if "router_cpu_us" in one else f"{'':9}"
            ratio = size["ratio"]
            ratio = f"{ratio['median']:.2f} ({ratio['min']:.2f}-{ratio['max']:.2f})" if who == "router" else ""
            print(f"{name:18} {who:15} {one['requests_per_s']['median']:8,.0f} "
                  f"{one['requests_per_s']['median'] / 2:8,.0f} {one['p50_ms']['median']:7.2f} "
                  f"{one['p99_ms']['median']:7.2f} {one['redis_cpu_us']['median']:8.1f} {one['busy']['median']:5.0%} "
                  f"{router_us} {one['scripts_per_op']['median']:7.2f} {one['commands_per_op']['median']:8.1f}  {ratio:>18}")
            name = ""
    print("-" * len(head))
    print(f"\nOn this machine Redis spends {found['yardstick_us']['median']:.1f} us on each command of a plain script "
          "that redis-benchmark calls.\n")
    waited = max(one["waited"]["median"] for size in found["sizes"].values()
                 for one in (size["redis_benchmark"], size["router"]))
    if waited > 0.1:
        print(f"Redis had to wait for its core for up to {waited:.0%} of the time that it wanted to run: something else "
              "runs on this\nmachine. Throughput says little, and CPU per operation is too high, because caches are shared "
              "as well.\n")
    for what, target, value, met in found["targets"]:
        print(f"  {'met   ' if met else 'MISSED'}  {what}: {value} ({target})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "smart-router"))
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "bench-redis.json"))
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
            found = measure(options, directory, stack)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    found["targets"] = judge(found)
    show(found)
    with open(options.json, "w", encoding="ascii") as file:
        json.dump(found, file, indent=2)
        file.write("\n")
    print(f"\nAll numbers: {os.path.relpath(options.json)}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
