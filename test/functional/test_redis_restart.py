"""Pods that start anew, and pods that their source does not show, in a Redis where people have edited keys by hand."""

import json

import pytest
from test_redis_fence import NO_RESCUE, call
from test_redis_move import allocate, move

SKEW_MS = 2000


def see(client, name, incarnation, started_at_ms, tier="gold"):
    """What happened to the pod, and the calls that have ended."""
    answer = call(
        client, "seen", "", "90000", "0", *NO_RESCUE, name, "10.0.0.1:80", incarnation, tier, "static", "r",
        str(started_at_ms),
    )
    return answer[0], answer[3::5]


def miss(client, *names):
    answer = call(client, "gone", "", "static", "absent", *NO_RESCUE, *names)
    assert answer[1::2] == [0] * len(names)
    return answer[0::2]


@pytest.fixture
def client(redis_server):
    client = redis_server.client()
    see(client, "pod-1", "uid-1", 0)
    return client


@pytest.mark.parametrize(
    ("fields", "second"),
    [
        ({"allocated_at": "1770000000"}, 1770000000),
        ({"allocated_at": "1770000000.75"}, 1770000000),
        ({"allocated_at": "1770000000", "placed_at": "1770003600"}, 1770003600),
        ({"allocated_at": "", "placed_at": "1770003600"}, 1770003600),
    ],
)
def test_a_restart_compares_the_second_in_which_the_call_got_its_pod(client, fields, second):
    allocate(client, "CA1")
    client.hset("voice:call:CA1", mapping=fields)
    assert see(client, "pod-1", "uid-2", second * 1000 + SKEW_MS - 1) == ("c", [])
    assert client.get("voice:lease:pod-1") == "CA1"
    assert client.smembers("voice:pool:gold:available") == set()
    assert see(client, "pod-1", "uid-3", second * 1000 + SKEW_MS) == ("c", ["CA1"])
    assert client.smembers("voice:pool:gold:available") == {"pod-1"}
    assert not client.exists("voice:lease:pod-1", "voice:call:CA1")


@pytest.mark.parametrize("text", [None, "", "yesterday"])
def test_a_restart_ends_a_call_whose_time_cannot_be_read(client, text):
    allocate(client, "CA1")
    if text is None:
        client.hdel("voice:call:CA1", "allocated_at")
    else:
        client.hset("voice:call:CA1", "allocated_at", text)
    assert see(client, "pod-1", "uid-2", 1770000000000) == ("c", ["CA1"])


def test_a_restart_ends_a_call_whose_record_was_deleted(client):
    allocate(client, "CA1")
    client.delete("voice:call:CA1")
    assert see(client, "pod-1", "uid-2", 1770000000000) == ("c", ["CA1"])
    assert client.smembers("voice:pool:gold:available") == {"pod-1"}


def test_a_call_that_is_allocated_again_after_a_move_is_as_old_as_its_record(client):
    see(client, "pod-2", "uid-1", 0)
    pod = allocate(client, "CA1")[1]
    other = move(client, "CA1", pod)[1]
    assert client.hexists("voice:call:CA1", "placed_at")
    assert call(client, "gone", "", "static", "gone", *NO_RESCUE, other)[0] == 1
    client.delete(f"voice:pod:draining:{pod}")
    see(client, pod, "uid-1", 0)
    assert allocate(client, "CA1")[:2] == [0, pod]
    assert not client.hexists("voice:call:CA1", "placed_at")


def test_an_absent_pod_with_a_call_is_held_out_and_loses_nothing(client):
    allocate(client, "CA1")
    lease = client.pttl("voice:lease:pod-1")
    assert miss(client, "pod-1", "nobody") == [3, 0]
    assert json.loads(client.hget("voice:pods", "pod-1"))["terminating"] is True
    assert client.smembers("voice:pods:out") == {"pod-1"}
    assert client.hget("voice:call:CA1", "pod_name") == "pod-1"
    assert lease - 60000 < client.pttl("voice:lease:pod-1") <= lease
    assert miss(client, "pod-1") == [3]
    assert see(client, "pod-1", "uid-1", 0) == ("c", [])
    assert client.smembers("voice:pods:out") == set()
    assert miss(client, "pod-1") == [3]
    client.delete("voice:lease:pod-1")  # as the runbook for a stuck pod says
    client.delete("voice:call:CA1")
    assert miss(client, "pod-1") == [1]
    assert not client.hexists("voice:pods", "pod-1")


def test_a_call_of_the_first_implementation_is_a_call(client):
    """It has a record and a lease, and is in no list."""
    client.hset("voice:call:CA1", mapping={"pod_name": "pod-1", "source_pool": "pool:gold", "allocated_at": "1770000000"})
    client.set("voice:lease:pod-1", "CA1", ex=3600)
    assert miss(client, "pod-1") == [3]
    assert see(client, "pod-1", "uid-2", 1770000000000) == ("c", [])
    assert see(client, "pod-1", "uid-3", 1770000002000) == ("c", ["CA1"])
