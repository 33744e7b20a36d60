"""An allocation that was answered with an error, or to nobody, holds nothing; and nothing comes back after its end.

EDGE_ALLOCATIONS is how many there are in each test.
"""

import random
import time

import pytest
from conftest import wait_until
from edges import answer_of, calls_of, wait_free, wait_ready, wait_swept
from talkers import setting
from tcp_faults import FaultProxy

COUNT = int(setting("EDGE_ALLOCATIONS", 60))
BURST = min(COUNT, 50)
SEED = int(setting("EDGE_SEED", time.time()))
PODS = BURST + 10
ENV = {
    "STATIC_PODS": ",".join(f"agent-{i}" for i in range(PODS)),
    "TIER_CONFIG": f'{{"gold": {PODS}}}',
    "REDIS_TIMEOUT": "700ms",
}


def bursts():
    """Names of the calls, so many at a time that all of them could have pods."""
    names = [f"CA{i}" for i in range(COUNT)]
    return [names[i : i + BURST] for i in range(0, COUNT, BURST)]


def allocations(routers, names):
    return [(routers[i % len(routers)].port, "POST", "/api/v1/allocate", {"call_sid": sid}) for i, sid in enumerate(names)]


@pytest.fixture
def ask_all(start_talkers):
    return start_talkers(pods=0).ask_all


@pytest.fixture
def start_warm(start_on):
    """As start_on, for a router whose scripts Redis knows: else a late request would be refused for that reason alone."""

    def start(server, env):
        router = start_on(server, env)
        router.allocate("warm")
        router.release("warm")
        return router

    return start


def test_allocations_that_a_stopped_redis_did_not_answer_hold_nothing(redis_server, start_warm, ask_all):
    routers = [start_warm(redis_server, ENV) for _ in range(2)]
    for names in bursts():
        with redis_server.paused():
            answers = ask_all(allocations(routers, names))
            assert {status for status, _ in answers} == {503}, answers
        wait_ready(*routers)
        wait_swept(*routers)
        wait_free(routers[0])
        wait_free(routers[1])


def test_allocations_whose_clients_have_gone_hold_nothing(redis_server, start_warm, ask_all):
    """The pause is short: Redis carries them out in time, and nobody is there to be told."""
    routers = [start_warm(redis_server, {**ENV, "REDIS_TIMEOUT": "30s"}) for _ in range(2)]
    for names in bursts():
        with redis_server.paused():
            ask_all(allocations(routers, names), reads=False)
            time.sleep(0.5)
        wait_ready(*routers)
        wait_swept(*routers)
        wait_free(routers[0])


def test_allocations_that_no_replica_has_hold_nothing_unless_they_are_asked_for_again(start_redis, start_warm, ask_all):
    primary = start_redis(has_port=True)
    replica = start_redis(has_port=True, replicaof=f"127.0.0.1 {primary.port}", repl_diskless_sync_delay=0)
    wait_until(lambda: replica.client().info("replication")["master_link_status"] == "up", "it replicates")
    routers = [start_warm(primary, {**ENV, "REDIS_WAIT_REPLICAS": "1"}) for _ in range(2)]
    for names in bursts():
        with replica.paused():
            answers = ask_all(allocations(routers, names))
            assert {status for status, _ in answers} == {503}, answers
        kept = {}
        for call_sid in names[::2]:  # these clients ask again, at any router, until they are told

            def ask(sid=call_sid):
                answer = random.choice(routers).post("/api/v1/allocate", {"call_sid": sid})
                return answer.json() if answer.status_code == 200 else None

            kept[call_sid] = wait_until(ask, "the replica is back")["pod_name"]
        wait_until(lambda: calls_of(routers[0]).keys() <= kept.keys(), "the others hold nothing")
        for _ in range(3):
            wait_swept(*routers)
            assert calls_of(routers[1]) == kept
        free = answer_of(routers[1], "/api/v1/status").json()["tiers"]["gold"]["available"]
        assert free == PODS - len(kept)
        for call_sid, pod in kept.items():
            release = lambda sid=call_sid: routers[0].post("/api/v1/release", {"call_sid": sid})
            answer = wait_until(lambda: (a := release()).status_code == 200 and a, "it is released")
            assert answer.json()["pod_name"] == pod
        wait_free(routers[0])


@pytest.fixture
def proxy(redis_server):
    one = FaultProxy(redis_server)
    yield one
    one.close()


def end(router, call_sid):
    """Its release, until it is answered for good."""

    def ask():
        answer = router.post("/api/v1/release", {"call_sid": call_sid})
        return answer.status_code if answer.status_code in (200, 404) else None

    return wait_until(ask, "the release is answered")


@pytest.mark.parametrize("is_known", [False, True], ids=["a new call", "a call that had a pod"])
def test_an_allocation_that_arrives_after_the_end_of_its_call_does_nothing(redis_server, start_warm, ask_all, proxy, is_known):
    """It was on its way when its router gave up: its client was told 503, released the call and was told that it is over."""
    slow = start_warm(redis_server, {**ENV, "REDIS_URL": proxy.url})
    quick = start_warm(redis_server, ENV)
    wait_until(lambda: any(r.get("/api/v1/status").json().get("is_leader") for r in (slow, quick)), "one leads")
    for names in bursts():
        if is_known:
            for call_sid in names:
                quick.allocate(call_sid)
        proxy.hold()
        answers = ask_all(allocations([slow], names))
        assert {status for status, _ in answers} == {503}, answers
        assert {end(quick, call_sid) for call_sid in names} == {200 if is_known else 404}
        late = proxy.late_bytes
        time.sleep(0.3)  # well after the deadline, on whichever clock
        proxy.release()
        assert proxy.late_bytes > late, "nothing arrived late"
        for _ in range(20):  # not for a moment
            assert calls_of(quick) == {}, "calls live again after their end"
            time.sleep(0.02)
        wait_ready(slow, quick)
        wait_free(quick)


def test_whatever_the_network_does_no_call_lives_after_its_end(redis_server, start_warm, ask_all, proxy, tell):
    """Delays, cuts and half-closes at random. What arrives before its deadline may live until it is undone, not longer."""
    rng = random.Random(SEED)
    slow = start_warm(redis_server, {**ENV, "REDIS_URL": proxy.url})
    quick = start_warm(redis_server, ENV)
    seen = []
    for names in bursts():
        fault = rng.choice(["hold", "hold and cut", "delay", "delay and cut", "half-close"])
        if "hold" in fault:
            proxy.hold()
        if "delay" in fault:
            proxy.delay_s = rng.uniform(0, 1.4)
        if fault == "half-close":
            proxy.half_close()
        for call_sid in names[::3]:
            quick.allocate(call_sid)
        requests = allocations([slow, slow, quick], names)
        half = len(requests) // 2
        answers = ask_all(requests[:half])
        if "cut" in fault:
            proxy.cut()
        answers += ask_all(requests[half:])
        seen += [status for status, _ in answers]
        assert {status for status, _ in answers} <= {200, 503}, answers
        for call_sid in names:
            end(quick, call_sid)
        proxy.delay_s = 0
        proxy.release()
        wait_ready(slow, quick)
        wait_swept(slow, quick)
        wait_free(quick)
        wait_free(slow)
    tell(f"a bad network: {len(seen)} allocations, {seen.count(503)} of them 503, {proxy.late_bytes} bytes late; seed {SEED}")
