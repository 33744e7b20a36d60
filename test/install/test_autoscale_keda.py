"""KEDA's own functions read what the router tells autoscalers: scripts/keda-judge builds them."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_S = 420


@pytest.fixture(scope="module")
def judge():
    done = subprocess.run([ROOT / "scripts" / "keda-judge"], capture_output=True, text=True, timeout=BUILD_S, check=False)
    if done.returncode == 3 and os.environ.get("CI") != "true":
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr

    def read(format_name, location, body):
        return subprocess.run([done.stdout.strip().removeprefix("judge="), format_name, location], input=body, capture_output=True, text=True, check=False)

    return read


def value(judge, *args):
    done = judge(*args)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_keda_reads_the_number_in_both_formats(judge, start_router):
    tiers = '{"tiers":{"gold":{"buffer":2,"min":1},"basic":{"type":"shared","min":3},"acme":{"target":1}},"default_chain":["gold","basic"]}'
    router = start_router({"TIER_CONFIG": tiers})
    router.allocate("CA1")
    for tier, route, expected in (
        ("gold", "/gold", 3),
        ("basic", "/basic", 3),
        ("merchant:acme", "/merchant:acme", 1),
        ("all", "", 7),
    ):
        answer = router.get(f"/api/v1/autoscale{route}").text
        assert value(judge, "json", "desired_pods", answer) == expected
        assert value(judge, "prometheus", f'smart_router_desired_pods{{tier="{tier}"}}', router.get("/metrics").text) == expected


def test_keda_finds_no_number_where_there_is_none(judge, start_router):
    """An error keeps the replicas as they are, or takes KEDA's fallback."""
    router = start_router()
    refused = router.get("/api/v1/autoscale/nobody")
    assert refused.status_code == 404 and judge("json", "desired_pods", refused.text).returncode == 1
    without = "\n".join(line for line in router.get("/metrics").text.splitlines() if not line.startswith("smart_router_desired_pods{"))
    assert judge("prometheus", 'smart_router_desired_pods{tier="all"}', without).returncode == 1
