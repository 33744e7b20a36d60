"""The stand-in of the first implementation by itself: its keys are those of its documents, and its races are there.

The examples are those of its guide: five idle pods (7.2), a call on gold (7.3), the call released (7.4). Of a released
pod's hash the guide leaves out the fields that are empty, and `source_pool`, which nobody takes out.
"""

import functools
import re
import threading

import first_router
import pytest
import redis
import redis_servers
from conftest import wait_until
from first_router import NINE, Aside, FirstRouter, Refused, Stop

FIVE = [f"voice-agent-{i}" for i in range(5)]
SPEEDS = [pytest.param({}, id="one-by-one"), pytest.param({"at_once": True}, id="at-once")]


def keys(server, match="voice:*"):
    """Everything but the configuration."""
    found = redis_servers.keyspace(server.client(), match)
    found.pop(first_router.TIER_CONFIG, None)
    return found


def metadata(tiers):
    return {pod: f'{{"tier":"{tier}","name":"{pod}"}}' for pod, tier in tiers.items()}


def guide_pods(first, tiers=None):
    """The guide's example: gold, three standard, basic."""
    tiers = tiers or dict(zip(FIVE, ("gold", "standard", "standard", "standard", "basic")))
    for pod, tier in tiers.items():
        first.redis.hset(first_router.METADATA, pod, metadata({pod: tier})[pod])
        first.redis.sadd(first_router.assigned_key(tier), pod)
        first.redis.set(first_router.tier_key(pod), tier)
        first.ensure_pod_in_pool(pod, tier)
    return tiers


@pytest.mark.parametrize("speed", SPEEDS)
def test_five_idle_pods(start_first, redis_server, speed):
    """In the order of its tiers: gold, then the shared one, then standard, and standard when all are full."""
    first = start_first(**speed)
    first.full_sync(FIVE)
    tiers = dict(zip(FIVE, ("gold", "basic", "standard", "standard", "standard")))
    assert keys(redis_server) == {
        **{f"voice:pod:tier:{pod}": tier for pod, tier in tiers.items()},
        "voice:pool:gold:assigned": {"voice-agent-0"},
        "voice:pool:gold:available": {"voice-agent-0"},
        "voice:pool:standard:assigned": set(FIVE[2:]),
        "voice:pool:standard:available": set(FIVE[2:]),
        "voice:pool:basic:assigned": {"voice-agent-1"},
        "voice:pool:basic:available": {"voice-agent-1": 0},
        "voice:pod:metadata": metadata(tiers),
    }
    before = keys(redis_server)
    first.full_sync(FIVE)
    assert first.cleanup_zombies() == []
    assert keys(redis_server) == before


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_call_on_gold_and_its_release(start_first, redis_server, speed):
    first = start_first(**speed)
    guide_pods(first)
    idle = keys(redis_server)
    answer = first.allocate("call-abc123", "acme-corp")
    assert (answer["pod_name"], answer["source_pool"], answer["was_existing"]) == ("voice-agent-0", "pool:gold", False)
    now = keys(redis_server)
    allocated_at = now["voice:call:call-abc123"]["allocated_at"]
    expected = {**idle, **first_router.keys_of_a_call(allocated_at)}
    del expected["voice:pool:gold:available"]
    assert now == expected
    assert 3600 < first.redis.ttl("voice:call:call-abc123") <= 86400
    assert 60 < first.redis.ttl("voice:lease:voice-agent-0") <= 900
    assert first.allocate("call-abc123")["was_existing"]
    assert keys(redis_server) == expected

    assert first.release("call-abc123")["released_to_pool"] == "pool:gold"
    now = keys(redis_server)
    pod = {name: value for name, value in now.pop("voice:pod:voice-agent-0").items() if value and name != "source_pool"}
    assert pod == {"status": "available", "released_at": pod["released_at"]}
    assert now == idle
    with pytest.raises(Refused) as refused:
        first.release("call-abc123")
    assert refused.value.status == 404


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_shared_pod(start_first, redis_server, speed):
    first = start_first(**speed)
    guide_pods(first, {"voice-agent-4": "basic"})
    score = lambda: first.redis.zscore("voice:pool:basic:available", "voice-agent-4")
    for n in range(3):
        assert first.allocate(f"CA{n}")["source_pool"] == "pool:basic"
        assert (score(), first.redis.get("voice:lease:voice-agent-4")) == (n + 1, f"CA{n}")
    with pytest.raises(Refused) as refused:
        first.allocate("CA3")
    assert refused.value.status == 503
    assert first.redis.hgetall("voice:call:CA3") == {"_lock": "1"} and first.redis.ttl("voice:call:CA3") <= 30
    with pytest.raises(Refused) as refused:
        first.release("CA3")  # it has a record, but no pod
    assert refused.value.status == 500
    first.release("CA2")
    assert (score(), first.redis.get("voice:lease:voice-agent-4")) == (2, "CA2")  # the others have no lease
    first.release("CA0")
    first.release("CA1")
    assert (score(), first.redis.exists("voice:lease:voice-agent-4")) == (0, 0)


@pytest.mark.parametrize("speed", SPEEDS)
def test_newer_builds_keep_the_calls_of_a_shared_pod(start_first, redis_server, speed):
    first = start_first(keeps_sets=True, names_resellers=True, **speed)
    guide_pods(first)
    calls = {f"CA{n}": first.allocate(f"CA{n}", "acme")["pod_name"] for n in range(7)}
    shared = {call_sid for call_sid, pod in calls.items() if pod == "voice-agent-4"}
    assert len(shared) == 3
    assert keys(redis_server, "voice:pod:*:calls") == {"voice:pod:voice-agent-4:calls": shared}
    assert first.redis.hget("voice:call:CA0", "reseller_id") == "acme"
    assert not first.redis.hexists("voice:call:CA0", "merchant_id")
    released = shared.pop()
    first.release(released)
    assert first.redis.smembers("voice:pod:voice-agent-4:calls") == shared
    first.pod_deleted("voice-agent-4")
    assert keys(redis_server, "voice:*voice-agent-4*") == {}
    assert not any(first.redis.exists(f"voice:call:{call_sid}") for call_sid in shared)


@pytest.mark.parametrize("speed", SPEEDS)
def test_pools_of_merchants(start_first, redis_server, speed):
    first = start_first(tiers=NINE, **speed)
    first.full_sync(FIVE)
    assert keys(redis_server, "voice:merchant:*") == {
        "voice:merchant:9shines:assigned": set(FIVE[:2]),
        "voice:merchant:9shines:pods": set(FIVE[:2]),
    }
    assert first.redis.get("voice:pod:tier:voice-agent-0") == "merchant:9shines"
    nine = '{"tier":"dedicated","pool":"9shines","fallback":["__nonexistent__"]}'
    first.redis.hset("voice:merchant:config", "nine", nine)
    assert first.allocate("CA1", "nine")["source_pool"] == "merchant:9shines"
    assert first.allocate("CA2", "nine")["source_pool"] == "merchant:9shines"
    with pytest.raises(Refused):
        first.allocate("CA3", "nine")
    assert first.status()["pools"]["merchant:9shines:available"] == 0
    first.full_sync(FIVE)
    assert not first.redis.exists("voice:merchant:9shines:pods")
    first.release("CA1")
    first.release("CA2")
    assert first.redis.smembers("voice:merchant:9shines:pods") == set(FIVE[:2])
    assert first.is_pod_registered("voice-agent-0") and not first.is_pod_registered("voice-agent-9")


@pytest.mark.parametrize("speed", SPEEDS)
def test_draining(start_first, redis_server, speed):
    first = start_first(**speed)
    tiers = guide_pods(first)
    for pod in ("voice-agent-0", "voice-agent-4"):
        assert not first.drain(pod)["has_active_call"]
        assert first.redis.get(f"voice:pod:draining:{pod}") == "true"
        assert 0 < first.redis.ttl(f"voice:pod:draining:{pod}") <= 360
        assert pod in first.redis.smembers(first_router.assigned_key(tiers[pod]))
        assert not first.redis.exists(first_router.available_key(tiers[pod]))
    assert first.cleanup_zombies() == []
    pods = {first.allocate(f"CA{n}")["pod_name"] for n in range(3)}
    assert pods == set(FIVE[1:4])
    with pytest.raises(Refused):
        first.allocate("CA3")
    first.drain("voice-agent-1")
    first.redis.hset("voice:merchant:config", "m", '{"fallback":["standard"]}')
    call_sid = first.redis.get("voice:lease:voice-agent-1")
    assert first.release(call_sid)["was_draining"]
    with pytest.raises(Refused):
        first.allocate("CA4", "m")
    first.redis.delete(*(f"voice:pod:draining:{pod}" for pod in FIVE))
    assert first.cleanup_zombies() == ["voice-agent-4", "voice-agent-0", "voice-agent-1"]
    assert first.status()["pools"]["gold:available"] == 1


@pytest.mark.parametrize("speed", SPEEDS)
def test_a_pod_that_goes_takes_its_call_along(start_first, redis_server, speed):
    first = start_first(**speed)
    guide_pods(first)
    first.allocate("CA1")
    first.pod_modified("voice-agent-0", is_ready=False)
    assert keys(redis_server, "voice:*voice-agent-0*") == keys(redis_server, "voice:call:*") == {}
    assert all("voice-agent-0" not in value for value in keys(redis_server).values())
    first.pod_modified("voice-agent-0", is_ready=True)
    assert first.redis.get("voice:pod:tier:voice-agent-0") == "gold"
    first.full_sync(FIVE[1:])
    assert keys(redis_server, "voice:*voice-agent-0*") == {}


def commands(server, work):
    """What Redis executes meanwhile, with arguments; what comes from a script as if it had been sent alone."""
    monitor = redis_servers.Monitor(server)
    work()
    server.client().echo("the-end-of-monitoring")
    found = []
    for line in monitor.file:
        text = line.decode()
        if "the-end-of-monitoring" in text:
            break
        words = re.findall(r'"((?:[^"\\]|\\.)*)"', text.partition("] ")[2])
        if words[0].upper() not in ("EVAL", "EVALSHA", "SCRIPT", "CLIENT", "HELLO"):
            found.append([words[0].upper(), *(re.sub(r"^\d{10}$", "NOW", word) for word in words[1:])])
    monitor.sock.close()
    monitor.file.close()
    return found


def a_day(first):
    """Every operation, with every outcome that its commands depend on. Each pool has one pod: nothing is left to chance."""

    def refuse(work, *args):
        with pytest.raises(Refused):
            work(*args)

    for pod in ("nine-0", "gold-0", "basic-0", "standard-0"):
        first.pod_added(pod)
    for call_sid in ("CA0", "CA0", "CA1", "CA2", "CA3", "CA4"):
        first.allocate(call_sid, "m" if call_sid == "CA0" else "")
    refuse(first.allocate, "CA5", "n")
    first.allocate("CA6", "spoiled")  # as if it had none
    refuse(first.allocate, "CA8", "spoiled")
    refuse(first.release, "CA5")
    refuse(first.release, "CA7")
    first.drain("gold-0")
    first.drain("basic-0", 60)
    for call_sid in ("CA0", "CA1", "CA2"):
        first.release(call_sid)
    first.full_sync(["nine-0", "gold-0", "basic-0", "standard-0"])
    first.redis.delete("voice:pod:draining:gold-0", "voice:pod:draining:basic-0")
    first.cleanup_zombies()
    for call_sid in ("CA3", "CA4", "CA6"):
        first.release(call_sid)
    first.full_sync(["gold-0"])


def test_at_once_is_the_same_commands_in_the_same_order(start_redis, redis_server):
    tiers = {**NINE, "tiers": {**NINE["tiers"], "9shines": {"target": 1}}}
    seen, left = [], []
    for server, is_at_once in ((redis_server, False), (start_redis(), True)):
        first = FirstRouter(server, tiers=tiers, at_once=is_at_once, keeps_sets=True)
        merchants = {"m": '{"pool":"9shines"}', "n": '{"pool":"9shines","fallback":["none"]}', "spoiled": "{"}
        first.redis.hset("voice:merchant:config", mapping=merchants)
        seen.append(commands(server, functools.partial(a_day, first)))
        left.append(keys(server))
        first.close()
    one_by_one, at_once = seen
    assert len(one_by_one) > 150
    assert at_once == one_by_one
    for found in left:
        for value in found.values():
            if isinstance(value, dict):
                value.pop("released_at", None)
    assert left[0] == left[1]


def test_its_race_one_call_gets_two_pods(start_first):
    """The second request finds a lock without a pod, and takes that for a call without one."""
    stop = Stop("HSET", "voice:call:CA1", "pod_name")
    slow, quick = start_first(pauses=stop), start_first()
    guide_pods(slow)
    first = Aside(slow.allocate, "CA1")
    assert stop.is_there.wait(60)
    second = quick.allocate("CA1")
    stop.may_go.set()
    pods = {first.finish()["pod_name"], second["pod_name"]}
    assert len(pods) == 2
    assert {slow.redis.get(f"voice:lease:{pod}") for pod in pods} == {"CA1"}


def test_its_race_the_zombie_cleanup_puts_back_a_pod_that_is_being_given(start_first):
    stop = Stop("SET", "voice:lease:voice-agent-0")
    slow, quick = start_first(pauses=stop), start_first()
    guide_pods(slow, {"voice-agent-0": "gold"})
    first = Aside(slow.allocate, "CA1")
    assert stop.is_there.wait(60)
    assert quick.cleanup_zombies() == ["voice-agent-0"]
    assert quick.allocate("CA2")["pod_name"] == "voice-agent-0"
    stop.may_go.set()
    assert first.finish()["pod_name"] == "voice-agent-0"


def test_its_race_a_release_deletes_the_lease_of_the_next_call(start_first):
    stop = Stop("DEL", "voice:lease:voice-agent-0")
    slow, quick = start_first(pauses=stop), start_first()
    guide_pods(slow, {"voice-agent-0": "gold"})
    slow.allocate("CA1")
    first = Aside(slow.release, "CA1")
    assert stop.is_there.wait(60)
    quick.allocate("CA2")
    stop.may_go.set()
    first.finish()
    assert not slow.redis.exists("voice:lease:voice-agent-0")
    assert quick.cleanup_zombies() == ["voice-agent-0"]


@pytest.mark.parametrize("command", ["HSET", "HDEL", "EXPIRE", "SET"])
def test_what_cannot_be_stored_is_put_back(start_first, redis_server, command):
    def fail(name, *_):
        if name == command:
            raise redis.ConnectionError("lost")

    first = start_first(pauses=None)
    guide_pods(first, {"voice-agent-0": "gold"})
    first.pauses = fail
    with pytest.raises(Refused) as refused:
        first.allocate("CA1")
    assert refused.value.status == 500
    assert first.redis.smembers("voice:pool:gold:available") == {"voice-agent-0"}


def test_an_error_of_the_lock_or_the_draining_flag(start_first):
    def fail(name, *_):
        if name in failing:
            raise redis.ConnectionError("lost")

    first = start_first(pauses=fail)
    failing = ()
    guide_pods(first, {"voice-agent-0": "gold"})
    failing = ("EXISTS",)
    with pytest.raises(Refused):
        first.allocate("CA1")
    assert first.redis.smembers("voice:pool:gold:available") == {"voice-agent-0"}
    failing = ("EVAL",)
    assert first.allocate("CA1")["pod_name"] == "voice-agent-0"  # rather that than no pod


def test_the_stored_tiers_count_and_are_read_again(start_first):
    first = start_first(tiers=NINE, refresh_s=0)
    other = start_first(refresh_s=0)
    assert other.config.merchant_pools == ["9shines"]
    changed = '{"tiers":{"gold":{"target":1},"vip":{"target":1}},"default_chain":["gold"]}'
    first.redis.set(first_router.TIER_CONFIG, changed)
    other.status()
    assert (other.config.merchant_pools, other.config.chain) == (["vip"], ["gold"])


def test_one_of_them_leads_and_another_one_follows_it(start_first):
    a, b = start_first(name="a"), start_first(name="b")
    pods = list(FIVE)
    a.lead(pods, zombies_s=0.05, sync_s=0.1, retry_s=0.05)
    wait_until(lambda: a.is_leading, "a leads")
    b.lead(pods, zombies_s=0.05, sync_s=0.1, retry_s=0.05)
    wait_until(lambda: a.redis.scard("voice:pool:standard:available") == 3, "its pods are there")
    assert a.redis.get("voice:leader") == "a" and not b.is_leading
    assert 0 < a.redis.ttl("voice:leader") <= 15
    a.redis.srem("voice:pool:gold:available", "voice-agent-0")
    wait_until(lambda: a.redis.scard("voice:pool:gold:available") == 1, "the zombie cleanup finds it")
    pods.remove("voice-agent-0")
    wait_until(lambda: a.redis.scard("voice:pool:gold:assigned") == 0, "the full sync removes it")
    a.stop_leading()
    wait_until(lambda: b.is_leading, "b leads")
    b.stop_leading(gives_up=False)
    assert b.redis.get("voice:leader") == "b"
    b.redis.set("voice:leader", "somebody-else")


def test_many_threads_at_once(start_first, redis_server):
    """Sixteen clients; at once nothing goes wrong."""
    first = start_first(at_once=True)
    guide_pods(first)
    idle = keys(redis_server)
    problems = []

    def call(n):
        for i in range(30):
            try:
                pod = first.allocate(f"CA-{n}-{i}")["pod_name"]
            except Refused:
                continue
            if first.allocate(f"CA-{n}-{i}")["pod_name"] != pod or first.release(f"CA-{n}-{i}")["pod_name"] != pod:
                problems.append((n, i))

    threads = [threading.Thread(target=call, args=(n,), daemon=True) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert problems == []
    left = keys(redis_server)
    assert {key: value for key, value in left.items() if key in idle} == idle
    rest = [key for key in left if key not in idle and not key.startswith("voice:pod:voice-agent-")]
    assert all(left[key] == {"_lock": "1"} for key in rest), rest
