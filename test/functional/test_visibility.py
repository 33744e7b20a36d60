"""What the API says of a pod and of a call: who was heard last, who carries it, how long a drain lasts.

Each test runs on both stores.
"""

import concurrent.futures
import datetime
import urllib.parse

import pytest
from conftest import wait_until
from streams import Agent, Stream

POD = "voice-agent-0"
SECRET = "the-first-secret-is-long-enough"


@pytest.fixture(params=["embedded", "redis"])
def start_any(request, start_router):
    """start_any(env=None) -> Router: on one directory, or on one Redis, which a restart finds again."""
    if request.param == "embedded":
        directory = request.getfixturevalue("tmp_path") / "data"
        return lambda env=None: start_router(env, data_dir=directory)
    server = request.getfixturevalue("redis_server")
    start_on = request.getfixturevalue("start_on")
    return lambda env=None: start_on(server, env)


@pytest.fixture
def any_router(start_any):
    return start_any({"CLEANUP_INTERVAL": "50ms"})


def seconds(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def now():
    return datetime.datetime.now(datetime.timezone.utc).timestamp()


def pod_of(router, pod=POD):
    answer = router.get(f"/api/v1/pod/{pod}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def pod_in_list(router, pod=POD):
    return next(one for one in router.get("/api/v1/pods").json()["pods"] if one["pod_name"] == pod)


def drain(router, **fields):
    answer = router.post("/api/v1/drain", {"pod_name": POD, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


# A drain, and its end.


def test_a_drain_says_how_many_calls_are_left_and_when_it_ends(any_router):
    assert "draining_until" not in pod_of(any_router)
    pod = any_router.allocate("CA1")["pod_name"]
    answer = any_router.post("/api/v1/drain", {"pod_name": pod, "ttl_seconds": 3600}).json()
    assert answer["has_active_call"] is True
    assert answer["calls_left"] == 1
    shown = pod_of(any_router, pod)
    assert shown["is_draining"] is True
    assert shown == pod_in_list(any_router, pod)
    assert abs(seconds(shown["draining_until"]) - seconds(answer["draining_until"])) <= 1
    any_router.release("CA1")
    again = any_router.post("/api/v1/drain", {"pod_name": pod, "ttl_seconds": 7200}).json()
    assert (again["has_active_call"], again["calls_left"]) == (False, 0)
    assert seconds(again["draining_until"]) - seconds(answer["draining_until"]) >= 3600
    any_router.post("/api/v1/undrain", {"pod_name": pod})
    assert "draining_until" not in pod_of(any_router, pod)


def test_a_drain_with_ttl_0_lasts_until_undrained_also_over_a_restart(start_any):
    router = start_any({"CLEANUP_INTERVAL": "50ms"})
    assert drain(router, ttl_seconds=1)["draining_until"] is not None
    answer = drain(router, ttl_seconds=0)
    assert answer["draining_until"] is None
    # The first drain would be over. This one is the mark: it began later, and a sweep has ended it.
    router.post("/api/v1/drain", {"pod_name": "voice-agent-1", "ttl_seconds": 1})
    wait_until(lambda: pod_of(router, "voice-agent-1")["state"] == "available", "the other drain is over")
    assert (pod_of(router)["state"], pod_of(router)["draining_until"]) == ("draining", None)
    assert pod_of(router) == pod_in_list(router)
    assert router.stop() == 0
    router = start_any({"CLEANUP_INTERVAL": "50ms"})
    assert (pod_of(router)["state"], pod_of(router)["draining_until"]) == ("draining", None)
    assert drain(router, ttl_seconds=1)["draining_until"] is not None
    wait_until(lambda: pod_of(router)["state"] == "available", "a drain with an end has taken its place")


def test_a_drain_without_a_time_has_the_default(start_any):
    router = start_any({"DRAINING_TTL": "1h"})
    assert 3500 < seconds(drain(router)["draining_until"]) - now() < 3700


# The last heartbeat.


def test_the_last_heartbeat_of_a_pod_is_shown(any_router):
    assert "last_heartbeat_at" not in pod_of(any_router)
    any_router.post("/api/v1/pods", {"pod_name": "box-1", "address": "127.0.0.1:9000"})
    assert "last_heartbeat_at" not in pod_of(any_router, "box-1")
    assert any_router.post("/api/v1/pod/box-1/heartbeat", {"call_sids": []}).status_code == 200
    heard = pod_of(any_router, "box-1")["last_heartbeat_at"]
    assert pod_in_list(any_router, "box-1")["last_heartbeat_at"] == heard
    assert abs(seconds(heard) - now()) < 60
    assert "last_heartbeat_at" not in pod_of(any_router)


# What a call is doing.


def call_of(router, call_sid="CA1"):
    answer = router.get(f"/api/v1/call/{call_sid}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def call_in_list(router, call_sid="CA1"):
    return next(one for one in router.get("/api/v1/calls").json()["calls"] if one["call_sid"] == call_sid)


def test_a_call_shows_who_renewed_it_last_also_after_a_restart(start_any):
    router = start_any()
    pod = router.allocate("CA1")["pod_name"]
    call = call_of(router)
    assert (call["state"], call["connected"], call["carried_by"]) == ("allocated", False, [])
    assert "last_renewed_at" not in call and "renewed_by" not in call
    assert router.post("/api/v1/renew", {"call_sid": "CA1"}).status_code == 200
    call = call_of(router)
    assert (call["state"], call["renewed_by"]) == ("active", "client")
    assert abs(seconds(call["last_renewed_at"]) - now()) < 60
    assert router.post(f"/api/v1/pod/{pod}/heartbeat", {"call_sids": ["CA1"]}).status_code == 200
    call = call_of(router)
    assert (call["state"], call["renewed_by"], call["connected"]) == ("active", "pod", False)
    assert call_in_list(router) == call
    assert router.stop() == 0
    again = call_of(start_any())
    assert {name: again[name] for name in ("last_renewed_at", "renewed_by", "state")} == {
        name: call[name] for name in ("last_renewed_at", "renewed_by", "state")
    }


def test_an_open_stream_is_seen_and_so_is_its_end(start_any):
    agent = Agent()
    router = start_any({"STATIC_PODS": f"{POD}=127.0.0.1:{agent.port}", "GATEWAY_SECRET": SECRET})
    path = urllib.parse.urlsplit(router.allocate("CA1")["ws_url"]).path
    stream = Stream(router.port, path)
    assert stream.status == 101 and stream.echoes()
    call = wait_until(lambda: call_of(router)["connected"] and call_of(router), "the call is connected")
    assert (call["state"], call["renewed_by"]) == ("connected", "gateway")
    assert len(call["carried_by"]) == 1
    assert call_in_list(router) == call
    assert router.post("/api/v1/renew", {"call_sid": "CA1"}).status_code == 200
    assert (call_of(router)["state"], call_of(router)["renewed_by"]) == ("connected", "client")
    stream.close()
    wait_until(lambda: router.get("/api/v1/call/CA1").status_code == 404, "the call has ended")
    agent.close()


def test_every_router_shows_which_one_carries_a_call(redis_server, start_on):
    agent = Agent()
    env = {"STATIC_PODS": f"{POD}=127.0.0.1:{agent.port}", "GATEWAY_SECRET": SECRET, "GATEWAY_RELEASE_GRACE": "300ms"}
    a, b = start_on(redis_server, {**env, "POD_NAME": "router-a"}), start_on(redis_server, {**env, "POD_NAME": "router-b"})
    path = urllib.parse.urlsplit(a.allocate("CA1")["ws_url"]).path
    stream = Stream(a.port, path)
    assert stream.status == 101 and stream.echoes()
    call = wait_until(lambda: call_of(b)["connected"] and call_of(b), "the other router sees it")
    assert [name.split("_")[0] for name in call["carried_by"]] == ["router-a"]
    assert call == call_of(a)
    other = Stream(b.port, path)
    assert other.status == 101
    names = wait_until(lambda: len(call_of(a)["carried_by"]) == 2 and call_of(a)["carried_by"], "both carry it")
    assert sorted(name.split("_")[0] for name in names) == ["router-a", "router-b"]
    a.kill()
    for key in redis_server.client().scan_iter("voice:carrier:router-a*"):  # what 30 s do as well
        redis_server.client().delete(key)
    assert [name.split("_")[0] for name in call_of(b)["carried_by"]] == ["router-b"]
    other.close()
    stream.close()
    agent.close()


def test_records_of_others_are_read(redis_server, start_on):
    """A record of the first implementation has none of this; one of an older version says only that it was renewed."""
    router = start_on(redis_server)
    client = redis_server.client()
    pod = router.allocate("CA1")["pod_name"]
    router.post("/api/v1/renew", {"call_sid": "CA1"})
    client.hset("voice:call:CA1", "renewed", "1")
    call = call_of(router)
    assert call["state"] == "active" and "renewed_by" not in call and "last_renewed_at" not in call
    for text in ("client", "client ", "client x", "nobody 1770000000000", " 1770000000000", "client 99999999999999999999"):
        client.hset("voice:call:CA1", "renewed", text)
        assert "renewed_by" not in call_of(router), text
    client.hdel("voice:call:CA1", "renewed", "attempts", "misses")
    client.hset("voice:call:CA1", "reseller_id", "acme")
    client.hdel("voice:call:CA1", "merchant_id")
    call = call_of(router)
    assert (call["pod_name"], call["merchant_id"], call["state"]) == (pod, "acme", "allocated")
    assert (call["connected"], call["carried_by"]) == (False, [])


# Why a call got no pod.


def refusal_of(router, call_sid):
    answer = router.get(f"/api/v1/call/{call_sid}")
    assert answer.status_code == 404, answer.text
    return answer.json().get("refusal")


def test_every_router_knows_why_a_call_was_refused(redis_server, start_on):
    a, b = (start_on(redis_server, {"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": POD}) for _ in "ab")
    a.allocate("CA1")
    assert a.post("/api/v1/allocate", {"call_sid": "CA2"}).status_code == 503
    client = redis_server.client()
    assert 590_000 < client.pttl("voice:refused:CA2") <= 600_000 and 590_000 < client.pttl("voice:refused") <= 600_000
    refusal = refusal_of(b, "CA2")
    assert refusal == refusal_of(a, "CA2")
    assert refusal["chain"] == [
        {"pool": "gold", "is_configured": True, "pods": 1, "available": 0, "busy": 1, "draining": 0, "suspended": 0}
    ]
    drain(b)
    assert b.post("/api/v1/allocate", {"call_sid": "CA2"}).status_code == 503
    assert (refusal_of(a, "CA2")["chain"][0]["draining"], refusal_of(a, "CA2")["chain"][0]["busy"]) == (1, 0)
    assert a.stop() == 0
    assert refusal_of(b, "CA2") is not None
    assert refusal_of(b, "CA3") is None
    assert list(client.scan_iter("voice:refused:*")) == ["voice:refused:CA2"]
    b.post("/api/v1/undrain", {"pod_name": POD})
    b.release("CA1")
    assert b.allocate("CA2")["pod_name"] == POD
    assert call_of(b, "CA2")["pod_name"] == POD


def test_a_damaged_refusal_counts_as_none(redis_server, start_on):
    router = start_on(redis_server)
    client = redis_server.client()
    for text in ("", "x", "[]", "{}", "7", "[2]", '[2,0,"","x",1]', '[2,0,"","1770000000000",9,"gold",1,0,0]', '[2,{}]',
                 '[2,null,true]', '[2,0,"","1770000000000",1,"gold",-1,0,0]'):  # fmt: skip
        client.set("voice:refused:CA1", text)
        assert refusal_of(router, "CA1") is None, text
    client.set("voice:refused:CA1", '[2,0,"","1770000000000",1,"gold",3,1,0]')
    assert refusal_of(router, "CA1")["chain"][0]["busy"] == 2


def test_a_flood_of_refused_calls_does_not_fill_redis(redis_server, start_on):
    router = start_on(redis_server, {"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": None, "POD_SOURCE": "api"})
    client = redis_server.client()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        bodies = ({"call_sid": f"flood-{i}"} for i in range(1500))
        answers = list(pool.map(lambda body: router.post("/api/v1/allocate", body).status_code, bodies))
    assert set(answers) == {503}
    assert 900 < client.zcard("voice:refused") <= 1024 + 31
    assert len(list(client.scan_iter("voice:refused:*", count=1000))) == client.zcard("voice:refused")


# Which calls are shown.


def listed(router, **filters):
    """The call_sids of all pages, sorted."""
    found, cursor = [], ""
    while True:
        answer = router.get("/api/v1/calls", params={**filters, "cursor": cursor} if cursor else filters)
        assert answer.status_code == 200, answer.text
        found += [call["call_sid"] for call in answer.json()["calls"]]
        cursor = answer.json()["next_cursor"]
        if not cursor:
            return sorted(found)


def test_calls_are_filtered(start_any):
    router = start_any()
    merchants = {"CA1": "acme", "CA2": "acme", "CA3": "other"}
    pods = {sid: router.allocate(sid, merchant_id=merchants[sid])["pod_name"] for sid in merchants}
    router.post("/api/v1/renew", {"call_sid": "CA2"})
    assert listed(router) == ["CA1", "CA2", "CA3"]
    assert listed(router, merchant="acme") == ["CA1", "CA2"]
    assert listed(router, merchant="acme", limit=1) == ["CA1", "CA2"]
    assert listed(router, pod=pods["CA1"]) == ["CA1"]
    assert listed(router, pod="no-such-pod") == []
    assert listed(router, state="active") == ["CA2"]
    assert listed(router, state="allocated", merchant="acme") == ["CA1"]
    assert listed(router, state="expired") == listed(router, state="connected") == []
    assert listed(router, older_than="1h30m") == listed(router, older_than="86400") == []
    assert listed(router, older_than="0") == listed(router, older_than="0s") == ["CA1", "CA2", "CA3"]
    wait_until(lambda: listed(router, older_than="1s") == ["CA1", "CA2", "CA3"], "a second has passed")
    wait_until(lambda: listed(router, older_than="2") == ["CA1", "CA2", "CA3"], "two seconds have passed")


BAD_FILTERS = [
    ("state", "busy", "state must be allocated, active, connected, expired or granted"),
    ("state", "", "state must be allocated, active, connected, expired or granted"),
    ("pod", "Not_A_Pod", "pod must be a DNS label"),
    ("pod", "", "pod must be a DNS label"),
    ("merchant", "a b", "merchant may have only"),
    ("merchant", "", "merchant may have only"),
    ("older_than", "10 m", "older_than must be a duration such as 90s, 10m or 1h30m, or a number of seconds"),
    ("older_than", "-1", "older_than must be a duration"),
    ("older_than", "1.5", "older_than must be a duration"),
    ("older_than", "yesterday", "older_than must be a duration"),
    ("older_than", "99999999999999999999", "older_than must be a duration"),
    ("older_than", "", "older_than must be a duration"),
]


def test_a_filter_that_means_nothing_is_refused_by_name(router):
    for name, value, error in BAD_FILTERS:
        answer = router.get("/api/v1/calls", params={name: value})
        assert answer.status_code == 400, (name, value)
        assert answer.json()["code"] == "bad_request" and answer.json()["error"].startswith(error), answer.text
