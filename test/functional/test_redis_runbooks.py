"""The runbooks that operators have: every command as it is written there, typed into redis-cli."""

import shlex

import pytest
from conftest import wait_until

TIERS = """{"tiers": {"gold": {"target": 1}, "standard": {"target": 2},
 "basic": {"type": "shared", "target": 1, "max_concurrent": 3}, "merchant:9shines": {"target": 1}},
 "default_chain": ["gold", "standard", "basic"]}"""
# Nothing is repaired by a sync while a sweep is to show what it does.
NO_SYNC = {"RECONCILE_INTERVAL": "24h"}


@pytest.fixture
def site(redis_server, start_on):
    """site(env) -> (router, redis): five pods: one gold, two standard, one shared, one of the merchant 9shines."""

    def start(env=None):
        router = start_on(redis_server, {"TIER_CONFIG": TIERS, **(env or {})})

        def cli(line, **kwargs):
            return redis_server.cli(*shlex.split(line), **kwargs)

        wait_until(lambda: len(available(router)) == 5, "all pods are available")
        return router, cli

    return start


def available(router):
    return {pod["pod_name"] for pod in pods(router).values() if pod["state"] == "available"}


def pods(router):
    return {pod["pod_name"]: pod for pod in router.get("/api/v1/pods?limit=1000").json()["pods"]}


def pod_of(router, tier):
    return next(name for name, pod in sorted(pods(router).items()) if pod["tier"] == tier)


def test_inspection(site):
    router, cli = site()
    gold = pod_of(router, "gold")
    shared = pod_of(router, "basic")
    standard = sorted(name for name, pod in pods(router).items() if pod["tier"] == "standard")
    assert cli("SCARD voice:pool:gold:available") == ["1"]
    assert cli("SCARD voice:pool:standard:available") == ["2"]
    assert cli("ZCARD voice:pool:basic:available") == ["1"]
    assert cli("SMEMBERS voice:pool:gold:available") == [gold]
    assert sorted(cli("SMEMBERS voice:pool:standard:available")) == standard
    assert cli("ZRANGE voice:pool:basic:available 0 -1 WITHSCORES") == [shared, "0"]
    assert cli("SMEMBERS voice:pool:gold:assigned") == [gold]
    assert sorted(cli("SMEMBERS voice:pool:standard:assigned")) == standard
    assert cli(f"GET voice:pod:tier:{gold}") == ["gold"]
    assert cli("SMEMBERS voice:merchant:9shines:assigned") == [pod_of(router, "merchant:9shines")]
    assert cli('KEYS "voice:call:*"') == cli('KEYS "voice:lease:*"') == []

    assert router.allocate("call-abc123", merchant_id="acme")["pod_name"] == gold
    assert cli('KEYS "voice:call:*"') == ["voice:call:call-abc123"]
    assert cli('KEYS "voice:lease:*"') == [f"voice:lease:{gold}"]
    assert cli(f"GET voice:lease:{gold}") == ["call-abc123"]
    call = cli("HGETALL voice:call:call-abc123")
    assert dict(zip(call[::2], call[1::2]))["pod_name"] == gold
    pod = cli(f"HGETALL voice:pod:{gold}")
    assert dict(zip(pod[::2], pod[1::2]))["allocated_call_sid"] == "call-abc123"

    router.post("/api/v1/drain", {"pod_name": standard[0]})
    assert cli('KEYS "voice:pod:draining:*"') == [f"voice:pod:draining:{standard[0]}"]
    metadata = cli("HGETALL voice:pod:metadata")
    assert dict(zip(metadata[::2], metadata[1::2]))[gold] == f'{{"tier":"gold","name":"{gold}"}}'
    assert set(cli("KEYS 'voice:*'")) > set(cli("KEYS 'voice:pool:*'"))


def test_merchant_config_counts_from_the_next_call(site):
    router, cli = site()
    assert router.allocate("CA0", merchant_id="9shines")["source_pool"] == "pool:gold"
    router.release("CA0")
    cli("""HSET voice:merchant:config 9shines '{"tier":"dedicated","pool":"9shines"}'""")
    assert router.allocate("CA1", merchant_id="9shines")["source_pool"] == "merchant:9shines"
    cli("""HSET voice:merchant:config acme-corp '{"tier":"standard"}'""")
    assert router.allocate("CA2", merchant_id="acme-corp")["source_pool"] == "pool:standard"
    cli("""HSET voice:merchant:config acme-corp '{"tier":"gold"}'""")
    assert router.allocate("CA3", merchant_id="acme-corp")["source_pool"] == "pool:gold"
    router.release("CA3")
    lines = cli("HGETALL voice:merchant:config")
    assert dict(zip(lines[::2], lines[1::2])) == {
        "9shines": '{"tier":"dedicated","pool":"9shines"}',
        "acme-corp": '{"tier":"gold"}',
    }
    assert router.get("/api/v1/merchants/acme-corp").json() == {"tier": "gold"}
    cli("""HSET voice:merchant:config acme-corp '{"tier":"standard"}'""")
    cli("HDEL voice:merchant:config acme-corp")
    assert router.allocate("CA4", merchant_id="acme-corp")["source_pool"] == "pool:gold"  # as without config
    router.release("CA1")
    assert router.get("/api/v1/status").json()["pools"]["merchant:9shines:available"] == 1


@pytest.mark.parametrize("config", ["{nonsense", '"gold"', '{"tier":7}', ""])
def test_merchant_config_with_a_slip_of_the_pen_counts_as_none(site, redis_server, config):
    router, _ = site()
    redis_server.client().hset("voice:merchant:config", "m", config)
    assert router.allocate("CA1", merchant_id="m")["source_pool"] == "pool:gold"
    warnings = lambda: [line for line in router.log_lines() if line["level"] == "warn" and line.get("merchant") == "m"]
    wait_until(warnings, "it is said")


@pytest.mark.parametrize("tier", ["standard", "basic", "merchant:9shines"])
def test_manual_undrain(site, tier):
    router, cli = site(NO_SYNC)
    pod = pod_of(router, tier)
    router.post("/api/v1/drain", {"pod_name": pod})
    assert pod not in available(router)
    assert cli(f"DEL voice:pod:draining:{pod}") == ["1"]
    wait_until(lambda: pod in available(router), "the next sweep brings it back")


@pytest.mark.parametrize("tier", ["standard", "basic", "merchant:9shines"])
def test_a_draining_flag_that_was_set_by_hand(site, tier):
    router, cli = site(NO_SYNC)
    router.put("/api/v1/merchants/m", {"fallback": [tier]})
    others = [name for name, pod in pods(router).items() if pod["tier"] == tier][1:]
    pod = pod_of(router, tier)
    for other in others:
        router.post("/api/v1/drain", {"pod_name": other})
    cli(f"SET voice:pod:draining:{pod} true EX 360")
    refused = router.post("/api/v1/allocate", {"call_sid": "CA1", "merchant_id": "m"})
    assert refused.status_code == 503, refused.text
    assert router.get(f"/api/v1/pod/{pod}").json()["is_draining"]
    cli(f"DEL voice:pod:draining:{pod}")
    wait_until(lambda: pod in available(router), "the next sweep brings it back")
    assert router.allocate("CA1", merchant_id="m")["pod_name"] == pod


def test_a_draining_flag_that_runs_out(site):
    router, cli = site(NO_SYNC)
    pod = pod_of(router, "gold")
    cli(f"SET voice:pod:draining:{pod} true PX 700")
    answer = router.allocate("CA1")
    assert answer["pod_name"] != pod
    wait_until(lambda: pod in available(router), "it comes back by itself")
    assert router.allocate("CA2")["pod_name"] == pod


@pytest.mark.parametrize("tier", ["gold", "merchant:9shines", "basic"])
def test_force_reset_of_a_pod(site, tier):
    router, cli = site()
    router.put("/api/v1/merchants/m", {"fallback": [tier]})
    pod = router.allocate("stuck-call", merchant_id="m")["pod_name"]
    cli(f"DEL voice:lease:{pod}")
    cli("DEL voice:call:stuck-call")
    cli(f"HSET voice:pod:{pod} status available")
    cli(f"HDEL voice:pod:{pod} allocated_call_sid allocated_at")
    if tier == "basic":
        wait_until(lambda: cli(f"ZSCORE voice:pool:basic:available {pod}") == ["0"], "it is back")
    else:
        key = "voice:pool:gold:available" if tier == "gold" else "voice:merchant:9shines:pods"
        wait_until(lambda: cli(f"SISMEMBER {key} {pod}") == ["1"], "it is back")
    assert pods(router)[pod]["calls"] == [] and pod in available(router)
    wait_until(lambda: router.get("/api/v1/status").json()["active_calls"] == 0, "the call is forgotten")
    assert router.get("/api/v1/call/stuck-call").status_code == 404
    assert router.post("/api/v1/release", {"call_sid": "stuck-call"}).status_code == 404
    assert router.allocate("next-call", merchant_id="m")["pod_name"] == pod
    if tier == "basic":
        assert cli("ZRANGE voice:pool:basic:available 0 -1 WITHSCORES") == [pod, "1"]


def test_force_reset_of_a_shared_pod_keeps_its_other_calls(site):
    router, cli = site()
    router.put("/api/v1/merchants/m", {"fallback": ["basic"]})
    pod = router.allocate("CA1", merchant_id="m")["pod_name"]
    router.allocate("stuck-call", merchant_id="m")
    cli(f"DEL voice:lease:{pod}")
    cli("DEL voice:call:stuck-call")
    score = lambda: cli("ZRANGE voice:pool:basic:available 0 -1 WITHSCORES")
    wait_until(lambda: score() == [pod, "1"], "only the other call counts")
    assert router.allocate("CA1", merchant_id="m")["was_existing"]
    assert router.release("CA1")["pod_name"] == pod
    assert score() == [pod, "0"]


def test_a_late_release_after_a_force_reset_frees_nobody_elses_slot(site):
    """The lease alone was deleted, and the pod has another call by the time the first one ends."""
    router, cli = site()
    pod = router.allocate("CA1")["pod_name"]
    cli(f"DEL voice:lease:{pod}")
    wait_until(lambda: cli(f"SISMEMBER voice:pool:gold:available {pod}") == ["1"], "it is back")
    assert router.allocate("CA2")["pod_name"] == pod
    router.post("/api/v1/release", {"call_sid": "CA1"})
    assert pods(router)[pod]["calls"] == ["CA2"]
    assert pod not in available(router)
    assert router.allocate("CA3")["pod_name"] != pod


def test_full_reset(site, redis_server):
    router, cli = site()
    router.allocate("CA1")
    router.put("/api/v1/merchants/m", {"tier": "gold"})
    router.post("/api/v1/drain", {"pod_name": pod_of(router, "basic")})
    names = set(pods(router))
    for key in cli('KEYS "voice:*"'):
        cli(f"DEL {shlex.quote(key)}")
    # A sync, and sweeps, may have begun between two of the deletions. The next ones find what these left behind.
    tiers = lambda: sorted(pod["tier"] for pod in pods(router).values())
    expected = ["basic", "gold", "merchant:9shines", "standard", "standard"]
    wait_until(lambda: tiers() == expected and available(router) == names, "the pools are rebuilt by a sync")
    assert router.get("/api/v1/merchants").json()["merchants"] == {}
    wait_until(lambda: router.get("/api/v1/status").json()["active_calls"] == 0, "the call is forgotten")
    assert not router.allocate("CA1")["was_existing"]


def test_full_reset_the_faster_way(site, redis_server):
    router, cli = site()
    router.allocate("CA1")
    names = set(pods(router))
    keys = redis_server.cli("--scan", "--pattern", "voice:*")
    assert len(keys) > 10
    redis_server.cli("DEL", *keys)
    wait_until(lambda: available(router) == names, "the pools are rebuilt by a sync")


def test_a_pod_in_the_lists_of_two_tiers_is_counted_in_its_own(site):
    """As after keys were deleted one after the other while a sync ran: it counted in both tiers, and one of them got no other pod."""
    router, cli = site()
    pod = pod_of(router, "standard")
    for key in ("voice:pool:gold:available", "voice:pool:gold:assigned", "voice:merchant:9shines:assigned"):
        assert cli(f"SADD {key} {pod}") == ["1"]
    assert cli("SADD voice:pool:standard:assigned nobody") == ["1"]
    wait_until(lambda: cli("SCARD voice:pool:gold:assigned") == ["1"], "the next sync counts it once")
    wait_until(lambda: cli("SCARD voice:merchant:9shines:assigned") == ["1"], "in a merchant's pool, too")
    wait_until(lambda: cli("SCARD voice:pool:standard:assigned") == ["2"], "a pod that does not exist is not counted")
    assert cli(f"SISMEMBER voice:pool:gold:available {pod}") == ["0"]
    assert pods(router)[pod]["tier"] == "standard" and len(available(router)) == 5


GOLD = "voice:pool:gold:available"
ANY = ["voice:pods", "voice:pool:standard:assigned", "voice:calls:active", "voice:pods:names", "voice:pod:metadata"]


@pytest.mark.parametrize("key", [GOLD, "voice:pool:basic:available", "voice:tiers:used", *ANY])
def test_one_key_that_was_deleted_comes_back(site, key):
    """Not in any runbook, but it happens: nothing is lost for longer than a sync, and no call ends."""
    router, cli = site()
    router.put("/api/v1/merchants/m", {"fallback": ["basic"]})
    router.put("/api/v1/merchants/n", {"fallback": ["standard"]})
    calls = {sid: router.allocate(sid, merchant_id=sid[0])["pod_name"] for sid in ("m1", "m2", "n1")}
    assert cli(f"DEL {key}") == ["1"]
    wait_until(lambda: cli(f"EXISTS {key}") == ["1"], "it is back")
    wait_until(lambda: cli("SCARD voice:pool:standard:available") == ["1"], "the free pods are in their pools")
    wait_until(lambda: cli("ZRANGE voice:pool:basic:available 0 -1 WITHSCORES") == [calls["m1"], "2"], "the others too")
    assert len(pods(router)) == 5
    for sid, pod in calls.items():
        again = router.allocate(sid)
        assert (again["pod_name"], again["was_existing"]) == (pod, True)
    assert router.get("/api/v1/status").json()["active_calls"] == 3
    for sid, pod in calls.items():
        assert router.release(sid)["pod_name"] == pod
    assert len(available(router)) == 5
