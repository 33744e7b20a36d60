"""The tiers in Redis: seeded once, changed anywhere, known everywhere."""

import hashlib
import itertools
import json
import random
import time

import httpx
import load
import pytest
from conftest import wait_until
from first_router import NINE

# As they are stored.
FIRST = (
    '{"tiers":{"basic":{"type":"shared","target":2,"max_concurrent":2},"gold":{"type":"exclusive","target":3}},'
    '"default_chain":["gold","basic"]}'
)
SECOND = {
    "tiers": {"vip": {"type": "exclusive", "target": 5}, "gold": {"type": "exclusive", "target": 0}},
    "default_chain": ["vip", "gold"],
}
SKIPPED = "default_chain of the stored tiers names tiers that are not configured"


def tiers(router):
    return {name: tier["type"] for name, tier in router.get("/api/v1/status").json()["tiers"].items()}


def test_seeded_once(redis_server, start_on):
    first = start_on(redis_server, {"TIER_CONFIG": FIRST})
    second = start_on(redis_server, {"TIER_CONFIG": json.dumps(SECOND)})
    third = start_on(redis_server)
    for router in (first, second, third):
        assert router.get("/api/v1/tiers").text.strip() == FIRST
        assert tiers(router) == {"gold": "exclusive", "basic": "shared"}
    assert redis_server.client().get("voice:tier:config") == FIRST


def test_a_restart_with_other_settings_changes_nothing(redis_server, start_on):
    start_on(redis_server, {"TIER_CONFIG": FIRST}).stop()
    router = start_on(redis_server, {"TIER_CONFIG": json.dumps(SECOND)})
    assert router.get("/api/v1/tiers").text.strip() == FIRST


def test_a_change_counts_at_once_where_it_was_made_and_soon_everywhere(redis_server, start_on):
    env = {"TIER_CONFIG": FIRST, "TIER_REFRESH_INTERVAL": "300ms", "RECONCILE_INTERVAL": "24h"}
    routers = [start_on(redis_server, env) for _ in range(3)]
    answer = routers[1].put("/api/v1/tiers", SECOND)
    assert answer.status_code == 200, answer.text
    assert set(tiers(routers[1])) == {"vip", "gold"}
    assert routers[1].allocate("CA1")["source_pool"] == "pool:vip"
    assert routers[1].get("/api/v1/tiers").json() == SECOND
    for router in routers:
        wait_until(lambda r=router: set(tiers(r)) == {"vip", "gold"}, "everybody knows")
        assert router.get("/api/v1/tiers").json() == SECOND
        assert router.allocate(f"CA-{router.port}")["source_pool"] == "pool:vip"


@pytest.mark.parametrize("kinds", [("exclusive", "shared"), ("shared", "exclusive")], ids=["to shared", "to exclusive"])
def test_a_tier_that_changes_its_type_under_routers_that_have_not_heard_of_it(redis_server, start_on, kinds):
    """They go on with calls that are right, or say 503: none gets a pod that has one already."""
    config = lambda kind: {"gold": {"type": kind, "target": 5, "max_concurrent": 2}}
    env = {"TIER_CONFIG": json.dumps(config(kinds[0])), "TIER_REFRESH_INTERVAL": "24h", "RECONCILE_INTERVAL": "500ms"}
    first, second = start_on(redis_server, env), start_on(redis_server, env)
    before = {sid: first.allocate(sid)["pod_name"] for sid in ("CA1", "CA2")}
    assert first.put("/api/v1/tiers", config(kinds[1])).status_code == 200
    given = {}
    for i in range(20):
        answer = second.post("/api/v1/allocate", {"call_sid": f"CB{i}"})
        assert answer.status_code in (200, 503)
        if answer.status_code == 200:
            given[f"CB{i}"] = answer.json()["pod_name"]
    loads = {}
    for pod in [*before.values(), *given.values()]:
        loads[pod] = loads.get(pod, 0) + 1
    if kinds[1] == "shared":
        assert set(loads.values()) == {2} and len(loads) == 5
    else:  # what was there stays; nobody gets a second one
        assert all(loads[pod] == list(before.values()).count(pod) for pod in before.values())
        assert len(loads) == 5 and all(loads[pod] == 1 for pod in given.values())
    for sid, pod in {**before, **given}.items():
        assert second.release(sid)["pod_name"] == pod
    free = lambda: second.get("/api/v1/status").json()["tiers"]["gold"]["available"]
    wait_until(lambda: free() == 5, "all are free")


@pytest.mark.parametrize("kinds", [("exclusive", "shared"), ("shared", "exclusive")], ids=["to shared", "to exclusive"])
def test_a_pool_that_a_router_filled_that_has_not_heard_of_its_new_type(redis_server, start_on, kinds):
    """All its pods were busy, so that there was no list that would have told it. It puts them into one of the new type."""
    config = lambda kind: {
        "tiers": {"gold": {"type": kind, "target": 2, "max_concurrent": 1}, "standard": {"target": 1}},
        "default_chain": ["gold", "standard"],
    }
    env = {"TIER_CONFIG": json.dumps(config(kinds[0])), "TIER_REFRESH_INTERVAL": "24h", "RECONCILE_INTERVAL": "24h",
           "STATIC_PODS": "agent-0,agent-1,agent-2"}  # fmt: skip
    first, second = start_on(redis_server, env), start_on(redis_server, env)
    wait_until(lambda: first.get("/api/v1/status").json()["tiers"]["gold"]["available"] == 2, "the pods are there")
    before = [first.allocate(sid)["pod_name"] for sid in ("CA1", "CA2")]
    assert first.put("/api/v1/tiers", config(kinds[1])).status_code == 200
    for sid in ("CA1", "CA2"):
        assert second.release(sid)["released_to_pool"] == "pool:gold"
    assert first.get("/api/v1/status").json()["tiers"]["gold"]["available"] == 2
    assert {first.allocate(sid)["pod_name"] for sid in ("CB2", "CB3")} == set(before)
    client = redis_server.client()
    if kinds[1] == "shared":  # all are busy again
        assert client.zrange("voice:pool:gold:available", 0, -1, withscores=True) == [(pod, 1) for pod in sorted(before)]
    else:
        assert client.type("voice:pool:gold:available") == "none"


def test_bad_tiers_are_refused_and_change_nothing(redis_server, start_on):
    router = start_on(redis_server, {"TIER_CONFIG": FIRST})
    for bad in ({"gold": {"type": "odd", "target": 1}}, {"gold": {"target": -1}}, {}):
        assert router.put("/api/v1/tiers", bad).status_code == 400
    assert redis_server.client().get("voice:tier:config") == FIRST


def refused_count(url):
    """What /metrics says, of which this test caused everything."""
    (line,) = [l for l in httpx.get(f"{url}/metrics", trust_env=False).text.splitlines()
               if l.startswith("smart_router_tier_config_errors_total ")]  # fmt: skip
    return int(line.split()[1])


def test_a_tier_outside_the_chain_is_the_pool_of_a_merchant(redis_server, start_on):
    """As another program has stored it: it is not written anew, and its keys are those of the pool."""
    client = redis_server.client()
    text = json.dumps(NINE)
    client.set("voice:tier:config", text)
    client.hset("voice:merchant:config", "nine", '{"pool":"9shines","fallback":["__nonexistent__"]}')
    router = start_on(redis_server, {"TIER_REFRESH_INTERVAL": "100ms", "STATIC_PODS": "a,b,c,d,e"})
    assert len(client.smembers("voice:merchant:9shines:assigned")) == 2
    assert tiers(router).keys() == {"gold", "standard", "basic", "merchant:9shines"}
    served = [router.allocate(f"CA{i}", merchant_id="nine")["source_pool"] for i in range(2)]
    assert served == ["merchant:9shines"] * 2
    assert client.exists("voice:merchant:9shines:pods") == 0
    assert router.post("/api/v1/allocate", {"call_sid": "CA2", "merchant_id": "nine"}).status_code == 503
    assert router.allocate("CA3")["source_pool"] == "pool:gold"
    assert router.release("CA0")["released_to_pool"] == "merchant:9shines"
    assert client.scard("voice:merchant:9shines:pods") == 1
    assert client.get("voice:tier:config") == router.get("/api/v1/tiers").text == text
    assert [key for key in client.keys("voice:pool:*") if "9shines" in key] == []


def test_what_is_stored_has_plain_names(redis_server, start_on):
    """Seeded or changed here: another program finds the pool where it expects it."""
    flat = {**NINE["tiers"], "merchant:9shines": 2}
    del flat["9shines"]
    router = start_on(redis_server, {"TIER_CONFIG": json.dumps({"tiers": flat, "default_chain": NINE["default_chain"]})})
    client = redis_server.client()
    assert json.loads(client.get("voice:tier:config")) == NINE
    assert router.put("/api/v1/tiers", {"gold": 1, "merchant:acme": 3}).status_code == 200
    assert json.loads(client.get("voice:tier:config")) == {
        "tiers": {"gold": {"type": "exclusive", "target": 1}, "acme": {"type": "exclusive", "target": 3}},
        "default_chain": ["gold"],
    }
    assert router.get("/api/v1/tiers").text == client.get("voice:tier:config")


def test_a_stored_chain_with_an_unknown_name_is_served_without_it(redis_server, start_on):
    """The router is ready, and the name is said once for each such text."""
    client = redis_server.client()
    stored = {**NINE, "default_chain": ["platinum", *NINE["default_chain"], "none"], "comment": "by hand"}
    stored["tiers"] = {**stored["tiers"], "basic": {"type": "shared", "target": 1, "max_concurrent": 0}}
    text = json.dumps(stored)
    client.set("voice:tier:config", text)
    router = start_on(redis_server, {"TIER_REFRESH_INTERVAL": "100ms"})
    skipped = lambda: [l for l in router.log_lines() if l["msg"].startswith(SKIPPED)]
    assert router.get("/ready").status_code == 200
    assert router.allocate("CA1")["source_pool"] == "pool:gold"
    assert router.get("/api/v1/status").json()["tiers"]["basic"]["max_concurrent"] == 5
    time.sleep(0.5)
    (line,) = skipped()
    assert (line["level"], line["names"]) == ("warn", "platinum, none")
    assert client.get("voice:tier:config") == text
    assert refused_count(router.url) == 0
    client.set("voice:tier:config", text + " ")  # somebody wrote it again
    wait_until(lambda: len(skipped()) == 2, "it is said again")


@pytest.mark.parametrize(
    "text",
    ["{nonsense", '{"gold":{"type":"odd"}}', '{"tiers":{"gold":1},"default_chain":["platinum"]}', '{"gold":-1}', "[]"],
)
def test_a_stored_configuration_that_is_refused_is_counted(redis_server, start_on, text):
    client = redis_server.client()
    router = start_on(redis_server, {"TIER_CONFIG": FIRST, "TIER_REFRESH_INTERVAL": "100ms"})
    assert refused_count(router.url) == 0
    client.set("voice:tier:config", text)
    wait_until(lambda: refused_count(router.url) == 1, "it is counted")
    time.sleep(0.3)
    assert refused_count(router.url) == 1  # once for each text, as in the log
    assert router.get("/ready").status_code == 200
    assert router.allocate("CA1")["source_pool"] == "pool:gold"
    assert router.put("/api/v1/tiers", {"gold": -1}).status_code == 400
    assert refused_count(router.url) == 2
    # It was put right, and spoiled again in the same way.
    client.set("voice:tier:config", FIRST)
    time.sleep(0.5)
    client.set("voice:tier:config", text)
    wait_until(lambda: refused_count(router.url) == 3, "it is counted again")
    # A router that has never had any counts it, too; it is not ready, and its metrics are there.
    late = start_on(redis_server, {"TIER_REFRESH_INTERVAL": "100ms"}, wait=False)
    port = wait_until(lambda: late._listening("http"), "it listens")
    wait_until(lambda: refused_count(f"http://127.0.0.1:{port}") == 1, "it is counted")
    assert httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False).status_code == 503


@pytest.mark.parametrize("text", ["{nonsense", FIRST + "\0"], ids=["nonsense", "with a NUL"])
def test_tiers_that_were_spoiled_by_hand(redis_server, start_on, text):
    """The old ones stay in force, and it is said once."""
    env = {"TIER_CONFIG": FIRST, "TIER_REFRESH_INTERVAL": "100ms"}
    router = start_on(redis_server, env)
    client = redis_server.client()
    client.set("voice:tier:config", text)
    spoiled = lambda: [l for l in router.log_lines() if "tier configuration is not valid" in l["msg"]]
    wait_until(spoiled, "it is said")
    time.sleep(0.5)
    assert len(spoiled()) == 1
    assert router.allocate("CA1")["source_pool"] == "pool:gold"
    client.set("voice:tier:config", json.dumps(SECOND))
    wait_until(lambda: set(tiers(router)) == {"vip", "gold"}, "a good one is taken")
    # A router that has never had any waits for a good one.
    client.set("voice:tier:config", "[]")
    late = start_on(redis_server, env, wait=False)
    wait_until(lambda: late._listening("http"), "it listens")
    late.port = late._listening("http")
    wait_until(lambda: "not valid; calls are refused until it is" in late.log(), "it is said")
    client.set("voice:tier:config", FIRST)
    late.wait_ready()
    assert late.get("/api/v1/tiers").text.strip() == FIRST


def test_tiers_written_by_hand_count_after_the_interval(redis_server, start_on):
    env = {"TIER_CONFIG": FIRST, "TIER_REFRESH_INTERVAL": "100ms"}
    routers = [start_on(redis_server, env) for _ in range(2)]
    redis_server.client().set("voice:tier:config", json.dumps(SECOND))
    for router in routers:
        wait_until(lambda r=router: set(tiers(r)) >= {"vip", "gold"}, "everybody has read it")
    wait_until(lambda: routers[0].get("/api/v1/status").json()["tiers"]["vip"]["available"] == 5, "and a sync moved the pods")
    assert routers[0].allocate("CA1")["source_pool"] == "pool:vip"


EXCLUSIVE_PODS, OTHER_PODS = 24, 40
FLIPS = 40


def flipped(kind):
    """Gold is of the given type; there is always room in standard, so that nobody has to be refused."""
    return {
        "tiers": {
            "gold": {"type": kind, "target": EXCLUSIVE_PODS, "max_concurrent": 2},
            "standard": {"target": OTHER_PODS},
        },
        "default_chain": ["gold", "standard"],
    }


class Flippers:
    """Clients that allocate and release all the time, and keep a call now and then."""

    def __init__(self, history, urls):
        self.history = history
        self.urls = urls
        self.numbers = itertools.count()
        self.kept = {}

    def one(self, client):
        number = next(self.numbers)
        pod = client.allocate(f"CA{number}")
        if pod and number % 97 == 0 and len(self.kept) < 12:
            self.kept[f"CA{number}"] = pod
        elif pod:
            client.release(f"CA{number}")

    def start(self, work, count):
        for _ in range(count):
            work.start(self.one, load.Client(self.history, self.urls))


def lists_of(client, tier):
    key = f"voice:pool:{tier}:available"
    kind = client.type(key)
    return kind, sorted(client.smembers(key) if kind == "set" else client.zrange(key, 0, -1))


def test_a_tier_that_changes_its_type_again_and_again_under_load_costs_no_call(redis_server, start_on):
    """The other routers have not heard of the change when their next request comes; they notice, and nobody else does."""
    pods = [f"agent-{i}" for i in range(EXCLUSIVE_PODS + OTHER_PODS)]
    env = {
        "TIER_CONFIG": json.dumps(flipped("exclusive")),
        "STATIC_PODS": ",".join(pods),
        "TIER_REFRESH_INTERVAL": "24h",  # nobody hears of a change but by a script's word
        "RECONCILE_INTERVAL": "2s",
    }
    routers = [start_on(redis_server, env) for _ in range(3)]
    free = lambda: sum(t["available"] for t in routers[0].get("/api/v1/status").json()["tiers"].values())
    wait_until(lambda: free() == len(pods), "the pods are there")
    history = load.History()
    work = load.Load(history)
    flippers = Flippers(history, [router.url for router in routers])
    flippers.start(work, 16)
    rng = random.Random(7)
    answers = []
    for i in range(FLIPS):
        kind = ("shared", "exclusive")[i % 2]
        answers.append(rng.choice(routers).put("/api/v1/tiers", flipped(kind)).status_code)
        before = history.answers()
        wait_until(lambda n=before: history.answers() > n + rng.randrange(50), "they go on")
    work.stop()
    assert answers == [200] * FLIPS
    assert {outcome for outcome in history.outcomes if "200" not in outcome} == set(), history.outcomes
    assert load.violations(history, lambda pool: 2 if pool == "pool:gold" else 1) == []
    # A sync and a sweep later every pod is where it belongs, once, and every call that was kept is on its pod.
    client = redis_server.client()
    held = set(flippers.kept.values())

    def is_placed():
        gold, standard = lists_of(client, "gold"), lists_of(client, "standard")
        return (
            gold[0] == "set"
            and standard[0] == "set"
            and sorted([*gold[1], *standard[1], *held]) == sorted(pods)
            and client.scard("voice:pods:out") == 0
        )

    wait_until(is_placed, "every pod is in its pool once")
    for call_sid, pod in flippers.kept.items():
        assert routers[1].get(f"/api/v1/call/{call_sid}").json()["pod_name"] == pod
        assert routers[2].release(call_sid)["pod_name"] == pod
    assert routers[0].get("/api/v1/status").json()["active_calls"] == 0


@pytest.mark.parametrize("kinds", [("exclusive", "shared"), ("shared", "exclusive")], ids=["to shared", "to exclusive"])
def test_a_router_that_has_not_heard_of_a_type_writes_nothing_of_the_old_one(redis_server, start_on, kinds):
    env = {"TIER_CONFIG": json.dumps(flipped(kinds[0])), "TIER_REFRESH_INTERVAL": "24h", "RECONCILE_INTERVAL": "24h",
           "CLEANUP_INTERVAL": "24h", "STATIC_PODS": "agent-0,agent-1"}  # fmt: skip
    first, second = start_on(redis_server, env), start_on(redis_server, env)
    client = redis_server.client()
    wait_until(lambda: len(lists_of(client, "gold")[1]) == 2, "the pods are there")
    for sid in ("CA1", "CA2"):
        first.allocate(sid)
    assert first.put("/api/v1/tiers", flipped(kinds[1])).status_code == 200
    for step in (
        lambda: second.release("CA1"),
        lambda: second.post("/api/v1/drain", {"pod_name": "agent-0"}),
        lambda: first.put("/api/v1/tiers", flipped(kinds[0])),
        lambda: second.post("/api/v1/undrain", {"pod_name": "agent-0"}),
        lambda: first.put("/api/v1/tiers", flipped(kinds[1])),
        lambda: second.post("/api/v1/pod/agent-1/heartbeat", {"call_sids": ["CB1"]}),
        lambda: first.put("/api/v1/tiers", flipped(kinds[0])),
        lambda: second.release("CA2"),
        lambda: first.put("/api/v1/tiers", flipped(kinds[1])),
        lambda: second.get("/api/v1/status"),
    ):
        answer = step()
        assert isinstance(answer, dict) or answer.status_code == 200, answer.text
        stored = json.loads(client.get("voice:tier:config"))["tiers"]["gold"]["type"]
        assert lists_of(client, "gold")[0] in ("none", {"exclusive": "set", "shared": "zset"}[stored])
    assert client.scard("voice:pods:out") == 0


def test_the_version_of_the_tiers_follows_what_is_stored(redis_server, start_on):
    router = start_on(redis_server, {"TIER_CONFIG": FIRST, "TIER_REFRESH_INTERVAL": "100ms"})
    client = redis_server.client()
    versions = lambda: sorted(client.keys("voice:tier:version*"))
    wanted = lambda text: ["voice:tier:version", "voice:tier:version:" + hashlib.sha1(text.encode()).hexdigest()]
    assert versions() == wanted(FIRST)
    assert router.put("/api/v1/tiers", SECOND).status_code == 200
    assert versions() == wanted(client.get("voice:tier:config"))
    client.set("voice:tier:config", FIRST)  # by hand
    wait_until(lambda: versions() == wanted(FIRST), "it is noticed")
    wait_until(lambda: router.get("/api/v1/status").json()["tiers"]["gold"]["available"] == 3, "the pods are back")
    client.set("voice:tier:config", "{nonsense")  # the old tiers stay, and calls are served with them
    wait_until(lambda: versions() == wanted("{nonsense"), "it is noticed")
    router.allocate("CA1")
    assert router.release("CA1")["released_to_pool"] == "pool:gold"
    client.delete(*versions())
    router.allocate("CA1")  # and they come back when somebody misses them
    assert versions() == wanted("{nonsense")
