"""GET /api/v1/autoscale and smart_router_desired_pods: what an autoscaler is told, and when it is told nothing."""

import json
import re

import pytest
import redis_servers
from conftest import wait_until

TIERS = {
    "tiers": {
        "gold": {"buffer": 2, "min": 1, "max": 6},
        "basic": {"type": "shared", "max_concurrent": 3, "buffer": 1, "min": 0},
        "9shines": {"target": 1},
    },
    "default_chain": ["gold", "basic"],
}


@pytest.fixture(params=["embedded", "redis"])
def start_any(request, start_router, start_redis):
    env = {"TIER_CONFIG": json.dumps(TIERS), "STATIC_PODS": ",".join(f"agent-{i}" for i in range(4))}
    if request.param == "redis":
        redis_servers.need()
        env.update({"REDIS_URL": start_redis().url, **redis_servers.QUICK})

    def start(more=None):
        return start_router({**env, **(more or {})})

    return start


# As KEDA's scaler metrics-api reads an answer. test/install/test_autoscale_keda.py asks KEDA's own functions.


def keda_json(answer, location):
    """`format: json`: a path as GJSON has it; the value is a number, or a text that is a quantity."""
    value = answer.json()
    for part in location.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]
    assert isinstance(value, (int, float)) and not isinstance(value, bool), value
    return float(value)


def keda_prometheus(answer, location):
    """`format: prometheus`: a selector of one series; an error without exactly that series."""
    name, labels = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?", location).groups()
    wanted = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or ""))
    types, found = {}, []
    for line in answer.text.splitlines():
        if line.startswith("# TYPE "):
            types[line.split()[2]] = line.split()[3]
        sample = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: -?\d+)?", line)
        if sample and sample[1] == name and wanted.items() <= dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', sample[2] or "")).items():
            found.append(float(sample[3]))
    if not found:
        raise LookupError(f"value {location} not found in Prometheus response")
    assert types[name] in ("gauge", "counter", "untyped") and len(found) == 1
    return found[0]


def desired(router, tier):
    """By every way in which KEDA can ask; all say the same."""
    route = f"/api/v1/autoscale/{tier}" if tier != "all" else "/api/v1/autoscale"
    by_json = keda_json(router.get(route), "desired_pods")
    by_metrics = keda_prometheus(router.get("/metrics"), f'smart_router_desired_pods{{tier="{tier}"}}')
    assert by_json == by_metrics
    return by_json


def test_an_autoscaler_reads_the_same_number_as_json_and_as_prometheus_text(start_any):
    router = start_any()
    assert desired(router, "gold") == 2
    assert desired(router, "basic") == 1
    assert desired(router, "merchant:9shines") == 1
    assert desired(router, "all") == 4
    router.allocate("CA1")
    assert router.get("/api/v1/autoscale/gold").json() == {"desired_pods": 3, "calls": 1, "waiting": 0, "buffer": 2, "per_pod": 1}
    assert router.get("/api/v1/autoscale/9shines").json() == router.get("/api/v1/autoscale/merchant:9shines").json()
    assert router.get("/api/v1/autoscale").json() == {"desired_pods": 5, "calls": 1, "waiting": 0, "buffer": 3, "per_pod": 0}
    assert desired(router, "all") == 5


def test_unknown_tiers_are_404_and_names_that_cannot_be_are_400(start_any):
    router = start_any()
    for name, status in (("nobody", 404), ("not%20a%20name", 400), ("a" * 200, 400)):
        answer = router.get(f"/api/v1/autoscale/{name}")
        assert answer.status_code == status and "desired_pods" not in answer.json()


def test_a_draining_pod_is_added_until_it_is_undrained(start_any):
    router = start_any()
    before = desired(router, "all")
    assert router.post("/api/v1/drain", {"pod_name": "agent-0"}).status_code == 200
    assert desired(router, "all") == before + 1
    assert router.post("/api/v1/undrain", {"pod_name": "agent-0"}).status_code == 200
    assert desired(router, "all") == before


@pytest.mark.parametrize("body", [{"buffer": -1}, {"min": 2.5}, {"max": "3"}, {"min": 4, "max": 3}, {"bufer": 1}])
def test_a_put_of_bad_members_changes_nothing(start_any, body):
    router = start_any()
    before = router.get("/api/v1/tiers").json()
    answer = router.put("/api/v1/tiers", {"gold": body})
    assert answer.status_code == 400 and ("gold" in answer.json()["error"]), answer.text
    assert router.get("/api/v1/tiers").json() == before


def test_without_the_store_there_is_no_number_at_all(start_redis, start_router):
    """503 and no sample: neither 0 nor the last number."""
    redis_servers.need()
    server = start_redis()
    router = start_router({"REDIS_URL": server.url, **redis_servers.QUICK, "STATIC_PODS": "agent-0"})
    last = desired(router, "all")
    server.kill()
    wait_until(lambda: router.get("/api/v1/autoscale").status_code == 503, "the router to miss its store")
    for route in ("/api/v1/autoscale", "/api/v1/autoscale/gold"):
        answer = router.get(route)
        assert answer.status_code == 503 and "desired_pods" not in answer.text
    with pytest.raises(LookupError):
        keda_prometheus(router.get("/metrics"), 'smart_router_desired_pods{tier="all"}')
    server.start()
    wait_until(lambda: router.get("/api/v1/autoscale").status_code == 200, "the router to find its store again")
    wait_until(lambda: desired(router, "all") == last, "the same number as before")


# StatefulSets

SETS = {
    "AUTOSCALE_KIND": "statefulset",
    "TIER_CONFIG": '{"standard":{"min":2,"buffer":1}}',
    "STATIC_PODS": ",".join(f"agent-{i}" for i in range(6)),
    "CLEANUP_INTERVAL": "50ms",
    "RECONCILE_INTERVAL": "200ms",
}


def pods(router):
    return {pod["pod_name"]: pod for pod in router.get("/api/v1/pods").json()["pods"]}


def surplus(router):
    return {name for name, pod in pods(router).items() if pod["is_surplus"]}


def test_the_leader_drains_the_ordinals_that_are_not_wanted(start_any):
    router = start_any(SETS)
    wait_until(lambda: surplus(router) == {"agent-2", "agent-3", "agent-4", "agent-5"}, "the drains")
    assert desired(router, "all") == desired(router, "standard") == 2
    for i in range(2):
        router.allocate(f"CA{i}")
    wait_until(lambda: "agent-2" not in surplus(router), "room for one more call")
    router.allocate("CA2")
    wait_until(lambda: surplus(router) == {"agent-4", "agent-5"}, "room for one more call")
    for i in range(3):
        router.release(f"CA{i}")
    wait_until(lambda: len(surplus(router)) == 4, "the drains again")


def test_a_call_on_a_high_ordinal_keeps_the_number_up(start_any):
    router = start_any({**SETS, "CLEANUP_INTERVAL": "1h"})  # nobody drains
    assert router.post("/api/v1/pod/agent-4/heartbeat", {"call_sids": ["CA1"]}).json()["adopted"] == ["CA1"]
    assert desired(router, "all") == desired(router, "standard") == 5
    router.release("CA1")
    assert desired(router, "all") == 2


def test_a_drain_of_an_operator_is_not_touched(start_any):
    router = start_any(SETS)
    wait_until(lambda: len(surplus(router)) == 4, "the drains")
    assert router.post("/api/v1/drain", {"pod_name": "agent-5", "ttl_seconds": 0}).status_code == 200
    assert not pods(router)["agent-5"]["is_surplus"] and pods(router)["agent-5"]["is_draining"]
    assert desired(router, "all") == 3  # it comes on top
    router.put("/api/v1/tiers", {"standard": {"min": 6}})
    wait_until(lambda: surplus(router) == set(), "all pods are wanted")
    assert pods(router)["agent-5"]["is_draining"]


def test_drains_survive_the_leader_and_end_with_the_setting(start_redis, start_router, tmp_path):
    """Another leader takes them over; and one that scales a Deployment takes them back."""
    for redis in (False, True):
        env = dict(SETS)
        if redis:
            redis_servers.need()
            env.update({"REDIS_URL": start_redis().url, **redis_servers.QUICK})
        folder = tmp_path / f"data-{redis}"
        folder.mkdir()
        router = start_router(env, data_dir=folder)
        wait_until(lambda: len(surplus(router)) == 4, "the drains")
        router.kill()
        router = start_router({**env, "CLEANUP_INTERVAL": "1h"}, data_dir=folder)
        wait_until(lambda: len(surplus(router)) == 4, "the drains of the leader before")
        router.kill()
        router = start_router({**env, "AUTOSCALE_KIND": "deployment"}, data_dir=folder)
        wait_until(lambda: surplus(router) == set(), "the end of the drains")
        assert not any(pod["is_draining"] for pod in pods(router).values())
        router.stop()


def test_an_unknown_kind_is_refused_by_name(run_router):
    done = run_router({"AUTOSCALE_KIND": "daemonset"}, args=["check-config"])
    assert done.returncode != 0 and "AUTOSCALE_KIND" in done.output and "statefulset" in done.output
