#!/usr/bin/python3
"""connects.py - very many streams, one after the other: does the router grow?

provider-sim places calls of one frame each, some at a time, through the gateway to one agent-sim; each is a webhook, two
connections, a release. Meanwhile the router's memory and descriptors are read again and again. Every call must succeed and be
released; from the first tenth on, neither may grow with the number of calls. Loopback only; every process is stopped at the end.

    connects.py [--calls 1000000] [--concurrent 32] [--build build]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from common import ROOT, Client, Router, free_ports, memory_mb

SAMPLES = 20
SECRET = "a-secret-of-the-bench-0123456789"
GROWTH_MB = 1.0  # between a tenth of the calls and all of them: what an allocator takes without being asked
DRAIN_S = 10


def start_agent(build):
    port, control_port = free_ports(2)
    agent = subprocess.Popen([os.path.join(build, "tools", "agent-sim"), "--base-port", str(port), "--control-port", str(control_port)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    for line in agent.stdout:
        if line.strip() == "ready":
            return agent, port
    raise RuntimeError("agent-sim does not get ready")


def opened(client):
    for line in client.must("GET", "/metrics").decode().splitlines():
        if line.startswith("smart_router_gateway_opened_total "):
            return int(float(line.split()[1]))
    return 0


def sample(router, client):
    return {"opened": opened(client), "mb": memory_mb(router.pid, "VmRSS"), "descriptors": len(os.listdir(f"/proc/{router.pid}/fd"))}


def watch(provider, router, client, calls):
    """Looks whenever another twentieth of the calls is done."""
    samples = [sample(router, client)]
    print(f"{'opened':>9} {'MB':>7} {'descriptors':>12}")
    while provider.poll() is None:
        time.sleep(0.5)
        now = sample(router, client)
        if now["opened"] - samples[-1]["opened"] >= calls / SAMPLES:
            samples.append(now)
            print(f"{now['opened']:9} {now['mb']:7.2f} {now['descriptors']:12}", flush=True)
    return samples


def judge(found, samples, end):
    """What is wrong, as sentences."""
    tenth = next((one for one in samples if one["opened"] >= found["calls"] / 10), samples[-1])
    wrong = []
    if found["completed"] != found["calls"] or found["frames_lost"] + found["frames_reordered"] + found["frames_corrupt"]:
        wrong.append(f"not every call went well: {found}")
    if end["mb"] > tenth["mb"] + GROWTH_MB:
        wrong.append(f"memory grew from {tenth['mb']:.2f} to {end['mb']:.2f} MB")
    if end["descriptors"] > samples[0]["descriptors"]:
        wrong.append(f"descriptors: {samples[0]['descriptors']} before, {end['descriptors']} after")
    if end["left"]:
        wrong.append(f"{end['left']} calls were not released")
    return wrong


def run(options, directory):
    tiers = {"tiers": {"standard": {"type": "shared", "target": 1, "max_concurrent": 1000}}}
    agent, port = start_agent(options.build)
    router = provider = None
    try:
        router = Router(os.path.join(options.build, "smart-router"), os.path.join(directory, "router"), tiers, 0,
                        environment={"GATEWAY_RELEASE_GRACE": "0s", "LOG_LEVEL": "warn", "GATEWAY_SECRET": SECRET})
        client = Client(router.port)
        client.must("POST", "/api/v1/pods", {"pod_name": "voice-agent-0", "address": f"127.0.0.1:{port}"})
        provider = subprocess.Popen(
            [os.path.join(options.build, "tools", "provider-sim"), "--router", f"http://127.0.0.1:{router.port}",
             "--connect-to", f"127.0.0.1:{router.port}", "--provider", "twilio", "--no-status", "--json", "--quiet", "--gap", "0",
             "--calls", str(options.calls), "--concurrent", str(options.concurrent), "--seconds", "0.02"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        samples = watch(provider, router, client, options.calls)
        found = json.loads(provider.stdout.read())
        for _ in range(DRAIN_S * 10):
            end = {**sample(router, client), "left": json.loads(client.must("GET", "/api/v1/calls?limit=1"))["total"]}
            if end["left"] == 0 and end["descriptors"] <= samples[0]["descriptors"]:
                break
            time.sleep(0.1)
    finally:
        for process in (provider, agent):
            if process:
                process.terminate()
                process.wait(20)
                process.stdout.close()
        if router:
            router.stop()
    wrong = judge(found, samples, end)
    print(f"{found['completed']} of {found['calls']} calls, {found['frames_echoed']} of {found['frames_sent']} frames; "
          f"{end['mb']:.2f} MB, {end['descriptors']} descriptors, {end['left']} calls left")
    for sentence in wrong:
        print(f"MISSED  {sentence}")
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1000000)
    parser.add_argument("--concurrent", type=int, default=32)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-connects-") as directory:
        sys.exit(0 if run(options, directory) else 1)


if __name__ == "__main__":
    main()
