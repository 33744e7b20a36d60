"""A real Redis Cluster of three masters and three replicas: nodes die, and the keys move, under the router's feet.

Replication is asynchronous: what the owner of the slot had answered but not yet passed on dies with it. So the checker takes its
death for a wipe, and the calls of which a replica is known to have heard are looked at one by one.
"""

import time

import basics
import load
import pytest
import redis
import redis_servers
from conftest import wait_until
from test_events import Watcher

PREFIX = "{voice}:"
POD_COUNT = 60
KEPT = 20  # calls that stay
CLIENTS = 4
LOST_S = 0.5  # what was answered so shortly before the death of a node may be lost with it
ENV = {
    "KEY_PREFIX": PREFIX,
    "STATIC_PODS": ",".join(f"agent-{i}" for i in range(POD_COUNT)),
    "TIER_CONFIG": f'{{"gold": {POD_COUNT}}}',
    "RECONCILE_INTERVAL": "5s",
}
RANGES = [(0, 5460), (5461, 10922), (10923, 16383)]


class Cluster:
    """`masters[i]` has `replicas[i]`, at first."""

    def __init__(self, start_redis):
        self.nodes = [self.start_node(start_redis) for _ in range(6)]
        self.masters, self.replicas = self.nodes[:3], self.nodes[3:]
        for epoch, (master, slots) in enumerate(zip(self.masters, RANGES), 1):
            master.client().execute_command("CLUSTER ADDSLOTSRANGE", *slots)
            master.client().execute_command("CLUSTER SET-CONFIG-EPOCH", epoch)
        first = self.masters[0].client()
        for node in self.nodes[1:]:
            first.execute_command("CLUSTER MEET", "127.0.0.1", node.port, node.options["cluster_port"])
        for node in self.nodes:
            wait_until(lambda n=node: len(n.client().execute_command("CLUSTER NODES")) == 6, "the nodes have met")
        for master, replica in zip(self.masters, self.replicas):
            replica.client().execute_command("CLUSTER REPLICATE", self.id_of(master))
        for replica in self.replicas:
            wait_until(lambda r=replica: r.client().info("replication").get("master_link_status") == "up", "it replicates")
        for node in self.nodes:
            wait_until(lambda n=node: self.is_known_to(n), "the cluster is up")
        self.slot = first.execute_command("CLUSTER KEYSLOT", PREFIX)
        shard = next(i for i, (begin, end) in enumerate(RANGES) if begin <= self.slot <= end)
        self.owner, self.heir = self.masters[shard], self.replicas[shard]
        self.other_master, self.other_replica = self.masters[shard - 1], self.replicas[shard - 1]

    @staticmethod
    def start_node(start_redis):
        return start_redis(
            has_port=True,
            cluster_enabled="yes",
            cluster_port=basics.free_port(),
            cluster_node_timeout=1000,
            cluster_replica_validity_factor=0,
            repl_diskless_sync_delay=0,
            repl_ping_replica_period=1,  # a replica that has heard nothing yet is not told of
        )

    @staticmethod
    def id_of(node):
        return node.client().execute_command("CLUSTER MYID")

    def is_known_to(self, node):
        client = node.client()
        # First slot, last slot, then (address, port, id, ...) of the master and of each replica.
        ports = {node[1] for entry in client.execute_command("CLUSTER SLOTS") for node in entry[2:]}
        return client.execute_command("CLUSTER INFO")["cluster_state"] == "ok" and ports == {n.port for n in self.nodes}

    def replicate(self):
        """Returns when the heir has everything that was answered before."""
        client = self.owner.client()
        client.set(PREFIX + "marker", "1")
        assert client.wait(1, 10000) == 1

    def wait_promoted(self):
        """Returns when the heir said that it is a master."""
        client = self.heir.client()
        wait_until(lambda: role_of(client) == "master", "the replica is promoted")
        return time.monotonic()

    def migrate(self, target):
        """As an operator does it with redis-cli --cluster reshard, for the one slot."""
        source, there = self.owner.client(), target.client()
        there.execute_command("CLUSTER SETSLOT", self.slot, "IMPORTING", self.id_of(self.owner))
        source.execute_command("CLUSTER SETSLOT", self.slot, "MIGRATING", self.id_of(target))
        while keys := source.execute_command("CLUSTER GETKEYSINSLOT", self.slot, 100):
            source.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for node in (target, self.owner, *self.masters):
            node.client().execute_command("CLUSTER SETSLOT", self.slot, "NODE", self.id_of(target))


def role_of(client):
    try:
        return client.info("replication")["role"]
    except redis.RedisError:
        return None


@pytest.fixture
def cluster(start_redis):
    redis_servers.need()
    return Cluster(start_redis)


def list_of(*nodes):
    return "redis://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes)


def keep_calls(cluster, router):
    """Calls that are on the heir as well; call_sid -> pod."""
    kept = {f"kept-{i}": router.allocate(f"kept-{i}")["pod_name"] for i in range(KEPT)}
    cluster.replicate()
    return kept


def serves(router, call_sid):
    """Waits until the router allocates; returns when it did."""
    wait_until(lambda: router.post("/api/v1/allocate", {"call_sid": call_sid}).status_code == 200, "it serves again")
    return time.monotonic()


def assert_kept(router, kept):
    for call_sid, pod in kept.items():
        answer = wait_until(lambda c=call_sid: answer_of(router, c), "the store answers")
        assert answer.status_code == 200 and answer.json()["pod_name"] == pod, f"{call_sid} had {pod}: {answer.text}"


def answer_of(router, call_sid):
    answer = router.get(f"/api/v1/call/{call_sid}")
    return answer if answer.status_code != 503 else None


class Work:
    """A few clients whose calls come and go."""

    def __init__(self, router):
        self.history = load.History()
        self.load = load.Load(self.history)
        self.callers = load.Callers(self.history, [router.url], hot=4)
        self.callers.start(self.load, CLIENTS)
        self.grow(100)

    def grow(self, count):
        before = len(self.history.allocations)
        wait_until(lambda: len(self.history.allocations) >= before + count, "calls are allocated")

    def first_after(self, moment):
        """When the first allocation was answered with success that was asked for later than that."""
        found = wait_until(lambda: [a[1] for a in list(self.history.allocations) if a[0] > moment], "it serves again")
        return min(found)

    def finish(self, died, promoted):
        self.load.stop()
        self.callers.finish()
        self.history.may_have_ended(died - LOST_S, promoted)
        assert load.violations(self.history, lambda pool: 1) == []
        assert [outcome for outcome in self.history.outcomes if "None" in outcome] == []


@pytest.mark.parametrize("named", ["owner", "other_master", "heir"])
def test_the_owner_of_the_slot_dies_under_load(cluster, start_on, tell, named):
    router = start_on(getattr(cluster, named), ENV)
    watcher = Watcher(router).listening()
    kept = keep_calls(cluster, router)
    work = Work(router)
    died = time.monotonic()
    cluster.owner.kill()
    promoted = cluster.wait_promoted()
    served = work.first_after(promoted)
    work.grow(100)
    tell(
        f"cluster, REDIS_URL names the {named}: promoted {promoted - died:.2f} s after the death, serving {served - promoted:.3f} s "
        "after that"
    )
    work.finish(died, promoted)
    assert_kept(router, kept)
    assert "several slots" not in router.log()
    # The events have a connection of their own, which was to the same node.
    watcher.listening(times=2)
    router.allocate("told")
    watcher.wait("allocated", call_sid="told")
    watcher.close()


def test_an_owner_that_falls_silent_is_left(cluster, start_on, tell):
    router = start_on(cluster.owner, ENV)
    kept = keep_calls(cluster, router)
    with cluster.owner.paused():
        silent = time.monotonic()
        promoted = cluster.wait_promoted()
        served = serves(router, "CA1")
        tell(
            f"cluster, the owner is stopped: promoted {promoted - silent:.2f} s after that, serving {served - promoted:.3f} s after "
            "the promotion"
        )
    assert_kept(router, kept)
    # Back as a replica it leads to the new owner, too.
    wait_until(lambda: role_of(cluster.owner.client()) == "slave", "the old owner has heard of the new one")
    assert_kept(start_on(cluster.owner, ENV), kept)


def test_a_router_that_is_started_while_its_first_seed_is_dead(cluster, start_on, start_router):
    kept = keep_calls(cluster, start_on(cluster.other_replica, ENV))
    cluster.owner.kill()
    cluster.wait_promoted()
    url = list_of(cluster.owner, cluster.other_replica)
    router = start_router({**redis_servers.QUICK, **ENV, "REDIS_URL": url})
    assert_kept(router, kept)
    router.allocate_until_answered("CA1")


def test_a_router_that_is_started_before_the_replica_is_promoted(cluster, start_on, start_router):
    kept = keep_calls(cluster, start_on(cluster.owner, ENV))
    cluster.owner.kill()
    url = list_of(cluster.owner, cluster.other_replica)
    router = start_router({**redis_servers.QUICK, **ENV, "REDIS_URL": url})
    assert role_of(cluster.heir.client()) == "master"
    assert_kept(router, kept)


@pytest.mark.parametrize("seed", ["other_master", "other_replica"])
def test_any_node_leads_to_the_owner_of_the_slot(cluster, start_on, seed):
    kept = keep_calls(cluster, start_on(cluster.owner, ENV))
    router = start_on(getattr(cluster, seed), ENV)
    assert_kept(router, kept)
    router.allocate_until_answered("CA1")


def test_the_seed_dies_and_then_the_owner(cluster, start_on):
    router = start_on(cluster.other_replica, ENV)
    kept = keep_calls(cluster, router)
    cluster.other_replica.kill()
    assert_kept(router, kept)
    cluster.owner.kill()
    cluster.wait_promoted()
    serves(router, "CA1")
    assert_kept(router, kept)


def test_a_slot_that_migrates_is_followed(cluster, start_on):
    router = start_on(cluster.owner, {**ENV, **redis_servers.QUIET})
    kept = keep_calls(cluster, router)
    cluster.migrate(cluster.other_master)
    serves(router, "CA1")
    assert_kept(router, kept)
    assert cluster.other_master.client().zscore(PREFIX + "calls:active", "CA1")
    for call_sid, pod in kept.items():
        assert router.release(call_sid)["pod_name"] == pod
