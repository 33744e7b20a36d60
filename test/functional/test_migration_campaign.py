"""Over to ours and back again under load: 32 clients, both programs, exclusive, shared and dedicated pools.

Five phases of MIGRATION_SECONDS each: the first implementation alone; a takeover, router by router, and ours alone;
both, ours leads; both, it leads; a rollback, and the first implementation alone. Calls are in flight all the time, some
of them through several phases, and each request goes to either program by chance.

The stand-in's operations are single steps first (`at_once`): nothing may go wrong then. A second run lets it pause
between its commands, as slow networks do. That alone goes wrong, so the same load on stand-ins only is the measure.
"""

import collections
import os
import random
import re
import threading
import time

import first_router
import guide
import load
import pytest
import redis_servers
from conftest import wait_until
from first_router import FirstRouter

STARTS_EARLY = True

SECONDS = float(os.environ.get("MIGRATION_SECONDS") or "5")
REST_S = float(os.environ.get("MIGRATION_REST") or "0.4")
SEED = int(os.environ.get("MIGRATION_SEED") or "1")
PAUSES = (0.05, 0.1)
QUICK_CLIENTS, LONG_CLIENTS = 24, 8
HOT = 6
SHARED_MAX = 3
TIERS = {
    "tiers": {
        "gold": {"type": "exclusive", "target": 4},
        "standard": {"type": "exclusive", "target": 5},
        "basic": {"type": "shared", "target": 4, "max_concurrent": SHARED_MAX},
        "9shines": {"type": "exclusive", "target": 3},
    },
    "default_chain": ["gold", "standard", "basic"],
}
PODS = [f"agent-{i}" for i in range(16)]
SHARED = PODS[7:11]  # after three of 9shines and four of gold
MERCHANTS = {
    "nine": '{"pool":"9shines","fallback":["__nonexistent__"]}',
    "basic": '{"fallback":["basic"]}',
    "gold": '{"fallback":["gold","basic"]}',
}
ENV = {"STATIC_PODS": ",".join(PODS), "CLEANUP_INTERVAL": "300ms", "REDIS_TIMEOUT": "10s"}
ITS_KEYS = re.compile(
    r"voice:(pool:[^:]+:(available|assigned)|merchant:[^:]+:(pods|assigned)|merchant:config|tier:config|leader"
    r"|pod:tier:[^:]+|pod:metadata|pod:agent-\d+)"
)


class MixedClient(load.Client):
    """A client of both programs: first by chance which program, then which router of it."""

    def __init__(self, history, ways, served, rng):
        super().__init__(history, [])
        self.ways = ways  # ports of ours, and stand-ins; the list changes
        self.served = served
        self.rng = rng

    def choose(self):
        ways = [way for way in list(self.ways) if way not in self.history.avoided]
        its = [way for way in ways if isinstance(way, FirstRouter)]
        ours = [way for way in ways if not isinstance(way, FirstRouter)]
        program = self.rng.choice([some for some in (its, ours) if some])
        return self.rng.choice(program)

    def send(self, way, method, path, body):
        is_its = isinstance(way, FirstRouter)
        status, answer = way.ask(method, path, body) if is_its else super().send(way, method, path, body)
        if is_its and status == 500 and answer["error"] == "incomplete call info":
            status = 404  # only the lock of a call that was refused
        self.served[("its" if is_its else "ours"), path.rpartition("/")[2], status] += 1
        return status, answer


class Campaign:
    """Routers that come and go, and clients throughout."""

    def __init__(self, server, start_on, **speed):
        self.server = server
        self.start_on = start_on
        self.speed = {"keeps_sets": True, "refresh_s": 0.5, **speed}
        self.redis = server.client()
        self.history = load.History()
        self.work = load.Load(self.history, rest_s=REST_S)
        self.ways = []
        self.served = collections.Counter()
        self.by_phase = {}
        self.ours = {}  # port -> Router
        self.its = []
        self.number = 0
        self.lock = threading.Lock()
        self.redis.hset(first_router.MERCHANTS, mapping=MERCHANTS)

    # Routers.

    def start_its(self, leads=False):
        n = len(self.its)
        one = FirstRouter(self.server, name=f"first-{n}", tiers=TIERS, seed=SEED + n, **self.speed)
        self.its.append(one)
        if leads:
            self.let_lead(one)
        self.ways.append(one)
        return one

    def let_lead(self, one):
        one.lead(PODS, zombies_s=0.3, sync_s=0.5, retry_s=0.02)

    def stop_its(self, one):
        """It answers what it was asked, and is gone."""
        self.history.avoid(one)
        self.ways.remove(one)
        one.stop_leading()

    def start_ours(self):
        router = self.start_on(self.server, ENV, wait=False)
        router.env["STATIC_PODS"] = ""  # a follower does not wait for them
        router.wait_ready()
        self.history.avoided.discard(router.port)  # an earlier one may have had it
        self.ours[router.port] = router
        self.ways.append(router.port)
        return router

    def stop_ours(self, router):
        self.history.avoid(router.port)
        self.ways.remove(router.port)
        del self.ours[router.port]
        assert router.stop() == 0

    def leader(self):
        status = lambda router: router.get("/api/v1/status").json()
        return next((router for router in self.ours.values() if status(router).get("is_leader")), None)

    # Clients.

    def start_clients(self):
        for n in range(QUICK_CLIENTS + LONG_CLIENTS):
            rng = random.Random(SEED * 1000 + n)
            client = MixedClient(self.history, self.ways, self.served, rng)
            self.work.start(self.call if n < QUICK_CLIENTS else self.long_call, client, rng)

    def next_sid(self, rng, kind):
        if kind == "quick" and rng.random() < 0.3:
            return f"hot-{rng.randrange(HOT)}"
        with self.lock:
            self.number += 1
            return f"{kind}-{self.number}"

    def call(self, client, rng):
        """Some hundredths of a second; often asked for again."""
        call_sid = self.next_sid(rng, "quick")
        merchant = rng.choice(("", "", "nine", "basic", "gold"))
        if client.allocate(call_sid, **({"merchant_id": merchant} if merchant else {})):
            time.sleep(rng.random() * 0.05)
            if rng.random() < 0.5:
                client.allocate(call_sid)
            time.sleep(rng.random() * 0.05)
            client.release(call_sid)
        else:
            time.sleep(rng.random() * 0.05)

    def long_call(self, client, rng):
        """It lives through a phase or two, and is asked for now and then."""
        call_sid = self.next_sid(rng, "long")
        merchant = rng.choice(("", "nine", "basic"))
        if not client.allocate(call_sid, **({"merchant_id": merchant} if merchant else {})):
            time.sleep(0.2)
            return
        until = time.monotonic() + SECONDS * rng.uniform(0.3, 1.7)
        while time.monotonic() < until and not self.work.stopped.wait(rng.uniform(0.2, 0.6)):
            client.allocate(call_sid)
        client.release(call_sid)

    # The course.

    def phase(self, name):
        before = self.served.copy()
        time.sleep(SECONDS)
        self.by_phase[name] = self.served - before

    def first_alone(self):
        leader = self.start_its(leads=True)
        wait_until(lambda: len(self.free_pods()) == len(PODS), "its pods are there")
        assert self.redis.smembers(first_router.assigned_key("basic")) == set(SHARED)
        for _ in range(2):
            self.let_lead(self.start_its())  # they compete, as its replicas do
        self.start_clients()
        self.phase("first alone")
        return leader

    def take_over(self, leader):
        for one in [*(one for one in self.ways if one is not leader), leader]:
            self.start_ours()
            self.stop_its(one)
        wait_until(self.leader, "ours leads")
        self.phase("taken over")

    def mixed_ours_lead(self):
        followers = [self.start_its() for _ in range(3)]
        self.phase("both, ours leads")
        assert self.leader(), "ours leads throughout"
        return followers

    def mixed_it_leads(self, followers):
        """Our leaders are replaced until one of its routers gets the lead."""
        self.let_lead(followers[0])
        while not followers[0].is_leading:
            router = self.leader()
            if router:
                self.stop_ours(router)
                self.start_ours()
            else:
                time.sleep(0.05)
        self.phase("both, it leads")
        assert followers[0].is_leading and not self.leader()

    def roll_back(self):
        for router in list(self.ours.values()):
            self.stop_ours(router)
        self.phase("rolled back")

    def finish(self):
        self.work.stop()
        client = MixedClient(self.history, self.ways, self.served, random.Random(SEED))
        for n in range(HOT):
            client.release(f"hot-{n}")
        client.close()

    def close(self):
        self.work.stopped.set()
        for one in self.its:
            one.close()

    # What there is at the end.

    def free_pods(self):
        """Those that stand where they may get a call: idle."""
        found = set()
        for tier in ("gold", "standard", "merchant:9shines"):
            found |= self.redis.smembers(first_router.available_key(tier))
        scores = self.redis.zrange(first_router.available_key("basic"), 0, -1, withscores=True)
        return found | {pod for pod, score in scores if score == 0}

    def left(self):
        """What is left of calls. A lock runs out by itself."""
        found = {}
        for pattern in ("voice:call:*", "voice:lease:*", "voice:pod:*:calls"):
            found.update(redis_servers.keyspace(self.redis, pattern))
        return {key: value for key, value in found.items() if value != {"_lock": "1"}}

    def violations(self):
        return load.violations(self.history, lambda pool: SHARED_MAX if pool == "pool:basic" else 1)


# What the stand-in does by itself, if it pauses. Not in every run of some seconds.
ITS_OWN = {
    "a call with two pods",  # the lock without a pod
    "an exclusive pod with two calls",  # put back while it is being given; a lease that a late release deletes
    "a shared pod with too many calls",  # two releases of one call
    "a release of another pod or none",  # after the first of these
    # After the second: it answers such a call with the pod that talks to another one; ours gives the call another pod.
    "a call that lost its pod",
}


def kinds(found):
    """How many there are of each kind."""
    shapes = {
        "a call with two pods": r"call \S+ has pod ",
        "a shared pod with too many calls": rf"pod ({'|'.join(SHARED)}) has ",
        "an exclusive pod with two calls": r"pod \S+ has ",
        "a call that lost its pod": r"call \S+ was allocated anew",
        "a release of another pod or none": r"call \S+ had \S+, its release",
    }
    counted = collections.Counter()
    for text in found:
        counted[next((kind for kind, shape in shapes.items() if re.match(shape, text)), "an odd answer")] += 1
    return dict(counted)


@pytest.fixture
def campaign(start_redis, start_on):
    """campaign(**speed) -> Campaign on a Redis of its own."""
    campaigns = []

    def start(**speed):
        campaigns.append(Campaign(start_redis(), start_on, **speed))
        return campaigns[-1]

    yield start
    for one in campaigns:
        one.close()


def over_and_back(one):
    one.take_over(one.first_alone())
    one.mixed_it_leads(one.mixed_ours_lead())
    one.roll_back()
    one.finish()


def summary(name, one, found):
    phases = ", ".join(
        f"{phase} {sum(n for (_, what, status), n in served.items() if (what, status) == ('allocate', 200))}"
        for phase, served in one.by_phase.items()
    )
    return f"{name}: {one.history.answers()} answers; allocations: {phases}; violations: {kinds(found) or 'none'}"


def test_the_judge_finds_nothing_where_only_one_program_works_at_once(campaign):
    """Otherwise what it finds below would mean nothing."""
    one = campaign(at_once=True)
    one.first_alone()
    one.finish()
    assert one.violations() == []
    assert one.history.outcomes["allocate 200 new"] > 50


def test_over_and_back_nothing_goes_wrong_that_is_not_its_own_race(campaign, tell):
    one = campaign(at_once=True)
    over_and_back(one)
    found = one.violations()
    tell(summary("migration, both programs, no pauses", one, found))
    print(dict(sorted(one.history.outcomes.items())))
    assert found == []
    assert {key: n for key, n in one.history.outcomes.items() if key.split(" ")[1] in ("None", "500")} == {}
    both = {"its", "ours"}
    assert {phase: {program for program, _, _ in served} for phase, served in one.by_phase.items()} == {
        "first alone": {"its"},
        "taken over": {"ours"},
        "both, ours leads": both,
        "both, it leads": both,
        "rolled back": {"its"},
    }

    wait_until(lambda: one.free_pods() == set(PODS), f"every pod is free: {sorted(set(PODS) - one.free_pods())}")
    assert one.left() == {}
    wait_until(lambda: not one.redis.keys("voice:call:*"), "its locks have run out")
    guide.run(guide.commands("Remove our own keys")[0], one.server)
    left = [key for key in one.redis.scan_iter("*") if not ITS_KEYS.fullmatch(key)]
    assert left == []
    assert one.free_pods() == set(PODS)


def test_over_and_back_with_its_pauses_it_is_not_worse_than_it_is_alone(campaign, tell):
    alone = campaign(pauses=PAUSES)
    leader = alone.first_alone()
    for name in ("second", "third", "fourth", "fifth"):
        alone.let_lead(alone.start_its())  # as many changes as in the other run
        alone.stop_its(leader)
        leader = wait_until(lambda: next((way for way in alone.ways if way.is_leading), None), "another one leads")
        alone.phase(name)
    alone.finish()
    of_alone = kinds(alone.violations())
    alone.close()

    both = campaign(pauses=PAUSES)
    over_and_back(both)
    found = both.violations()
    tell(summary(f"migration, the first implementation alone, pauses {PAUSES}", alone, alone.violations()))
    tell(summary(f"migration, both programs, pauses {PAUSES}", both, found))
    assert both.history.outcomes["allocate 200 new"] > 100
    assert sum(of_alone.values()), "the stand-in alone shows none of its races: these pauses measure nothing"
    assert set(kinds(found)) <= ITS_OWN | set(of_alone), found[:20]
