"""Routers that find what the first implementation left in Redis, with calls in flight.

Its keys are written here as it wrote them, value by value: pools, leases that ran for 15 minutes, records of calls,
the lock of a call that was about to get its pod. The pods are the same as before; none has heard of the change.
"""

import time

import pytest
import redis_servers
from conftest import wait_until

TIERS = """{"tiers": {"gold": {"type": "exclusive", "target": 2}, "standard": {"type": "exclusive", "target": 3},
 "basic": {"type": "shared", "target": 2, "max_concurrent": 3}, "merchant:9shines": {"target": 2}},
 "default_chain": ["gold", "standard", "basic"]}"""
PODS = {
    "agent-0": "gold",
    "agent-1": "gold",
    "agent-2": "standard",
    "agent-3": "standard",
    "agent-4": "standard",
    "agent-5": "basic",
    "agent-6": "basic",
    "agent-7": "merchant:9shines",
    "agent-8": "merchant:9shines",
}
LEASE_S = 900
RECORD_S = 86400
# Calls in flight: on gold, on standard, three on one shared pod, one on the other, one on a merchant's pod.
CALLS = {
    "CA-gold": "agent-0",
    "CA-standard": "agent-2",
    "CA-shared-1": "agent-5",
    "CA-shared-2": "agent-5",
    "CA-shared-3": "agent-5",
    "CA-shared-4": "agent-6",
    "CA-merchant": "agent-7",
}


def source_pool(pod):
    tier = PODS[pod]
    return tier if tier.startswith("merchant:") else f"pool:{tier}"


class FirstImplementation:
    """Writes what it wrote, one command after the other."""

    def __init__(self, client):
        self.client = client

    def available_key(self, tier):
        kind, _, merchant = tier.partition(":")
        return f"voice:merchant:{merchant}:pods" if kind == "merchant" else f"voice:pool:{tier}:available"

    def pod_up(self, pod, tier):
        is_merchant = tier.startswith("merchant:")
        self.client.hset("voice:pod:metadata", pod, f'{{"tier":"{tier}","name":"{pod}"}}')
        self.client.sadd(f"voice:{tier}:assigned" if is_merchant else f"voice:pool:{tier}:assigned", pod)
        self.client.set(f"voice:pod:tier:{pod}", tier)
        if tier == "basic":
            self.client.zadd(self.available_key(tier), {pod: 0}, nx=True)
        else:
            self.client.sadd(self.available_key(tier), pod)

    def lock(self, call_sid):
        self.client.hset(f"voice:call:{call_sid}", "_lock", "1")
        self.client.expire(f"voice:call:{call_sid}", 30)

    def allocate(self, call_sid, pod, age_s=60, lease_s=LEASE_S):
        tier = PODS[pod]
        allocated_at = str(int(time.time()) - age_s)
        self.lock(call_sid)
        if tier == "basic":
            self.client.zincrby(self.available_key(tier), 1, pod)
        else:
            self.client.srem(self.available_key(tier), pod)
        fields = {"pod_name": pod, "source_pool": source_pool(pod), "merchant_id": "acme", "allocated_at": allocated_at}
        self.client.hset(f"voice:call:{call_sid}", mapping=fields)
        self.client.hdel(f"voice:call:{call_sid}", "_lock")
        self.client.expire(f"voice:call:{call_sid}", RECORD_S)
        fields = {
            "status": "allocated",
            "allocated_call_sid": call_sid,
            "allocated_at": allocated_at,
            "source_pool": source_pool(pod),
        }
        self.client.hset(f"voice:pod:{pod}", mapping=fields)
        if lease_s:
            self.client.set(f"voice:lease:{pod}", call_sid, px=int(lease_s * 1000))

    def drain(self, pod, ttl_s):
        self.client.srem(self.available_key(PODS[pod]), pod)
        self.client.set(f"voice:pod:draining:{pod}", "true", ex=ttl_s)


@pytest.fixture
def first(redis_server):
    """An installation with nine pods and seven calls in flight."""
    first = FirstImplementation(redis_server.client())
    for pod, tier in PODS.items():
        first.pod_up(pod, tier)
    for call_sid, pod in CALLS.items():
        first.allocate(call_sid, pod)
    first.client.hset("voice:merchant:config", "nine", '{"tier":"dedicated","pool":"9shines"}')
    return first


@pytest.fixture
def take_over(redis_server, start_on):
    def start(env=None, **kwargs):
        return start_on(redis_server, {"TIER_CONFIG": TIERS, "STATIC_PODS": ",".join(PODS), **(env or {})}, **kwargs)

    return start


def pods(router):
    return {pod["pod_name"]: pod for pod in router.get("/api/v1/pods?limit=1000").json()["pods"]}


def taken_over(router):
    """The first sync is over."""
    name = "smart_router_sync_duration_seconds_count "
    lines = lambda: router.get("/metrics").text.splitlines()
    wait_until(lambda: any(line.startswith(name) and line != name + "0" for line in lines()), "a sync")
    return router


def everyone_is_where_he_was(router):
    for call_sid, pod in CALLS.items():
        answer = router.allocate(call_sid)
        assert (answer["pod_name"], answer["was_existing"], answer["source_pool"]) == (pod, True, source_pool(pod))


def fill(router, **fields):
    """Allocates until nothing is left; returns call -> pod."""
    given = {}
    while (answer := router.post("/api/v1/allocate", {"call_sid": f"new-{len(given)}", **fields})).status_code == 200:
        given[answer.json()["call_sid"] if "call_sid" in answer.json() else f"new-{len(given)}"] = answer.json()
    assert answer.status_code == 503
    return {call_sid: answer["pod_name"] for call_sid, answer in given.items()}


def test_pods_stay_in_their_tiers(first, take_over):
    router = taken_over(take_over())
    assert {name: pod["tier"] for name, pod in pods(router).items()} == PODS
    keys = redis_servers.keyspace(first.client)
    assert keys["voice:pool:gold:assigned"] == {"agent-0", "agent-1"}
    assert keys["voice:pool:gold:available"] == {"agent-1"}
    assert keys["voice:pool:standard:available"] == {"agent-3", "agent-4"}
    assert keys["voice:merchant:9shines:pods"] == {"agent-8"}
    assert keys["voice:merchant:9shines:assigned"] == {"agent-7", "agent-8"}
    assert keys["voice:pool:basic:available"] == {"agent-5": 3, "agent-6": 1}  # agent-5 is full
    assert router.get("/api/v1/status").json()["active_calls"] == len(CALLS)
    listed = {call["call_sid"]: call["pod_name"] for call in router.get("/api/v1/calls").json()["calls"]}
    assert listed == CALLS


def test_calls_in_flight_are_answered_with_the_pod_that_they_have(first, take_over):
    everyone_is_where_he_was(taken_over(take_over()))


def test_also_by_a_router_that_does_not_lead_before_anybody_has_taken_over(first, take_over):
    """The lock is somebody else's, who does nothing: the routers answer from what they find."""
    first.client.set("voice:leader", "somebody-else", ex=600)
    router = take_over(wait=False)
    router.env["STATIC_PODS"] = ""  # do not wait for them
    router.wait_ready()
    everyone_is_where_he_was(router)
    assert router.allocate("CA-new")["pod_name"] == "agent-1"  # its pods are registered, whoever did that
    assert router.release("CA-new")["released_to_pool"] == "pool:gold"
    assert first.client.smembers("voice:pool:gold:available") == {"agent-1"}
    answer = router.post("/api/v1/renew", {"call_sids": list(CALLS)}).json()
    assert set(answer["renewed"]) == set(CALLS), answer
    assert router.release("CA-shared-2")["pod_name"] == "agent-5"
    assert first.client.zscore("voice:pool:basic:available", "agent-5") == 2
    first.client.delete("voice:leader")
    wait_until(lambda: len(pods(router)) == len(PODS), "now it leads, and takes over")
    wait_until(lambda: first.client.zscore("voice:pool:basic:available", "agent-5") == 2, "the score is right")
    for call_sid, pod in CALLS.items():
        if call_sid != "CA-shared-2":
            assert router.allocate(call_sid)["pod_name"] == pod


def test_calls_that_are_renewed_before_anybody_has_taken_over_are_kept(first, take_over):
    first.client.set("voice:leader", "another-router", ex=600)
    router = take_over(wait=False)
    router.env["STATIC_PODS"] = ""  # do not wait for them
    router.wait_ready()
    for _ in range(3):
        answer = router.post("/api/v1/renew", {"call_sids": sorted(CALLS)}).json()
        assert (sorted(answer["renewed"]), answer["conflicts"]) == (sorted(CALLS), [])
        everyone_is_where_he_was(router)
    first.client.delete("voice:leader")
    taken_over(router)
    everyone_is_where_he_was(router)
    assert sorted(pods(router)["agent-5"]["calls"]) == ["CA-shared-1", "CA-shared-2", "CA-shared-3"]
    assert "agent-5" not in fill(router).values()


def test_no_busy_pod_is_given_to_another_call(first, take_over):
    router = taken_over(take_over())
    given = fill(router)
    assert sorted(given.values()) == ["agent-1", "agent-3", "agent-4", "agent-6", "agent-6"]
    assert router.allocate("CA-nine", merchant_id="nine")["pod_name"] == "agent-8"
    assert router.post("/api/v1/allocate", {"call_sid": "CA-ten", "merchant_id": "nine"}).status_code == 503
    everyone_is_where_he_was(router)


def test_releases_work_and_scores_are_the_number_of_calls(first, take_over):
    router = taken_over(take_over())
    score = lambda pod: first.client.zscore("voice:pool:basic:available", pod)
    for left, call_sid in ((2, "CA-shared-3"), (1, "CA-shared-1"), (0, "CA-shared-2")):
        assert router.release(call_sid)["released_to_pool"] == "pool:basic"
        assert score("agent-5") == left
    assert not first.client.exists("voice:lease:agent-5")
    for call_sid in ("CA-gold", "CA-standard", "CA-shared-4", "CA-merchant"):
        answer = router.release(call_sid)
        assert (answer["pod_name"], answer["released_to_pool"]) == (CALLS[call_sid], source_pool(CALLS[call_sid]))
    assert {pod["state"] for pod in pods(router).values()} == {"available"}
    assert router.get("/api/v1/status").json()["active_calls"] == 0
    assert len(fill(router)) == 5 + 2 * 3


def test_a_heartbeat_finds_its_calls(first, take_over):
    router = taken_over(take_over())
    sids = [call_sid for call_sid, pod in CALLS.items() if pod == "agent-5"]
    answer = router.post("/api/v1/pod/agent-5/heartbeat", {"call_sids": sids}).json()
    assert (answer["renewed"], answer["adopted"], answer["conflicts"]) == (sids, [], [])


def test_leases_run_out_as_they_would_have(first, take_over):
    first.client.pexpire("voice:lease:agent-0", 10000)
    router = taken_over(take_over())
    assert pods(router)["agent-0"]["calls"] == ["CA-gold"]
    wait_until(lambda: pods(router)["agent-0"]["state"] == "available", "the lease has run out")
    assert router.get("/api/v1/call/CA-gold").status_code == 404
    assert pods(router)["agent-2"]["calls"] == ["CA-standard"]


def test_a_lease_that_had_run_out_before(first, take_over):
    """Its record lives for a day; the pod was free for the first implementation and is free now."""
    first.client.delete("voice:lease:agent-0")
    router = taken_over(take_over())
    in_its_pool = lambda: first.client.sismember("voice:pool:gold:available", "agent-0")
    wait_until(in_its_pool, "nobody was about to take it")
    assert pods(router)["agent-0"]["state"] == "available"
    assert router.get("/api/v1/status").json()["active_calls"] == len(CALLS) - 1
    given = fill(router)
    assert "agent-0" in given.values()
    # A late word of the old call frees nobody else's slot.
    router.post("/api/v1/release", {"call_sid": "CA-gold"})
    assert pods(router)["agent-0"]["state"] == "busy"


def test_records_of_shared_calls_that_nobody_released(first, take_over):
    """They would have kept the score up for ever; older than any call can be, they do not count."""
    first.allocate("CA-leaked", "agent-6", age_s=5 * 3600)
    first.client.set("voice:lease:agent-6", "CA-shared-4", ex=LEASE_S)
    router = taken_over(take_over({"CALL_MAX_DURATION": "4h"}))
    wait_until(lambda: first.client.zscore("voice:pool:basic:available", "agent-6") == 1, "the score is right")
    assert router.get("/api/v1/status").json()["active_calls"] == len(CALLS)


def test_a_call_that_only_had_its_lock(first, take_over):
    first.lock("CA-locked")
    router = taken_over(take_over())
    answer = router.allocate("CA-locked")
    assert not answer["was_existing"]
    assert answer["pod_name"] not in CALLS.values()
    assert first.client.hget("voice:call:CA-locked", "pod_name") == answer["pod_name"]
    assert first.client.ttl("voice:call:CA-locked") > 3600  # and not the lock's 30 seconds
    assert router.release("CA-locked")["pod_name"] == answer["pod_name"]


def test_a_draining_pod_drains_on_and_comes_back(first, take_over):
    first.drain("agent-1", 300)
    router = taken_over(take_over())
    assert pods(router)["agent-1"]["state"] == "draining"
    assert "agent-1" not in fill(router).values()
    assert first.client.pexpire("voice:pod:draining:agent-1", 100)
    wait_until(lambda: pods(router)["agent-1"]["state"] == "available", "its flag has run out")


def test_a_pod_in_its_pool_by_mistake_while_it_has_a_call(first, take_over):
    """The first implementation could put a busy pod back; and a shared score could drift."""
    first.client.sadd("voice:pool:gold:available", "agent-0")
    first.client.zadd("voice:pool:basic:available", {"agent-5": -1, "agent-6": 17})
    router = taken_over(take_over())
    scores = lambda: first.client.zrange("voice:pool:basic:available", 0, -1, withscores=True)
    wait_until(lambda: scores() == [("agent-6", 1), ("agent-5", 3)], "the scores are right")
    assert sorted(fill(router).values()) == ["agent-1", "agent-3", "agent-4", "agent-6", "agent-6"]
    everyone_is_where_he_was(router)


def test_a_pod_that_no_longer_exists_is_removed_with_its_calls(first, take_over):
    left = [pod for pod in PODS if pod not in ("agent-0", "agent-1", "agent-6")]
    router = taken_over(take_over({"STATIC_PODS": ",".join(left)}))
    wait_until(lambda: set(pods(router)) == set(left), "only those that exist are left")
    keys = redis_servers.keyspace(first.client)
    assert [key for key in keys if key.endswith(("agent-0", "agent-1", "agent-6"))] == []
    assert all("agent-0" not in value for value in keys.values())
    assert router.get("/api/v1/call/CA-gold").status_code == 404
    ended = {line["call_sid"]: line["reason"] for line in router.log_lines("call ended")}
    assert ended == {"CA-gold": "pod_gone", "CA-shared-4": "pod_gone"}


def test_two_routers_take_over_at_once(first, take_over):
    routers = [take_over(wait=False) for _ in range(3)]
    for router in routers:
        router.wait_ready()
    leader = wait_until(lambda: next((one for one in routers if one.get("/api/v1/status").json()["is_leader"]), None), "one leads")
    taken_over(leader)
    for router in routers:
        everyone_is_where_he_was(router)
    given = fill(routers[0])
    assert sorted(given.values()) == ["agent-1", "agent-3", "agent-4", "agent-6", "agent-6"]


def test_many_keys_are_walked_in_steps(first, take_over):
    """Ten thousand strangers, and thousands of records: no script holds Redis for long."""
    client = first.client
    pipe = client.pipeline(transaction=False)
    for i in range(10000):
        pipe.set(f"stranger:{i}", "x")
    now = int(time.time())
    for i in range(3000):
        fields = {"pod_name": "agent-0", "source_pool": "pool:gold", "merchant_id": "m", "allocated_at": now}
        pipe.hset(f"voice:call:stale-{i}", mapping=fields)
    pipe.execute()
    router = taken_over(take_over())
    everyone_is_where_he_was(router)
    assert router.get("/api/v1/status").json()["active_calls"] == len(CALLS)
    assert client.dbsize() > 13000
