"""Redis is away for longer than a lease: calls whose streams are open are still there, on their pods, and nobody else gets those.

EDGE_ROUNDS is how many outages the campaign has. A lease is long enough that one that runs out means an outage which the
routers notice as one (3 s): carriers renew every third of it.
"""

import random
import time

import pytest
from conftest import wait_until
from edges import Others, carry, expect_carried, wait_free, wait_ready
from redis_servers import SURVIVES_KILL
from talkers import setting

LEASE_S = 3
ROUNDS = int(setting("EDGE_ROUNDS", 2))
CALLS = int(setting("EDGE_CALLS", 100))
SEED = int(setting("EDGE_SEED", time.time()))
ENV = {"LEASE_TTL": f"{LEASE_S}s", "GATEWAY_RELEASE_GRACE": "1s"}


def outage(talkers, server, how, seconds):
    talkers.note(f"Redis is {how} for {seconds:.1f} s")
    if how == "stopped":
        with server.paused():
            time.sleep(seconds)
    else:
        server.kill()
        time.sleep(seconds)
        server.start()
    talkers.note("Redis is back")


@pytest.mark.parametrize("how, leases", [("stopped", 1.7), ("killed", 1.3)])
def test_an_outage_longer_than_a_lease_ends_no_carried_call(start_redis, start_on, start_talkers, how, leases):
    server = start_redis(**SURVIVES_KILL)
    talkers = start_talkers(pods=4)
    routers = [start_on(server, {**talkers.env, **ENV}) for _ in range(2)]
    carried = carry(talkers, routers, 4)
    outage(talkers, server, how, leases * LEASE_S)
    end = time.monotonic() + 1.5 * LEASE_S
    number = 0
    while time.monotonic() < end:  # there is no pod for a new call, from the first moment on
        number += 1
        answer = routers[number % 2].post("/api/v1/allocate", {"call_sid": f"new-{number}"})
        assert answer.status_code == 503, f"{answer.json()} belongs to {carried}"
        time.sleep(0.05)
    wait_ready(*routers)
    for router in routers:
        expect_carried(talkers, router, carried)
    ask = lambda: routers[0].post("/api/v1/allocate", {"call_sid": "new"})
    answer = wait_until(lambda: (one := ask()).json().get("code") != "unavailable" and one, "the store answers")
    assert (answer.status_code, answer.json()["code"]) == (503, "no_pods")
    # Afterwards they end as any other call does.
    for _, stream in carried.values():
        stream.close()
    wait_free(routers[0])


def test_outages_around_the_length_of_a_lease(start_redis, start_on, start_talkers, tell):
    rng = random.Random(SEED)
    lease_s = 5
    server = start_redis(**SURVIVES_KILL)
    talkers = start_talkers(pods=CALLS + 8, interval_s=0.25)
    env = {**talkers.env, **ENV, "LEASE_TTL": f"{lease_s}s"}
    routers = [start_on(server, env) for _ in range(2)]
    carried = carry(talkers, routers, CALLS)
    others = Others(routers, seed=SEED)
    others.wait_served()
    away_s = 0
    for number in range(ROUNDS):
        seconds = lease_s * (rng.uniform(0.5, 3) if number else 1.6)
        outage(talkers, server, rng.choice(["stopped", "killed"]), seconds)
        away_s += seconds
        wait_ready(*routers)
        others.wait_served()
        expect_carried(talkers, rng.choice(routers), carried)
        time.sleep(rng.random() * lease_s / 2)
    others.stop()
    print(dict(others.history.outcomes))
    tell(f"{ROUNDS} outages, {away_s:.0f} s, {CALLS} carried calls, {others.served()} others; seed {SEED}")
    taken = others.pods & {pod for pod, _ in carried.values()}
    assert taken == set(), f"seed {SEED}: other calls got pods of carried ones"
    for _, stream in carried.values():
        stream.close(rng.choice(["end", "frame", "reset"]))
    wait_free(routers[0])
