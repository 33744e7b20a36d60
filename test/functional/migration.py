"""An installation of the first implementation for the tests of migration, and what they look at."""

import first_router
import redis_servers
from conftest import wait_until
from first_router import Refused
from test_redis_leader import leads, syncs

STORED = {
    "tiers": {
        "gold": {"type": "exclusive", "target": 2},
        "standard": {"type": "exclusive", "target": 3},
        "basic": {"type": "shared", "target": 2, "max_concurrent": 3},
        "9shines": {"type": "exclusive", "target": 2},
    },
    "default_chain": ["gold", "standard", "basic"],
}
PLAIN = {**STORED, "tiers": {name: tier for name, tier in STORED["tiers"].items() if name != "9shines"}}
PODS = [f"agent-{i}" for i in range(9)]
MERCHANTS = {
    "nine": '{"tier":"dedicated","pool":"9shines","fallback":["__nonexistent__"]}',
    "gold": '{"fallback":["gold"]}',
    "standard": '{"fallback":["standard"]}',
    "basic": '{"fallback":["basic"]}',
}
OF_TIER = {"merchant:9shines": "nine", "gold": "gold", "standard": "standard", "basic": "basic"}
KINDS = ["gold", "merchant:9shines", "basic"]
OTHER = "the-first-implementation"
SWEEP_ONLY = {"CLEANUP_INTERVAL": "1s", "RECONCILE_INTERVAL": "1h"}


def installation(start_first, tiers, **options):
    """Its `home` says which pods each tier has."""
    first = start_first(tiers=tiers, refresh_s=0, **options)
    first.full_sync(PODS)
    first.redis.hset(first_router.MERCHANTS, mapping=MERCHANTS)
    first.redis.set(first_router.LEADER, OTHER, ex=600)
    first.home = {}
    for pod in PODS:
        first.home.setdefault(first.redis.get(first_router.tier_key(pod)), set()).add(pod)
    return first


def room(first):
    """How many calls it has room for."""
    return sum(len(pods) * (3 if tier == "basic" else 1) for tier, pods in first.home.items())


def hand_over(first, router):
    """Ours leads from now on; returns it when it has looked at everything."""
    before = syncs(router)
    first.redis.delete(first_router.LEADER)
    wait_until(lambda: leads(router), "ours leads")
    wait_until(lambda: syncs(router) > before + 1, "it has looked at everything")
    return router


def hand_back(first, router):
    first.redis.set(first_router.LEADER, OTHER, ex=600)
    wait_until(lambda: leads(router) is False, "ours does not lead any more")


def pass_syncs(router, count=4):
    before = syncs(router)
    wait_until(lambda: syncs(router) >= before + count, "several syncs")


def lists(first):
    """Every list of pods and its members, with their scores."""
    found = redis_servers.keyspace(first.redis, "voice:pool:*")
    found.update(redis_servers.keyspace(first.redis, "voice:merchant:*:*"))
    return found


def listed(first, tier):
    key = first_router.available_key(tier)
    if tier == "basic":
        return dict(first.redis.zrange(key, 0, -1, withscores=True))
    return first.redis.smembers(key)


def all_free(first):
    for tier, pods in first.home.items():
        if listed(first, tier) != (dict.fromkeys(pods, 0) if tier == "basic" else pods):
            return False
    return True


def ask(router, call_sid, merchant=""):
    body = {"call_sid": call_sid, **({"merchant_id": merchant} if merchant else {})}
    return router.post("/api/v1/allocate", body)


def fill_first(first, prefix="first", merchants=("", "nine")):
    """Its calls, until it has no pod left: call -> pod."""
    calls = {}
    for merchant in merchants:
        for n in range(100):
            call_sid = f"{prefix}-{merchant}-{n}"
            try:
                calls[call_sid] = first.allocate(call_sid, merchant)["pod_name"]
            except Refused:
                first.redis.delete(first_router.call_key(call_sid))  # its lock, which would run out in 30 s
                break
    return calls


def fill_ours(router, prefix="ours", merchants=("", "nine")):
    calls = {}
    for merchant in merchants:
        for n in range(100):
            answer = ask(router, f"{prefix}-{merchant}-{n}", merchant)
            if answer.status_code == 503:
                break
            assert answer.status_code == 200, answer.text
            calls[f"{prefix}-{merchant}-{n}"] = answer.json()["pod_name"]
    return calls


def all_keep_their_pods(router, calls):
    for call_sid, pod in calls.items():
        answer = ask(router, call_sid)
        assert answer.status_code == 200, (call_sid, answer.text)
        assert (answer.json()["pod_name"], answer.json()["was_existing"]) == (pod, True), call_sid


def left_of_calls(first):
    """Keys that there are only while there are calls. A lock of the first implementation runs out by itself."""
    patterns = ("voice:call:*", "voice:lease:*", "voice:pod:calls:*", "voice:pod:*:calls", "voice:calls:active")
    found = {}
    for pattern in patterns:
        found.update(redis_servers.keyspace(first.redis, pattern))
    return {key: value for key, value in found.items() if value != {"_lock": "1"}}
