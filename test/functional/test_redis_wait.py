"""REDIS_WAIT_REPLICAS: what was answered is on so many replicas, also when the answer is that there is nothing to do."""

import os
import threading
import time

import load
import pytest
import redis
from conftest import wait_until
from test_redis_sentinel import Group, Keepers

ENV = {
    "STATIC_PODS": "agent-0,agent-1,agent-2",
    "TIER_CONFIG": '{"gold": 3}',
    "LEADER_ELECTION_ENABLED": "false",
    "REDIS_TIMEOUT": "300ms",  # how long an answer waits for a replica before it becomes 503
    "REDIS_WAIT_REPLICAS": 1,
    "CLEANUP_INTERVAL": "24h",
    "RECONCILE_INTERVAL": "24h",
}


@pytest.fixture
def pair(start_redis):
    """A primary and a replica that follows it."""
    primary = start_redis(has_port=True)
    replica = start_redis(has_port=True, replicaof=f"127.0.0.1 {primary.port}", repl_diskless_sync_delay=0)
    wait_until(lambda: replica.client().info("replication")["master_link_status"] == "up", "it replicates")
    return primary, replica


def status_of(router, path, call_sid):
    return router.post(path, {"call_sid": call_sid}).status_code


def release_status(router, call_sid):
    return status_of(router, "/api/v1/release", call_sid)


def allocate(router, call_sid):
    """On a busy machine a replica may need more than REDIS_TIMEOUT: then the call asks again."""

    def answered():
        answer = router.post("/api/v1/allocate", {"call_sid": call_sid})
        return answer.status_code == 200 and answer.json()

    return wait_until(answered, "the call has its pod")


def test_a_repeated_release_is_not_told_that_the_call_is_gone_before_a_replica_knows(pair, start_on):
    primary, replica = pair
    first, second = (start_on(primary, ENV) for _ in range(2))
    for sid in ("CA1", "CA2"):
        allocate(first, sid)
    with replica.paused():
        assert release_status(first, "CA1") == 503
        assert primary.client().exists("voice:call:CA1") == 0  # it was carried out, and only the primary knows
        for router in (first, second, first):  # each of them has a connection of its own
            assert release_status(router, "CA1") == 503
            assert release_status(router, "CA-never-was") == 503
    wait_until(lambda: release_status(second, "CA1") == 404, "the replica is back, and has it")
    assert release_status(first, "CA1") == 404
    # Only now may the primary die: the replica brings no ended call back.
    primary.kill()
    client = replica.client()
    client.replicaof("NO", "ONE")
    third = start_on(replica, {**ENV, "REDIS_WAIT_REPLICAS": 0})
    assert third.get("/api/v1/call/CA1").status_code == 404
    assert third.get("/api/v1/call/CA2").status_code == 200


def test_a_call_that_has_its_pod_already_waits_as_well(pair, start_on):
    primary, replica = pair
    first, second = (start_on(primary, ENV) for _ in range(2))
    with replica.paused():
        assert status_of(first, "/api/v1/allocate", "CA1") == 503
        for router in (second, first):
            assert status_of(router, "/api/v1/allocate", "CA1") == 503
    wait_until(lambda: status_of(second, "/api/v1/allocate", "CA1") == 200, "the replica is back, and has it")
    answer = allocate(second, "CA1")
    assert answer["was_existing"]
    assert replica.client().hget("voice:call:CA1", "pod_name") == answer["pod_name"]


def test_what_others_have_written_is_waited_for_by_a_write_of_our_own(pair, start_on):
    """From Redis 7.2 on WAIT knows of its own connection's writes only; a step that writes nothing leaves it nothing to wait for."""
    primary, _ = pair
    router = start_on(primary, ENV)
    client = primary.client()
    router.allocate("CA1")
    assert client.exists("voice:waited") == 0  # the allocation itself was a write
    assert release_status(router, "CA-never-was") == 404
    assert client.delete("voice:waited") == 1
    assert router.allocate("CA1")["was_existing"]
    assert client.delete("voice:waited") == 1
    assert release_status(router, "CA1") == 200
    assert client.exists("voice:waited") == 0


PLANNED = int(os.environ.get("PLANNED_FAILOVERS", "2"))
POD_COUNT = 4000
PLANNED_ENV = {
    "STATIC_PODS": ",".join(f"agent-{i}" for i in range(POD_COUNT)),
    "TIER_CONFIG": f'{{"gold": {POD_COUNT}}}',
    "RECONCILE_INTERVAL": "5s",
}


class WindowKeepers(Keepers):
    """They work only around a failover, so that the pods suffice for all of them."""

    def __init__(self, history, urls):
        super().__init__(history, urls)
        self.may_work = threading.Event()

    def one(self, client):
        if not self.may_work.wait(0.05):
            return
        number = next(self.numbers)
        assert number < POD_COUNT, "more pods are needed"
        pod = client.allocate(f"kept-{number}")
        if pod:
            self.kept[f"kept-{number}"] = (pod, time.monotonic())
        time.sleep(0.1)


class Planned:
    """A group whose primary hands over to a replica while it is in good health, as before its machine is serviced."""

    def __init__(self, group):
        self.group = group
        self.servers = {server.port: server for server in [group.primary, *group.replicas]}

    def primary(self):
        address = self.group.sentinels[0].client().sentinel_get_master_addr_by_name("mymaster")
        return self.servers[int(address[1])]

    def is_complete(self):
        """Two replicas follow the primary, and the sentinels know it."""
        try:
            return self.primary().client().info("replication")["connected_slaves"] == 2 and all(
                Group.knows_all(sentinel) for sentinel in self.group.sentinels
            )
        except redis.RedisError:
            return False

    def fail_over(self):
        """Returns when another one is the primary for all sentinels."""
        before = self.primary().port
        sentinel = self.group.sentinels[0].client()

        def start():
            try:
                return sentinel.execute_command("SENTINEL", "FAILOVER", "mymaster")
            except redis.ResponseError:  # INPROG, NOGOODSLAVE: it has not heard from its servers yet
                return False

        wait_until(start, "the sentinel begins")
        for other in self.group.sentinels:
            client = other.client()
            wait_until(lambda c=client: int(c.sentinel_get_master_addr_by_name("mymaster")[1]) != before, "another one is primary")


def planned_failovers(start_redis, start_on, wait_replicas, tell):
    """Returns the calls that were answered with success, and are not there any more."""
    group = Group(start_redis)
    planned = Planned(group)
    env = {**PLANNED_ENV, **group.env, "REDIS_WAIT_REPLICAS": wait_replicas}
    routers = [start_on(group.primary, env) for _ in range(2)]
    history = load.History()
    work = load.Load(history)
    keepers = WindowKeepers(history, [router.url for router in routers])
    keepers.start(work, 8)
    gaps = []
    for _ in range(PLANNED):
        wait_until(planned.is_complete, "two replicas follow")
        keepers.may_work.set()
        kept = len(keepers.kept)
        wait_until(lambda n=kept: len(keepers.kept) >= n + 20, "calls are kept")
        planned.fail_over()
        kept = len(keepers.kept)
        wait_until(lambda n=kept: len(keepers.kept) >= n + 20, "calls are kept again")
        keepers.may_work.clear()
        times = sorted(at for _, at in list(keepers.kept.values())[-200:])
        gaps.append(max(later - earlier for earlier, later in zip(times, times[1:])))
    wait_until(planned.is_complete, "two replicas follow")
    work.stop()
    lost = keepers.lost(routers[1])
    tell(
        f"{PLANNED} planned failovers, REDIS_WAIT_REPLICAS={wait_replicas} of 2: {len(keepers.kept)} calls answered with success, "
        f"{len(lost)} of them lost; longest time without a success {', '.join(f'{gap:.1f}' for gap in gaps)} s"
    )
    print(dict(sorted(history.outcomes.items())))
    return lost


def test_planned_failovers_lose_nothing_if_all_replicas_are_waited_for(start_redis, start_on, tell):
    assert planned_failovers(start_redis, start_on, 2, tell) == {}
