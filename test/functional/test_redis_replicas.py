"""Four routers on one Redis, and 64 clients of whom half want the same calls; pods come and go.

REPLICAS_SECONDS is how long the clients work, REPLICAS_REST how long they rest after each burst, so that tests that run at the
same time get their share of the machine; 0 is for campaigns.
"""

import os
import random
import time

import load
import pytest
import redis_servers
from conftest import wait_until

SECONDS = float(os.environ.get("REPLICAS_SECONDS") or "20")
REST_S = float(os.environ.get("REPLICAS_REST") or "0.6")
ROUTERS = 4
CLIENTS = 64
SHARED_MAX = 3
TIERS = f"""{{"tiers": {{"gold": {{"target": 6}}, "standard": {{"target": 5}}, "merchant:m": {{"target": 2}},
 "basic": {{"type": "shared", "target": 2, "max_concurrent": {SHARED_MAX}}}}},
 "default_chain": ["gold", "standard", "basic"]}}"""
STATIC = [f"static-{i}" for i in range(11)]
FLAPPING = {"flap-0": "gold", "flap-1": "standard", "flap-2": "basic", "flap-3": "merchant:m"}


def history_of(allocations=(), releases=(), call_ends=(), pod_ends=(), wipes=()):
    history = load.History()
    for sent, answered, call_sid, pod, was_existing in allocations:
        pool = "pool:shared" if pod == "s" else "pool:exclusive"
        history.allocations.append((sent, answered, call_sid, pod, pool, was_existing))
    history.releases.extend(releases)
    for call_sid, span in call_ends:
        history.call_ends[call_sid].append(span)
    for pod, span in pod_ends:
        history.pod_ends[pod].append(span)
    history.wipes.extend(wipes)
    return history


GOOD = [
    {"allocations": [(1, 2, "a", "p", False), (3, 4, "a", "p", True)]},
    # The release may have come between.
    {"allocations": [(1, 2, "a", "p", False), (3, 6, "b", "p", False)], "call_ends": [("a", (4, 5))]},
    {"allocations": [(1, 2, "a", "p", False), (3, 6, "a", "q", False)], "call_ends": [("a", (2.5, 7))]},
    # Two at once: either may have been first.
    {"allocations": [(1, 4, "a", "p", False), (2, 3, "a", "p", True)]},
    {"allocations": [(1, 2, "a", "p", False), (3, 4, "b", "p", False)], "pod_ends": [("p", (2.1, 2.9))]},
    {"allocations": [(1, 2, "a", "p", False), (3, 4, "a", "q", False)], "wipes": [(2.1, 2.9)]},
    {"allocations": [(1, 2, "a", "s", False), (3, 4, "b", "s", False)]},  # shared
    {"allocations": [(1, 2, "a", "p", False)], "releases": [(3, 4, "a", "p")], "call_ends": [("a", (3, 4))]},
    {
        "allocations": [(1, 2, "a", "p", False)],
        "releases": [(3, 5, "a", "p"), (4, 6, "a", None)],
        "call_ends": [("a", (3, 5)), ("a", (4, 6))],
    },
]
BAD = [
    {"allocations": [(1, 2, "a", "p", False), (1, 3, "a", "q", False)]},
    {"allocations": [(1, 2, "a", "p", False), (3, 4, "b", "p", False)]},
    {"allocations": [(1, 2, "a", "p", False), (3, 4, "b", "p", False)], "call_ends": [("a", (5, 6))]},
    {"allocations": [(1, 2, "a", "p", False), (3, 4, "a", "p", False)]},  # it had it already
    {"allocations": [(1, 2, "a", "s", False), (3, 4, "b", "s", False), (3, 4, "c", "s", False)]},
    {"allocations": [(1, 2, "a", "p", False)], "releases": [(3, 4, "a", None)], "call_ends": [("a", (3, 4))]},
    {"allocations": [(1, 2, "a", "p", False)], "releases": [(3, 4, "a", "q")], "call_ends": [("a", (3, 4))]},
    # The end came before the allocation was asked for.
    {"allocations": [(3, 4, "a", "p", False), (5, 6, "b", "p", False)], "call_ends": [("a", (1, 2))]},
]


@pytest.mark.parametrize("parts", GOOD, ids=range(len(GOOD)))
def test_the_checker_accepts(parts):
    assert load.violations(history_of(**parts), lambda pool: 2 if pool == "pool:shared" else 1) == []


@pytest.mark.parametrize("parts", BAD, ids=range(len(BAD)))
def test_the_checker_finds(parts):
    assert load.violations(history_of(**parts), lambda pool: 2 if pool == "pool:shared" else 1) != []


def flap(client, rng, pod, tier):
    """A pod that registers, speaks for a while and goes, by a word of goodbye or by registering anew."""
    registration = {"pod_name": pod, "address": "127.0.0.1:9000", "tier": tier}
    assert client.end_pod("POST", "/api/v1/pods", registration)[0] == 200
    for _ in range(rng.randrange(6)):
        time.sleep(rng.random() * 0.2)
        client.ask("POST", f"/api/v1/pod/{pod}/heartbeat", {"call_sids": []})
    if rng.random() < 0.7:
        client.end_pod("DELETE", f"/api/v1/pod/{pod}")


def drain(client, rng):
    """A pod that drains for a moment; its calls stay."""
    pod = rng.choice(STATIC)
    client.ask("POST", "/api/v1/drain", {"pod_name": pod, "ttl_seconds": 1})
    time.sleep(rng.random() * 0.3)
    if rng.random() < 0.5:
        client.ask("POST", "/api/v1/undrain", {"pod_name": pod})


def room(pool):
    return SHARED_MAX if pool == "pool:basic" else 1


def nothing_is_lost(router, client, names):
    """Every pod is in its pool, and nothing is left of any call."""
    pods = lambda: router.get("/api/v1/pods?limit=1000").json()["pods"]
    wait_until(lambda: all(pod["state"] == "available" for pod in pods()), f"all are available: {pods()}")
    assert {pod["pod_name"] for pod in pods()} == set(names)
    keys = redis_servers.keyspace(client)
    listed = {}
    for key, value in keys.items():
        if key.endswith((":available", ":pods")) and key != "voice:pods":
            listed[key] = value
    assert sorted(pod for value in listed.values() for pod in value) == sorted(names), listed
    assert {k: v for k, v in keys.items() if k.startswith(("voice:call:", "voice:lease:", "voice:pod:calls:", "voice:calls:active"))} == {}
    assert set(listed["voice:pool:basic:available"].values()) == {0}
    assert router.get("/api/v1/status").json()["active_calls"] == 0


def test_no_call_has_two_pods_and_no_pod_two_calls(redis_server, start_on, tell):
    env = {"TIER_CONFIG": TIERS, "STATIC_PODS": ",".join(STATIC), "CLEANUP_INTERVAL": "300ms", "REDIS_TIMEOUT": "10s"}
    routers = [start_on(redis_server, env) for _ in range(ROUTERS)]
    routers[0].put("/api/v1/merchants/m", {"pool": "m"})
    urls = [router.url for router in routers]
    history = load.History()
    work = load.Load(history, rest_s=REST_S)
    callers = load.Callers(history, urls, hot=8, hold_s=0.1, merchants=("", "", "m"))
    callers.start(work, CLIENTS)
    for i, (pod, tier) in enumerate(FLAPPING.items()):
        work.start(flap, load.Client(history, urls), random.Random(i), pod, tier)
    work.start(drain, load.Client(history, urls), random.Random(99))
    time.sleep(SECONDS)
    work.stop()
    callers.finish()
    client = load.Client(history, urls)
    for pod in FLAPPING:
        client.end_pod("DELETE", f"/api/v1/pod/{pod}")
    for pod in STATIC:
        client.ask("POST", "/api/v1/undrain", {"pod_name": pod})

    found = load.violations(history, room)
    tell(
        f"{ROUTERS} routers, {CLIENTS} clients, {SECONDS:.0f} s: {history.answers()} answers, {len(history.allocations)} "
        f"allocations with success, {len(load.sure_times(history))} of them surely live for a while, slowest answer "
        f"{history.slowest_s * 1000:.0f} ms; {len(found)} violations"
    )
    print(dict(sorted(history.outcomes.items())))
    assert found == []
    assert history.outcomes["allocate 200 new"] > 100 and history.outcomes["allocate 200 existing"] > 20
    errors = {key: n for key, n in history.outcomes.items() if "None" in key or "500" in key}
    assert errors == {}, errors
    nothing_is_lost(routers[1], redis_server.client(), STATIC)
