"""Four routers on one Redis and 64 clients, half of whom wait in line; pods come and go, and routers are killed.

WAITING_SECONDS is how long the clients work, WAITING_SEED what they do.
"""

import collections
import json
import os
import random
import time

import basics
import load
import pytest
import redis_servers
import waiters
from conftest import wait_until
from test_events import Watcher
from test_redis_replicas import STATIC, TIERS, drain, nothing_is_lost, room
from waiters import Merchant, Wait

STARTS_EARLY = True
SECONDS = float(os.environ.get("WAITING_SECONDS") or "60")
SEED = int(os.environ.get("WAITING_SEED") or "1")
ROUTERS = 4
CLIENTS = 64
AGEING_S = 0.5
ENV = {
    "TIER_CONFIG": TIERS,
    "STATIC_PODS": ",".join(STATIC),
    "HOLD_MAX_WAIT": "20s",
    "HOLD_MAX_CALLS": "22",
    "HOLD_AGEING": f"{AGEING_S * 1000:.0f}ms",
    "CLEANUP_INTERVAL": "300ms",
    "REDIS_TIMEOUT": "10s",
}
FLAPPING = {"flap-0": "standard", "flap-1": "standard", "flap-2": "basic", "flap-3": "merchant:m"}
CHAIN = ("pool:gold", "pool:standard", "pool:basic")
MERCHANTS = (
    [Merchant("plain", CHAIN)] * 3
    + [Merchant("steady", CHAIN[:1]), Merchant("urgent", CHAIN[:1], 2)]  # no pod of theirs ever ends
    + [Merchant("vip", CHAIN, 9), Merchant("plus", CHAIN[1:], 3), Merchant("m", ("merchant:m",))]
    + [Merchant("short", ("merchant:m",), hold_s=1), Merchant("few", CHAIN)]
)
CONFIGS = {
    "steady": {"fallback": ["gold"]},
    "urgent": {"fallback": ["gold"], "priority": 2},
    "vip": {"tier": "gold", "priority": 9},
    "plus": {"tier": "standard", "priority": 3},
    "m": {"pool": "m", "fallback": ["none"]},
    "short": {"pool": "m", "fallback": ["none"], "hold_seconds": 1},
    "few": {"max_waiting": 1},
}

# In one step: pools with a free pod beside a call that is not overdue, and waits for it.
FREE_BESIDE_A_WAITER = """
local time, found = redis.call('TIME'), {}
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, tier in ipairs(ARGV) do
  local max = tonumber(string.match(tier, ' (%d+)$'))
  local label, available = string.match(tier, '^%S+'), string.match(tier, ' (%S+) ')
  for _, call_sid in ipairs(redis.call('ZRANGE', 'voice:line:' .. label, 0, -1)) do
    local due = tonumber(redis.call('ZSCORE', 'voice:line:due', call_sid) or nil)
    if due and due > now then
      local pods = max == 0 and redis.call('SMEMBERS', available) or
        redis.call('ZRANGEBYSCORE', available, '-inf', '(' .. max)
      for _, pod in ipairs(pods) do
        if redis.call('EXISTS', 'voice:pod:draining:' .. pod) == 0 then
          found[#found + 1] = label .. ': ' .. call_sid .. ' beside ' .. pod
        end
      end
    end
  end
end
return found
"""
POOLS = [f"pool:{tier} voice:pool:{tier}:available {3 if tier == 'basic' else 0}" for tier in ("gold", "standard", "basic")]
POOLS.append("merchant:m voice:merchant:m:pods 0")


class Fleet:
    """Routers at ports that stay the same; whoever is killed is started again."""

    def __init__(self, start_on, redis_server):
        self.start_on, self.redis_server = start_on, redis_server
        self.started = []  # the dead ones, too
        self.routers = [self._start(basics.free_port()) for _ in range(ROUTERS)]
        self.urls = [router.url for router in self.routers]
        self.watchers = [Watcher(router).listening() for router in self.routers]
        self.events = {}  # id -> (kind, data)
        self.kills = []  # (from, until): events and counts of this time may be lost
        self.counts = collections.Counter()  # of the routers that were killed

    def _start(self, port):
        self.started.append(self.start_on(self.redis_server, {**ENV, "HTTP_PORT": port}))
        return self.started[-1]

    def answered_with_a_pod(self):
        """The calls of which a router's log says so."""
        lines = (line for router in self.started for line in router.log().splitlines())
        return {json.loads(line)["call_sid"] for line in lines if '"msg":"call allocated' in line and line.endswith("}")}

    def scrape(self, router):
        counts = collections.Counter()
        for line in router.client.get(router.metrics_url + "/metrics").text.splitlines():
            for outcome in waiters.OUTCOMES:
                if line.startswith(f'smart_router_wait_seconds_count{{outcome="{outcome}"}}'):
                    counts[outcome] = int(float(line.split()[-1]))
        return counts

    def collect(self, watcher):
        for kind, number, data in list(watcher.events):
            if number:
                self.events[number] = (kind, data)

    def kill(self, i, pause_s):
        begun = time.monotonic()
        self.counts += self.scrape(self.routers[i])
        self.routers[i].kill()
        time.sleep(pause_s)
        self.collect(self.watchers[i])
        self.routers[i] = self._start(self.routers[i].port)
        self.watchers[i] = Watcher(self.routers[i]).listening()
        # What a dead leader did is told by nobody; what it leaves undone is done by the next one.
        self.kills.append((begun - 0.5, time.monotonic()))

    def finish(self):
        """Each router says something last: what it has told before that has arrived, too."""
        for router, pod in zip(self.routers, STATIC):
            replica = router.get("/api/v1/status").json()["identity"]
            assert router.post("/api/v1/drain", {"pod_name": pod, "ttl_seconds": 1}).status_code == 200
            for watcher in self.watchers:
                watcher.wait("draining", replica=replica, pod_name=pod)
            assert router.post("/api/v1/undrain", {"pod_name": pod}).status_code == 200
        for watcher in self.watchers:
            self.collect(watcher)
            watcher.close()
        for router in self.routers:
            self.counts += self.scrape(router)

    def is_disturbed(self, begin, until):
        return any(first < until and begin < last for first, last in self.kills)


class Look:
    """Looks again and again, into the store: is a pod free beside a call that waits for it? And at any router: who waits?"""

    def __init__(self, client, history, urls):
        self.router = load.Client(history, urls)
        self.sightings = collections.defaultdict(list)  # call_sid -> [(sent, answered)]
        self.script = client.register_script(FREE_BESIDE_A_WAITER)
        self.found, self.times, self.with_line = [], 0, 0
        self.client = client

    def one(self):
        found = self.script(args=POOLS)
        self.found += [f"{time.monotonic():.4f} {one}" for one in found]
        self.times += 1
        self.with_line += self.client.exists("voice:line")
        status, page, sent, answered = self.router.ask("GET", "/api/v1/waiting?limit=1000")
        for call in page["waiting"] if status == 200 else ():
            self.sightings[call["call_sid"]].append((sent, answered))
        time.sleep(0.03)


GOOD = [
    # B joins first.
    ([(0, 1, 202), (8, 9, 202)], [(0.5, 1, 202), (2, 3, 200)], 0),
    # A may have been granted first.
    ([(0, 1, 202), (8, 9, 202)], [(2, 3, 202), (7, 8.5, 200)], 0),
    # A's time was over.
    ([(0, 1, 202), (21, 22, 202)], [(2, 3, 202), (4, 5, 200)], 0),
    # A was silent for too long.
    ([(0, 1, 202), (18, 19, 202)], [(2, 3, 202), (16, 17, 200)], 0),
    # B may have been granted before A joined, whose place is the better one.
    ([(2, 3, 202), (8, 9, 202)], [(0, 1, 202), (2.5, 5, 200)], -9),
    # A may have had a pod for a while.
    ([(0, 1, 202), (8, 9, 202)], [(2, 3, 202), (4, 5, 200)], 0, [(2, 2.5)]),
    # B has the better place.
    ([(0, 1, 202), (8, 9, 202)], [(2, 3, 202), (4, 5, 200)], 9),
]
BAD = [
    ([(0, 1, 202), (8, 9, 202)], [(2, 3, 202), (4, 5, 200)], 0),
    ([(0, 1, 202), (8, 9, 202)], [(2, 5, 200)], 1),
    ([(0, 1, 202), (8, 9, 202)], [(2, 3, 202), (4, 5, 200)], 0, [(9.5, 10)]),
    ([(2, 3, 202), (8, 9, 202)], [(0, 1, 202), (4, 5, 202), (6, 7, 200)], -9),
    ([(0, 1, 202), (8, 9, 202), (18, 19, 202)], [(12, 15, 200)], 0),
]


def judged(first, second, priority, pod_ends=()):
    pod_ends = {"pool:gold": pod_ends}
    waits = []
    for name, asks, merchant in (("A", first, Merchant("", CHAIN)), ("B", second, Merchant("p", CHAIN, priority))):
        asks = [(sent, answered, status, "pod", "pool:gold") for sent, answered, status in asks]
        waits.append(Wait(name, merchant, asks))
    return waiters.overtakers(waits, [], pod_ends, AGEING_S)


@pytest.mark.parametrize("parts", GOOD, ids=range(len(GOOD)))
def test_the_judge_of_the_order_accepts(parts):
    assert judged(*parts) == []


@pytest.mark.parametrize("parts", BAD, ids=range(len(BAD)))
def test_the_judge_of_the_order_finds(parts):
    assert judged(*parts) != []


def flapping(client, rng, pod, tier):
    """As flap() of the test of replicas, whichever router is dead."""
    registration = {"pod_name": pod, "address": "127.0.0.1:9000", "tier": tier}
    if client.end_pod("POST", "/api/v1/pods", registration)[0] != 200:
        return
    for _ in range(1 + rng.randrange(6)):
        time.sleep(rng.random() * 0.5)
        client.ask("POST", f"/api/v1/pod/{pod}/heartbeat", {"call_sids": []})
    if rng.random() < 0.7:
        client.end_pod("DELETE", f"/api/v1/pod/{pod}")


def finish(history, callers, clients, fleet):
    """The clients have stopped. What closed and silent clients have left ends by itself; what dead routers have left is released.

    So is what was answered with a pod while its client closed the connection: no router can know that the answer was not read.
    """
    callers.finish()
    client = load.Client(history, fleet.urls)
    for pod in FLAPPING:
        client.end_pod("DELETE", f"/api/v1/pod/{pod}")
    for pod in STATIC:
        client.ask("POST", "/api/v1/undrain", {"pod_name": pod})
    router = fleet.routers[0]
    wait_until(lambda: router.get("/api/v1/waiting").json()["total"] == 0, "nobody is in the line")
    wait_until(lambda: router.get("/api/v1/calls?state=granted").json()["calls"] == [], "no pod is granted in vain")
    answered = fleet.answered_with_a_pod()
    for wait in (wait for client in clients for wait in client.waits):
        if wait.end == "closed" and (wait.call_sid in answered or fleet.is_disturbed(wait.lifetime()[0], wait.ended_at + 2)):
            client.release(wait.call_sid)
    left = redis_servers.keyspace(fleet.redis_server.client(), "voice:line*")
    assert set(left) <= {"voice:line:grants"}, left
    assert redis_servers.keyspace(fleet.redis_server.client(), "voice:waiting:*") == {}
    fleet.finish()


class Silences:
    """Now and then one client falls silent: its call holds up a place, and maybe a pod, for 15 s."""

    def __init__(self, work):
        self.work = work
        self.due_at = 0

    def is_one_due(self):
        with self.work.history.lock:
            now = time.monotonic()
            is_due = now >= self.due_at and not self.work.stopped.is_set()
            self.due_at = now + 3 if is_due else self.due_at
            return is_due


def run(fleet, work, clients, callers, look):
    """All of them work, and routers are killed until a third of the time is left: then every event is told."""
    begun = time.monotonic()
    silences = Silences(work)
    is_rush = lambda: (time.monotonic() - begun) % 6 < 4
    for client in clients:
        work.start(client.one, work.stopped.is_set, is_rush, silences.is_one_due)
    callers.start(work, CLIENTS // 2, SEED)
    for i, (pod, tier) in enumerate(FLAPPING.items()):
        work.start(flapping, load.Client(work.history, fleet.urls), random.Random(SEED + i), pod, tier)
    work.start(drain, load.Client(work.history, fleet.urls), random.Random(SEED + 99))
    work.start(look.one)
    rng = random.Random(SEED)
    while time.monotonic() < begun + SECONDS * 0.65:
        time.sleep(2 + rng.random() * 4)
        fleet.kill(rng.randrange(ROUTERS), rng.random())
    time.sleep(max(0, begun + SECONDS - time.monotonic()))
    work.stop()


def pod_ends_of(history):
    """pool -> [(sent, answered)]: when pods of it may have ended."""
    ends = collections.defaultdict(list)
    for pod, tier in FLAPPING.items():
        ends[tier if ":" in tier else f"pool:{tier}"] += history.pod_ends[pod]
    return ends


def other_allocations(history, waits):
    """(sent, answered, pool, call_sid) of the calls that did not want to wait."""
    own = {wait.call_sid for wait in waits}
    return [
        (sent, answered, pool, call_sid)
        for sent, answered, call_sid, _, pool, was_existing in history.allocations
        if call_sid not in own and not was_existing
    ]


def test_every_waiter_ends_once_and_nobody_is_overtaken(redis_server, start_on, tell):
    fleet = Fleet(start_on, redis_server)
    for name, config in CONFIGS.items():
        assert fleet.routers[0].put(f"/api/v1/merchants/{name}", config).status_code == 200
    history = load.History()
    clients = [waiters.Waiter(history, fleet.urls, MERCHANTS, SEED * 1000 + i) for i in range(CLIENTS // 2)]
    callers = load.Callers(history, fleet.urls, hot=8, hold_s=0.1, merchants=("", "", "m"))
    look = Look(redis_server.client(), history, fleet.urls)
    run(fleet, load.Load(history), clients, callers, look)
    finish(history, callers, clients, fleet)

    waits = [wait for client in clients for wait in client.waits]
    for wait in waits:
        wait.sightings = look.sightings[wait.call_sid]
    told = waiters.ends_of(fleet.events.values())
    pod_ends, others = pod_ends_of(history), other_allocations(history, waits)
    found = [*load.violations(history, room), *waiters.overtakers(waits, others, pod_ends, AGEING_S), *look.found]
    found += waiters.wrong_ends(waits, told, fleet.is_disturbed)
    found += waiters.wrong_counts(waits, told, fleet.counts, fleet.is_disturbed)
    in_line_s = sum(until - since for wait in waits for since, until in wait.in_line(pod_ends))
    ends = collections.Counter(wait.end for wait in waits)
    tell(
        f"{ROUTERS} routers, killed {len(fleet.kills)} times, {CLIENTS} clients, {SECONDS:.0f} s, seed {SEED}: {len(waits)} calls that "
        f"may wait {dict(sorted(ends.items()))}, {in_line_s:.0f} s surely in line; "
        f"metrics {dict(sorted(fleet.counts.items()))}; {len(others)} other allocations; {look.times} looks, {look.with_line} at a line; "
        f"slowest answer {history.slowest_s * 1000:.0f} ms; {len(found)} violations"
    )
    print(dict(sorted(history.outcomes.items())))
    print(*found[:30], sep="\n")
    assert found == []
    assert min(ends[how] for how in ("granted", "no_pods", "closed", "released")) > 0, ends
    nothing_is_lost(fleet.routers[1], redis_server.client(), STATIC)
