"""Calls that are kept by renewals or by heartbeats, and an outage longer than their lease.

The Redis of these tests has a clock that jumps: an outage of minutes takes seconds. After a lease and a minute its key is gone;
after an hour so is the call's record.
"""

import time

import pytest
from conftest import wait_until
from edges import calls_of, wait_free, wait_ready, wait_swept
from redis_servers import QUIET

LEASE_S = 30
OUTAGE_S = 3.6  # of real time: the routers take it for an outage
PODS = ("box-0", "box-1")
ENV = {
    "POD_SOURCE": "api",
    "STATIC_PODS": None,
    "TIER_CONFIG": '{"gold": {"type": "exclusive", "target": 2}}',
    "HEARTBEAT_TTL": "24h",
    "LEASE_TTL": f"{LEASE_S}s",
}


class Keeper:
    """Two calls on two pods, and whoever keeps them. say() tells of each call: kept, conflict, unknown or ended."""

    def __init__(self, router, how):
        self.router, self.how = router, how
        for pod in PODS:
            registration = {"pod_name": pod, "address": "127.0.0.1:9000", "tier": "gold"}
            assert router.post("/api/v1/pods", registration).status_code == 200
        self.pods = {call_sid: router.allocate(call_sid)["pod_name"] for call_sid in ("kept-0", "kept-1")}
        assert set(self.say().values()) == {"kept"}

    def say(self):
        return getattr(self, self.how)()

    def heartbeat(self):
        told = {}
        for call_sid, pod in self.pods.items():
            answer = self.router.post(f"/api/v1/pod/{pod}/heartbeat", {"call_sids": [call_sid]})
            assert answer.status_code == 200, answer.text
            said = [name for name in ("renewed", "adopted", "conflicts", "ended") if call_sid in answer.json()[name]]
            assert len(said) == 1, answer.text
            told[call_sid] = {"renewed": "kept", "adopted": "kept", "conflicts": "conflict", "ended": "ended"}[said[0]]
        return told

    def renew_alone(self):
        told = {}
        for call_sid in self.pods:
            answer = self.router.post("/api/v1/renew", {"call_sid": call_sid})
            assert answer.status_code in (200, 404, 409), answer.text
            told[call_sid] = {200: "kept", 404: "unknown", 409: "conflict"}[answer.status_code]
            if answer.status_code != 200:
                assert answer.json()["success"] is False and answer.json()["error"]
        return told

    def renew_list(self):
        answer = self.router.post("/api/v1/renew", {"call_sids": list(self.pods)})
        assert answer.status_code == 200, answer.text
        told = {}
        for name, verdict in (("renewed", "kept"), ("unknown", "unknown"), ("conflicts", "conflict")):
            told.update((call_sid, verdict) for call_sid in answer.json().get(name, []))
        assert told.keys() == self.pods.keys(), answer.text
        return told


def outage(server, routers, seconds):
    with server.paused():
        time.sleep(OUTAGE_S)
        server.jump(seconds)
    wait_ready(*routers)


def expect_one_call_a_pod(router, expected):
    calls = calls_of(router)
    assert len(set(calls.values())) == len(calls), f"two calls on one pod: {calls}"
    assert {call_sid: calls.get(call_sid) for call_sid in expected} == expected


HOW = ["renew_alone", "renew_list", "heartbeat"]
AWAY = {"90 s": LEASE_S + 90, "two hours": 2 * 3600}


@pytest.mark.parametrize("how", HOW)
def test_a_call_whose_lease_ran_out_keeps_its_pod_if_nobody_has_it(shifted_server, start_on, how):
    routers = [start_on(shifted_server, ENV) for _ in range(2)]
    keeper = Keeper(routers[0], how)
    for away_s in (LEASE_S + 20, LEASE_S + 90):
        outage(shifted_server, routers, away_s)
        assert keeper.say() == dict.fromkeys(keeper.pods, "kept")
        wait_swept(*routers)
        answer = routers[1].post("/api/v1/allocate", {"call_sid": "new"})
        assert (answer.status_code, answer.json()["code"]) == (503, "no_pods"), answer.text
        expect_one_call_a_pod(routers[1], keeper.pods)
    for call_sid in keeper.pods:
        routers[1].release(call_sid)
    wait_free(routers[1])


@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("how", HOW)
def test_a_call_whose_pod_another_one_has_by_now_is_told_so(shifted_server, start_on, how, away):
    """Whether others get the pods before anybody has spoken is left open; that nobody shares one is not."""
    routers = [start_on(shifted_server, ENV) for _ in range(2)]
    keeper = Keeper(routers[0], how)
    outage(shifted_server, routers, AWAY[away])
    wait_swept(*routers)
    wait_swept(*routers)
    new = {}
    for call_sid in ("new-0", "new-1"):
        answer = routers[1].post("/api/v1/allocate", {"call_sid": call_sid})
        if answer.status_code == 200:
            new[call_sid] = answer.json()["pod_name"]
    expect_one_call_a_pod(routers[1], new)
    for _ in range(2):  # asking again changes nothing
        for call_sid, told in keeper.say().items():
            expected = {"conflict" if keeper.pods[call_sid] in new.values() else "kept"}
            if away == "two hours" and how != "heartbeat":
                expected.add("unknown")  # its record is gone, and a renewal does not say where it is
            assert told in expected, f"{call_sid} on {keeper.pods[call_sid]}, others {new}"
        wait_swept(*routers)
        expect_one_call_a_pod(routers[1], new)
    for call_sid, pod in new.items():
        assert routers[0].release(call_sid)["pod_name"] == pod


@pytest.mark.parametrize("how", HOW)
def test_a_lapsed_call_does_not_come_between_a_pod_and_its_new_call(redis_server, start_on, how):
    """What outages and hand edits leave behind, made by hand: a record whose lease ran out, and a pod that looks free."""
    router = start_on(redis_server, {**ENV, **QUIET})
    keeper = Keeper(router, how)
    client = redis_server.client()
    pod = keeper.pods["kept-0"]
    edit = client.pipeline().zadd("voice:calls:active", {"kept-0": 1000}).delete(f"voice:lease:{pod}")
    edit.sadd("voice:pool:gold:available", pod).execute()
    assert router.allocate("new")["pod_name"] == pod
    assert keeper.say() == {"kept-0": "conflict", "kept-1": "kept"}
    assert router.get("/api/v1/call/new").json()["pod_name"] == pod
    assert client.get(f"voice:lease:{pod}") == "new"
    expect_one_call_a_pod(router, {"new": pod, "kept-1": keeper.pods["kept-1"]})
    # A late release of the lapsed call does not free the pod either.
    router.post("/api/v1/release", {"call_sid": "kept-0"})
    assert router.post("/api/v1/allocate", {"call_sid": "newer"}).status_code == 503
    assert router.release("new")["pod_name"] == pod


@pytest.mark.parametrize("how", ["renew_alone", "renew_list"])
@pytest.mark.parametrize("store", ["redis", "embedded"])
def test_a_renewal_after_the_lease_is_as_good_as_one_before(redis_server, start_on, start_router, store, how):
    env = {**ENV, **QUIET, "LEASE_TTL": "300ms"}
    router = start_on(redis_server, env) if store == "redis" else start_router(env)
    keeper = Keeper(router, how)
    for _ in range(2):
        time.sleep(0.6)
        assert keeper.say() == dict.fromkeys(keeper.pods, "kept")
        wait_until(lambda: calls_of(router) == keeper.pods, "both are there")
        assert router.post("/api/v1/allocate", {"call_sid": "new"}).status_code == 503
