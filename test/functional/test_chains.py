"""Which pools a call tries, and in which order: every row of the table of chains, on real pods."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

TIERS = {
    "tiers": {
        "gold": {"target": 1},
        "standard": {"target": 1},
        "basic": {"type": "shared", "target": 1, "max_concurrent": 2},
        "vip": {"target": 1},
        "9shines": {"target": 1},
        "merchant:acme": {"target": 1},
    },
    "default_chain": ["gold", "standard", "basic"],
}
PODS = ",".join(f"pod-{i}" for i in range(6))

GOLD, STANDARD, BASIC, VIP = ["pool:gold"], ["pool:standard"], ["pool:basic"] * 2, ["merchant:vip"]
NINE, ACME = ["merchant:9shines"], ["merchant:acme"]
DEFAULT = GOLD + STANDARD + BASIC

CHAINS = [
    (None, DEFAULT),
    ({"tier": "gold"}, DEFAULT),
    ({"tier": "standard"}, STANDARD + BASIC),
    ({"tier": "vip"}, VIP + DEFAULT),
    ({"tier": "merchant:vip"}, VIP + DEFAULT),
    ({"pool": "9shines"}, NINE + DEFAULT),
    ({"pool": "9shines", "tier": "dedicated"}, NINE + DEFAULT),
    ({"fallback": ["standard", "basic"]}, STANDARD + BASIC),
    ({"fallback": ["standard", "nothing", "basic"]}, STANDARD + BASIC),
    ({"fallback": ["nothing"]}, []),
    ({"fallback": []}, DEFAULT),
    ({"fallback": ["acme", "vip"]}, ACME + VIP),
    ({"pool": "acme", "fallback": ["none"]}, ACME),
    ({"pool": "acme", "fallback": ["gold"]}, ACME + GOLD),
]


def fill(router, merchant_id):
    """Allocates until there is no pod; returns the pools in the order in which they were used."""
    pools = []
    while True:
        answer = router.post(
            "/api/v1/allocate", {"call_sid": f"CA-{len(pools)}", "merchant_id": merchant_id}
        )
        if answer.status_code == 503:
            return pools
        assert answer.status_code == 200, answer.text
        pools.append(answer.json()["source_pool"])
        assert len(pools) < 20


def refused_chain(router, call_sid):
    return [step["pool"] for step in router.get(f"/api/v1/call/{call_sid}").json()["refusal"]["chain"]]


@pytest.mark.parametrize("config,expected", CHAINS, ids=[json.dumps(config) for config, _ in CHAINS])
def test_a_merchant_walks_its_chain(start_router, config, expected):
    router = start_router({"TIER_CONFIG": json.dumps(TIERS), "STATIC_PODS": PODS})
    if config is not None:
        assert router.put("/api/v1/merchants/m1", config).status_code == 200
    assert fill(router, "m1") == expected
    tried = refused_chain(router, f"CA-{len(expected)}")
    in_order = list(dict.fromkeys(pool.removeprefix("pool:") for pool in expected))
    assert tried == in_order


def documented_chains():
    """{configuration: its chain} by the table of docs/TIERS.md."""
    section = (ROOT / "docs" / "TIERS.md").read_text().split("## The chain of a merchant")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`\{.*?\}`|none,.*?) \| (.*?) \|$", section, re.M)
    chains, before = {}, ""
    for config, text in rows:
        text = before if text.startswith("the same") else text
        names = re.split(r"[;:] ", text)[0]
        chains["null" if config.startswith("none") else config.strip("`")] = [] if names == "none" else names.split(", ")
        before = text
    return chains


def test_the_chains_of_the_documentation_are_those_of_the_tests():
    tested = {
        json.dumps(config, separators=(",", ":")): list(dict.fromkeys(pool.removeprefix("pool:") for pool in expected))
        for config, expected in CHAINS
    }
    documented = documented_chains()
    assert len(documented) == 12
    assert {config: tested.get(config) for config in documented} == documented


def test_a_merchant_without_an_id_gets_the_default_chain(start_router):
    router = start_router({"TIER_CONFIG": json.dumps(TIERS), "STATIC_PODS": PODS})
    assert fill(router, "") == DEFAULT


def test_a_merchants_configuration_counts_for_the_next_call(router):
    assert router.allocate("CA1", merchant_id="m1")["source_pool"] == "pool:gold"
    router.release("CA1")
    router.put("/api/v1/merchants/m1", {"tier": "standard"})
    assert router.allocate("CA2", merchant_id="m1")["source_pool"] == "pool:standard"
    router.put("/api/v1/merchants/m1", {"tier": "gold"})
    assert router.allocate("CA3", merchant_id="m1")["source_pool"] == "pool:gold"
    router.delete("/api/v1/merchants/m1")
    assert router.allocate("CA4", merchant_id="m1")["source_pool"] == "pool:standard"


def test_a_reserved_tier_serves_only_merchants_that_name_it(start_router):
    tiers = {"gold": {"target": 1, "reserved": True}, "standard": {"target": 1}}
    router = start_router({"TIER_CONFIG": json.dumps(tiers), "STATIC_PODS": "pod-0,pod-1"})
    router.put("/api/v1/merchants/golden", {"tier": "gold"})
    assert router.allocate("CA1")["source_pool"] == "pool:standard"
    refused = router.post("/api/v1/allocate", {"call_sid": "CA2"})
    assert refused.status_code == 503
    assert refused_chain(router, "CA2") == ["standard"]
    assert router.allocate("CA3", merchant_id="golden")["source_pool"] == "pool:gold"


def test_a_dedicated_pool_that_is_not_configured_is_named_in_the_refusal(start_router):
    router = start_router({"STATIC_PODS": None, "POD_SOURCE": "api"})
    router.put("/api/v1/merchants/m1", {"pool": "9shines"})
    assert router.post("/api/v1/allocate", {"call_sid": "CA1", "merchant_id": "m1"}).status_code == 503
    chain = router.get("/api/v1/call/CA1").json()["refusal"]["chain"]
    assert (chain[0]["pool"], chain[0]["is_configured"]) == ("merchant:9shines", False)
    assert [step["pool"] for step in chain[1:]] == ["gold", "standard", "basic"]


def test_a_dedicated_pool_takes_nobody_else(start_router):
    router = start_router({"TIER_CONFIG": json.dumps(TIERS), "STATIC_PODS": PODS})
    router.put("/api/v1/merchants/nine", {"pool": "9shines"})
    assert "merchant:9shines" not in fill(router, "other")
    assert router.allocate("CA-nine", merchant_id="nine")["source_pool"] == "merchant:9shines"


def test_a_shared_tier_outside_the_chain_is_an_ordinary_one(start_router):
    tiers = {"tiers": {"gold": 1, "hall": {"type": "shared", "target": 1, "max_concurrent": 2}}, "default_chain": ["gold"]}
    router = start_router({"TIER_CONFIG": json.dumps(tiers), "STATIC_PODS": "a,b"})
    assert fill(router, "") == ["pool:gold"]
    router.release("CA-0")
    router.put("/api/v1/merchants/m1", {"tier": "hall"})
    assert fill(router, "m1") == ["pool:hall", "pool:hall", "pool:gold"]


def test_a_pod_may_ask_for_a_merchants_pool_in_either_spelling(start_router):
    router = start_router({"TIER_CONFIG": json.dumps(TIERS), "STATIC_PODS": None, "POD_SOURCE": "api"})
    for pod, tier in (("a", "9shines"), ("b", "merchant:9shines")):
        answer = router.post("/api/v1/pods", {"pod_name": pod, "address": "127.0.0.1:9000", "tier": tier})
        assert (answer.status_code, answer.json()["tier"]) == (200, "merchant:9shines"), answer.text


def test_a_restart_compares_what_the_tiers_mean(start_router, tmp_path):
    """The stored text is another one than TIER_CONFIG; only other tiers are worth a warning."""
    begin = "TIER_CONFIG differs from the stored tiers, and the stored ones are in force; to apply TIER_CONFIG, send it"
    same = {"tiers": {"basic": {"target": 1}, "9shines": 2}, "default_chain": ["basic"]}
    for config, differs in (({"basic": 1, "merchant:9shines": 2}, False), (same, False), ({"basic": 2}, True)):
        router = start_router({"TIER_CONFIG": json.dumps(config)}, data_dir=tmp_path / "data")
        warnings = [line for line in router.log_lines() if line["msg"].startswith(begin)]
        assert bool(warnings) == differs
        if differs:
            assert warnings[0]["level"] == "warn" and warnings[0]["tier_config"]["tiers"]["basic"]["target"] == 2
            assert warnings[0]["stored"]["tiers"]["basic"]["target"] == 1
        router.stop()


@pytest.mark.parametrize(
    "config",
    [
        {"gold": 1, "standard": 1, "basic": 1},
        {"gold": {"target": 1}, "standard": {"target": 1}, "basic": {"target": 1}},
        {"tiers": {"gold": {"target": 1}, "standard": {"target": 1}, "basic": {"target": 1}}},
    ],
    ids=["integers", "flat", "envelope"],
)
def test_the_tier_configuration_has_three_forms(start_router, config):
    router = start_router({"TIER_CONFIG": json.dumps(config), "STATIC_PODS": "a,b,c"})
    assert sorted(fill(router, "")) == ["pool:basic", "pool:gold", "pool:standard"]


def test_shared_pods_get_the_least_loaded_first(start_router):
    tiers = {"basic": {"type": "shared", "target": 2, "max_concurrent": 3}}
    router = start_router({"TIER_CONFIG": json.dumps(tiers), "STATIC_PODS": "a,b"})
    pods = [router.allocate(f"CA{i}")["pod_name"] for i in range(6)]
    assert [sorted(pods[i : i + 2]) for i in (0, 2, 4)] == [["a", "b"]] * 3


def calls_of(router):
    return {call["call_sid"]: (call["pod_name"], call["source_pool"]) for call in router.get("/api/v1/calls").json()["calls"]}


LIVE = {
    "a target": {"gold": 0, "basic": {"type": "shared", "target": 3, "max_concurrent": 2}},
    "fewer calls per pod": {"gold": 1, "basic": {"type": "shared", "target": 1, "max_concurrent": 1}},
    "shared becomes exclusive": {"gold": 1, "basic": 1},
    "exclusive becomes shared": {"gold": {"type": "shared", "target": 1}, "basic": {"type": "shared", "max_concurrent": 2}},
    "tiers are removed": {"other": 1},
    "another chain": {"tiers": {"gold": {"reserved": True}, "basic": {"type": "shared"}}, "default_chain": ["basic", "gold"]},
}


@pytest.mark.parametrize("tiers", LIVE.values(), ids=LIVE)
def test_no_change_of_the_tiers_ends_or_moves_a_live_call(start_router, tiers):
    """docs/TIERS.md, What a change does to live calls."""
    start = {"gold": 1, "basic": {"type": "shared", "target": 1, "max_concurrent": 2}}
    router = start_router({"TIER_CONFIG": json.dumps(start), "STATIC_PODS": "a,b", "RECONCILE_INTERVAL": "200ms"})
    assert fill(router, "") == ["pool:gold", "pool:basic", "pool:basic"]
    before = calls_of(router)
    assert router.put("/api/v1/tiers", tiers).status_code == 200
    assert calls_of(router) == before
    full = {"fewer calls per pod", "shared becomes exclusive", "tiers are removed", "a target"}
    is_full = any(LIVE[name] is tiers for name in full)
    answer = router.post("/api/v1/allocate", {"call_sid": "CA-new"})
    assert answer.status_code == (503 if is_full else 200), answer.text
    assert {sid: call for sid, call in calls_of(router).items() if sid != "CA-new"} == before
    for sid in before:
        router.release(sid)


def test_a_change_of_a_merchant_moves_no_live_call(router):
    router.allocate("CA1", merchant_id="m1")
    before = calls_of(router)
    assert router.put("/api/v1/merchants/m1", {"fallback": ["standard"]}).status_code == 200
    assert calls_of(router) == before and router.allocate("CA1", merchant_id="m1")["was_existing"]
    assert router.allocate("CA2", merchant_id="m1")["source_pool"] == "pool:standard"
    assert router.delete("/api/v1/merchants/m1").status_code == 200
    assert {**before, **calls_of(router)} == calls_of(router)
