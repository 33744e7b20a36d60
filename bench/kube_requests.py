"""kube_requests.py - how many requests an API server gets from three idle routers. Its own audit log counts them.

Prints requests a minute by router, verb and resource, and writes bench-kube-requests.json. Several --binary are compared.
"""
import argparse
import collections
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import common

sys.path.insert(0, os.path.join(common.ROOT, "test", "functional"))
import kube
import redis_servers

ROUTERS = 3
SETTLE_S = 15  # elections and first lists are over
TIERS = {"tiers": {"gold": {"target": 100000}}, "default_chain": ["gold"]}
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


class Log:
    """The audit log: what service accounts have asked."""

    def __init__(self, directory):
        self.path = pathlib.Path(directory) / "audit.log"
        policy = pathlib.Path(directory) / "policy.json"
        policy.write_text(json.dumps(POLICY))
        self.flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self.path}", "--audit-log-mode=blocking"]

    def count(self, since, until):
        """Counter of (user, verb, resource). A watch counts when it begins."""
        found = collections.Counter()
        for line in self.path.read_text().splitlines():
            entry = json.loads(line)
            is_watch = entry["verb"] == "watch"
            if entry["stage"] != ("ResponseStarted" if is_watch else "ResponseComplete"):
                continue
            if since <= entry["requestReceivedTimestamp"] < until:
                reference = entry.get("objectRef", {})
                user = entry["user"]["username"].rsplit(":", 1)[1]
                found[user, entry["verb"], reference.get("resource", entry["requestURI"])] += 1
        return found


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())


def total(router):
    return json.loads(common.Client(router.port).must("GET", "/api/v1/pods?limit=1"))["total"]


def start(binary, namespace, accounts, server, directory):
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0)))
    routers = []
    for i, account in enumerate(accounts):
        env = {
            "REDIS_URL": server.url,
            "POD_SOURCE": "kubernetes",
            "KUBECONFIG": str(account.kubeconfig()),
            "NAMESPACE": namespace.name,
            "POD_LABEL_SELECTOR": "app=agent",
            "POD_NAME": f"router-{i}",
        }
        routers.append(common.Router(binary, os.path.join(directory, f"router-{i}"), TIERS, 0, cores, env))
    return routers


def measure(binary, namespace, accounts, server, log, pods, seconds):
    """{(user, verb, resource): requests a minute}"""
    server.client().flushall()
    directory = tempfile.mkdtemp(prefix="sr-bench-requests-")
    routers = []
    try:
        routers = start(binary, namespace, accounts, server, directory)
        end = time.monotonic() + 120
        while total(routers[0]) != pods:
            if time.monotonic() > end:
                raise RuntimeError(f"{total(routers[0])} pods instead of {pods}")
            time.sleep(0.1)
        time.sleep(SETTLE_S)
        since = now()
        time.sleep(seconds)
        until = now()
        time.sleep(1)
        return {key: n * 60 / seconds for key, n in log.count(since, until).items()}
    finally:
        for router in routers:
            router.stop()
        shutil.rmtree(directory, ignore_errors=True)


def show(binary, rates):
    print(f"{binary}: {sum(rates.values()):.0f} requests/min")
    for (user, verb, resource), rate in sorted(rates.items()):
        print(f"  {user:10} {verb:7} {resource:8} {rate:6.1f}")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", action="append", help="may be repeated; build/smart-router if there is none")
    parser.add_argument("--output", default=os.path.join(common.ROOT, "build", "bench-kube-requests.json"))
    parser.add_argument("--pods", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="sr-bench-audit-")
    log = Log(directory)
    plane = kube.ControlPlane(log.flags)
    server = redis_servers.RedisServer()
    report = {}
    try:
        namespace = plane.create_namespace()
        accounts = [namespace.create_account(f"router-{i}") for i in range(ROUTERS)]
        namespace.create_pods([f"agent-{i}" for i in range(options.pods)])
        for binary in options.binary or [os.path.join(common.ROOT, "build", "smart-router")]:
            rates = measure(os.path.abspath(binary), namespace, accounts, server, log, options.pods, options.seconds)
            show(binary, rates)
            report[binary] = {" ".join(key): rate for key, rate in sorted(rates.items())}
            report[binary]["total"] = sum(rates.values())
    finally:
        server.stop()
        plane.stop()
        shutil.rmtree(directory, ignore_errors=True)
    pathlib.Path(options.output).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
