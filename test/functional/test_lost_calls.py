"""A call that ends without a release: one line in the log and one count, whoever noticed."""

import re

import pytest
from conftest import wait_until

API = {"STATIC_PODS": None, "POD_SOURCE": "api"}
POD = {"pod_name": "agent-1", "address": "127.0.0.1:9000", "incarnation": "uid-1"}


def counts(router):
    found = re.findall(r'^smart_router_calls_ended_total\{reason="(\w+)"\} (\d+)$', router.get("/metrics").text, re.M)
    return {reason: int(count) for reason, count in found}


def lose_by_removal(router):
    assert router.delete("/api/v1/pod/agent-1").status_code == 200


def lose_by_restart(router):
    assert router.post("/api/v1/pods", {**POD, "incarnation": "uid-2"}).status_code == 200


def lose_by_waiting(router):
    pass  # the lease runs out, or the pod is silent for too long


@pytest.mark.parametrize(
    "env,lose,reason",
    [
        ({}, lose_by_removal, "pod_gone"),
        ({}, lose_by_restart, "pod_restarted"),
        ({"HEARTBEAT_TTL": "300ms"}, lose_by_waiting, "pod_gone"),
        ({"CALL_MAX_DURATION": "300ms", "LEASE_TTL": "300ms"}, lose_by_waiting, "lease_expired"),
    ],
    ids=["removed", "restarted", "silent", "expired"],
)
def test_each_lost_call_is_told_once(start_router, env, lose, reason):
    router = start_router({**API, "CLEANUP_INTERVAL": "50ms", **env})
    assert router.post("/api/v1/pods", POD).status_code == 200
    router.allocate("CA1", merchant_id="acme")
    assert counts(router).keys() == {"lease_expired", "pod_gone", "pod_restarted", "left_out"}
    lose(router)
    (line,) = wait_until(lambda: router.log_lines("call ended"), "the end of the call is logged")
    assert (line["level"], line["call_sid"], line["pod"], line["pool"], line["merchant"], line["reason"]) == (
        "warn", "CA1", "agent-1", "pool:gold", "acme", reason,
    )  # fmt: skip
    assert counts(router) == {**dict.fromkeys(counts(router), 0), reason: 1}
    assert router.stop() == 0
    assert len(router.log_lines("call ended")) == 1


def test_a_released_call_is_not_lost(router):
    router.allocate("CA1")
    router.release("CA1")
    assert set(counts(router).values()) == {0}
    assert router.log_lines("call ended") == []
