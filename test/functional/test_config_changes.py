"""Changes of the tiers and of merchants: typos are refused, everything else is shown, kept and can be taken back."""

import json
import random
import threading

import load
import pytest
import redis_servers
from conftest import wait_until

GOLD_2 = {"tiers": {"gold": {"type": "exclusive", "target": 2}}, "default_chain": ["gold"]}
KEYS = "ops admin secret-of-the-operators-1\nview read secret-of-the-viewers-22"
VIEWER = {"Authorization": "Bearer secret-of-the-viewers-22"}


@pytest.fixture(params=["embedded", "redis"])
def start_any(request, start_router, start_redis):
    """Starts a router on either store; all of a test use the same one."""
    env = {}
    if request.param == "redis":
        redis_servers.need()
        env = {"REDIS_URL": start_redis().url, **redis_servers.QUICK}

    def start(more=None, **kwargs):
        return start_router({**env, **(more or {})}, **kwargs)

    return start


@pytest.fixture
def any_router(start_any):
    return start_any()


def versions_of(router, path="/api/v1/tiers"):
    answer = router.get(f"{path}/history")
    assert answer.status_code == 200 and answer.json()["success"] is True, answer.text
    return answer.json()["versions"]


@pytest.mark.parametrize(
    "path, body, error",
    [
        ("tiers", {"gold": {"targt": 2}}, 'unknown member "targt" in tier "gold"; did you mean "target"?'),
        ("merchants/m", {"teir": "gold"}, 'unknown member "teir" in the merchant\'s configuration; did you mean "tier"?'),
        ("merchants/m", {"fallback": "gold"}, "fallback must be an array of at most 64 names"),
    ],
)
def test_a_typo_changes_nothing_and_is_explained(any_router, path, body, error):
    any_router.put("/api/v1/merchants/m", {"tier": "basic"})
    before = any_router.state()
    for query in ("", "?dry_run=true"):
        answer = any_router.put(f"/api/v1/{path}{query}", body)
        assert (answer.status_code, answer.json()["error"]) == (400, error)
    assert any_router.state() == before


def test_bad_json_is_answered_with_its_line_and_column(router):
    for path in ("tiers", "merchants/m"):
        answer = router.request("PUT", f"/api/v1/{path}", content='{\n  "tier": "gold",\n}')
        assert (answer.status_code, answer.json()["error"]) == (400, "not valid JSON: line 3, column 1")


def test_a_change_is_answered_and_logged_with_both_values(start_any):
    router = start_any({"API_KEYS": KEYS})
    before = router.get("/api/v1/tiers").json()
    answer = router.put("/api/v1/tiers", {"gold": 2}, headers={"X-Request-Id": "tuesday-1"})
    assert answer.json() == {
        "success": True, "version": 2, "changed": True, "dry_run": False, "old": before, "new": GOLD_2, "warnings": [],
    }  # fmt: skip
    (line,) = wait_until(lambda: router.log_lines("tiers configured"), "it is logged")
    assert (line["old"], line["new"], line["key"], line["peer"], line["request_id"]) == (before, GOLD_2, "ops", "127.0.0.1", "tuesday-1")
    text = '{\n  "tier": "gold"\n}'
    answer = router.request("PUT", "/api/v1/merchants/m", content=text)
    assert (answer.json()["old"], answer.json()["new"]) == (None, {"tier": "gold"})
    answer = router.delete("/api/v1/merchants/m")
    assert (answer.json()["merchant_id"], answer.json()["old"], answer.json()["new"]) == ("m", {"tier": "gold"}, None)
    (line,) = wait_until(lambda: router.log_lines("merchant removed"), "it is logged")
    assert (line["old"], line["new"], line["merchant"]) == ({"tier": "gold"}, None, "m")
    assert '"new":null' in router.log()


def test_a_name_that_is_not_configured_is_warned_about(any_router):
    answer = any_router.put("/api/v1/merchants/m", {"tier": "glod", "fallback": ["basic", "none", "platinum"]})
    warnings = ['tier "glod" is not configured; did you mean "gold"?', 'fallback "platinum" is not configured; calls skip it until it is']
    assert (answer.status_code, answer.json()["warnings"]) == (200, warnings)
    lines = wait_until(
        lambda: any_router.log_lines("a merchant names a tier or a pool that is not configured"), "it is logged"
    )
    assert [(line["level"], line["merchant"], line["warning"]) for line in lines] == [("warn", "m", text) for text in warnings]
    assert any_router.get("/api/v1/merchants/m").json()["tier"] == "glod"


def test_merchants_that_name_a_tier_that_is_removed_are_warned_about(any_router):
    envelope = {"tiers": {"gold": 1, "standard": 1, "basic": 1, "vip": 1}, "default_chain": ["gold", "standard", "basic"]}
    any_router.put("/api/v1/tiers", envelope)
    for merchant, config in {
        "a": {"tier": "standard"},
        "b": {"pool": "vip"},
        "c": {"fallback": ["gold", "basic"]},
        "d": {"tier": "gold", "fallback": ["never-there", "none"]},
        "e": {"tier": "vip"},
    }.items():
        assert any_router.put(f"/api/v1/merchants/{merchant}", config).status_code == 200
    warnings = [
        'merchant "a": tier "standard" is removed; its calls skip it',
        'merchant "b": pool "vip" is removed; its calls skip it',
        'merchant "c": fallback "basic" is removed; its calls skip it',
        'merchant "e": tier "vip" is removed; its calls skip it',
    ]
    answer = any_router.put("/api/v1/tiers?dry_run=true", {"gold": 1}).json()
    assert (answer["warnings"], answer["dry_run"], answer["changed"]) == (warnings, True, True)
    answer = any_router.put("/api/v1/tiers", {"gold": 1}).json()
    assert (answer["warnings"], answer["new"]["default_chain"]) == (warnings, ["gold"])
    said = lambda: [line["warning"] for line in any_router.log_lines("a merchant names a tier or a pool that is not configured")]
    wait_until(lambda: said()[1:] == warnings, "they are logged, after the one about never-there")
    assert any_router.put("/api/v1/tiers", {"gold": 2}).json()["warnings"] == []  # they were not there before, either
    assert any_router.post("/api/v1/tiers/rollback", {"version": 2}).json()["warnings"] == []
    for number in range(25):
        any_router.put(f"/api/v1/merchants/f{number:02}", {"tier": "basic"})
    answer = any_router.post("/api/v1/tiers/rollback").json()
    assert len(answer["warnings"]) == 21 and answer["warnings"][-1] == "9 more merchants name a tier or a pool that is removed"
    assert answer["new"]["default_chain"] == ["gold"]


def test_a_dry_run_shows_the_change_and_changes_nothing(any_router):
    any_router.put("/api/v1/merchants/m", {"tier": "basic"})
    before, histories = any_router.state(), [versions_of(any_router), versions_of(any_router, "/api/v1/merchants/m")]
    asked = [
        ("PUT", "/api/v1/tiers", {"gold": 2}, before["tiers"], GOLD_2),
        ("PUT", "/api/v1/merchants/m", {"tier": "gold"}, '{"tier":"basic"}', {"tier": "gold"}),
        ("DELETE", "/api/v1/merchants/m", None, '{"tier":"basic"}', None),
    ]
    for method, path, body, old, new in asked:
        answer = any_router.request(method, path, params={"dry_run": "true"}, json=body).json()
        assert (answer["success"], answer["dry_run"], answer["changed"]) == (True, True, True)
        assert (answer["old"], answer["new"], answer["version"]) == (json.loads(old), new, 2)
    assert any_router.request("DELETE", "/api/v1/merchants/nobody?dry_run=true").status_code == 404
    answer = any_router.put("/api/v1/tiers?dry_run=yes", {"gold": 2})
    assert (answer.status_code, answer.json()["error"]) == (400, "dry_run must be true or false")
    assert any_router.state() == before
    assert [versions_of(any_router), versions_of(any_router, "/api/v1/merchants/m")] == histories


@pytest.mark.parametrize(
    "query, error",
    [
        ("dry_run", "dry_run must be true or false"),
        ("dry_run=", "dry_run must be true or false"),
        ("dry_run=true%00", "dry_run has a NUL in it"),
        ("dry_run=false&dry_run=true", "dry_run is there twice"),
        ("dryrun=true", 'unknown parameter "dryrun"; known is dry_run'),
        ("DRY_RUN=true", 'unknown parameter "DRY_RUN"; known is dry_run'),
    ],
)
def test_a_dry_run_that_is_misspelt_changes_nothing(router, query, error):
    router.put("/api/v1/merchants/m", {"tier": "basic"})
    router.put("/api/v1/tiers", {"gold": 3, "basic": 1})
    before = router.state()
    asked = [
        ("PUT", "/api/v1/tiers", {"gold": 2}),
        ("PUT", "/api/v1/merchants/m", {"tier": "gold"}),
        ("DELETE", "/api/v1/merchants/m", None),
        ("POST", "/api/v1/tiers/rollback", None),
        ("POST", "/api/v1/merchants/m/rollback", None),
    ]
    for method, path, body in asked:
        answer = router.request(method, f"{path}?{query}", json=body)
        assert (answer.status_code, answer.json()["error"]) == (400, error), path
    assert router.state() == before


def test_the_history_has_who_when_and_what_and_survives_a_restart(start_any, tmp_path):
    router = start_any({"API_KEYS": KEYS}, data_dir=tmp_path / "data")
    before = router.get("/api/v1/tiers").json()
    assert versions_of(router) == [{"version": 1, "at": None, "key": None, "value": before}]
    router.put("/api/v1/tiers", {"gold": 2})
    router.put("/api/v1/tiers", {"gold": 2})  # the same once more is no version
    router.put("/api/v1/merchants/m", {"tier": "gold"})
    router.delete("/api/v1/merchants/m")
    kept = [versions_of(router), versions_of(router, "/api/v1/merchants/m")]
    assert [(version["version"], version["key"], version["value"]) for version in kept[0]] == [(2, "ops", GOLD_2), (1, None, before)]
    assert kept[0][0]["at"].endswith("Z")
    assert [(version["version"], version["value"]) for version in kept[1]] == [(2, None), (1, {"tier": "gold"})]
    assert router.get("/api/v1/merchants/nobody/history").status_code == 404
    assert router.get("/api/v1/tiers/history", headers=VIEWER).status_code == 200
    router.stop()
    router = start_any({"API_KEYS": KEYS}, data_dir=tmp_path / "data")
    assert [versions_of(router), versions_of(router, "/api/v1/merchants/m")] == kept


def test_one_request_goes_back(start_any):
    router = start_any({"API_KEYS": KEYS})
    before = router.get("/api/v1/tiers").json()
    router.put("/api/v1/tiers", {"gold": 2})
    assert router.post("/api/v1/tiers/rollback", {}, headers=VIEWER).status_code == 403
    tried = router.post("/api/v1/tiers/rollback?dry_run=true").json()
    assert (tried["dry_run"], tried["old"], tried["new"]) == (True, GOLD_2, before)
    assert router.get("/api/v1/tiers").json() == GOLD_2
    answer = router.post("/api/v1/tiers/rollback")  # no body: to the version before
    assert (answer.status_code, answer.json()["version"], answer.json()["new"]) == (200, 3, before), answer.text
    assert router.get("/api/v1/tiers").json() == before
    answer = router.post("/api/v1/tiers/rollback", {"version": 2})
    assert (answer.json()["version"], answer.json()["new"]) == (4, GOLD_2)
    assert [version["version"] for version in versions_of(router)] == [4, 3, 2, 1]
    answer = router.post("/api/v1/tiers/rollback", {"version": 4})  # it is there already
    assert (answer.json()["version"], answer.json()["changed"]) == (4, False)
    (line, *_) = wait_until(lambda: router.log_lines("tiers configured")[1:], "it is logged")
    assert (line["old"], line["new"], line["key"]) == (GOLD_2, before, "ops")


def test_a_merchant_that_was_removed_comes_back(any_router):
    path = "/api/v1/merchants/m"
    assert any_router.post(f"{path}/rollback").status_code == 404
    any_router.put(path, {"tier": "basic"})
    answer = any_router.post(f"{path}/rollback")
    assert (answer.status_code, answer.json()["error"]) == (404, "there is no version before this one")
    any_router.delete(path)
    answer = any_router.post(f"{path}/rollback")
    assert (answer.json()["old"], answer.json()["new"], answer.json()["version"]) == (None, {"tier": "basic"}, 3)
    assert any_router.get(path).json() == {"tier": "basic"}
    answer = any_router.post(f"{path}/rollback", {"version": 2})
    assert (answer.json()["old"], answer.json()["new"]) == ({"tier": "basic"}, None)
    assert any_router.get(path).status_code == 404


@pytest.mark.parametrize(
    "body, status, error",
    [
        ({"verson": 1}, 400, 'unknown member "verson"; known is version'),
        ({"version": 0}, 400, "version must be a whole number from 1"),
        ({"version": "1"}, 400, "version must be a whole number from 1"),
        ({"version": None}, 400, "version must be a whole number from 1"),
        ('{"version":1,"version":2}', 400, "version is there twice"),
        ([1], 400, "body is not a JSON object"),
        ({"version": 7}, 404, "version 7 is not kept: the versions are 1 to 2"),
    ],
)
def test_a_bad_rollback_changes_nothing(router, body, status, error):
    router.put("/api/v1/tiers", {"gold": 2})
    before = router.state()
    answer = router.post("/api/v1/tiers/rollback", content=body if isinstance(body, str) else json.dumps(body))
    assert answer.status_code == status and error in answer.json()["error"], answer.text
    assert router.state() == before


def test_what_was_written_by_hand_is_read_leniently_and_can_come_back(redis_server, start_on):
    client = redis_server.client()
    router = start_on(redis_server, {"TIER_REFRESH_INTERVAL": "100ms"})
    text = '{"gold":{"target":3,"colour":"red"}}'
    client.set("voice:tier:config", text)
    client.hset("voice:merchant:config", "m", '{"tier":"gold","note":"by hand"}')
    wait_until(lambda: "standard" not in router.get("/api/v1/status").json()["tiers"], "the tiers are read")
    assert router.put("/api/v1/tiers", {"gold": 2}).json()["old"] == json.loads(text)
    assert router.put("/api/v1/merchants/m", {"tier": "basic"}).json()["old"]["note"] == "by hand"
    assert router.post("/api/v1/tiers/rollback").status_code == 200
    assert client.get("voice:tier:config") == text
    assert router.post("/api/v1/merchants/m/rollback").json()["new"]["note"] == "by hand"


def test_the_history_in_redis_is_bounded(redis_server, start_on):
    client = redis_server.client()
    router = start_on(redis_server)
    for target in range(30):
        router.put("/api/v1/tiers", {"gold": target})
        router.put("/api/v1/merchants/m", {"priority": target % 10})
    assert client.llen("voice:history:tiers") == client.llen("voice:history:merchant:m") == 20
    assert len(versions_of(router)) == len(versions_of(router, "/api/v1/merchants/m")) == 20


# A wrong change is taken back while calls come and go.

SHARED = {"type": "shared", "target": 4, "max_concurrent": 3}
RIGHT = {"gold": 8, "basic": SHARED}
WRONG = {"gold": 0, "basic": {**SHARED, "max_concurrent": 1}, "fallow": 9}


def room(pool):
    return 3 if pool == "pool:basic" else 1


def lost_calls(router, calls, pods):
    """Calls that were there before and were not ended by anybody: they must be where they were."""
    for call_sid in calls:
        answer = router.get(f"/api/v1/call/{call_sid}")
        if answer.status_code != 200 or answer.json()["pod_name"] != pods[call_sid]:
            yield call_sid, answer.text


def test_a_wrong_change_is_undone_under_load_without_a_lost_call(start_any, tell):
    static = ",".join(f"voice-agent-{i}" for i in range(12))
    router = start_any({"TIER_CONFIG": json.dumps(RIGHT), "STATIC_PODS": static})
    long_calls = {f"long-{i}": router.allocate(f"long-{i}")["pod_name"] for i in range(6)}
    before = router.get("/api/v1/tiers").text
    history = load.History()
    work = load.Load(history)
    callers = load.Callers(history, [router.url], hot=8, hold_s=0.02)
    callers.start(work, 64)
    busy = lambda: wait_until(lambda: history.answers() > busy.seen + 300, "calls come and go")
    for _ in range(3):
        busy.seen = history.answers()
        busy()
        assert router.put("/api/v1/tiers", WRONG).status_code == 200
        busy.seen = history.answers()
        busy()
        undone = router.post("/api/v1/tiers/rollback")
        assert undone.status_code == 200 and undone.json()["changed"], undone.text
        assert router.get("/api/v1/tiers").text == before
    busy.seen = history.answers()
    busy()
    work.stop()
    callers.finish()
    found = load.violations(history, room)
    tell(f"64 clients, {history.answers()} answers, {len(history.allocations)} allocations, {len(found)} violations")
    assert found == []
    assert not {key: n for key, n in history.outcomes.items() if "None" in key or "500" in key}
    assert list(lost_calls(router, long_calls, long_calls)) == []
    for call_sid in long_calls:
        router.release(call_sid)
    assert router.get("/api/v1/status").json()["active_calls"] == 0
    wait_until(
        lambda: all(pod["state"] == "available" for pod in router.get("/api/v1/pods").json()["pods"]), "all pods are back"
    )
    assert [version["version"] for version in versions_of(router)][:2] == [7, 6]


def test_the_history_of_the_largest_tiers_is_whole(any_router):
    names = [f"{number:04}{'n' * 44}" for number in range(1000)]
    for target in range(1, 23):
        tiers = {"tiers": {"gold": 1, **dict.fromkeys(names, target)}, "default_chain": ["gold"]}
        answer = any_router.put("/api/v1/tiers", content=json.dumps(tiers, separators=(",", ":")))
        assert answer.status_code == 200, answer.text
    versions = versions_of(any_router)
    assert [version["version"] for version in versions] == list(range(23, 3, -1))
    assert any_router.post("/api/v1/tiers/rollback", {"version": 4}).json()["new"]["tiers"][names[0]]["target"] == 3


def test_two_changes_at_once_are_both_in_the_history(any_router):
    """Each is a version, whoever comes first; a rollback that is overtaken says so."""
    statuses = []
    start = threading.Barrier(8)

    def change(i):
        client = load.Client(load.History(), [any_router.url])
        start.wait()
        for k in range(5):
            if i % 2:
                statuses.append(client.ask("POST", "/api/v1/tiers/rollback", {})[0])
            else:
                statuses.append(client.ask("PUT", "/api/v1/tiers", {"gold": 10 * i + k})[0])
        client.close()

    threads = [threading.Thread(target=change, args=(i,)) for i in range(8)]
    random.shuffle(threads)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 404, 409} and statuses.count(200) >= 20, statuses
    versions = versions_of(any_router)
    numbers = [version["version"] for version in versions]
    assert numbers == list(range(numbers[0], numbers[0] - len(numbers), -1))
    assert versions[0]["value"] == any_router.get("/api/v1/tiers").json()
