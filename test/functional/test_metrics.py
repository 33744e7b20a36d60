"""What an operator's Prometheus sees: the right names, the right numbers, and labels that cannot grow."""

import json
import re
import signal
import socket
import threading

import httpx
import pytest
import routes
from conftest import DEADLINE_S, wait_until

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')

NAMES = [
    "http_requests_total",
    "http_request_duration_seconds",
    "smart_router_allocations_total",
    "smart_router_releases_total",
    "smart_router_active_calls",
    "smart_router_pool_available_pods",
    "smart_router_pool_assigned_pods",
    "smart_router_pool_capacity_calls",
    "smart_router_pool_free_calls",
    "smart_router_pool_draining_pods",
    "smart_router_pool_suspended_pods",
    "smart_router_pool_calls",
    "smart_router_refusals_total",
    "smart_router_last_sync_timestamp_seconds",
    "smart_router_leader_status",
    "smart_router_drains_total",
    "smart_router_zombies_recovered_total",
    "smart_router_store_duration_seconds",
    "smart_router_store_errors_total",
    "smart_router_store_up",
    "smart_router_http_connections",
    "smart_router_log_lines_dropped_total",
    "smart_router_build_info",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_open_fds",
    "process_start_time_seconds",
]


TOKENS = ("TWILIO_AUTH_TOKEN", "PLIVO_AUTH_TOKEN", "EXOTEL_TOKEN", "GATEWAY_SECRET")


def scrape(url):
    """{(name, frozenset of labels): value}; every line must be well formed."""
    answer = httpx.get(f"{url}/metrics", trust_env=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples, types = {}, {}
    for line in answer.text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            assert name not in types
            types[name] = kind
        elif not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match, line
            labels = frozenset(re.findall(r'([a-z_]+)="((?:[^"\\]|\\.)*)"', match[2] or ""))
            assert (match[1], labels) not in samples, line
            samples[match[1], labels] = float(match[3])
    return samples, types


def value(samples, name, **labels):
    return samples.get((name, frozenset(labels.items())), 0)


def test_every_documented_metric_is_there(router):
    router.allocate("CA1")
    router.release("CA1")
    _, types = scrape(router.url)
    assert [name for name in NAMES if name not in types] == []


@pytest.mark.parametrize("listener", ["url", "metrics_url"])
def test_both_ports_show_the_same(router, listener):
    router.allocate("CA1")
    samples, _ = scrape(getattr(router, listener))
    assert value(samples, "smart_router_active_calls") == 1


def test_the_metrics_port_has_nothing_else(router):
    assert httpx.get(f"{router.metrics_url}/health", trust_env=False).json() == {"status": "ok"}
    assert httpx.get(f"{router.metrics_url}/ready", trust_env=False).json() == {"status": "ready"}
    assert httpx.get(f"{router.metrics_url}/api/v1/status", trust_env=False).status_code == 404
    body = {"call_sid": "CA1"}
    assert httpx.post(f"{router.metrics_url}/api/v1/allocate", json=body, trust_env=False).status_code == 404


def test_counters_count_what_happened(router):
    for i in range(7):
        router.allocate(f"CA{i}")
    router.allocate("CA0")
    router.post("/api/v1/allocate", {"call_sid": "CA-full"})
    router.release("CA0")
    router.post("/api/v1/release", {"call_sid": "CA0"})
    router.post("/api/v1/drain", {"pod_name": "voice-agent-0"})
    router.post("/api/v1/drain", {"pod_name": "nobody"})
    samples, _ = scrape(router.url)
    allocations, releases = "smart_router_allocations_total", "smart_router_releases_total"
    assert value(samples, allocations, pool="pool:gold", tier="gold", status="success") == 1
    assert value(samples, allocations, pool="pool:gold", tier="gold", status="existing") == 1
    assert value(samples, allocations, pool="pool:standard", tier="standard", status="success") == 3
    assert value(samples, allocations, pool="pool:basic", tier="basic", status="success") == 3
    assert value(samples, allocations, pool="none", tier="none", status="no_pods") == 1
    assert value(samples, releases, pool="pool:gold", tier="gold", status="success") == 1
    assert value(samples, releases, pool="none", tier="none", status="not_found") == 1
    assert value(samples, "smart_router_refusals_total", reason="busy") == 1
    assert value(samples, "smart_router_drains_total") == 1
    labels = {"method": "POST", "endpoint": "/api/v1/allocate"}
    assert value(samples, "http_requests_total", **labels, status="200") == 8
    assert value(samples, "http_requests_total", **labels, status="503") == 1
    assert value(samples, "http_request_duration_seconds_count", **labels, status="200") == 8
    assert value(samples, "smart_router_store_duration_seconds_count", operation="allocate") == 9


def test_gauges_show_the_pools_as_they_are(router):
    router.allocate("CA0")
    router.allocate("CA1")
    samples, _ = scrape(router.url)
    assert value(samples, "smart_router_active_calls") == 2
    assert value(samples, "smart_router_leader_status") == 1
    assert value(samples, "smart_router_store_up") == 1
    shown = {
        name: {
            tier: value(samples, f"smart_router_pool_{name}", tier=tier) for tier in ("gold", "standard", "basic")
        }
        for name in ("available_pods", "assigned_pods", "capacity_calls", "free_calls")
    }
    assert shown == {
        "available_pods": {"gold": 0, "standard": 2, "basic": 1},
        "assigned_pods": {"gold": 1, "standard": 3, "basic": 1},
        "capacity_calls": {"gold": 1, "standard": 3, "basic": 3},
        "free_calls": {"gold": 0, "standard": 2, "basic": 3},
    }


def test_a_removed_tier_leaves_the_gauges(router):
    scrape(router.url)
    router.put("/api/v1/tiers", {"only": 5})
    assert router.get("/api/v1/status").json()["tiers"].keys() >= {"only"}
    tiers = set(router.get("/api/v1/status").json()["tiers"])
    samples, _ = scrape(router.url)
    shown = {dict(labels)["tier"] for name, labels in samples if name == "smart_router_pool_assigned_pods"}
    assert shown == tiers


def test_no_label_grows_with_what_clients_send(router):
    def hammer(offset):
        for i in range(offset, offset + 20):
            router.allocate(f"CA{i}", merchant_id=f"m{i}", provider=f"p{i}")
            router.release(f"CA{i}")
            router.post("/api/v1/allocate", {"call_sid": f"bad sid {i}"})
            router.get(f"/api/v1/call/CA{i}")
            router.get(f"/api/v1/pod/p{i}")
            router.get(f"/nothing/{i}")
            router.request("PURGE" if i % 2 else "LOCK", "/api/v1/allocate")
            router.request("REPORT", f"/x/{i}")

    scrape(router.url)
    hammer(0)
    few = set(scrape(router.url)[0])
    hammer(20)
    many = set(scrape(router.url)[0])
    assert many - few == set()


def page(router):
    return httpx.get(f"{router.metrics_url}/metrics", trust_env=False).text


def bound(name):
    """A limit of src/api/instruments.h, in bytes."""
    text = (routes.SRC / "api" / "instruments.h").read_text()
    number, factor = re.search(rf"{name} = (\d+) \* (\d+),", text).groups()
    return int(number) * int(factor)


ODD_REQUESTS = [
    b"nonsense\r\n\r\n",
    b"GET / HTTP/3.0\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9000 + b"\r\n\r\n",
    b"POST /api/v1/twilio/allocate HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n",
    b"POST /api/v1/twilio/allocate HTTP/1.1\r\nHost: x\r\nExpect: tea\r\nContent-Length: 1\r\n\r\nx",
    b"GET /api/v1/pod/a%00b HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /ws/pod/voice-agent-0 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
]


def walk_as_a_stranger(router):
    """Every route with every method, good and bad bodies and queries; paths that nobody has; broken requests."""
    asked = 0
    paths = sorted({routes.fill(pattern) for _, pattern in routes.all_routes()} | {"/nothing", "/api/v1/nothing", "/api/v1"})
    with httpx.Client(base_url=router.url, timeout=DEADLINE_S, trust_env=False) as client:
        for path in paths:
            for method in (*routes.METHODS, "PURGE", "MKCOL", "REPORT", "SEARCH"):
                for query in ("", "?CallSid=CA-walk&merchant_id=unheard-of&limit=x"):
                    with client.stream(method, path + query, content=b"" if query else b"{") as answer:
                        if path != "/api/v1/events":  # which never ends
                            answer.read()
                    asked += 1
    for request in ODD_REQUESTS:
        router.raw(request, half_close=True)
    return asked


CLOSED = {"API_KEY": "a-key-that-no-stranger-has", **{name: "a-token-that-no-stranger-has" for name in TOKENS}}


@pytest.mark.parametrize(
    "env,limit",
    [(CLOSED, "INSTRUMENTS_STRANGERS_MAX"), ({}, "INSTRUMENTS_REQUESTS_MAX")],
    ids=["closed", "open"],
)
def test_no_walk_over_the_routes_makes_the_page_large(start_router, tell, env, limit):
    router = start_router(env)
    before = page(router)
    assert walk_as_a_stranger(router) > 500
    after = page(router)
    tell(f"/metrics after a walk over all routes ({'closed' if env else 'open'}): {len(before)} to {len(after)} bytes")
    assert len(after) - len(before) < bound(limit)
    series = [len(after.splitlines())]
    while len(series) < 2 or series[-1] != series[-2]:
        # On a busy machine a walk may also meet what the one before did not, such as a client that was too slow.
        assert len(series) < 6, f"the same again makes new series, for ever: {series}"
        walk_as_a_stranger(router)
        after = page(router)
        series.append(len(after.splitlines()))
    assert len(after) - len(before) < bound(limit)
    assert "CA-walk" not in after and "unheard-of" not in after


def test_refused_requests_are_counted_and_share_one_histogram(start_router):
    router = start_router(CLOSED)
    for _ in range(3):
        assert httpx.get(f"{router.url}/api/v1/pods", trust_env=False).status_code == 401
        assert httpx.delete(f"{router.url}/health", trust_env=False).status_code == 405
        assert router.get("/api/v1/call/nobody").status_code == 404
    assert router.request("HEAD", "/api/v1/pods").status_code == 200
    samples, _ = scrape(router.metrics_url)
    requests, durations = "http_requests_total", "http_request_duration_seconds_count"
    counted = {
        (dict(labels)["method"], dict(labels)["status"]): count
        for (name, labels), count in samples.items()
        if name == requests and dict(labels)["status"] in ("401", "405")
    }
    assert counted == {("other", "401"): 3, ("other", "405"): 3}
    assert value(samples, requests, method="GET", endpoint="/api/v1/call/{sid}", status="404") == 3
    assert value(samples, durations, method="other", endpoint="other", status="4xx") == 9
    head = {"method": "HEAD", "endpoint": "/api/v1/pods"}
    assert not any(head.items() <= dict(labels).items() for _, labels in samples), "a HEAD is counted as a GET"


def test_the_time_of_long_polls_is_not_that_of_answers(router):
    """Their clients wait on purpose: an alarm about slow answers must not fire because of them."""
    path = "/api/v1/pod/{name}/drained"
    assert router.get("/api/v1/pod/voice-agent-0/drained?timeout_seconds=1").status_code == 202
    samples, _ = scrape(router.url)
    assert value(samples, "http_requests_total", method="GET", endpoint=path, status="202") == 1
    count = "http_request_duration_seconds_count"
    assert value(samples, count, method="other", endpoint="other", status="held") == 1
    assert not any(name == count and ("endpoint", path) in labels for name, labels in samples)


def test_histograms_are_cumulative(router):
    router.allocate("CA1")
    samples, _ = scrape(router.url)
    labels = {"method": "POST", "endpoint": "/api/v1/allocate", "status": "200"}
    buckets = sorted(
        (float(dict(sample_labels)["le"]), count)
        for (name, sample_labels), count in samples.items()
        if name == "http_request_duration_seconds_bucket" and labels.items() <= dict(sample_labels).items()
    )
    counts = [count for _, count in buckets]
    assert counts == sorted(counts)
    assert buckets[-1] == (float("inf"), 1)


TIERS = {"tiers": {"gold": {"target": 1}, "spare": {"target": 0}}, "default_chain": ["gold", "spare"]}
REASONS = ("busy", "draining", "suspended", "no_pods", "no_pools", "storage_error", "rate_limit")


def refusals(router):
    samples, _ = scrape(router.metrics_url)
    found = {reason: value(samples, "smart_router_refusals_total", reason=reason) for reason in REASONS}
    assert sum(1 for name, _ in samples if name == "smart_router_refusals_total") == len(REASONS)
    return {reason: count for reason, count in found.items() if count}


def test_refused_calls_are_counted_by_their_reason(start_router):
    router = start_router({"STATIC_PODS": "agent-0", "TIER_CONFIG": json.dumps(TIERS), "RATE_LIMIT": "6/h"})

    def refuse(call_sid, status=503, **fields):
        assert router.post("/api/v1/allocate", {"call_sid": call_sid, **fields}).status_code == status

    assert refusals(router) == {}
    assert router.allocate("CA1")["source_pool"] == "pool:gold"
    router.put("/api/v1/merchants/lone", {"fallback": ["spare"]})
    router.put("/api/v1/merchants/lost", {"fallback": ["nowhere"]})
    refuse("CA2")
    assert refusals(router) == {"busy": 1}
    router.post("/api/v1/drain", {"pod_name": "agent-0"})
    refuse("CA2")
    assert refusals(router) == {"busy": 1, "draining": 1}
    refuse("CA3", merchant_id="lone")
    refuse("CA4", merchant_id="lost")
    assert refusals(router) == {"busy": 1, "draining": 1, "no_pods": 1, "no_pools": 1}
    refuse("CA5", merchant_id="lost")
    refuse("CA6", status=429)
    assert refusals(router) == {"busy": 1, "draining": 1, "no_pods": 1, "no_pools": 2, "rate_limit": 1}


def test_a_call_that_the_store_could_not_answer_is_one_that_is_refused(redis_server, start_on):
    router = start_on(redis_server, {"REDIS_TIMEOUT": "200ms"})
    with redis_server.paused():
        assert router.post("/api/v1/allocate", {"call_sid": "CA1"}).status_code == 503
    wait_until(lambda: router.get("/ready").status_code == 200, "the store is back")
    assert refusals(router) == {"storage_error": 1}


def test_one_spelling_of_a_pool_joins_all_metrics(start_router):
    router = start_router({"STATIC_PODS": "agent-0", "TIER_CONFIG": json.dumps({"tiers": {"merchant:shop": {"target": 1}, "gold": {"target": 0}}, "default_chain": ["gold"]})})
    router.put("/api/v1/merchants/shop", {"pool": "shop"})
    router.allocate("CA1", merchant_id="shop")
    router.release("CA1")
    samples, _ = scrape(router.metrics_url)
    by_tier = {name for name, labels in samples if ("tier", "merchant:shop") in labels}
    assert by_tier >= {
        "smart_router_allocations_total", "smart_router_releases_total", "smart_router_pool_capacity_calls", "smart_router_pool_calls",
        "smart_router_pool_draining_pods", "smart_router_desired_pods",
    }  # fmt: skip
    tiers = {dict(labels)["tier"] for name, labels in samples if "tier" in dict(labels)}
    assert tiers <= {"merchant:shop", "gold", "none", "other", "all"}


MANY = 1000  # tiers: a page of a megabyte


def many_tiers():
    tiers = {f"tier-with-a-long-name-{i:04}": {"target": 0} for i in range(MANY)}
    return {"TIER_CONFIG": json.dumps({"tiers": tiers, "default_chain": ["tier-with-a-long-name-0000"]}), "STATIC_PODS": ""}


def test_a_large_page_is_whole_though_it_is_written_in_slices(start_router):
    router = start_router(many_tiers())
    results = []

    def read():
        results.append(scrape(router.metrics_url)[0])

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(results) == 3
    assert len(httpx.get(f"{router.metrics_url}/metrics", trust_env=False).content) > 5 * 64 * 1024
    for samples in results:
        tiers = [dict(labels)["tier"] for name, labels in samples if name == "smart_router_pool_calls"]
        assert len(tiers) == MANY
        assert ("smart_router_desired_pods", frozenset({("tier", "all")})) in samples
        assert any(name == "smart_router_build_info" for name, _ in samples)


def test_a_router_that_stops_finishes_its_pages(start_router):
    router = start_router(many_tiers())
    with socket.create_connection(("127.0.0.1", router.metrics_port), timeout=DEADLINE_S) as slow:
        slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        router.proc.send_signal(signal.SIGTERM)
        received = b""
        while chunk := slow.recv(1 << 20):
            received += chunk
    assert router.proc.wait(DEADLINE_S) == 0  # before another signal
    head, _, body = received.partition(b"\r\n\r\n")
    assert b" 200 " in head and int(re.search(rb"content-length: (\d+)", head, re.I)[1]) == len(body)
