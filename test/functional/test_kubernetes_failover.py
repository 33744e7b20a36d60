"""Containers restart and pods are replaced at any moment of a change of leaders, while clients work with all routers.

A call that came after its container had started belongs to it: no leader may end it, and its pod may not be given to a
second one. KUBE_FAILOVER_ROUNDS is how many leaders go: 5 here, 100 in `make soak`. KUBE_FAILOVER_SEED repeats what
happens, though not when.
"""

import os
import random
import signal
import threading
import time

import load
import redis_servers
from conftest import DEADLINE_S, wait_until
from talkers import setting
from test_redis_leader import agree, agree_after, status, syncs

ROUNDS = int(setting("KUBE_FAILOVER_ROUNDS", 5))
SEED = int(setting("KUBE_FAILOVER_SEED", time.time()))
ROUTERS = 3
CLIENTS = 10
HOLD_S = 2  # some calls end by themselves before the next leader looks, some do not
PODS = [f"agent-{i}" for i in range(20)]
ENV = {
    **redis_servers.QUICK,
    "LEADER_ELECTION_DURATION": "3s",
    "LEADER_ELECTION_RENEW_DEADLINE": "2s",
    "LEADER_ELECTION_RETRY_PERIOD": "300ms",
    "LEADER_ELECTION_LOCK_NAME": "smart-router-leader",
    "TIER_CONFIG": '{"tiers": {"gold": {"target": 64}}, "default_chain": ["gold"]}',
}


class Node:
    """A kubelet whose containers end all the time. Says to the history when it was that calls may have ended."""

    def __init__(self, namespace, history, rng):
        self.namespace, self.history, self.rng = namespace, history, rng
        self.is_over = threading.Event()
        self.restarts = self.replacements = 0
        self.error = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.is_over.wait(self.rng.uniform(0.02, 0.4)):
                self.disturb(self.rng.choice(PODS))
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def disturb(self, name):
        """A call that is asked for after this has what runs there now."""
        began = time.monotonic()
        if self.rng.random() < 0.6:
            self.restarts += 1
            self.namespace.restart_container(name)
        else:
            self.replacements += 1
            self.namespace.replace_pod(name)
        self.history.may_have_ended(began, time.monotonic(), pod=name)

    def stop(self):
        self.is_over.set()
        self.thread.join(DEADLINE_S)
        if self.error:
            raise self.error


class Site:
    def __init__(self, namespace, redis_server, start_in):
        self.namespace, self.redis_server, self.start_in = namespace, redis_server, start_in
        self.history = load.History()
        self.routers = []  # that live
        self.ports = []  # of them; shared by all clients
        self.started = 0

    def start(self):
        env = {**ENV, "REDIS_URL": self.redis_server.url, "POD_NAME": f"router-{self.started}"}
        router = self.start_in(self.namespace, env)
        self.started += 1
        self.routers.append(router)
        self.ports.append(router.port)

    def start_clients(self, work):
        callers = load.Callers(self.history, [router.url for router in self.routers], hold_s=HOLD_S)
        for number in range(CLIENTS):
            client = load.Client(self.history, [])
            client.ports = self.ports
            work.start(callers.one, work, client, random.Random(f"{SEED} {number}"))
        return callers

    def lose_leader(self, how):
        """Another one leads and has synced. The first one is gone, or follows."""
        leader, others = agree(self.routers)
        name = status(leader)["leader"]
        if how != signal.SIGKILL:
            self.history.avoid(leader.port)
        if how == signal.SIGSTOP:
            os.kill(leader.proc.pid, how)
        else:
            self.ports.remove(leader.port)
            self.routers.remove(leader)
            end(leader, how)
        try:
            new, _ = agree_after(others, name)
            wait_until(lambda: syncs(new) > 0, "the new leader has synced")
        finally:
            if how == signal.SIGSTOP:
                os.kill(leader.proc.pid, signal.SIGCONT)
        if how == signal.SIGSTOP:
            self.history.avoided.discard(leader.port)
        else:
            self.start()

    def doze(self, seconds):
        """The leader stands still for less than its lease, and then reads what happened meanwhile."""
        leader, _ = agree(self.routers)
        self.history.avoid(leader.port)
        os.kill(leader.proc.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(leader.proc.pid, signal.SIGCONT)
        self.history.avoided.discard(leader.port)

    def pods(self):
        return self.routers[0].get("/api/v1/pods?limit=1000").json()["pods"]


def end(router, how):
    if how == signal.SIGKILL:
        router.kill()
        return
    router.is_stopped = True
    router.proc.send_signal(how)
    assert router.proc.wait(DEADLINE_S) == 0


def test_no_call_is_lost_that_is_younger_than_its_container(namespace, redis_server, start_in, tell):
    print(f"KUBE_FAILOVER_SEED={SEED}")
    rng = random.Random(SEED)
    namespace.create_pods(PODS)
    site = Site(namespace, redis_server, start_in)
    for _ in range(ROUTERS):
        site.start()
    agree(site.routers)
    wait_until(lambda: len(site.pods()) == len(PODS), "all pods are there")
    work = load.Load(site.history)
    callers = site.start_clients(work)
    node = Node(namespace, site.history, random.Random(f"{SEED} node"))
    ways = [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP]
    for number in range(ROUNDS):
        site.doze(rng.uniform(0.2, 1.2))
        time.sleep(rng.uniform(0, 0.5))
        site.lose_leader(ways[number % len(ways)])
    node.stop()
    work.stop()
    callers.urls = [router.url for router in site.routers]  # those that live now
    callers.finish()
    print(dict(sorted(site.history.outcomes.items())))
    assert load.violations(site.history, lambda pool: 1) == []
    wait_until(lambda: {pod["state"] for pod in site.pods()} == {"available"}, "all pods are free")
    assert {pod["pod_name"] for pod in site.pods()} == set(PODS)
    assert site.routers[0].get("/api/v1/calls?limit=1").json()["total"] == 0
    tell(
        f"{ROUNDS} leaders lost, {node.restarts} restarts, {node.replacements} replaced pods, "
        f"{site.history.outcomes['allocate 200 new']} calls"
    )
