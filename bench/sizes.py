#!/usr/bin/python3
"""sizes.py - what a pod, a call and a stream take: the constants of docs/SCALING.md. Half a minute.

Bytes of memory in Redis and in the router, bytes between the two for a call, descriptors and bytes of audio for a stream. Sizes,
not times: other programs may run meanwhile. Loopback only; every process is stopped at the end.

    sizes.py [--calls 5000] [--streams 200] [--build build] [--json build/bench-sizes.json]
"""
import argparse
import contextlib
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.request

from common import EXCLUSIVE, ROOT, Client, Router, free_ports, memory_mb
from gateway import SECRET
from redis_store import Redis

TALK_S = 8


def info(redis, section, name):
    return int(re.search(rf"^{name}:(\d+)", redis.ask("INFO", section), re.MULTILINE).group(1))


def settled_memory(redis):
    """used_memory, after a moment in which buffers are given back and tables are resized."""
    time.sleep(1)
    redis.ask("MEMORY", "PURGE")
    return info(redis, "memory", "used_memory")


def traffic(redis):
    return info(redis, "stats", "total_net_input_bytes") + info(redis, "stats", "total_net_output_bytes")


def measure_store(options, directory, stack):
    redis = Redis(directory + "/redis")
    stack.callback(redis.stop)
    env = {"REDIS_URL": f"redis://127.0.0.1:{redis.port}", "LEADER_ELECTION_ENABLED": "false"}
    router = Router(options.binary, directory + "/router", EXCLUSIVE, 0, environment=env)
    stack.callback(router.stop)
    client = Client(router.port)
    sids = [f"CA{number:032x}" for number in range(options.calls)]  # as long as Twilio's
    empty = settled_memory(redis)
    for number in range(options.calls):
        pod = {"pod_name": f"voice-agent-{number}", "address": f"10.0.{number >> 8}.{number & 255}:8000"}
        client.must("POST", "/api/v1/pods", pod)
    with_pods = settled_memory(redis)
    before = traffic(redis)
    for call_sid in sids:
        client.must("POST", "/api/v1/allocate", {"call_sid": call_sid, "merchant_id": "merchant-1"})
    sent = traffic(redis) - before
    with_calls = settled_memory(redis)
    for first in range(0, options.calls, 100):
        client.must("POST", "/api/v1/renew", {"call_sids": sids[first : first + 100]})
    renewed = settled_memory(redis)
    before = traffic(redis)
    for call_sid in sids:
        client.must("POST", "/api/v1/release", {"call_sid": call_sid})
    sent += traffic(redis) - before
    ended = settled_memory(redis)
    return {
        "redis bytes per pod": (with_pods - empty) / options.calls,
        "redis bytes per call": (with_calls - with_pods) / options.calls,
        "redis bytes per renewed call": (renewed - with_pods) / options.calls,
        "redis bytes per recorded end, for ten minutes": (ended - with_pods) / options.calls,
        "bytes between router and redis per call": sent / options.calls,
    }


def gateway_counts(router):
    page = urllib.request.urlopen(f"http://127.0.0.1:{router.metrics_port}/metrics", timeout=30).read().decode()
    total = lambda name: sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))
    return total("smart_router_gateway_connections "), total("smart_router_gateway_bytes_total")


def measure_streams(options, directory, stack):
    agent_port, = free_ports(1)
    agent = subprocess.Popen([f"{options.build}/tools/agent-sim", "--base-port", str(agent_port)], stdout=subprocess.DEVNULL)
    stack.callback(lambda: (agent.terminate(), agent.wait()))
    tiers = {"standard": {"type": "shared", "target": 1, "max_concurrent": 1000}}
    env = {"STATIC_PODS": f"agent=127.0.0.1:{agent_port}", "POD_SOURCE": "", "GATEWAY_SECRET": SECRET}
    router = Router(options.binary, directory + "/gateway", tiers, 0, environment=env)
    stack.callback(router.stop)
    descriptors = lambda: len(os.listdir(f"/proc/{router.pid}/fd"))
    base = f"http://127.0.0.1:{router.port}"
    command = [f"{options.build}/tools/provider-sim", "--router", base, "--connect-to", base.removeprefix("http://"), "--provider", "twilio"]
    command += ["--concurrent", str(options.streams), "--calls", str(options.streams), "--rate", "100", "--seconds", str(TALK_S), "--quiet", "--json"]
    before = memory_mb(router.pid, "VmRSS"), descriptors()
    provider = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while gateway_counts(router)[0] < options.streams:
        if provider.poll() is not None:
            raise RuntimeError("the streams were not opened")
        time.sleep(0.1)
    time.sleep(1)
    memory, files = memory_mb(router.pid, "VmRSS") - before[0], descriptors() - before[1]
    summary = json.loads(provider.communicate()[0])
    frames = summary["frames_sent"] + summary["frames_echoed"]
    return {
        "router bytes per stream": memory * 1024 * 1024 / options.streams,
        "descriptors per stream": files / options.streams,
        "bytes of a frame (twilio, with its WebSocket header)": gateway_counts(router)[1] / frames,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--calls", type=int, default=5000)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--json", default=os.path.join(ROOT, "build", "bench-sizes.json"))
    options = parser.parse_args()
    options.binary = os.path.join(options.build, "smart-router")
    found = {}
    for measure in (measure_store, measure_streams):
        with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
            found.update(measure(options, directory, stack))
    for name, value in found.items():
        print(f"{name:55} {value:10,.1f}")
    with open(options.json, "w", encoding="ascii") as file:
        json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
