"""The API as a new user walks through it: the router on one machine, five pods, nothing else."""

import re
from concurrent.futures import ThreadPoolExecutor

from conftest import wait_until

DEFAULT_URL = "ws://localhost:8080/ws/pod/{pod}/agent/voice/breeze-buddy/twilio/callback/order-confirmation/v2"


def pools_of(router, count, prefix="CA-fill", **fields):
    return [router.allocate(f"{prefix}-{i}", **fields)["source_pool"] for i in range(count)]


def test_allocate_gives_a_pod_with_its_url(router):
    answer = router.allocate("CA1")
    assert answer["success"] is True
    assert answer["pod_name"].startswith("voice-agent-")
    assert answer["ws_url"] == DEFAULT_URL.format(pod=answer["pod_name"])
    assert answer["source_pool"] == "pool:gold"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", answer["allocated_at"])
    assert answer["was_existing"] is False
    assert set(answer) == {"success", "pod_name", "ws_url", "source_pool", "allocated_at", "was_existing"}


def test_allocate_again_gives_the_same_pod(router):
    first = router.allocate("CA1")
    second = router.allocate("CA1")
    assert second["was_existing"] is True
    assert {**second, "was_existing": False} == first
    assert router.get("/api/v1/status").json()["active_calls"] == 1


def test_many_requests_at_once_for_one_call_give_one_pod(router):
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(router.allocate, ["CA1"] * 64))
    assert len({answer["pod_name"] for answer in answers}) == 1
    assert [answer["was_existing"] for answer in answers].count(False) == 1
    assert router.get("/api/v1/calls").json()["total"] == 1


def test_many_calls_at_once_never_share_an_exclusive_pod(router):
    def ask(number):
        return router.post("/api/v1/allocate", {"call_sid": f"CA{number}"})

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(ask, range(40)))
    given = [answer.json() for answer in answers if answer.status_code == 200]
    assert len(given) == 7
    assert [answer.status_code for answer in answers].count(503) == 33
    exclusive = [answer["pod_name"] for answer in given if answer["source_pool"] != "pool:basic"]
    assert len(set(exclusive)) == len(exclusive) == 4


def test_allocate_again_with_other_parameters_rebuilds_the_url(router):
    pod = router.allocate("CA1")["pod_name"]
    again = router.allocate("CA1", provider="plivo", template="survey", flow="v1")
    assert again["was_existing"] is True
    assert again["ws_url"] == f"ws://localhost:8080/ws/pod/{pod}/agent/voice/breeze-buddy/plivo/callback/survey"


def test_allocate_defaults_depend_on_the_provider(router):
    assert "/exotel/callback/template/v2" in router.allocate("CA1", provider="exotel")["ws_url"]


def test_allocate_percent_encodes_what_goes_into_the_url(router):
    url = router.allocate("CA1", template='a/b?c#d"<é>')["ws_url"]
    assert url.endswith("/callback/a%2Fb%3Fc%23d%22%3C%C3%A9%3E/v2")


def test_url_template_may_use_every_placeholder(start_router):
    router = start_router(
        {
            "VOICE_AGENT_BASE_URL": "wss://voice.example.com/",
            "WS_URL_TEMPLATE": "{base}/{pod}/{provider}/{template}{flow_suffix}/{call_sid}/{merchant}",
        }
    )
    answer = router.allocate("CA:1", merchant_id="m@1")
    assert answer["ws_url"] == (
        f"wss://voice.example.com/{answer['pod_name']}/twilio/order-confirmation/v2/CA%3A1/m%401"
    )


def test_release_gives_the_pod_back_once(router):
    pod = router.allocate("CA1")["pod_name"]
    assert router.release("CA1") == {
        "success": True,
        "pod_name": pod,
        "released_to_pool": "pool:gold",
        "was_draining": False,
    }
    again = router.post("/api/v1/release", {"call_sid": "CA1"})
    assert again.status_code == 404
    assert again.json() == {"success": False, "error": "call not found", "code": "not_found"}
    assert router.allocate("CA2")["pod_name"] == pod


def test_release_takes_any_reason(router):
    router.allocate("CA1")
    answer = router.post("/api/v1/release", {"call_sid": "CA1", "reason": "caller hung up " * 100})
    assert answer.status_code == 200
    router.allocate("CA2")
    assert router.post("/api/v1/release", {"call_sid": "CA2", "reason": 7}).status_code == 200


def test_drain_passes_the_pod_over_until_undrained(router):
    pod = router.allocate("CA1")["pod_name"]
    router.release("CA1")
    drained = router.post("/api/v1/drain", {"pod_name": pod})
    assert drained.status_code == 200
    assert drained.json()["success"] is True
    assert drained.json()["pod_name"] == pod
    assert drained.json()["has_active_call"] is False
    assert drained.json()["message"] == "Pod drained successfully"
    assert router.get(f"/api/v1/pod/{pod}").json()["state"] == "draining"
    past = router.allocate("CA2")
    assert past["pod_name"] != pod
    assert past["source_pool"] == "pool:standard"
    undrained = router.post("/api/v1/undrain", {"pod_name": pod})
    assert undrained.json() == {"success": True, "pod_name": pod}
    assert router.get(f"/api/v1/pod/{pod}").json()["state"] == "available"
    assert router.allocate("CA3")["pod_name"] == pod


def test_drain_keeps_the_call_and_its_release_says_so(router):
    pod = router.allocate("CA1")["pod_name"]
    assert router.post("/api/v1/drain", {"pod_name": pod}).json()["has_active_call"] is True
    assert router.get("/api/v1/call/CA1").json()["pod_name"] == pod
    assert router.release("CA1")["was_draining"] is True
    assert router.get(f"/api/v1/pod/{pod}").json()["is_draining"] is True


def test_drain_ends_by_itself_after_its_ttl(start_router):
    router = start_router({"CLEANUP_INTERVAL": "50ms"})
    assert router.post("/api/v1/drain", {"pod_name": "voice-agent-0", "ttl_seconds": 1}).status_code == 200
    assert router.get("/api/v1/pod/voice-agent-0").json()["state"] == "draining"
    wait_until(
        lambda: router.get("/api/v1/pod/voice-agent-0").json()["state"] == "available", "the drain is over"
    )


def test_undrain_of_a_pod_that_is_not_draining_is_fine(router):
    assert router.post("/api/v1/undrain", {"pod_name": "voice-agent-0"}).status_code == 200


def test_five_pods_and_the_default_tiers_take_exactly_seven_calls(router):
    status = router.get("/api/v1/status").json()
    assert status["pools"] == {
        "gold:available": 1,
        "gold:assigned": 1,
        "standard:available": 3,
        "standard:assigned": 3,
        "basic:available": 1,
        "basic:assigned": 1,
    }
    assert sum(tier["capacity"] for tier in status["tiers"].values()) == 7
    assert pools_of(router, 7) == ["pool:gold"] + ["pool:standard"] * 3 + ["pool:basic"] * 3
    full = router.post("/api/v1/allocate", {"call_sid": "CA-eighth"})
    assert full.status_code == 503
    assert full.json() == {"success": False, "error": "no pods available", "code": "no_pods"}
    assert int(full.headers["retry-after"]) >= 1
    assert router.get("/api/v1/status").json()["active_calls"] == 7
    router.release("CA-fill-0")
    assert router.allocate("CA-eighth")["source_pool"] == "pool:gold"


def test_no_exclusive_pod_carries_two_calls(router):
    pods = [router.allocate(f"CA{i}")["pod_name"] for i in range(7)]
    assert len(set(pods[:4])) == 4
    assert len(set(pods[4:])) == 1
    assert pods[4] not in pods[:4]


def test_a_refused_call_says_why(router):
    pools_of(router, 7)
    assert router.post("/api/v1/allocate", {"call_sid": "CA-no", "merchant_id": "m1"}).status_code == 503
    missing = router.get("/api/v1/call/CA-no")
    assert missing.status_code == 404
    assert missing.json()["error"] == "call not found"
    chain = missing.json()["refusal"]["chain"]
    assert [(step["pool"], step["pods"], step["busy"]) for step in chain] == [
        ("gold", 1, 1),
        ("standard", 3, 3),
        ("basic", 1, 1),
    ]
    assert all(step["available"] == step["draining"] == step["suspended"] == 0 for step in chain)
    assert missing.json()["refusal"]["at"].endswith("Z")
    (line,) = wait_until(lambda: router.log_lines("no pods available"), "the refusal is logged")
    assert line["level"] == "warn"
    assert line["call_sid"] == "CA-no"
    assert line["merchant"] == "m1"
    assert line["chain"] == "gold: 1 busy; standard: 3 busy; basic: 1 busy"


def test_status_tells_all_about_the_router(router):
    router.allocate("CA1")
    status = router.get("/api/v1/status").json()
    assert status["status"] == "up"
    assert status["store"] == "embedded"
    assert status["is_leader"] is True
    assert status["leader"] == status["identity"] != ""
    assert status["active_calls"] == 1
    assert status["pools"]["gold:available"] == 0
    assert status["pools"]["gold:assigned"] == 1
    gold = status["tiers"]["gold"]
    assert (gold["type"], gold["target"], gold["assigned"], gold["available"]) == ("exclusive", 1, 1, 0)
    assert (gold["calls"], gold["capacity"]) == (1, 1)
    basic = status["tiers"]["basic"]
    assert (basic["type"], basic["capacity"], basic["calls"]) == ("shared", 3, 0)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", status["version"])
    assert status["uptime_seconds"] >= 0


def test_status_names_merchant_pools(start_router):
    router = start_router({"TIER_CONFIG": '{"standard":{"target":1},"merchant:9shines":{"target":2}}'})
    pools = router.get("/api/v1/status").json()["pools"]
    assert pools["merchant:9shines:available"] == 2
    assert pools["merchant:9shines:assigned"] == 2


def test_pods_lists_filters_and_pages(router):
    pod = router.allocate("CA1")["pod_name"]
    everything = router.get("/api/v1/pods").json()
    assert everything["total"] == 5
    assert [p["pod_name"] for p in everything["pods"]] == [f"voice-agent-{i}" for i in range(5)]
    assert not everything["next_cursor"]
    assert [p["pod_name"] for p in router.get("/api/v1/pods?state=busy").json()["pods"]] == [pod]
    assert len(router.get("/api/v1/pods?tier=standard").json()["pods"]) == 3
    assert router.get("/api/v1/pods?tier=nothing").json()["pods"] == []
    seen, cursor = [], ""
    while True:
        page = router.get("/api/v1/pods", params={"limit": 2, "cursor": cursor}).json()
        assert len(page["pods"]) <= 2
        seen += [p["pod_name"] for p in page["pods"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert seen == [f"voice-agent-{i}" for i in range(5)]


def test_one_pod_shows_its_calls(router):
    for i in range(7):
        router.allocate(f"CA{i}")
    gold = router.get("/api/v1/pod/" + router.get("/api/v1/call/CA0").json()["pod_name"]).json()
    assert gold["tier"] == "gold"
    assert gold["state"] == "busy"
    assert gold["source"] == "static"
    assert gold["is_draining"] is False
    assert gold["is_ready"] is True
    assert gold["has_active_lease"] is True
    assert gold["lease_call_sid"] == "CA0"
    assert gold["calls"] == ["CA0"]
    shared = router.get("/api/v1/pod/" + router.get("/api/v1/call/CA6").json()["pod_name"]).json()
    assert sorted(shared["calls"]) == ["CA4", "CA5", "CA6"]
    assert shared["lease_call_sid"] == "CA6"


def test_static_pods_show_their_address(start_router):
    router = start_router({"STATIC_PODS": "a=127.0.0.1:9000,b"})
    assert router.get("/api/v1/pod/a").json()["address"] == "127.0.0.1:9000"
    assert router.get("/api/v1/pod/b").json()["address"] == ""


def test_calls_lists_and_pages(router):
    for i in range(5):
        router.allocate(f"CA{i}", merchant_id="m1", provider="plivo")
    call = router.get("/api/v1/call/CA3").json()
    assert (call["call_sid"], call["merchant_id"], call["provider"]) == ("CA3", "m1", "plivo")
    assert call["source_pool"] == "pool:standard"
    assert call["allocated_at"] < call["expires_at"]
    seen, cursor = [], ""
    while True:
        page = router.get("/api/v1/calls", params={"limit": 2, "cursor": cursor}).json()
        assert page["total"] == 5
        seen += [c["call_sid"] for c in page["calls"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert sorted(seen) == [f"CA{i}" for i in range(5)]


def test_reseller_id_is_another_name_of_merchant_id(router):
    router.put("/api/v1/merchants/r1", {"tier": "standard"})
    assert router.allocate("CA1", reseller_id="r1")["source_pool"] == "pool:standard"
    assert router.get("/api/v1/call/CA1").json()["merchant_id"] == "r1"


def test_renew_tells_known_from_unknown(router):
    router.allocate("CA1")
    router.allocate("CA2")
    one = router.post("/api/v1/renew", {"call_sid": "CA1"}).json()
    assert (one["success"], one["renewed"], one["unknown"]) == (True, ["CA1"], [])
    assert one["expires_at"] == router.get("/api/v1/call/CA1").json()["expires_at"]
    many = router.post("/api/v1/renew", {"call_sids": ["CA1", "nobody", "CA2"]}).json()
    assert (many["renewed"], many["unknown"]) == (["CA1", "CA2"], ["nobody"])
    for body in ({"call_sid": "nobody"}, {"call_sids": ["nobody"]}):
        alone = router.post("/api/v1/renew", body)
        assert (alone.status_code, alone.json()["error"]) == (404, "call not found")
    all_unknown = router.post("/api/v1/renew", {"call_sids": ["x", "y"]})
    assert (all_unknown.status_code, all_unknown.json()["unknown"]) == (200, ["x", "y"])


def test_a_call_that_nobody_renews_ends_and_its_pod_comes_back(start_router):
    router = start_router({"CALL_MAX_DURATION": "300ms", "LEASE_TTL": "300ms", "CLEANUP_INTERVAL": "50ms"})
    router.allocate("CA1")
    wait_until(lambda: router.get("/api/v1/call/CA1").status_code == 404, "the lease expired")
    # An expired call is unknown at once; its pod comes back with the next sweep.
    wait_until(lambda: router.get("/api/v1/pods?state=busy").json()["total"] == 0, "the pod is swept")
    assert router.allocate("CA2")["source_pool"] == "pool:gold"


def test_a_pod_registers_heartbeats_and_leaves(start_router):
    router = start_router({"STATIC_PODS": None, "POD_SOURCE": "api"})
    body = {"pod_name": "agent-1", "address": "10.0.0.7:8000"}
    assert router.post("/api/v1/pods", body).json() == {
        "success": True,
        "pod_name": "agent-1",
        "tier": "gold",
        "is_new": True,
        "heartbeat_interval_seconds": 30,
    }
    pod = router.get("/api/v1/pod/agent-1").json()
    assert (pod["address"], pod["source"], pod["state"]) == ("10.0.0.7:8000", "api", "available")
    assert router.allocate("CA1")["pod_name"] == "agent-1"
    beat = router.post("/api/v1/pod/agent-1/heartbeat", {"call_sids": ["CA1"]})
    assert beat.json() == {"success": True, "renewed": ["CA1"], "adopted": [], "ended": [], "conflicts": []}
    assert router.delete("/api/v1/pod/agent-1").json() == {"success": True, "pod_name": "agent-1"}
    assert router.get("/api/v1/call/CA1").status_code == 404
    assert router.get("/api/v1/pod/agent-1").status_code == 404
    assert router.delete("/api/v1/pod/agent-1").status_code == 404
    (ended,) = wait_until(lambda: router.log_lines("call ended"), "the end of the call is logged")
    assert (ended["call_sid"], ended["pod"]) == ("CA1", "agent-1")


def test_a_pod_that_registers_again_is_a_new_incarnation(start_router):
    router = start_router({"STATIC_PODS": None, "POD_SOURCE": "api"})
    for incarnation, is_new in (("uid-1", True), ("uid-1", False)):
        answer = router.post("/api/v1/pods", {"pod_name": "agent-1", "address": "a:1", "incarnation": incarnation})
        assert answer.json()["is_new"] is is_new
    router.allocate("CA1")
    router.post("/api/v1/pods", {"pod_name": "agent-1", "address": "a:1", "incarnation": "uid-1"})
    assert router.get("/api/v1/call/CA1").status_code == 200
    router.post("/api/v1/pods", {"pod_name": "agent-1", "address": "a:1", "incarnation": "uid-2"})
    assert router.get("/api/v1/call/CA1").status_code == 404


def test_a_pod_may_choose_its_tier_if_that_is_configured(router):
    answer = router.post("/api/v1/pods", {"pod_name": "agent-1", "address": "a:1", "tier": "basic"})
    assert answer.json()["tier"] == "basic"
    refused = router.post("/api/v1/pods", {"pod_name": "agent-2", "address": "a:2", "tier": "platinum"})
    assert refused.status_code == 400
    assert refused.json()["error"] == "tier is not configured"
    assert router.get("/api/v1/pod/agent-2").status_code == 404


def test_a_pod_of_another_source_is_not_the_apis_to_change(router):
    taken = router.post("/api/v1/pods", {"pod_name": "voice-agent-0", "address": "a:1"})
    assert (taken.status_code, taken.json()["code"]) == (409, "conflict")
    assert router.delete("/api/v1/pod/voice-agent-0").status_code == 409
    assert router.get("/api/v1/pod/voice-agent-0").json()["source"] == "static"


def test_heartbeat_adopts_what_the_store_has_lost_and_names_conflicts(start_router):
    router = start_router({"STATIC_PODS": None, "POD_SOURCE": "api"})
    router.post("/api/v1/pods", {"pod_name": "agent-1", "address": "a:1"})
    beat = router.post("/api/v1/pod/agent-1/heartbeat", {"call_sids": ["CA-lost"]}).json()
    assert beat["adopted"] == ["CA-lost"]
    assert router.get("/api/v1/call/CA-lost").json()["pod_name"] == "agent-1"
    beat = router.post("/api/v1/pod/agent-1/heartbeat", {"call_sids": ["CA-lost", "CA-second"]}).json()
    assert (beat["renewed"], beat["conflicts"]) == (["CA-lost"], ["CA-second"])
    assert router.get("/api/v1/call/CA-second").status_code == 404


def test_heartbeat_of_an_unknown_pod_is_404(router):
    answer = router.post("/api/v1/pod/nobody/heartbeat", {"call_sids": []})
    assert (answer.status_code, answer.json()["error"]) == (404, "pod not found")


def test_merchants_are_set_shown_and_removed(router):
    text = '{ "tier" : "gold",  "priority": 3 }'
    put = router.request("PUT", "/api/v1/merchants/9shines", content=text)
    assert (put.json()["success"], put.json()["merchant_id"], put.json()["version"]) == (True, "9shines", 1)
    one = router.get("/api/v1/merchants/9shines")
    assert one.text == text
    assert one.headers["content-type"].startswith("application/json")
    assert router.get("/api/v1/merchants").json() == {
        "merchants": {"9shines": {"tier": "gold", "priority": 3}},
        "total": 1,
        "next_cursor": "",
    }
    assert router.delete("/api/v1/merchants/9shines").status_code == 200
    assert router.get("/api/v1/merchants/9shines").status_code == 404
    assert router.delete("/api/v1/merchants/9shines").status_code == 404
    assert router.get("/api/v1/merchants").json() == {"merchants": {}, "total": 0, "next_cursor": ""}


def test_merchants_come_in_pages_by_id(router):
    names = [f"m{i:02}" for i in range(12)]
    for name in reversed(names):
        router.put(f"/api/v1/merchants/{name}", {"tier": "gold"})
    seen, cursor, pages = [], "", 0
    while pages == 0 or cursor:
        page = router.get("/api/v1/merchants", params={"limit": 5, "cursor": cursor}).json()
        assert page["total"] == 12
        seen += page["merchants"]
        cursor, pages = page["next_cursor"], pages + 1
    assert (seen, pages) == (names, 3)


def test_a_merchant_s_page_ends_before_it_is_too_large(router):
    padded = '{"tier":"gold"' + " " * 8000 + "}"
    for i in range(150):
        assert router.request("PUT", f"/api/v1/merchants/m{i:03}", content=padded).status_code == 200
    first = router.get("/api/v1/merchants").json()
    assert 100 < len(first["merchants"]) < 150
    rest = router.get("/api/v1/merchants", params={"cursor": first["next_cursor"]}).json()
    assert len(first["merchants"]) + len(rest["merchants"]) == 150
    assert rest["next_cursor"] == ""


def test_tiers_are_changed_at_once(router):
    text = '{"tiers":{"gold":{"target":1},"basic":{"type":"shared","target":4,"max_concurrent":2}}}'
    stored = (
        '{"tiers":{"basic":{"type":"shared","target":4,"max_concurrent":2},"gold":{"type":"exclusive","target":1}},'
        '"default_chain":["gold","basic"]}'
    )
    for given in (text, stored):
        assert router.request("PUT", "/api/v1/tiers", content=given).json()["success"] is True
        assert router.get("/api/v1/tiers").text == stored
    assert set(router.get("/api/v1/status").json()["tiers"]) >= {"gold", "basic"}


def test_default_tiers_are_shown_as_json(router):
    tiers = router.get("/api/v1/tiers")
    assert tiers.status_code == 200
    assert isinstance(tiers.json(), dict)


def test_paths_answer_with_and_without_a_trailing_slash(router):
    assert router.post("/api/v1/allocate/", {"call_sid": "CA1"}).status_code == 200
    assert router.get("/api/v1/call/CA1/").status_code == 200
    assert router.get("/health/").status_code == 200


def test_a_json_body_is_taken_whatever_its_type(router):
    for number, content_type in enumerate(["text/plain", "application/x-www-form-urlencoded", ""]):
        answer = router.post(
            "/api/v1/allocate",
            content='{"call_sid":"CA%d","unknown_field":[1,{}]}' % number,
            headers={"content-type": content_type},
        )
        assert answer.status_code == 200


def test_request_ids_are_echoed_or_made(router):
    echoed = router.post("/api/v1/allocate", {"call_sid": "CA1"}, headers={"x-request-id": "trace-42"})
    assert echoed.headers["x-request-id"] == "trace-42"
    made = {router.get("/health").headers["x-request-id"] for _ in range(3)}
    assert len(made) == 3


def test_an_event_is_one_line_with_all_about_it(router):
    router.post(
        "/api/v1/allocate", {"call_sid": "CA1", "merchant_id": "m1"}, headers={"x-request-id": "trace-42"}
    )
    (line,) = wait_until(lambda: router.log_lines("call allocated"), "the allocation is logged")
    assert line["level"] == "info"
    assert (line["call_sid"], line["merchant"], line["pool"]) == ("CA1", "m1", "pool:gold")
    assert line["pod"].startswith("voice-agent-")
    assert line["request_id"] == "trace-42"
    assert line["duration_us"] >= 0
    assert sum("trace-42" in text for text in router.log().splitlines()) == 1


def test_probes_are_logged_at_debug_only(start_router):
    quiet = start_router()
    chatty = start_router({"LOG_LEVEL": "debug"})
    for router in (quiet, chatty):
        router.get("/health", headers={"x-request-id": "probe-1"})
    wait_until(lambda: "probe-1" in chatty.log(), "the probe is logged at debug")
    quiet.allocate("CA1")
    wait_until(lambda: quiet.log_lines("call allocated"), "what comes later is logged")
    assert "probe-1" not in quiet.log()


def test_health_and_readiness(router):
    for path in ("/health", "/api/v1/health"):
        assert (router.get(path).status_code, router.get(path).json()) == (200, {"status": "ok"})
    for path in ("/ready", "/api/v1/ready"):
        assert (router.get(path).status_code, router.get(path).json()) == (200, {"status": "ready"})


def test_what_was_answered_is_there_after_a_restart(start_router, tmp_path):
    data = tmp_path / "kept"
    first = start_router(data_dir=data)
    kept = first.allocate("CA-kept")
    first.allocate("CA-gone")
    first.release("CA-gone")
    first.put("/api/v1/merchants/m1", {"tier": "standard"})
    first.post("/api/v1/drain", {"pod_name": "voice-agent-4"})
    assert first.stop() == 0
    second = start_router(data_dir=data)
    again = second.allocate("CA-kept")
    assert again == {**kept, "was_existing": True}
    assert second.get("/api/v1/call/CA-gone").status_code == 404
    assert second.get("/api/v1/merchants/m1").json() == {"tier": "standard"}
    assert second.get("/api/v1/pod/voice-agent-4").json()["is_draining"] is True


def test_sigterm_ends_the_router_with_success(router):
    router.allocate("CA1")
    assert router.stop() == 0
