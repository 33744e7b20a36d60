"""Three routers on one Redis and a Kubernetes where nothing is certain; 16 clients, and a judge who knows which pods live.

Pods restart, are replaced, lose their label, flap and fail; the API server is paused, restarted and restored from a backup of
some seconds ago; lines to it are cut or swallow everything; routers are stopped for a while, killed and replaced.
CHAOS_SECONDS is how long it lasts; CHAOS_SEED repeats what happens, though not exactly when.
"""

import collections
import contextlib
import os
import random
import signal
import threading
import time

import chaos
import httpx
import kube
import pytest
import redis_servers
from chaos_clients import Client, Judge
from conftest import DEADLINE_S, wait_until
from talkers import setting

SECONDS = setting("CHAOS_SECONDS", 60)
SEED = int(setting("CHAOS_SEED", time.time()))
STARTS_EARLY = True  # see conftest.py
ROUTERS = 3
CLIENTS = 16
PODS = 24
POD_SCRIPTS = 4  # at once
ROUTER_SCRIPTS = 2  # so that one router is well
ENV = {
    **redis_servers.QUICK,
    "TIER_CONFIG": f'{{"tiers": {{"gold": {{"target": {PODS}}}}}, "default_chain": ["gold"]}}',
    "RECONCILE_INTERVAL": "2s",
    "SHUTDOWN_DELAY": "500ms",
    "HTTP_SHUTDOWN_TIMEOUT": "5s",
}


class Slot:
    """The place of a router, in which one follows the other."""

    def __init__(self, number, plane, namespace, server, start_in):
        self.number = number
        self.wire = chaos.Wire(plane)
        self.lock = threading.Lock()
        config = namespace.account().kubeconfig(server=self.wire.url)
        env = {**ENV, "REDIS_URL": server.url, "POD_NAME": f"router-{number}", "KUBECONFIG": config}
        self.start = lambda: start_in(namespace, env)
        self.router = self.start()

    @property
    def port(self):
        return self.router.port

    def leads(self):
        with contextlib.suppress(httpx.HTTPError, ValueError):
            return httpx.get(f"{self.router.url}/api/v1/status", timeout=1, trust_env=False).json().get("is_leader")
        return False


class Deck:
    """Cards at random, each once before any comes a second time: a short run sees all kinds."""

    def __init__(self, cards, rng):
        self.cards, self.rng, self.left = list(cards), rng, []
        self.lock = threading.Lock()

    def draw(self):
        with self.lock:
            if not self.left:
                self.left = list(self.cards)
                self.rng.shuffle(self.left)
            return self.left.pop()


class Campaign:
    def __init__(self, plane, server, start_in):
        self.plane = plane
        self.over = threading.Event()
        self.clients_over = threading.Event()
        self.errors = []
        self.happened = collections.Counter()
        self.is_restoring = threading.Event()
        self.namespace = plane.create_namespace()
        self.fleet = chaos.Fleet(self.namespace, PODS, self.over)
        self.backups = chaos.Backups(plane, list(self.fleet.pods.values()))
        self.judge = Judge(self.fleet.pods)
        self.slots = [Slot(i, plane, self.namespace, server, start_in) for i in range(ROUTERS)]

    # Threads

    def spawn(self, work, *args):
        def run():
            try:
                work(*args)
            except BaseException as error:  # pytest's own are of that kind
                self.errors.append(f"{work.__name__}: {error!r}")
                self.over.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def rng(self, name):
        return random.Random(f"{SEED} {name}")

    def tell(self, kind, text=""):
        with self.judge.lock:
            self.happened[kind] += 1
        self.judge.note(f"=== {kind} {text}")

    def wait(self, rng, least, most):
        self.over.wait(rng.uniform(least, most))

    # Pods

    def disturb_pods(self, deck, rng):
        pods = list(self.fleet.pods.values())
        while not self.over.is_set():
            self.wait(rng, 0.1, 1.5)
            name = deck.draw()
            pod = self.pick_pod([pod for pod in pods if pod.has_sidecar or name != "restart_sidecar"], rng)
            if self.is_restoring.is_set() or self.over.is_set() or not pod.lock.acquire(blocking=False):
                continue
            try:
                with self.judge.lock:
                    self.happened[name] += 1
                self.judge.note(f"{pod.name} {name}")
                getattr(self.fleet, name)(pod, rng)
                self.judge.note(f"{pod.name} has run {pod.life().number}, {pod.restarts} restarts, uid {pod.uid}")
            finally:
                pod.lock.release()

    def pick_pod(self, pods, rng):
        """More often one with a call: nothing much can go wrong on the others."""
        busy = [pod for pod in pods if (life := pod.life()) and life.calls]
        return rng.choice(busy if busy and rng.random() < 0.7 else pods)

    # The API server

    def disturb_api(self, deck, rng):
        """On the main thread: the servers that it starts end with the thread that has started them."""
        while not self.over.is_set():
            self.wait(rng, 2, 6)
            if not self.over.is_set():
                deck.draw()(rng)

    def pause_api(self, rng):
        self.tell("API server paused")
        with self.plane.paused_apiserver():
            self.wait(rng, 2, 12)
        self.judge.note("=== API server goes on")

    def restart_api(self, _):
        self.tell("API server restarted")
        self.plane.restart_apiserver()
        self.judge.note("=== API server is up")

    def restore_api(self, rng):
        copy = self.backups.take()
        self.judge.note("=== etcd copied")
        self.wait(rng, 3, 15)
        self.is_restoring.set()
        with contextlib.ExitStack() as locks:
            for pod in self.fleet.pods.values():
                locks.enter_context(pod.lock)
            self.tell("API server restored")
            self.backups.restore(copy)
            self.judge.note("=== API server is up")
            self.wait(rng, 0, 2)
            for pod in self.fleet.pods.values():
                before = pod.life()
                self.fleet.settle(pod, rng)
                self.judge.note(f"{pod.name} settled, {'' if before is pod.life() else 'anew: '}run {pod.life().number}")
        self.is_restoring.clear()

    def part_all(self, rng, how):
        """From every router that nothing else happens to."""
        self.tell(f"all lines {how}")
        slots = [slot for slot in self.slots if slot.lock.acquire(blocking=False)]
        try:
            self.part(slots, how, rng)
        finally:
            for slot in slots:
                slot.lock.release()

    def part(self, slots, how, rng):
        for slot in slots:
            slot.wire.cut() if how == "cut" else slot.wire.swallow()
        self.wait(rng, 1, 12)
        for slot in slots:
            if how == "swallow" and rng.random() < 0.5:
                slot.wire.cut()  # the network is back, and has forgotten its connections
            slot.wire.mend()
        self.judge.note("=== lines mended")

    # Routers

    def disturb_routers(self, deck, rng):
        while not self.over.is_set():
            self.wait(rng, 1, 5)
            who, how = deck.draw()
            slot = self.pick(who, rng)
            if slot is None or self.over.is_set():
                continue
            try:
                self.tell(f"{who} {how}", f"router-{slot.number}")
                if not self.has_crashed(slot):
                    self.strike(slot, how, rng)
                self.judge.note(f"=== router-{slot.number} is well")
            finally:
                slot.lock.release()

    def pick(self, who, rng):
        """Its lock is held; None if all are in trouble."""
        slots = rng.sample(self.slots, len(self.slots))
        slots.sort(key=lambda slot: bool(slot.leads()) != (who == "leader"))
        return next((slot for slot in slots if slot.lock.acquire(blocking=False)), None)

    def has_crashed(self, slot):
        """Then the next one starts in its place."""
        code = slot.router.proc.poll()
        if code is None:
            return False
        slot.router.is_stopped = True
        self.judge.convict(f"crashed: router-{slot.number} ended with {code}, see {slot.router.log_path.name}")
        slot.router = slot.start()
        return True

    def strike(self, slot, how, rng):
        if how in ("cut", "swallow"):
            self.part([slot], how, rng)
        elif how == "stopped":
            os.kill(slot.router.proc.pid, signal.SIGSTOP)
            self.wait(rng, 3, 20)
            self.judge.wakings[slot.number].append(time.monotonic())
            os.kill(slot.router.proc.pid, signal.SIGCONT)
        else:
            old = slot.router
            if how == "killed":
                old.kill()
            else:
                assert old.stop() == 0, f"router-{slot.number} ended badly"
            self.wait(rng, 0, 3)
            slot.router = slot.start()

    # All of it

    def run(self, seconds):
        clients = [Client(self.judge, self.slots, i, SEED, self.clients_over) for i in range(CLIENTS)]
        working = [self.spawn(client.run) for client in clients] + [self.spawn(self.audit)]
        cards = {"restart": 4, "restart_sidecar": 3, "replace": 2, "replace_at_once": 2, "fail": 2, "unlabel": 3, "flap": 2}
        pods = Deck([name for name, times in cards.items() for _ in range(times)], self.rng("pods"))
        api = Deck(
            [
                self.pause_api,
                self.restart_api,
                self.restore_api,
                lambda rng: self.part_all(rng, "cut"),
                lambda rng: self.part_all(rng, "swallow"),
            ],
            self.rng("api"),
        )
        blows = ("stopped", "stopped", "killed", "terminated", "cut", "swallow")
        routers = Deck([(who, how) for who in ("leader", "follower") for how in blows], self.rng("routers"))
        threads = [self.spawn(self.disturb_pods, pods, self.rng(f"pods script {i}")) for i in range(POD_SCRIPTS)]
        threads += [self.spawn(self.disturb_routers, routers, self.rng(f"routers script {i}")) for i in range(ROUTER_SCRIPTS)]
        timer = threading.Timer(seconds, self.over.set)
        timer.start()
        try:
            self.disturb_api(api, self.rng("api script"))
        finally:
            self.over.set()
            timer.cancel()
        self.join(threads)
        time.sleep(5)  # calls on a cluster where all is well
        self.clients_over.set()
        self.join(working)

    def join(self, threads):
        for thread in threads:
            thread.join(2 * chaos.PATIENCE_S)
        if any(thread.is_alive() for thread in threads):
            self.errors.append("a thread hangs")

    def audit(self):
        """Looks at all calls every other second, at any router that answers."""
        rng = self.rng("audit")
        while not self.clients_over.wait(2):
            with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
                self.judge.audit(self.calls(rng.choice(self.slots), timeout=1))

    # The end: all is well, and nobody calls

    def picture(self):
        """What is wrong in the routers' picture of the cluster; {} if nothing is."""
        page = self.slots[0].router.get("/api/v1/pods?limit=1000").json()
        pods = {pod["pod_name"]: pod for pod in page.get("pods", [])}
        wrong = {name: "ghost" for name in pods if name not in self.fleet.pods}
        for name in self.fleet.pods:
            state = pods[name]["state"] if name in pods else "not there"
            if state != "available" or pods[name]["calls"]:
                wrong[name] = f"{state}, calls {pods[name]['calls'] if name in pods else []}"
        return wrong

    def calls(self, slot=None, timeout=DEADLINE_S):
        url = (slot or self.slots[0]).router.url + "/api/v1/calls?limit=1000"
        page = httpx.get(url, timeout=timeout, trust_env=False).json()
        return {call["call_sid"]: call["pod_name"] for call in page["calls"]}

    def look_at_the_end(self):
        """Patience, and then each pod and each call that is not as it should be."""
        for slot in self.slots:
            self.has_crashed(slot)
        with contextlib.suppress(pytest.fail.Exception):
            wait_until(lambda: not self.calls() and not self.picture(), "all pods are free")
        left = self.calls()
        for call_sid in left:
            if self.judge.held_since.get(call_sid) != 0:
                self.judge.judge_held(call_sid)
        for name, state in self.picture().items():
            if name not in left.values():
                self.judge.convict(f"leaked: {name} is {state}")

    def summary(self):
        judge = self.judge
        kinds = collections.Counter(text.split(":")[0] for text in judge.violations)
        return (
            f"{SECONDS:.0f} s of chaos, {ROUTERS} routers, {CLIENTS} clients, {PODS} pods: {judge.told['calls']} calls, "
            f"{judge.told['ended with their container']} ended with their container, {judge.told['given up']} given up; "
            f"answers {dict(sorted(judge.told.items()))}; events {dict(sorted(self.happened.items()))}; "
            f"excluded {dict(judge.excluded)}; violations {dict(kinds)}; seed {SEED}"
        )

    def stories(self):
        """Of the first violations. All that happened is in `story`, beside the logs of the routers."""
        told = [line for text in self.judge.violations[:3] for line in ("", *self.judge.about(text))]
        return "\n".join([*self.judge.violations, *told])


@pytest.fixture
def own_plane():
    """It is paused, killed and turned back: nobody else may need it."""
    plane = kube.ControlPlane()
    yield plane
    plane.stop()


def test_no_call_is_lost_and_no_pod_booked_twice_whatever_happens(own_plane, redis_server, start_in, tmp_path, tell):
    campaign = Campaign(own_plane, redis_server, start_in)
    try:
        wait_until(lambda: not campaign.picture(), "all pods are there")
        campaign.run(SECONDS)
        campaign.look_at_the_end()
    finally:
        tell(campaign.summary())
        (tmp_path / "story").write_text("\n".join(campaign.judge.story))
        for slot in campaign.slots:
            slot.wire.close()
    assert campaign.errors == [], campaign.errors
    assert campaign.judge.violations == [], campaign.stories()
    assert campaign.judge.told["calls"] > SECONDS, campaign.summary()
