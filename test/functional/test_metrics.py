"""What an operator's Prometheus sees: the right names, the right numbers, and labels that cannot grow."""

import re

import httpx
import pytest

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
    assert value(samples, allocations, pool="pool:gold", status="success") == 1
    assert value(samples, allocations, pool="pool:gold", status="existing") == 1
    assert value(samples, allocations, pool="pool:standard", status="success") == 3
    assert value(samples, allocations, pool="pool:basic", status="success") == 3
    assert value(samples, allocations, pool="none", status="no_pods") == 1
    assert value(samples, releases, pool="pool:gold", status="success") == 1
    assert value(samples, releases, pool="none", status="not_found") == 1
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
