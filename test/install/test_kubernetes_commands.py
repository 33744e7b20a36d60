"""What the manifests ask of the binary and of its API is there: commands, routes, metrics."""

import os
import subprocess

import pytest
from conftest import BINARY, DEADLINE_S
from manifests import find, rendered


def test_the_pod_of_helm_test_says_whether_a_router_is_ready(router):
    (container,) = find(rendered(), "Pod")["spec"]["containers"]
    (variable,) = container["env"]
    assert variable == {"name": "SMART_ROUTER_URL", "value": "http://smart-router"}

    def ask(url):
        env = {**os.environ, "SMART_ROUTER_URL": url}
        return subprocess.run([BINARY, *container["args"]], env=env, timeout=DEADLINE_S, check=False).returncode

    assert ask(router.url) == 0
    assert router.stop() == 0
    assert ask(router.url) != 0


def find_value(trigger, answer):
    """What KEDA's metrics-api scaler reads there."""
    place = trigger["metadata"]["valueLocation"]
    if trigger["metadata"]["format"] == "json":
        return answer.json()[place]
    (line,) = [line for line in answer.text.splitlines() if line.startswith(place + " ")]
    return float(line.split()[-1])


@pytest.mark.parametrize("tier", ["all", "gold"])
@pytest.mark.parametrize("source", ["metrics", "api"])
def test_keda_finds_its_number(start_router, source, tier):
    keys = "keda metrics the-secret-of-keda\nops admin the-secret-of-operators"
    router = start_router({"API_KEYS": keys})
    things = rendered("autoscaling.with=keda", f"autoscaling.source={source}", f"autoscaling.tier={tier}")
    (trigger,) = find(things, "ScaledObject")["spec"]["triggers"]
    url = trigger["metadata"]["url"]
    headers = {}
    if source == "api":
        assert trigger["metadata"]["authMode"] == "bearer"
        (secret,) = find(things, "TriggerAuthentication")["spec"]["secretTargetRef"]
        assert secret["parameter"] == "token"
        headers = {"Authorization": "Bearer the-secret-of-keda"}
    service = "smart-router-metrics.default.svc:9090" if source == "metrics" else "smart-router.default.svc"
    here = router.metrics_url if source == "metrics" else router.url
    answer = router.client.get(url.replace(f"http://{service}", here), headers=headers)
    assert answer.status_code == 200, answer.text
    assert find_value(trigger, answer) >= 0
