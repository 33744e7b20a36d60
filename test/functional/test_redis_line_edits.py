"""The line in Redis when its keys were edited by hand, or written by a router that does not know it."""

import concurrent.futures

import httpx
import pytest
from conftest import wait_until

TWO_PODS = {"TIER_CONFIG": '{"gold":2}', "STATIC_PODS": "p-0,p-1", "HOLD_MAX_WAIT": "2m"}
KEYS = [
    "line",
    "line:due",
    "line:pool:gold",
    "line:first:pool:gold",
    "line:of:m1",
    "line:granted",
    "line:grants",
    "waiting:W1",
    "mail:{router}",
    "call:W1",
    "ended:W1",
]
NUMBERS = ["since", "until", "heard", "priority"]


def ask(router, call_sid):
    answer = router.post("/api/v1/allocate", {"call_sid": call_sid, "merchant_id": "m1", "wait": True})
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


@pytest.fixture
def full(redis_server, start_on):
    """Two pods, A and B on them, and W1 and W2 in line: (router, redis)."""
    router = start_on(redis_server, TWO_PODS)
    client = redis_server.client()
    wait_until(lambda: client.scard("voice:pool:gold:available") == 2, "the pods are there")
    for call_sid in ("A", "B"):
        router.allocate(call_sid, merchant_id="m1")
    for call_sid in ("W1", "W2"):
        assert ask(router, call_sid)["waiting"]
    return router, client


def goes_on(router, client):
    """Others are refused and released as ever, and both waiting calls get their pods, one each."""
    refused = router.post("/api/v1/allocate", {"call_sid": "X"})
    assert refused.status_code == 503 and refused.json()["code"] == "no_pods", refused.text
    pods = {router.release("A")["pod_name"]}
    wait_until(lambda: any("pod_name" in ask(router, one) for one in ("W1", "W2")), "one of them has the pod")
    pods.add(router.release("B")["pod_name"])
    wait_until(lambda: all("pod_name" in ask(router, one) for one in ("W1", "W2")), "both have pods")
    assert {ask(router, one)["pod_name"] for one in ("W1", "W2")} == pods == {"p-0", "p-1"}
    wait_until(lambda: router.get("/api/v1/waiting").json()["total"] == 0, "nobody waits")
    for call_sid in ("W1", "W2"):
        router.release(call_sid)
    wait_until(lambda: client.scard("voice:pool:gold:available") == 2, "both pods are free")
    errors = [line for line in router.log_lines() if "WRONGTYPE" in str(line) or "ERROR_IN_SCRIPT" in str(line)]
    assert not errors


def name_of(router_key, client):
    names = [key.rsplit(":", 1)[1] for key in client.scan_iter("voice:carrier:*")] or ["nobody"]
    return "voice:" + router_key.format(router=names[0])


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_the_line_that_was_deleted_stops_nobody(full, key):
    router, client = full
    client.delete(name_of(key, client))
    goes_on(router, client)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_the_line_with_another_type_stops_nobody(full, key):
    router, client = full
    name = name_of(key, client)
    client.delete(name)
    if key in ("line:grants", "mail:{router}", "waiting:W1", "call:W1"):
        client.sadd(name, "something")
    else:
        client.hset(name, "some", "thing")
    goes_on(router, client)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "-5", "1e300", "0x10", "", "x"])
def test_numbers_of_a_waiting_call_that_are_none_stop_nobody(full, value):
    router, client = full
    for field in NUMBERS:
        client.hset("voice:waiting:W1", field, value)
        assert router.get("/api/v1/waiting").status_code == 200
        assert router.get("/api/v1/status").status_code == 200
        ask(router, "W2")
    goes_on(router, client)


@pytest.mark.parametrize("key", ["line", "line:due", "line:pool:gold"])
@pytest.mark.parametrize("score", [float("inf"), float("-inf"), 1e300])
def test_places_that_are_no_times_stop_nobody(full, key, score):
    router, client = full
    client.zadd(f"voice:{key}", {"W1": score})
    answer = router.get("/api/v1/waiting?limit=1")
    assert answer.status_code == 200, answer.text
    if answer.json()["next_cursor"]:
        answer = router.get(f"/api/v1/waiting?limit=1&cursor={answer.json()['next_cursor']}")
        assert answer.status_code == 200, answer.text
    goes_on(router, client)


def test_a_call_that_a_router_without_a_line_has_placed_gets_no_second_pod(full):
    """Its script has taken the pod that was free, and leaves the entries of the line as they are."""
    router, client = full
    pod = client.hget("voice:call:A", "pod_name")
    router.release("B")  # for W1
    wait_until(lambda: client.hget("voice:call:W1", "pod_name"), "W1 has a pod")
    # As that router does it: A ends, and W2, which asks there, gets its pod.
    with client.pipeline() as step:
        step.rename("voice:call:A", "voice:call:W2")
        step.set(f"voice:lease:{pod}", "W2")
        step.zrem("voice:calls:active", "A")
        step.zadd("voice:calls:active", {"W2": 4e12})
        step.hset(f"voice:pod:{pod}", "allocated_call_sid", "W2")
        step.execute()
    ask(router, "W1")
    router.release("W1")
    assert router.allocate("Y")["pod_name"] != pod
    assert ask(router, "W2")["pod_name"] == pod
    wait_until(lambda: router.get("/api/v1/waiting").json()["total"] == 0, "nobody waits")
    assert not client.exists("voice:ended:W2")


def test_a_mailbox_with_another_type_stops_nobody(full):
    """Whoever frees a pod leaves a note there; the waiting request asks again by itself all the same."""
    router, client = full
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        body = {"call_sid": "W1", "merchant_id": "m1", "wait": True, "wait_ms": 20000}
        answer = pool.submit(httpx.post, f"{router.url}/api/v1/allocate", json=body, timeout=60, trust_env=False)
        name = "voice:mail:" + wait_until(lambda: client.hget("voice:waiting:W1", "holder"), "W1 has a holder")
        wait_until(lambda: client.exists(name.replace("mail", "carrier")), "its router is known")
        client.delete(name)
        client.hset(name, "some", "thing")
        router.release("A")
        assert "pod_name" in answer.result().json()
    router.release("B")
    wait_until(lambda: "pod_name" in ask(router, "W2"), "W2 has the other pod")


def test_one_script_passes_over_an_overdue_call_once(redis_server, start_on):
    """Another router leads, and is slow to end them: none of these allocations looks at each of them anew."""
    client = redis_server.client()
    client.set("voice:leader", "another", px=60000)
    env = {**TWO_PODS, "POD_SOURCE": "api", "STATIC_PODS": None, "TIER_REFRESH_INTERVAL": "24h"}
    router = start_on(redis_server, env)
    for n in range(2):
        body = {"pod_name": f"p-{n}", "address": "10.0.0.1:80"}
        assert router.post("/api/v1/pods", body).status_code == 200
    for call_sid in ("A", "B"):
        router.allocate(call_sid)
    for n in range(300):
        ask(router, f"W{n}")
    client.zadd("voice:line:due", {f"W{n}": 1 for n in range(300)})
    client.config_resetstat()
    with concurrent.futures.ThreadPoolExecutor(48) as pool:
        body = {"merchant_id": "m2"}
        answers = list(pool.map(lambda n: router.post("/api/v1/allocate", {**body, "call_sid": f"X{n}"}), range(144)))
    assert {answer.status_code for answer in answers} == {503}
    stats = client.info("commandstats")
    scripts, looks = stats["cmdstat_evalsha"]["calls"], stats["cmdstat_zscore"]["calls"]
    assert scripts < 144, "some of them came in one script"
    assert looks <= 301 * scripts + 144
