"""What an attack on the repairs in Redis found: scores, strangers in lists, wrong beliefs about the leader."""

import collections
import threading
import time

import pytest
from conftest import wait_until
from test_redis_leader import syncs

TIERS = (
    '{"tiers":{"gold":{"type":"exclusive","target":0},"basic":{"type":"shared","target":%d,"max_concurrent":%d}},'
    '"default_chain":["gold","basic"]}'
)
ONE_GOLD = {"STATIC_PODS": "p-0", "TIER_CONFIG": '{"gold":1}'}
BASIC = "voice:pool:basic:available"
GOLD = "voice:pool:gold:available"
NEVER = {"CLEANUP_INTERVAL": "24h", "RECONCILE_INTERVAL": "24h"}


def commands_of(client, script):
    """Runs script(), and says how many commands Redis ran meanwhile."""
    client.config_resetstat()
    script()
    stats = client.info("commandstats")
    return sum(one["calls"] for name, one in stats.items() if name.startswith("cmdstat_"))


@pytest.fixture
def shared(redis_server, start_on):
    """shared(pods, calls per pod, env) -> (router, redis)"""

    def start(count, calls, env):
        pods = ",".join(f"p-{n}" for n in range(count))
        router = start_on(redis_server, {"STATIC_PODS": pods, "TIER_CONFIG": TIERS % (count, calls), **env})
        client = redis_server.client()
        wait_until(lambda: client.zcard(BASIC) == count and syncs(router) > 0, "the pods are there")
        return router, client

    return start


@pytest.mark.parametrize("by", [1, -1])
def test_a_wrong_score_of_a_busy_pod_is_put_right(shared, by):
    """Its calls come and go all the time, so that the score is never the same twice."""
    router, client = shared(1, 40, {"CLEANUP_INTERVAL": "1s", "RECONCILE_INTERVAL": "24h"})
    for n in range(3):
        router.allocate(f"stays-{n}")
    is_over = threading.Event()

    def come_and_go():
        live = collections.deque()
        for n in range(100000):
            if is_over.wait(0.1):
                return
            live.append(f"goes-{n}")
            router.allocate(live[-1])
            if n % 12 >= 9:
                while live:
                    router.release(live.popleft())

    churn = threading.Thread(target=come_and_go)
    churn.start()
    try:
        client.zincrby(BASIC, by, "p-0")
        script = f"return redis.call('ZSCORE','{BASIC}','p-0') - redis.call('ZCARD','voice:pod:calls:p-0')"
        wait_until(lambda: client.eval(script, 0) == 0, "the score is the number of calls")
    finally:
        is_over.set()
        churn.join()


def test_an_adopted_call_is_counted_once(redis_server, start_on):
    env = {"POD_SOURCE": "api", "STATIC_PODS": None, "TIER_CONFIG": TIERS % (1, 3), **NEVER}
    router = start_on(redis_server, env)
    client = redis_server.client()
    wait_until(lambda: syncs(router) > 0, "the first sync does not come in between")
    assert router.post("/api/v1/pods", {"pod_name": "p-0", "address": "10.0.0.1:80"}).status_code == 200
    for n in range(2):
        router.allocate(f"CA{n}")
    for _ in range(3):
        client.delete("voice:call:CA1")  # by hand, but its pod still talks
        answer = router.post("/api/v1/pod/p-0/heartbeat", {"call_sids": ["CA0", "CA1"]}).json()
        assert answer["adopted"] == ["CA1"]
        assert client.zscore(BASIC, "p-0") == client.zcard("voice:pod:calls:p-0") == 2


@pytest.mark.parametrize("key", ["voice:pod:p-0", "voice:pod:p-0:calls"])
def test_a_key_of_the_wrong_type_does_not_overbook_a_pod(shared, key):
    router, client = shared(3, 3, NEVER)
    client.set(key, "of the wrong type")
    answers = [router.post("/api/v1/allocate", {"call_sid": f"CA{n}"}) for n in range(15)]
    pods = collections.Counter(answer.json()["pod_name"] for answer in answers if answer.status_code == 200)
    assert max(pods.values()) <= 3 and len(pods) >= 2, pods


def test_a_pod_without_a_record_is_nobody_s_once_ours_has_taken_over(redis_server, start_on):
    router = start_on(redis_server, {**ONE_GOLD, **NEVER})
    client = redis_server.client()
    wait_until(lambda: client.scard(GOLD) == 1 and syncs(router) > 0, "the first sync is over")
    client.hset("voice:pods", "p-0", "spoiled by hand")
    assert router.post("/api/v1/drain", {"pod_name": "p-0"}).status_code == 404  # the record is deleted by that
    assert router.post("/api/v1/allocate", {"call_sid": "CA1"}).status_code == 503
    assert client.scard(GOLD) == 0


def test_a_renewal_does_not_bring_back_a_call_on_a_pod_that_is_gone(redis_server, start_on):
    router = start_on(redis_server, {**ONE_GOLD, **NEVER})
    client = redis_server.client()
    wait_until(lambda: client.scard(GOLD) == 1 and syncs(router) > 0, "the pod is there")
    router.allocate("CA1")
    client.delete("voice:lease:p-0", "voice:pod:p-0", "voice:pod:tier:p-0")
    client.hdel("voice:pods", "p-0")
    answer = router.post("/api/v1/renew", {"call_sids": ["CA1", "CA2"]}).json()
    assert answer["conflicts"] == ["CA1"]
    assert not client.exists("voice:lease:p-0", "voice:pod:p-0")


@pytest.mark.parametrize("leader", ["other", "ours"])
@pytest.mark.parametrize("kind", ["set", "zset"])
def test_strangers_in_a_list_cost_a_bounded_number_of_commands(redis_server, start_on, kind, leader):
    client = redis_server.client()
    junk = [f"junk-{n}" for n in range(5000)]
    env = {"POD_SOURCE": "api", "STATIC_PODS": None, "TIER_CONFIG": TIERS % (1, 3), **NEVER}
    if leader == "other":
        client.set("voice:leader", "other", ex=600)
    router = start_on(redis_server, env)
    wait_until(lambda: client.exists(f"voice:leader:{leader}"), "somebody leads")
    time.sleep(0.5)  # what it does at its start is over
    if kind == "set":
        client.sadd(GOLD, *junk)
    else:
        client.zadd(BASIC, dict.fromkeys(junk, 0))
    refuse = lambda: router.post("/api/v1/allocate", {"call_sid": "CA1"}).status_code == 503
    assert commands_of(client, refuse) < 1000
    left = client.scard(GOLD) if kind == "set" else client.zcard(BASIC)
    assert left == (5000 if leader == "other" else 4900)


def test_the_work_of_a_sweep_does_not_grow_with_the_calls_of_a_pod(shared):
    router, client = shared(20, 1000, {"CLEANUP_INTERVAL": "200ms", "RECONCILE_INTERVAL": "24h"})
    now = int(time.time())
    for pod in (f"p-{n}" for n in range(20)):
        calls = dict.fromkeys((f"{pod}-{n}" for n in range(1000)), (now + 14000) * 1000)
        pipe = client.pipeline()  # all at once: no sweep sees a part of it
        for call_sid in calls:
            fields = {"pod_name": pod, "source_pool": "pool:basic", "allocated_at": now, "attempts": "1"}
            pipe.hset(f"voice:call:{call_sid}", mapping=fields)
        pipe.zadd("voice:calls:active", calls)
        pipe.zadd(f"voice:pod:calls:{pod}", calls)
        pipe.set(f"voice:lease:{pod}", f"{pod}-0", ex=14000)
        pipe.zadd(BASIC, {pod: 1000})
        pipe.execute()

    def sweeps():
        name = "smart_router_sweeps_total "
        return next(int(line.removeprefix(name)) for line in router.get("/metrics").text.splitlines() if line.startswith(name))

    client.config_resetstat()
    first = sweeps()
    wait_until(lambda: sweeps() >= first + 10, "ten sweeps")
    stats = client.info("stats")
    assert client.hlen("voice:pods:doubt") == 0
    # Keys that were looked up: some 25 of each pod, and 1,000 calls. Looking at all calls of all pods would be 20,000 more.
    assert stats["keyspace_hits"] / (sweeps() - first) < 8000


def test_a_leader_of_ours_that_cannot_reach_redis_is_no_other_program(redis_server, start_on):
    """Its sign of life runs out, and others still see its name."""
    router = start_on(redis_server, {**ONE_GOLD, **NEVER})
    client = redis_server.client()
    wait_until(lambda: client.scard(GOLD) == 1 and client.exists("voice:leader:known"), "it leads")
    name = client.get("voice:leader")
    router.kill()
    client.delete("voice:leader:ours")
    client.set("voice:leader", name, ex=600)
    follower = start_on(redis_server, {**ONE_GOLD, **NEVER}, wait=False)
    follower.env["STATIC_PODS"] = ""
    follower.wait_ready()
    wait_until(lambda: follower.get("/api/v1/status").json()["leader"] == name, "it follows")
    time.sleep(1)
    assert not client.exists("voice:leader:other")
    client.set("voice:leader", "a-stranger", ex=600)
    wait_until(lambda: client.get("voice:leader:other") == "a-stranger", "that one is another program")


def test_a_pod_that_is_not_ready_gets_no_call_whoever_leads(redis_server, start_on):
    """Where our records are as the other program left the pod, they are believed."""
    router = start_on(redis_server, {**ONE_GOLD, **NEVER})
    client = redis_server.client()
    wait_until(lambda: client.scard(GOLD) == 1 and syncs(router) > 0, "the pod is there")
    router.allocate("CA1")
    client.hset("voice:pods", "p-0", client.hget("voice:pods", "p-0").replace('"ready":true', '"ready":false'))
    client.set("voice:leader:other", "a-stranger", ex=600)
    assert router.release("CA1")["pod_name"] == "p-0"
    assert client.scard(GOLD) == 0
    assert client.hexists("voice:pods", "p-0")  # it is that program's to remove


def test_a_shared_pod_that_is_not_ready_stays_in_its_list_while_another_program_leads(shared):
    """That program would give a pod that is not there the score 0."""
    router, client = shared(1, 3, NEVER)
    for n in range(2):
        router.allocate(f"CA{n}")
    client.hset("voice:pods", "p-0", client.hget("voice:pods", "p-0").replace('"ready":true', '"ready":false'))
    client.set("voice:leader:other", "a-stranger", ex=600)
    assert router.release("CA0")["pod_name"] == "p-0"
    assert client.zscore(BASIC, "p-0") == 1
    assert router.post("/api/v1/drain", {"pod_name": "p-0"}).status_code == 200
    assert client.zscore(BASIC, "p-0") is None
