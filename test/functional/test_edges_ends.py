"""Ends that were recorded: what has ended stays ended, and what was merely lost comes back.

A release ends the stream as well, at every router; so does another call that has the slot by now. A record that was lost ends
nothing.
"""

import time

import pytest
from basics import free_port
from conftest import wait_until
from edges import calls_of, pod_of, wait_free, wait_swept
from streams import Agent, Stream
from talkers import PATIENCE_S

ENV = {"LEASE_TTL": "3s", "CLEANUP_INTERVAL": "200ms", "GATEWAY_RELEASE_GRACE": "1s"}


@pytest.fixture(params=["redis", "embedded"])
def start_one(request, redis_server, start_on, start_router):
    """start_one(env) -> a router with either store."""
    return lambda env: start_on(redis_server, env) if request.param == "redis" else start_router(env)


@pytest.fixture
def site(redis_server, start_on, start_talkers):
    """site(pods) -> agents, two routers on one Redis, and Redis itself."""

    def start(pods=1, **env):
        talkers = start_talkers(pods=pods)
        routers = [start_on(redis_server, {**talkers.env, **ENV, **env}) for _ in range(2)]
        return talkers, routers, redis_server.client()

    return start


def heartbeat(router, pod, *call_sids):
    answer = router.post(f"/api/v1/pod/{pod}/heartbeat", {"call_sids": list(call_sids)})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    return {name: told[name] for name in ("renewed", "adopted", "ended", "conflicts") if told[name]}


def renew(router, call_sid):
    return router.post("/api/v1/renew", {"call_sid": call_sid}).status_code


KEPT = {"STATIC_PODS": "agent-0", "TIER_CONFIG": '{"gold": 1}', **ENV, "LEASE_TTL": "5m"}


@pytest.mark.parametrize("how", ["renew", "heartbeat"])
def test_a_late_word_does_not_bring_a_released_call_back(start_one, how):
    router = start_one(KEPT)
    pod = router.allocate("CA1")["pod_name"]
    if how == "renew":
        assert renew(router, "CA1") == 200
    else:
        assert heartbeat(router, pod, "CA1") == {"renewed": ["CA1"]}
    router.release("CA1")
    for _ in range(2):
        assert heartbeat(router, pod, "CA1") == {"ended": ["CA1"]}
        assert renew(router, "CA1") == 404
        answer = router.post("/api/v1/renew", {"call_sids": ["CA1", "CA-unknown"]})
        assert answer.status_code == 200 and answer.json()["renewed"] == []
        assert pod_of(router, "CA1") is None and calls_of(router) == {}
        wait_free(router)
    # The pod is anybody's, and the late word does not disturb whoever has it.
    assert router.allocate("CA2")["pod_name"] == pod
    assert heartbeat(router, pod, "CA1", "CA2") == {"ended": ["CA1"], "renewed": ["CA2"]}
    assert calls_of(router) == {"CA2": pod}
    router.release("CA2")
    wait_free(router)


def test_a_released_call_can_be_allocated_anew(start_one):
    router = start_one(KEPT)
    pod = router.allocate("CA1")["pod_name"]
    assert renew(router, "CA1") == 200
    router.release("CA1")
    assert heartbeat(router, pod, "CA1") == {"ended": ["CA1"]}
    for _ in range(2):
        again = router.allocate("CA1")
        assert (again["pod_name"], again["was_existing"]) == (pod, False)
        assert renew(router, "CA1") == 200
        assert heartbeat(router, pod, "CA1") == {"renewed": ["CA1"]}
        assert pod_of(router, "CA1") == pod
        router.release("CA1")
        assert renew(router, "CA1") == 404


def test_a_call_that_was_allocated_anew_is_adopted_as_any_other(redis_server, start_on):
    """Its former end is forgotten with the new allocation."""
    router = start_on(redis_server, KEPT)
    pod = router.allocate("CA1")["pod_name"]
    assert renew(router, "CA1") == 200
    router.release("CA1")
    assert heartbeat(router, pod, "CA1") == {"ended": ["CA1"]}
    router.allocate("CA1")
    assert renew(router, "CA1") == 200
    lose(redis_server.client(), "CA1", pod)
    assert heartbeat(router, pod, "CA1") == {"adopted": ["CA1"]}
    assert pod_of(router, "CA1") == pod


def lose(client, call_sid, pod, is_free=False):
    """The store forgets the call; no end was recorded. With is_free the next call can have the pod at once."""
    edit = client.pipeline().delete(f"voice:call:{call_sid}", f"voice:lease:{pod}").zrem("voice:calls:active", call_sid)
    if is_free:
        edit.sadd("voice:pool:gold:available", pod)
    edit.execute()


@pytest.mark.parametrize("end", ["closed", "released"])
def test_a_late_heartbeat_does_not_bring_back_a_call_that_had_a_stream(site, end):
    talkers, routers, _ = site()
    answer = routers[0].allocate("CA1")
    stream = talkers.open(routers[0], answer)
    if end == "released":
        routers[1].release("CA1")
        assert stream.closed.wait(PATIENCE_S), "the stream outlives its call"
    else:
        stream.close("frame")
    wait_free(routers[0])
    for router in routers:
        assert heartbeat(router, "agent-0", "CA1") == {"ended": ["CA1"]}
        assert renew(router, "CA1") == 404
    wait_free(routers[0])
    answer = routers[1].allocate("CA1")
    assert not answer["was_existing"]
    talkers.open(routers[1], answer).close()
    wait_free(routers[0])


@pytest.mark.parametrize("where", ["here", "there"])
def test_a_released_call_loses_its_stream(site, where):
    """At once, and not with the next renewal: the lease is long."""
    talkers, routers, _ = site(pods=2, LEASE_TTL="10m")
    answers = {call_sid: routers[0].allocate(call_sid) for call_sid in ("CA1", "CA2")}
    streams = {call_sid: talkers.open(routers[0], answer) for call_sid, answer in answers.items()}
    releasing = routers[0 if where == "here" else 1]
    assert releasing.release("CA1")["pod_name"] == answers["CA1"]["pod_name"]
    assert streams["CA1"].closed.wait(PATIENCE_S), "the stream outlives its call"
    wait_until(lambda: not talkers.talking(answers["CA1"]["pod_name"]), "the agent is told, too")
    assert streams["CA2"].wait_echo(3)  # nobody else suffers
    assert calls_of(routers[1]) == {"CA2": answers["CA2"]["pod_name"]}
    assert releasing.post("/api/v1/release", {"call_sid": "CA1"}).status_code == 404


def test_a_note_is_read_also_if_those_before_it_are_gone_already(site):
    """As after a failover, or when the answer to the look that took them out was lost."""
    talkers, routers, client = site(pods=2, LEASE_TTL="10m")
    streams = {call_sid: talkers.open(routers[0], routers[0].allocate(call_sid)) for call_sid in ("CA1", "CA2")}
    carrier = client.hget("voice:call:CA1", "carriers").split(",")[0]
    routers[1].release("CA1")
    assert streams["CA1"].closed.wait(PATIENCE_S), "the stream outlives its call"
    client.delete(f"voice:mail:{carrier}")
    routers[1].release("CA2")
    assert streams["CA2"].closed.wait(PATIENCE_S), "the note was taken for one that was read"


def test_a_released_call_loses_its_stream_with_the_embedded_store(start_router, start_talkers):
    talkers = start_talkers()
    router = start_router({**talkers.env, **ENV, "LEASE_TTL": "10m"})
    stream = talkers.open(router, router.allocate("CA1"))
    router.release("CA1")
    assert stream.closed.wait(PATIENCE_S), "the stream outlives its call"
    wait_free(router)


def test_a_call_whose_record_was_lost_keeps_its_stream_and_its_pod(site):
    talkers, routers, client = site(pods=2)
    answers = {call_sid: routers[0].allocate(call_sid) for call_sid in ("CA1", "CA2")}
    streams = [talkers.open(routers[i], answer) for i, answer in enumerate(answers.values())]
    expected = {call_sid: answer["pod_name"] for call_sid, answer in answers.items()}
    for _ in range(2):
        for call_sid, pod in expected.items():
            lose(client, call_sid, pod)
        wait_until(lambda: calls_of(routers[0]) == expected, "their carriers bring them back")
        wait_swept(*routers)
        assert routers[1].post("/api/v1/allocate", {"call_sid": "new"}).status_code == 503
        assert all(stream.wait_echo() for stream in streams)
    for stream in streams:
        stream.close()
    wait_free(routers[0])


@pytest.mark.parametrize("how", ["emptied", "restarted"])
def test_carriers_take_their_pods_again_when_redis_has_lost_everything(redis_server, site, how):
    """As soon as the pods are registered again, and not with the next renewal: the lease is long."""
    talkers, routers, client = site(pods=2, LEASE_TTL="10m", RECONCILE_INTERVAL="2s")
    answers = {call_sid: routers[0].allocate(call_sid) for call_sid in ("CA1", "CA2")}
    streams = [talkers.open(routers[i], answer) for i, answer in enumerate(answers.values())]
    if how == "emptied":
        client.flushall()
    else:
        redis_server.kill()
        redis_server.start()
    expected = {call_sid: answer["pod_name"] for call_sid, answer in answers.items()}
    wait_until(lambda: calls_of(routers[0]) == expected, "their carriers bring them back")
    assert routers[1].post("/api/v1/allocate", {"call_sid": "new"}).status_code == 503
    assert all(stream.wait_echo() for stream in streams)
    for stream in streams:
        stream.close()
    wait_free(routers[0])


def test_a_stream_whose_slot_another_call_has_is_closed(site):
    talkers, routers, client = site()
    stream = talkers.open(routers[0], routers[0].allocate("CA1"))

    def other_gets_it():
        lose(client, "CA1", "agent-0", is_free=True)
        answer = routers[1].post("/api/v1/allocate", {"call_sid": "CA2"})
        return answer.json() if answer.status_code == 200 else None  # the carrier was faster

    answer = wait_until(other_gets_it, "another call has the pod")
    assert stream.closed.wait(PATIENCE_S), "two calls on one pod"
    wait_swept(*routers)
    assert calls_of(routers[0]) == {"CA2": "agent-0"}
    second = talkers.open(routers[1], answer)
    time.sleep(1)
    assert second.wait_echo() and calls_of(routers[0]) == {"CA2": "agent-0"}
    second.close()
    wait_free(routers[0])


def test_a_release_that_names_the_pod_ends_a_call_only_there(start_one):
    router = start_one({"STATIC_PODS": "agent-0,agent-1", "TIER_CONFIG": '{"gold": 2}', **ENV})
    pod = router.allocate("CA1")["pod_name"]
    other = {"agent-0": "agent-1", "agent-1": "agent-0"}[pod]
    before = router.state()
    for wrong in (other, "agent-9"):
        answer = router.post("/api/v1/release", {"call_sid": "CA1", "pod_name": wrong})
        assert (answer.status_code, answer.json()["success"]) == (404, False), answer.text
    assert router.post("/api/v1/release", {"call_sid": "CA1", "pod_name": 5}).status_code == 400
    assert router.state() == before
    answer = router.post("/api/v1/release", {"call_sid": "CA1", "pod_name": pod})
    assert answer.status_code == 200 and answer.json()["pod_name"] == pod
    assert router.post("/api/v1/release", {"call_sid": "CA1", "pod_name": pod}).status_code == 404
    wait_free(router)


def test_an_agent_does_not_end_a_call_that_was_moved_away_from_it(site):
    """The pod cannot be reached when the call connects: its call moves, and the agent's own release comes later."""
    talkers, routers, _ = site(pods=1, STATIC_PODS=f"dead=127.0.0.1:{free_port()}", TIER_CONFIG='{"gold": 2}')
    answer = routers[0].allocate("CA1")
    assert answer["pod_name"] == "dead"
    alive = talkers.pods["agent-0"]
    registration = {"pod_name": "agent-0", "address": f"127.0.0.1:{alive.port}", "tier": "gold"}
    assert routers[0].post("/api/v1/pods", registration).status_code == 200
    stream = talkers.open(routers[1], answer)
    assert pod_of(routers[0], "CA1") == "agent-0"
    answer = routers[0].post("/api/v1/release", {"call_sid": "CA1", "pod_name": "dead"})
    assert answer.status_code == 404, answer.text
    assert stream.wait_echo(5) and pod_of(routers[1], "CA1") == "agent-0"
    answer = routers[1].post("/api/v1/release", {"call_sid": "CA1", "pod_name": "agent-0"})
    assert answer.status_code == 200, answer.text
    assert stream.closed.wait(PATIENCE_S), "the stream outlives its call"


def test_a_carried_call_that_was_lost_is_taken_again_at_once(start_one):
    """Its pod has registered anew, which ends its calls; but the stream still talks to it."""
    agent = Agent()
    try:
        router = start_one({"POD_SOURCE": "api", "STATIC_PODS": None, "TIER_CONFIG": '{"gold": 1}', "GATEWAY_SECRET": "long-enough-to-be-a-secret"})
        pod = {"pod_name": "agent-0", "address": f"127.0.0.1:{agent.port}"}
        assert router.post("/api/v1/pods", pod).status_code in (200, 201)
        url = router.allocate("CA1")["ws_url"]
        with Stream(router.port, url[url.index("/", url.index("://") + 3) :]) as stream:
            assert stream.status == 101 and stream.echoes()
            wait_until(lambda: router.get("/api/v1/call/CA1").status_code == 200, "the call is there")
            assert router.post("/api/v1/pods", pod).status_code in (200, 201)
            assert 'smart_router_calls_ended_total{reason="pod_restarted"} 1' in router.get("/metrics").text
            # The lease is 15 min, and would be renewed after 5.
            wait_until(lambda: pod_of(router, "CA1") == "agent-0", "its carrier has taken it again")
            assert stream.echoes()
            assert router.post("/api/v1/allocate", {"call_sid": "CA2"}).status_code == 503
    finally:
        agent.close()
