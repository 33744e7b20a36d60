#!/usr/bin/python3
"""run.py - what an allocation costs, compared with nginx's cheapest answer on the same core.

The router (release build, embedded store, everything at its defaults, its log in a file) and nginx (one worker,
`return 200` with a body of the same size) are pinned to one core, wrk to another. All servers are up all the time
and are measured in turn, round after round, so that whatever else the machine does hits all of them; ratios are
taken within a round. Standard library only; loopback only; every process is stopped at the end.

    run.py [--rounds 5] [--seconds 4] [--operations 1000000] [--binary build/smart-router] [--json build/bench.json]
"""
import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from common import (CLIENT_CORE, CONNECTIONS, EXCLUSIVE, ROOT, SERVER_CORE, SHARED, Client, Router, free_ports, load,
                    memory_mb, pinned, spread)

NGINX_CONF = """
daemon off;
worker_processes 1;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
{user}
events {{ worker_connections 1024; }}
http {{
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    keepalive_requests 1000000000;
    default_type application/json;
    access_log {directory}/log;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 '{body}'; }} }}
    server {{ listen 127.0.0.1:{quiet_port}; access_log off; location / {{ return 200 '{body}'; }} }}
}}
"""


class Nginx:
    def __init__(self, directory, body):
        self.directory = directory
        os.makedirs(directory)
        self.port, self.quiet_port = free_ports(2)
        self.log = os.path.join(directory, "log")
        conf = os.path.join(directory, "nginx.conf")
        user = "user root;" if os.getuid() == 0 else ""
        with open(conf, "w", encoding="ascii") as file:
            file.write(NGINX_CONF.format(directory=directory, port=self.port, quiet_port=self.quiet_port, body=body,
                                         user=user))
        self.process = subprocess.Popen(
            pinned(SERVER_CORE, ["/usr/sbin/nginx", "-p", directory, "-e", directory + "/error.log", "-c", conf]),
            stdin=subprocess.DEVNULL)
        self.pid = self.find_worker()

    def find_worker(self):
        children = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        for _ in range(500):
            if self.process.poll() is not None:
                raise RuntimeError("nginx does not start")
            with open(children, encoding="ascii") as file:
                pids = file.read().split()
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                if pids:
                    return int(pids[0])
            time.sleep(0.01)
        raise RuntimeError("nginx does not start")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)

    def settle(self):
        os.truncate(self.log, 0)


def summarise(slots, base):
    """Of one server over all rounds; ratios to `base` are taken round by round."""
    summary = {key: spread([slot[key] for slot in slots])
               for key in ("requests_per_s", "p50_ms", "p99_ms", "cpu_us", "busy", "client_busy")}
    summary["pairs_per_s"] = spread([slot["requests_per_s"] / 2 for slot in slots])
    summary["failed"] = sum(slot["failed"] for slot in slots)
    summary["refused"] = sum(slot["refused"] for slot in slots)
    summary["throughput_ratio"] = spread([a["requests_per_s"] / b["requests_per_s"] for a, b in zip(slots, base)])
    summary["cpu_ratio"] = spread([a["cpu_us"] / b["cpu_us"] for a, b in zip(slots, base)])
    return summary


def answer_size(router):
    """The mean size of an answer to an allocation and to a release."""
    client = Client(router.port)
    sizes = [len(client.must("POST", f"/api/v1/{path}", {"call_sid": "size-00010000000"}))
             for path in ("allocate", "release")]
    return round(statistics.mean(sizes))


def measure_memory(router, calls):
    client = Client(router.port)
    for number in range(calls):
        client.must("POST", "/api/v1/allocate", {"call_sid": f"memory-{number:08d}", "merchant_id": "acme"})
    return memory_mb(router.pid, "VmRSS")


def measure_start(router, operations):
    """Kills the router after that many logged operations and times its way back, five times."""
    done = 0
    run = 0
    while done < operations:
        done += load(router, router.port, 5, f"start{run:03d}-")["requests"]
        run += 1
        os.truncate(router.log, 0)
    size = sum(os.path.getsize(os.path.join(folder, name))
               for folder, _, names in os.walk(router.environment["DATA_DIR"]) for name in names)
    times = []
    for _ in range(5):
        router.stop(signal.SIGKILL)
        times.append(router.start())
    return {"operations": done, "data_bytes": size, "seconds": spread(times)}


def measure(options, directory, stack):
    def router(name, tiers, pods):
        print(f"  starting the router with {name}", file=sys.stderr)
        made = Router(options.binary, os.path.join(directory, name.replace(" ", "-").replace(",", "")), tiers, pods)
        stack.callback(made.stop)
        return made

    routers = {
        "10 pods": router("10 pods", SHARED, 10),
        "1,000 pods": router("1,000 pods", SHARED, 1000),
        "10,000 pods": router("10,000 pods", SHARED, 10000),
        "1,000 exclusive": router("1,000 exclusive", EXCLUSIVE, 1000),
        "10,000 exclusive": router("10,000 exclusive", EXCLUSIVE, 10000),
    }
    size = answer_size(routers["10 pods"])
    nginx = Nginx(os.path.join(directory, "nginx"), "x" * size)
    stack.callback(nginx.stop)

    servers = {"nginx": (nginx, nginx.port), "nginx, no log": (nginx, nginx.quiet_port)}
    servers.update({name: (made, made.port) for name, made in routers.items()})
    rounds = {name: [] for name in servers}
    for number in range(-1, options.rounds):
        print(f"  round {number + 1} of {options.rounds}" if number >= 0 else "  warming up", file=sys.stderr)
        for name, (server, port) in servers.items():
            slot = load(server, port, options.seconds if number >= 0 else 1, f"round{number + 1:02d}-")
            server.settle()
            if number >= 0:
                rounds[name].append(slot)

    found = {"answer_bytes": size, "connections": CONNECTIONS, "rounds": options.rounds,
             "seconds": options.seconds,
             "servers": {name: summarise(slots, rounds["nginx"]) for name, slots in rounds.items()}}
    for name in routers:
        found["servers"][name]["throughput_ratio_no_log"] = spread(
            [a["requests_per_s"] / b["requests_per_s"] for a, b in zip(rounds[name], rounds["nginx, no log"])])
    found["pods_cost_ratio"] = spread(
        [a["cpu_us"] / b["cpu_us"] for a, b in zip(rounds["10,000 pods"], rounds["10 pods"])])

    print("  memory", file=sys.stderr)
    fresh = router("memory", EXCLUSIVE, 10000)
    found["resident_mb"] = {"fresh": measure_memory(fresh, 10000),
                            "after_load": measure_memory(routers["10,000 exclusive"], 10000)}
    found["peak_mb"] = memory_mb(routers["10,000 exclusive"].pid, "VmHWM")
    for made in list(routers.values()) + [fresh]:
        made.stop()

    print(f"  start after {options.operations:,} operations", file=sys.stderr)
    found["start"] = measure_start(router("start", EXCLUSIVE, 10000), options.operations)
    return found


def judge(found):
    """The targets, each with what was measured and whether it is met."""
    servers = [found["servers"][name] for name in found["servers"] if not name.startswith("nginx")]
    throughput = min(server["throughput_ratio"]["median"] for server in servers)
    cpu = max(server["cpu_ratio"]["median"] for server in servers)
    pods = found["pods_cost_ratio"]["median"]
    memory = max(found["resident_mb"].values())
    start = found["start"]["seconds"]["max"]
    failed = sum(server["failed"] + server["refused"] for server in servers)
    return [
        ("throughput, of nginx's", "at least 0.75", f"{throughput:.2f}", throughput >= 0.75),
        ("throughput, of nginx's (the goal)", "at least 0.90", f"{throughput:.2f}", throughput >= 0.9),
        ("CPU per request, of nginx's", "at most 1.5", f"{cpu:.2f}", cpu <= 1.5),
        ("CPU at 10,000 pods, of that at 10", "at most 1.1", f"{pods:.2f}", pods <= 1.1),
        ("resident, 10,000 pods and calls", "at most 25 MB", f"{memory:.1f} MB", memory <= 25),
        (f"ready after {found['start']['operations']:,} operations", "within 1 s", f"{start:.2f} s", start <= 1),
        ("requests that failed or were refused", "none", str(failed), failed == 0),
    ]


def show(found):
    def ratio(value):
        return f"{value['median']:5.2f} ({value['min']:.2f}-{value['max']:.2f})"

    print(f"\nallocate + release, {found['connections']} connections, {found['rounds']} interleaved rounds of "
          f"{found['seconds']} s, answers of {found['answer_bytes']} bytes; median (least-most).\n"
          "The router logs every request and nginx writes its access log, both to a file; 'no log' is nginx with "
          "access_log off.\n10, 1,000 and 10,000 pods are in a shared tier, because ten exclusive pods cannot carry "
          "64 calls.\n")
    head = (f"{'':18} {'requests/s':>10} {'pairs/s':>8} {'p50 ms':>7} {'p99 ms':>7} {'CPU us':>7} {'busy':>5}  "
            f"{'throughput/nginx':>18} {'CPU/nginx':>18} {'refused':>7}")
    print(head)
    print("-" * len(head))
    for name, one in found["servers"].items():
        print(f"{name:18} {one['requests_per_s']['median']:10,.0f} {one['pairs_per_s']['median']:8,.0f} "
              f"{one['p50_ms']['median']:7.2f} {one['p99_ms']['median']:7.2f} {one['cpu_us']['median']:7.2f} "
              f"{one['busy']['median']:5.0%}  {ratio(one['throughput_ratio']):>18} {ratio(one['cpu_ratio']):>18} "
              f"{one['refused'] + one['failed']:7}")
    print("-" * len(head))
    memory, start = found["resident_mb"], found["start"]
    print(f"resident with 10,000 pods and 10,000 calls: {memory['fresh']:.1f} MB, after load "
          f"{memory['after_load']:.1f} MB (peak while a snapshot is made {found['peak_mb']:.1f} MB);\n"
          f"ready {ratio(start['seconds']).strip()} s after kill -9 with "
          f"{start['operations']:,} operations ({start['data_bytes'] / 1e6:.0f} MB on disk)\n")
    busy = min(one["busy"]["median"] for one in found["servers"].values())
    client_busy = max(one["client_busy"]["median"] for one in found["servers"].values())
    if busy < 0.9:
        why = ("wrk was the limit" if client_busy > 0.9 else "something else runs on this machine")
        print(f"The servers had as little as {busy:.0%} of their core ({why}): trust CPU per request, not throughput.\n")
    for what, target, value, met in found["targets"]:
        print(f"  {'met   ' if met else 'MISSED'}  {what}: {value} ({target})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--operations", type=int, default=1000000)
    parser.add_argument("--binary", default=os.path.join(ROOT, "build", "smart-router"))
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "bench.json"))
    options = parser.parse_args()
    options.binary = os.path.abspath(options.binary)

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
