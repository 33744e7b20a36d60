"""A call that leaves a pod which cannot be reached, in a Redis where people have edited keys by hand."""

import pytest
import redis
from test_redis_fence import NO_RESCUE, call

CHAIN = ["gold", "0", "basic", "3"]
HOUR = "3600000"


@pytest.fixture
def client(redis_server):
    client = redis_server.client()
    for name, tier in (("pod-1", "gold"), ("pod-2", "gold"), ("pod-3", "basic")):
        call(client, "seen", "", "90000", "0", *NO_RESCUE, name, "10.0.0.1:80", "uid-1", tier, "static", "r", "0")
    return client


def allocate(client, call_sid):
    life = str(int(HOUR) + 60000)
    return call(client, "release_and_allocate", 0, 1, HOUR, life, life, "", len(CHAIN), *CHAIN, call_sid, "", "twilio", "1", "")[0]


def move(client, call_sid, from_pod, aside="60000"):
    line = ["", "", "", "0", "0"]  # no router asks, and the call does not wait
    return call(client, "move_call", HOUR, HOUR, aside, *line, "{}", len(CHAIN), *CHAIN, call_sid, from_pod)


def test_the_keys_tell_the_same_as_after_an_allocation(client):
    first = allocate(client, "CA1")[1]
    other = {"pod-1": "pod-2", "pod-2": "pod-1"}[first]
    record = client.hgetall("voice:call:CA1")
    answer = move(client, "CA1", first)
    assert (answer[0], answer[1]) == (0, other)
    moved = client.hgetall("voice:call:CA1")
    assert int(moved.pop("placed_at")) >= int(record["allocated_at"])
    assert moved == {**record, "pod_name": other}
    assert client.pttl("voice:call:CA1") > int(HOUR)
    assert client.get(f"voice:lease:{other}") == "CA1"
    assert client.pttl(f"voice:lease:{other}") > int(HOUR)
    assert client.hget(f"voice:pod:{other}", "allocated_call_sid") == "CA1"
    assert not client.exists(f"voice:lease:{first}")
    assert client.hget(f"voice:pod:{first}", "status") == "draining"
    assert 0 < client.pttl(f"voice:pod:draining:{first}") <= 60000
    assert client.smembers("voice:pool:gold:available") == set()
    assert client.smembers("voice:pods:out") == {first}
    assert client.zrange("voice:calls:active", 0, -1) == ["CA1"]


def test_to_a_shared_pod_and_from_there_to_none(client):
    first = allocate(client, "CA1")[1]
    allocate(client, "CA2")
    assert move(client, "CA1", first)[:3] == [0, "pod-3", "pool:basic"]
    assert client.zrange("voice:pool:basic:available", 0, -1, withscores=True) == [("pod-3", 1.0)]
    assert client.zrange("voice:pod:calls:pod-3", 0, -1) == ["CA1"]
    assert move(client, "CA1", "pod-3")[0] == 7  # CALL_NOT_NOW
    assert client.zrange("voice:pod:calls:pod-3", 0, -1) == ["CA1"]
    assert client.zrange("voice:pool:basic:available", 0, -1) == []
    assert client.hget("voice:call:CA1", "pod_name") == "pod-3"


def test_a_drain_without_an_end_stays_one(client):
    first = allocate(client, "CA1")[1]
    client.set(f"voice:pod:draining:{first}", "true")
    assert move(client, "CA1", first)[0] == 0
    assert client.ttl(f"voice:pod:draining:{first}") == -1


def test_a_pod_whose_record_was_lost_does_not_keep_its_call(client):
    first = allocate(client, "CA1")[1]
    client.hdel("voice:pods", first)
    answer = move(client, "CA1", first)
    assert answer[0] == 0
    assert answer[1] != first
    assert not client.hexists("voice:pods", first)
    assert client.exists(f"voice:pod:draining:{first}")  # for when it is registered again


def test_a_pool_of_the_wrong_type_loses_no_call(client):
    """The router reads the tiers again and asks once more; meanwhile the call is where it was."""
    first = allocate(client, "CA1")[1]
    client.delete("voice:pool:gold:available")
    client.zadd("voice:pool:gold:available", {"pod-9": 0})
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        move(client, "CA1", first)
    assert client.hget("voice:call:CA1", "pod_name") == first
    assert client.get(f"voice:lease:{first}") == "CA1"
    client.delete("voice:pool:gold:available")
    assert move(client, "CA1", first)[1] == "pod-3"
