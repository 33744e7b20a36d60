"""What is in Redis, key by key, and what it takes to get there.

The keys are those that operators and agents know; the values of the examples are literally those of the guide
that describes them.
"""

import collections
import hashlib
import time

import first_router
import pytest
import redis_servers
from conftest import wait_until
from test_redis_fence import text_of

CALLS = 1000
PUBLISH_S = 0.1  # between two messages of one router
POD_RECORD = '{"ready":true,"terminating":false,"held_until":0,"tier":"%s","source":"static",'

FIVE_TIERS = (  # as it is stored
    '{"tiers":{"basic":{"type":"shared","target":1,"max_concurrent":3},"gold":{"type":"exclusive","target":1},'
    '"standard":{"type":"exclusive","target":3}},"default_chain":["gold","standard","basic"]}'
)
# Which pod is in which tier; a pod joins the tier that is stored for it.
FIVE = dict(zip([f"voice-agent-{i}" for i in range(5)], ["gold", "standard", "standard", "standard", "basic"]))


@pytest.fixture
def five(redis_server, start_on):
    """(router, client): the five pods of the guide's example, and nobody but the test who changes anything."""
    client = redis_server.client()
    for pod, tier in FIVE.items():
        client.set(f"voice:pod:tier:{pod}", tier)
    router = start_on(redis_server, {**redis_servers.QUIET, "TIER_CONFIG": FIVE_TIERS})
    return router, client


# Keys beside the guide's that are always there.
TIER_VERSION = hashlib.sha1(FIVE_TIERS.encode()).hexdigest()
ADDED = {"voice:pods", "voice:pods:names", "voice:tier:config", "voice:tier:version", f"voice:tier:version:{TIER_VERSION}",
         "voice:tiers:used", "voice:leader:imported"}  # fmt: skip


def idle_keys():
    """The guide's keys with five pods and no call."""
    return {
        **{f"voice:pod:tier:{pod}": tier for pod, tier in FIVE.items()},
        "voice:pool:gold:assigned": {"voice-agent-0"},
        "voice:pool:gold:available": {"voice-agent-0"},
        "voice:pool:standard:assigned": {"voice-agent-1", "voice-agent-2", "voice-agent-3"},
        "voice:pool:standard:available": {"voice-agent-1", "voice-agent-2", "voice-agent-3"},
        "voice:pool:basic:assigned": {"voice-agent-4"},
        "voice:pool:basic:available": {"voice-agent-4": 0},
        "voice:pod:metadata": {pod: f'{{"tier":"{tier}","name":"{pod}"}}' for pod, tier in FIVE.items()},
    }


def split(client):
    """(the guide's keys, those that were added to them)"""
    added = ADDED | {"voice:calls:active"}
    keys = redis_servers.keyspace(client)
    for key in [key for key in keys if key.startswith("voice:carrier:") or key in ("voice:routers", "voice:carried")]:
        del keys[key]  # the router is alive
    keys.pop("voice:calls:ended", None)  # a tenth of a second after a release
    return {k: v for k, v in keys.items() if k not in added}, {k: v for k, v in keys.items() if k in added}


def test_five_idle_pods(five):
    _, client = five
    keys, added = split(client)
    assert keys == idle_keys()
    assert set(added) == ADDED
    assert added["voice:tier:config"] == FIVE_TIERS
    assert added["voice:tier:version"] == TIER_VERSION
    assert added["voice:tiers:used"] == set(FIVE.values())
    assert set(added["voice:pods"]) == set(added["voice:pods:names"]) == set(FIVE)
    for pod, tier in FIVE.items():
        assert added["voice:pods"][pod].startswith(POD_RECORD % tier)
    assert all(client.ttl(key) == -1 for key in client.keys() if not key.startswith("voice:carrier:"))


def test_a_call_of_a_gold_merchant_and_its_release(five):
    router, client = five
    client.hset("voice:merchant:config", "acme-corp", '{"tier":"gold"}')
    before, added_before = split(client)

    answer = router.allocate("call-abc123", merchant_id="acme-corp", provider="twilio")
    keys, added = split(client)
    allocated_at = keys["voice:call:call-abc123"]["allocated_at"]
    assert answer["pod_name"] == "voice-agent-0" and answer["source_pool"] == "pool:gold"
    assert abs(int(allocated_at) - client.time()[0]) < 60
    attempts = keys["voice:call:call-abc123"]["attempts"]
    expected = {**before, **first_router.keys_of_a_call(allocated_at, provider="twilio", attempts=attempts)}
    del expected["voice:pool:gold:available"]  # an empty set is no key in Redis
    assert keys == expected
    assert set(added) == set(added_before) | {"voice:calls:active"}
    assert set(added["voice:calls:active"]) == {"call-abc123"}

    router.release("call-abc123")
    keys, added = split(client)
    released_at = keys["voice:pod:voice-agent-0"]["released_at"]
    assert keys == {**before, "voice:pod:voice-agent-0": {"status": "available", "released_at": released_at}}
    assert int(released_at) >= int(allocated_at)
    assert added == added_before


def test_calls_of_a_shared_pod(five):
    router, client = five
    client.hset("voice:merchant:config", "small", '{"tier":"basic"}')
    before, _ = split(client)
    for load, call_sid in enumerate(("CA1", "CA2"), 1):
        router.allocate(call_sid, merchant_id="small")
        keys, added = split(client)
        assert keys["voice:pool:basic:available"] == {"voice-agent-4": load}
        assert keys["voice:lease:voice-agent-4"] == call_sid
        assert keys["voice:pod:calls:voice-agent-4"] == added["voice:calls:active"]
        assert keys["voice:pod:voice-agent-4:calls"] == set(added["voice:calls:active"])
        assert len(added["voice:calls:active"]) == load
    router.allocate("CA3", merchant_id="small")
    assert client.zrange("voice:pool:basic:available", 0, -1, withscores=True) == [("voice-agent-4", 3)]  # full
    router.release("CA3")
    assert client.zrange("voice:pool:basic:available", 0, -1, withscores=True) == [("voice-agent-4", 2)]
    assert client.get("voice:lease:voice-agent-4") in ("CA1", "CA2")
    router.release("CA1")
    router.release("CA2")
    keys, added = split(client)
    assert keys.pop("voice:pod:voice-agent-4")["status"] == "available"
    assert keys == before
    assert "voice:calls:active" not in added


def test_how_long_keys_live(redis_server, start_on):
    env = {"CALL_MAX_DURATION": "4h", "LEASE_TTL": "15m", "CALL_INFO_TTL": "1h", "DRAINING_TTL": "6m"}
    router = start_on(redis_server, {**redis_servers.QUIET, **env})
    client = redis_server.client()
    pod = router.allocate("CA1")["pod_name"]
    now = client.time()[0]

    def lives(key, at_least, at_most):
        assert at_least - 60 <= client.ttl(key) <= at_most, (key, client.ttl(key))

    lives(f"voice:lease:{pod}", 4 * 3600, 4 * 3600 + 60)
    lives("voice:call:CA1", 28 * 3600, 28 * 3600)  # a day longer: only a sweep ends a call
    assert 4 * 3600 - 60 <= client.zscore("voice:calls:active", "CA1") / 1000 - now <= 4 * 3600 + 1
    assert client.pttl("voice:call:CA1") >= client.pttl(f"voice:lease:{pod}") - 1000

    router.post("/api/v1/renew", {"call_sid": "CA1"})
    lives(f"voice:lease:{pod}", 900, 960)
    lives("voice:call:CA1", 25 * 3600, 25 * 3600)
    assert 840 <= client.zscore("voice:calls:active", "CA1") / 1000 - now <= 960

    router.post("/api/v1/drain", {"pod_name": pod})
    lives(f"voice:pod:draining:{pod}", 360, 360)
    assert client.get(f"voice:pod:draining:{pod}") == "true"
    router.release("CA1")
    assert client.hget(f"voice:pod:{pod}", "status") == "draining"
    assert not client.exists(f"voice:lease:{pod}", "voice:call:CA1")


@pytest.mark.parametrize("prefix", ["voice:", "{voice}:", "a-b"])
def test_every_key_begins_with_the_prefix(redis_server, start_on, prefix):
    client = redis_server.client()
    stranger = {"pool:gold:available": "mine", "other:leader": "mine"}
    client.mset(stranger)
    router = start_on(redis_server, {"KEY_PREFIX": prefix, "HEARTBEAT_TTL": "60s"})
    # Something of everything.
    for i in range(9):
        router.post("/api/v1/allocate", {"call_sid": f"CA{i}", "merchant_id": "m"})
    router.post("/api/v1/pods", {"pod_name": "box", "address": "127.0.0.1:9000"})
    router.post("/api/v1/pod/box/heartbeat", {"call_sids": ["CB1"]})
    router.post("/api/v1/drain", {"pod_name": "voice-agent-1"})
    router.put("/api/v1/merchants/m", {"tier": "gold"})
    router.put("/api/v1/tiers", {"gold": 2, "basic": {"type": "shared", "target": 1}, "merchant:m": {"target": 1}})
    router.release("CA0")
    keys = redis_servers.keyspace(client)
    for key, value in stranger.items():
        assert keys.pop(key) == value
    assert [key for key in keys if not key.startswith(prefix)] == []
    assert {prefix + "leader", prefix + "heartbeats", prefix + "calls:active", prefix + "merchant:config"} <= set(keys)


def counted(server, router, path, bodies):
    """Posts the bodies; returns what Redis counted: (commandstats, commands of clients, commands inside scripts).

    INFO commandstats counts what scripts call as well. Who sent what is seen with MONITOR, at the same time.
    """
    client = server.client()
    time.sleep(2 * PUBLISH_S)  # what was to be told before has been
    client.config_resetstat()
    monitor = redis_servers.Monitor(server)
    start = time.monotonic()
    for body in bodies:
        answer = router.post(path, body)
        assert answer.status_code == 200, answer.text
    # Every now and then the router says that it is alive, counts for the last hour of the pools, and the leader looks
    # whether pods are surplus, and whether calls wait.
    of_tasks = ("present", "status", "tiers", "pods", "serve")
    hashes = [hashlib.sha1(text_of(script).encode()).hexdigest().encode() for script in of_tasks]
    clients, inner, others = monitor.finish(hashes)
    clients = collections.Counter(clients)
    # Events go out together: not per call, but so many times in a second at most.
    assert 0 < clients.pop("PUBLISH", 0) <= 1 + (time.monotonic() - start) / PUBLISH_S
    # So do the calls that were released, for their stories; 128 at most in one command.
    assert clients.pop("RPUSH", 0) <= 1 + (time.monotonic() - start) / PUBLISH_S + CALLS / 128
    stats = {name.removeprefix("cmdstat_"): row["calls"] for name, row in client.info("commandstats").items()}
    # The router looks at the server's clock, and whether anything is stored at all, once a second; MONITOR may miss
    # the first time.
    assert clients.pop("TIME", 0) <= 2 + (time.monotonic() - start)
    assert clients.pop("EXISTS", 0) <= 2 + (time.monotonic() - start)
    for name in others:
        stats[name.lower()] -= 1
    return stats, clients, collections.Counter(inner)


@pytest.mark.parametrize("has_port", [True, False], ids=["tcp", "unix"])
def test_each_call_is_one_evalsha_and_nothing_else(start_redis, start_on, has_port):
    server = start_redis(has_port=has_port)
    env = {
        **redis_servers.QUIET,
        "TIER_CONFIG": f'{{"gold": {CALLS}}}',
        "STATIC_PODS": ",".join(f"pod-{i}" for i in range(CALLS)),
    }
    router = start_on(server, env)
    synced = "smart_router_sync_duration_seconds_count 1"
    wait_until(lambda: synced in router.get("/metrics").text, "the first sync is over")
    router.allocate("CA-first")  # loads the scripts
    router.release("CA-first")
    serve = hashlib.sha1(text_of("serve").encode()).hexdigest()
    wait_until(lambda: server.client().script_exists(serve) == [True], "the leader has served the line once")
    calls = [{"call_sid": f"CA{i}"} for i in range(CALLS)]
    for path in ("/api/v1/allocate", "/api/v1/release"):
        stats, clients, inner = counted(server, router, path, calls)
        assert clients == {"EVALSHA": CALLS}
        assert stats["evalsha"] >= CALLS  # more: tasks that ran between the reset of the counts and MONITOR
        assert all(count % CALLS == 0 for count in inner.values()), inner  # the same for each call
        for name, count in inner.items():
            assert stats[name.lower()] >= count or name in ("TIME", "EXISTS")
        assert sum(inner.values()) <= 11 * CALLS, inner
        print(f"{path}: {CALLS} EVALSHA, in each: {({name: n // CALLS for name, n in inner.items()})}")


def test_there_are_never_more_pods_than_the_limit(redis_server, start_on):
    """As in the embedded store: PODS_MAX in src/core/command.h."""
    router = start_on(redis_server, {"POD_SOURCE": "api", "STATIC_PODS": ""})
    client = redis_server.client()
    pod = {"pod_name": "box-1", "address": "10.0.0.1:8000"}
    assert router.post("/api/v1/pods", json=pod).status_code == 200
    record = client.hget("voice:pods", "box-1")
    client.hset("voice:pods", mapping={f"full-{i}": record for i in range(49999)})
    answer = router.post("/api/v1/pods", json={**pod, "pod_name": "box-2"})
    assert (answer.status_code, answer.json()["error"]) == (409, "there are too many pods")
    assert router.post("/api/v1/pods", json=pod).status_code == 200  # it is there already
