"""kubernetes.py - what following the pods of a real control plane costs: how soon a change is seen, the first sync of many
pods and what calls feel of it, memory per pod, an idle minute. Prints the figures and writes bench-kubernetes.json.
"""
import argparse
import http.client
import json
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import common

sys.path.insert(0, os.path.join(common.ROOT, "test", "functional"))
import kube
import redis_servers

GUESTS = 20
TIERS = {"tiers": {"guest": {"target": GUESTS}, "gold": {"target": 100000}}, "default_chain": ["guest", "gold"]}


def connect_without_delay(*args, **kwargs):
    conn = _create_connection(*args, **kwargs)
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return conn


# Debian's httpx sends head and body apart and leaves Nagle's algorithm on: each patch would wait 40 ms for a delayed
# acknowledgement before the API server has it.
_create_connection = socket.create_connection
socket.create_connection = connect_without_delay


def create_pods(namespace, count, prefix="agent", app="agent"):
    """A pod is some kilobytes in the API server, as real ones are."""
    notes = {f"example.com/note-{i}": "x" * 100 for i in range(10)}
    with ThreadPoolExecutor(12) as pool:

        def create(i):
            namespace.create_pod(f"{prefix}-{i}", labels={"app": app}, annotations=notes, ip=namespace.new_ip())

        list(pool.map(create, range(count)))


class Site:
    def __init__(self, binary, plane, namespace, directory):
        self.binary = binary
        self.namespace = namespace
        self.config = str(namespace.account().kubeconfig())
        self.directory = pathlib.Path(directory)
        self.number = 0

    def start(self, data=None, **env):
        self.number += 1
        directory = str(self.directory / f"router-{self.number}")
        env = {
            "POD_SOURCE": "kubernetes",
            "KUBECONFIG": self.config,
            "NAMESPACE": self.namespace.name,
            "POD_LABEL_SELECTOR": "app=agent",
            "DATA_DIR": str(data or os.path.join(directory, "data")),
            **env,
        }
        # On any core: the list is parsed beside the loop.
        cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0)))
        return common.Router(self.binary, directory, TIERS, 0, cores, env)


def lines(router, msg):
    with open(router.log, encoding="utf-8", errors="replace") as log:
        found = [json.loads(line) for line in log if line.startswith("{")]
    return [line for line in found if line["msg"] == msg]


def when(line):
    return datetime.fromisoformat(line["time"].replace("Z", "+00:00")).timestamp()


def wait_for(condition, what, patience_s=120):
    end = time.monotonic() + patience_s
    while not (value := condition()):
        if time.monotonic() > end:
            raise RuntimeError(f"waited in vain: {what}")
        time.sleep(0.01)
    return value


def total(router):
    return json.loads(common.Client(router.port).must("GET", "/api/v1/pods?limit=1"))["total"]


def measure_events(site, namespace, count):
    """From just before the kubelet's patch is sent until the router shows that the pool has changed.

    The router is asked without a pause, so a change is seen within a fraction of a millisecond.
    """
    create_pods(namespace, 1, prefix="event")
    router = site.start()
    try:
        wait_for(lambda: total(router) > 0, "the pods are there")
        client = common.Client(router.port)
        client.must("GET", "/health")
        client.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        patches, events = [], []
        pod = namespace.pod("event-0")
        for i in range(count):
            is_ready = i % 2 == 1
            with ThreadPoolExecutor(1) as kubelet:
                began = time.perf_counter()
                patched = kubelet.submit(namespace.set_status, "event-0", ready=is_ready, pod=pod)
                while (client.ask("GET", "/api/v1/pod/event-0")[0] == 200) != is_ready:
                    pass
                events.append(time.perf_counter() - began)
                patched.result()
            patches.append(time.perf_counter() - began)
            time.sleep(0.02)
    finally:
        router.stop()
        namespace.end_pod("event-0")
    return {
        "events": count,
        "median_ms": statistics.median(events) * 1000,
        "p90_ms": sorted(events)[int(count * 0.9)] * 1000,
        "max_ms": max(events) * 1000,
        "patch_median_ms": statistics.median(patches) * 1000,
    }


def keep_calling(port, results):
    """A process: some hundred pairs a second until it is told to stop. Sends (wall time, seconds) of each allocation.

    It does not work as fast as it can: the API server, Redis and the router need the cores.
    """
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    taken = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.connect()
    connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    number = 0
    while not is_over.is_set():
        number += 1
        for path in ("allocate", "release"):
            wall, began = time.time(), time.perf_counter()
            connection.request("POST", f"/api/v1/{path}", json.dumps({"call_sid": f"CA-{os.getpid()}-{number}"}).encode())
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status}")
            if path == "allocate":
                taken.append((wall, time.perf_counter() - began))
                time.sleep(0.002)
    results.put(taken)


def seed(site, **env):
    """A store with some pods that calls can have before the first sync."""
    router = site.start(POD_SOURCE="api", **env)
    client = common.Client(router.port)
    for i in range(GUESTS):
        client.must("POST", "/api/v1/pods", {"pod_name": f"guest-{i}", "address": "127.0.0.1:9000", "tier": "guest"})
    router.stop()
    return os.path.join(router.directory, "data")


def measure_sync(site, pods, rounds, server=None):
    """Rounds of a first sync into a store without them, under calls."""
    env = {"REDIS_URL": server.url} if server else {}
    syncs, lists, cpu, waited, latencies = [], [], [], [], []
    for _ in range(rounds):
        if server:
            server.client().flushall()
        data = seed(site, **env)
        router = site.start(data=data, **env)
        results = multiprocessing.Queue()
        callers = [multiprocessing.Process(target=keep_calling, args=(router.port, results)) for _ in range(2)]
        try:
            for caller in callers:
                caller.start()
            began = wait_for(lambda: lines(router, "this router leads" if server else "listening"), "it leads")[0]
            synced = wait_for(
                lambda: [line for line in lines(router, "pods synced") if line["added"] >= pods], "the first sync"
            )[0]
            cpu.append(common.cpu_seconds(router.pid))
            waited.append(common.waited_seconds(router.pid))
            time.sleep(0.3)
            if total(router) != pods + GUESTS:
                raise RuntimeError(f"{total(router)} pods")
        finally:
            for caller in callers:
                caller.terminate()
            taken = [results.get(timeout=60) for _ in callers]
            for caller in callers:
                caller.join()
            router.stop()
        syncs.append(when(synced) - when(began))
        lists.append(when(lines(router, "pods listed")[0]) - when(began))
        # Whatever touches the time of the sync counts.
        latencies += [took for one in taken for at, took in one if when(began) - took <= at <= when(synced) + 0.002]
    latencies.sort()
    return {
        "pods": pods,
        "rounds": rounds,
        "sync_s": common.spread(syncs),
        "of_it_list_s": common.spread(lists),
        "router_cpu_s": common.spread(cpu),
        "router_waited_s": common.spread(waited),  # for a core that others had
        "allocations": len(latencies),
        "p50_ms": latencies[len(latencies) // 2] * 1000 if latencies else None,
        "p99_ms": latencies[int(len(latencies) * 0.99)] * 1000 if latencies else None,
        "max_ms": latencies[-1] * 1000 if latencies else None,
    }


def measure_rest(site, pods, idle_s, server=None):
    """Memory of the pods, and what doing nothing costs."""
    env = {"REDIS_URL": server.url} if server else {}
    if server:
        server.client().flushall()
    empty = site.start(POD_LABEL_SELECTOR="app=nobody", **env)
    time.sleep(3)
    before = common.memory_mb(empty.pid, "VmRSS")
    empty.stop()
    if server:
        server.client().flushall()
    router = site.start(**env)
    try:
        wait_for(lambda: total(router) == pods, "the pods are there")
        time.sleep(3)
        after, most = common.memory_mb(router.pid, "VmRSS"), common.memory_mb(router.pid, "VmHWM")
        used = common.cpu_seconds(router.pid)
        time.sleep(idle_s)
        used = common.cpu_seconds(router.pid) - used
        late = common.memory_mb(router.pid, "VmRSS")
    finally:
        router.stop()
    return {
        "empty_mb": before,
        "full_mb": after,
        "full_late_mb": late,
        "peak_mb": most,
        "bytes_per_pod": (late - before) * 1024 * 1024 / pods,
        "idle_s": idle_s,
        "idle_cpu_s": used,
        "idle_cpu_percent": used / idle_s * 100,
    }


def show(name, figures):
    print(f"{name}:")
    for key, value in figures.items():
        if isinstance(value, dict):
            value = ", ".join(f"{k} {v:.3f}" for k, v in value.items())
        print(f"  {key:18} {value if not isinstance(value, float) else format(value, '.3f')}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", default=os.path.join(common.ROOT, "build", "smart-router"))
    parser.add_argument("--output", default=os.path.join(common.ROOT, "build", "bench-kubernetes.json"))
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--events", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=int, default=60)
    options = parser.parse_args()
    plane = kube.ControlPlane()
    server = redis_servers.RedisServer()
    directory = tempfile.mkdtemp(prefix="sr-bench-kube-")
    report = {}
    try:
        namespace = plane.create_namespace()
        site = Site(options.binary, plane, namespace, directory)
        report["events"] = measure_events(site, namespace, options.events)
        show("from the patch of a pod's status to the change of its pool", report["events"])
        began = time.monotonic()
        create_pods(namespace, options.pods)
        print(f"{options.pods} pods created in {time.monotonic() - began:.0f} s", flush=True)
        for name, where in (("embedded", None), ("redis", server)):
            report[f"sync_{name}"] = measure_sync(site, options.pods, options.rounds, where)
            show(f"first sync, {name}", report[f"sync_{name}"])
            report[f"rest_{name}"] = measure_rest(site, options.pods, options.idle, where)
            show(f"memory and an idle time, {name}", report[f"rest_{name}"])
    finally:
        server.stop()
        plane.stop()
        shutil.rmtree(directory, ignore_errors=True)
    with open(options.output, "w", encoding="ascii") as file:
        json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
