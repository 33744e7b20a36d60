"""deploy/monitoring, docs/METRICS.md and docs/OPERATIONS.md: what they name is there, and every alarm can fire."""

import re
import subprocess
import time

import httpx
import promql
import pytest
import yaml
from conftest import BINARY, DEADLINE_S, ROOT, wait_until
from promql import promtool
from scripted_pods import ScriptedPods
from test_gateway_doors import TRACE, log_of
from test_metrics import scrape, value
from tls import Certificate

CALM = {"LEADER_ELECTION_ENABLED": "false", "MARK_BUSY_PODS": "false"}
FROM_PROMETHEUS = {"job", "instance"}


def page(router):
    return httpx.get(f"{router.metrics_url}/metrics", trust_env=False).text


@pytest.fixture
def routers(start_redis, start_router, tmp_path):
    """A router on Redis with TLS whose pods heartbeat, and one that follows Kubernetes: together they have every metric."""
    certificate = Certificate(tmp_path / "certificate")
    one = start_router({"REDIS_URL": start_redis().url, **CALM, **certificate.env})
    one.allocate("CA1")
    one.release("CA1")
    assert one.post("/api/v1/pod/voice-agent-0/heartbeat", {"call_sids": []}).status_code == 200
    with ScriptedPods() as kube:
        kube.put("agent-0")
        other = start_router({**CALM, **kube.where})
        wait_until(lambda: other.get("/api/v1/pods").json()["total"] == 1, "the pod is there")
        for router in (one, other):
            wait_until(lambda router=router: "\nsmart_router_sync_duration_seconds_count 1" in page(router), "the first sync is done")
        yield one, other
        other.stop()


def families_of(routers):
    """{family: type} of all routers together."""
    found = {}
    for router in routers:
        found.update(dict(re.findall(r"^# TYPE (\S+) (\S+)$", page(router), re.M)))
    return found


# ----- Names -----


def listed():
    """{family: (type, its labels)} as `smart-router metrics` prints them."""
    done = subprocess.run([BINARY, "metrics"], capture_output=True, text=True, timeout=DEADLINE_S, check=True, env={})
    lines = [re.fullmatch(r"([\w]+)(?:\{([\w,]*)\})? (counter|gauge|histogram): (\S.*)", line) for line in done.stdout.splitlines()]
    assert all(lines) and len(lines) > 60
    return {line[1]: (line[3], set(line[2].split(",")) if line[2] else set()) for line in lines}


def test_the_list_of_metrics_is_what_running_routers_show(routers):
    known = listed()
    assert families_of(routers) == {name: kind for name, (kind, _) in known.items()}
    for router in routers:
        samples, types = scrape(router.metrics_url)
        for name, labels in samples:
            family = promql.family(name, types)
            assert {label for label, _ in labels} - {"le"} == known[family][1], name


def test_the_reference_is_what_the_binary_says():
    done = subprocess.run([BINARY, "metrics", "--markdown"], capture_output=True, text=True, timeout=DEADLINE_S, check=True, env={})
    assert (ROOT / "docs/METRICS.md").read_text() == done.stdout, "run 'make docs'"


@pytest.mark.parametrize(
    "query,names",
    [
        ('sum by (tier) (rate(a_total{x="b_total"}[5m])) > 0 and b', {"a_total", "b"}),
        ("histogram_quantile(0.99, sum by (le, x) (rate(c_bucket[5m])))", {"c_bucket"}),
        ("time() - max(d) > 3 * max (e) unless on (f) g offset 5m", {"d", "e", "g"}),
        ("absent(up{job=\"j\"} == 1)", {"up"}),
        ("h / i", {"h", "i"}),
    ],
)
def test_the_names_in_a_query_are_found(query, names):
    assert promql.metric_names(query) - {"m"} == names


def queries():
    return [(rule["alert"], rule["expr"]) for rule in promql.rules()] + promql.panel_queries()


def test_every_query_asks_for_metrics_and_labels_that_exist(routers):
    families = families_of(routers)
    labels = {name: labels for name, (_, labels) in listed().items()}
    asked = 0
    for where, query in queries():
        names = promql.metric_names(query) - {"up"}
        asked += len(names)
        for name in names:
            assert promql.family(name, families), f"{where}: no router shows {name}"
        for name, by in promql.label_names(query).items():
            if name != "up":
                known = labels[promql.family(name, families)] | FROM_PROMETHEUS
                assert by <= known, f"{where}: {name} has no {by - known}"
    assert asked > 50


def test_every_query_of_the_dashboard_is_valid(tmp_path):
    rules = [{"record": f"a{i}", "expr": query.replace("$job", "x")} for i, (_, query) in enumerate(promql.panel_queries())]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "a", "rules": rules}]}))
    status, text = promtool("check", "rules", file)
    assert status == 0 and f"{len(rules)} rules found" in text, text


def test_the_dashboard_is_complete():
    board = promql.dashboard()
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 25
    places = [panel["gridPos"] for panel in panels]
    for i, a in enumerate(places):
        assert a["x"] + a["w"] <= 24
        for b in places[:i]:
            apart = a["x"] >= b["x"] + b["w"] or b["x"] >= a["x"] + a["w"] or a["y"] >= b["y"] + b["h"] or b["y"] >= a["y"] + a["h"]
            assert apart, f"panels overlap: {a} {b}"
    for panel in panels:
        if panel["type"] != "row":
            assert panel["description"] and panel["datasource"]["uid"] == "${datasource}", panel["title"]
            assert all('job="$job"' in target["expr"] for target in panel["targets"]), panel["title"]
    alarms = {rule["alert"] for rule in promql.rules()}
    assert set(re.findall(r"SmartRouter[A-Z]\w+", str(board))) <= alarms


# ----- Alarms -----


def test_promtool_accepts_the_rules_and_the_configuration():
    for kind, name in (("rules", "rules.yaml"), ("config", "prometheus.yaml")):
        status, text = promtool("check", kind, promql.FOLDER / name)
        assert status == 0 and "SUCCESS" in text, text


def test_every_alarm_fires_in_a_test_and_is_silent_otherwise():
    status, text = promtool("test", "rules", "rules_test.yaml", cwd=promql.FOLDER)
    assert status == 0, text

    worlds = yaml.safe_load((promql.FOLDER / "rules_test.yaml").read_text())["tests"]
    alarms = {rule["alert"] for rule in promql.rules()}
    fires = {alarm for alarm in alarms for world in worlds[1:] if f'alertname="{alarm}"' in str(world)}
    assert fires == alarms
    # The healthy world has every series that a rule asks for, and no alarm.
    healthy = worlds[0]
    given = {re.match(r"\w+", series["series"])[0] for series in healthy["input_series"]}
    assert {name for rule in promql.rules() for name in promql.metric_names(rule["expr"])} <= given
    assert len(healthy["promql_expr_test"]) > 2 and all("exp_samples" not in case for case in healthy["promql_expr_test"])
    # Every other world is silent before it fires.
    late = "a leader that never synced is late, too"
    for world in worlds[1:]:
        silent = [case for case in world["promql_expr_test"] if "exp_samples" not in case]
        assert silent or world["name"] == late, world["name"]


def test_the_test_of_the_rules_can_fail(tmp_path):
    """A rule with another threshold is found, for each alarm."""
    changes = {
        "SmartRouterDown": ("for: 1m", "for: 9m"), "SmartRouterStoreDown": ("== 0", "== 2"), "SmartRouterStoreErrors": ("> 5", "> 500"),
        "SmartRouterStoreWiped": ("> 0", "> 2"), "SmartRouterNoPods": ("== 0", "== 5"), "SmartRouterNoCapacity": ("== 0", "== 1"),
        "SmartRouterLowCapacity": ("< 0.1", "< 0.05"), "SmartRouterCallsWithoutPod": ("> 0.01", "> 0.5"),
        "SmartRouterLineFull": ("> 0", "> 90"), "SmartRouterCallersWaitLong": ("> 30", "> 300"), "SmartRouterCallersGiveUp": ("> 0.2", "> 0.9"),
        "SmartRouterPodsBreak": ("> 0.01", "> 0.5"), "SmartRouterCallersLost": ("> 2", "> 20"), "SmartRouterCallsNotReleased": ("> 0.05", "> 0.5"), "SmartRouterNoLeader": ("== 0", "== 2"), "SmartRouterSyncLate": ("> 3", "> 30"),
        "SmartRouterWatchStalled": ("> 300", "> 3000"), "SmartRouterTaskFails": ("> 3", "> 30"), "SmartRouterSlow": ("> 0.1", "> 10"),
        "SmartRouterCertificateExpires": ("14 *", "1 *"),
    }  # fmt: skip
    text = (promql.FOLDER / "rules.yaml").read_text()
    head, *parts = re.split(r"(?=      - alert: )", text)
    assert {re.search(r"alert: (\w+)", part)[1] for part in parts} == changes.keys()
    # All at once: each wrong rule fails in its own world.
    wrong = [part.replace(*changes[re.search(r"alert: (\w+)", part)[1]], 1) for part in parts]
    assert all(a != b for a, b in zip(parts, wrong))
    (tmp_path / "rules.yaml").write_text(head + "".join(wrong))
    (tmp_path / "rules_test.yaml").write_text((promql.FOLDER / "rules_test.yaml").read_text())
    status, output = promtool("test", "rules", "rules_test.yaml", cwd=tmp_path)
    assert status != 0
    for alarm in changes:
        assert alarm in output, f"{alarm} fires as before:\n{output}"


def test_the_chart_and_the_manifests_have_the_same_alarms():
    text = (promql.FOLDER / "rules.yaml").read_text()
    assert (ROOT / "deploy/helm/smart-router/files/rules.yaml").read_text() == text, "run 'make manifests'"
    shipped = yaml.safe_load_all((ROOT / "deploy/kubernetes/components/monitoring/monitoring.yaml").read_text())
    (rule,) = [one for one in shipped if one["kind"] == "PrometheusRule"]
    (group,) = rule["spec"]["groups"]
    assert group["rules"] == yaml.safe_load(text.replace('job="smart-router"', 'job="smart-router-metrics"'))["groups"][0]["rules"]


def test_every_alarm_has_its_section_in_the_runbook():
    headings = re.findall(r"^### (SmartRouter\w+)$", (ROOT / "docs/OPERATIONS.md").read_text(), re.M)
    assert headings == [rule["alert"] for rule in promql.rules()], "in the order of rules.yaml"
    for rule in promql.rules():
        assert rule["annotations"]["runbook"] == f"docs/OPERATIONS.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning")


# ----- The page of a real router -----


def test_promtool_has_nothing_to_say_about_the_metrics(routers):
    for router in routers:
        status, text = promtool("check", "metrics", input=page(router))
        assert (status, text) == (0, ""), text


def test_the_pods_that_take_no_calls_are_told_by_every_router(start_redis, start_router):
    server = start_redis()
    with ScriptedPods() as kube:
        kube.put_all(["agent-0", "agent-1", "agent-2"])
        env = {"REDIS_URL": server.url, **CALM, **kube.where, "TIER_CONFIG": '{"gold":3}', "RECONCILE_INTERVAL": "1s"}
        routers = [start_router(env), start_router(env)]
        wait_until(lambda: routers[1].get("/api/v1/pods").json()["total"] == 3, "all pods are there")
        for sid in ("CA1", "CA2"):
            pod = routers[0].allocate(sid)["pod_name"]
        kube.put(pod, conditions=[{"type": "Ready", "status": "False"}])
        (free,) = [one["pod_name"] for one in routers[0].get("/api/v1/pods?state=available").json()["pods"]]
        assert routers[0].post("/api/v1/drain", {"pod_name": free}).status_code == 200

        def shown(router):
            samples, _ = scrape(router.metrics_url)
            names = ("draining_pods", "suspended_pods", "calls", "available_pods", "assigned_pods")
            return {name: value(samples, f"smart_router_pool_{name}", tier="gold") for name in names}

        wanted = {"draining_pods": 1, "suspended_pods": 1, "calls": 2, "available_pods": 0, "assigned_pods": 3}
        for router in routers:
            wait_until(lambda router=router: shown(router) == wanted, "every router shows them")
        for router in routers:
            router.stop()


def test_the_times_of_sync_watch_and_heartbeat_are_now(routers):
    one, other = routers
    now = time.time()
    samples, _ = scrape(one.metrics_url)
    assert abs(value(samples, "smart_router_last_heartbeat_timestamp_seconds") - now) < DEADLINE_S
    assert abs(value(samples, "smart_router_last_sync_timestamp_seconds") - now) < DEADLINE_S
    assert value(samples, "smart_router_sync_interval_seconds") == 60
    samples, types = scrape(other.metrics_url)
    assert abs(value(samples, "smart_router_watch_last_event_timestamp_seconds") - now) < DEADLINE_S
    assert not any(name == "smart_router_last_heartbeat_timestamp_seconds" for name, _ in samples), "it never had one"


def test_a_router_that_does_not_lead_shows_no_sync(start_redis, start_router):
    server = start_redis()
    env = {"REDIS_URL": server.url}
    leader, follower = start_router(env), start_router(env)
    wait_until(lambda: "smart_router_sync_duration_seconds_count 1" in page(leader), "the leader has synced")
    assert "smart_router_last_sync_timestamp_seconds" not in page(follower)
    assert value(scrape(leader.metrics_url)[0], "smart_router_last_sync_timestamp_seconds") > 0


def test_a_watch_that_never_came_is_told_as_one(start_router):
    """Its time is 0, so that the alarm fires, and not missing, so that it would not."""
    with ScriptedPods() as kube:
        url = kube.url
    router = start_router({**CALM, **kube.where, "KUBE_API_URL": url}, wait=True)
    samples, _ = scrape(router.metrics_url)
    assert ("smart_router_watch_last_event_timestamp_seconds", frozenset()) in samples
    assert value(samples, "smart_router_watch_last_event_timestamp_seconds") == 0
    assert value(samples, "smart_router_last_sync_timestamp_seconds") == 0


# ----- From the webhook to the pod -----


def test_a_call_can_be_followed_from_the_webhook_to_the_pod(start_world):
    world = start_world(agents=1)
    router = world.router
    other_trace = TRACE.replace("4bf9", "aaaa")
    webhook = router.client.post(
        "/api/v1/twilio/allocate", data={"CallSid": "CA1"}, headers={"X-Request-Id": "the-webhook", "traceparent": TRACE}
    )
    path = re.search(r'url="wss?://[^/]+([^"]+)"', webhook.text)[1]
    with world.open(path, headers=[("X-Request-Id", "the-stream"), ("traceparent", other_trace)]) as stream:
        assert stream.echoes()
        (agent,) = world.agents.values()
        head = agent.heads[-1]
    # The pod's request leads to the stream's line, its call to the webhook's.
    asked = {"call_sid": head.get("x-call-sid"), "request_id": head.get("x-request-id"), "traceparent": head.get("traceparent")}
    (opened,) = log_of(router, "connection opened", **asked)
    assert opened["request_id"] == "the-stream" and opened["traceparent"] == other_trace
    (allocated,) = log_of(router, "call allocated", call_sid=opened["call_sid"])
    assert (allocated["request_id"], allocated["traceparent"]) == ("the-webhook", TRACE)
    wait_until(lambda: log_of(router, "connection closed", **asked), "the end of the stream has its ids, too")


def test_a_trace_that_is_none_is_not_logged(router):
    bad = ["", "x", TRACE.upper(), TRACE[:-1], TRACE + "x", TRACE + "-x", "00-" + "0" * 32 + TRACE[35:], "ff" + TRACE[2:]]
    for i, trace in enumerate(bad):
        answer = router.post("/api/v1/allocate", {"call_sid": f"CA{i % 5}"}, headers={"traceparent": trace})
        assert answer.status_code == 200
    answer = router.client.post(
        "/api/v1/release", json={"call_sid": "CA0"}, headers=[("traceparent", TRACE), ("traceparent", TRACE)]
    )
    assert answer.status_code == 200
    router.post("/api/v1/release", {"call_sid": "CA1"}, headers={"traceparent": "01" + TRACE[2:] + "-and-more"})
    router.get("/health")
    traces = [line["traceparent"] for line in router.log_lines() if "traceparent" in line]
    assert traces == ["01" + TRACE[2:]], "a later version, without what it adds"
