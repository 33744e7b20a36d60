"""Silence that nobody could hear is nobody's fault: a full disk, a stopped process or a restart ends no call."""

import os
import resource
import signal
import time

import pytest
from conftest import wait_until
from test_full_disk import fill_until_refused, set_limit

TTL_S = 2
ENV = {
    "POD_SOURCE": "api",
    "STATIC_PODS": None,
    "HEARTBEAT_TTL": f"{TTL_S}s",
    "LEASE_TTL": f"{TTL_S}s",
    "CLEANUP_INTERVAL": "100ms",
}


def a_pod_with_a_call(router):
    registration = {"pod_name": "box-1", "address": "127.0.0.1:9000"}
    assert router.post("/api/v1/pods", registration).status_code == 200
    router.allocate("CA1")
    assert speaks(router)


def heartbeat(router):
    return router.post("/api/v1/pod/box-1/heartbeat", {"call_sids": ["CA1"]})


def speaks(router):
    """The pod's heartbeat, which renews its call."""
    answer = heartbeat(router)
    return answer.status_code == 200 and answer.json()["renewed"] == ["CA1"]


def is_alive(router):
    return router.get("/api/v1/call/CA1").status_code == 200 and router.get("/api/v1/pod/box-1").status_code == 200


def test_a_full_disk_that_lasts_longer_than_every_lease_ends_no_call(start_router):
    router = start_router(ENV)
    a_pod_with_a_call(router)
    set_limit(router, 4096)
    fill_until_refused(router)
    time.sleep(1.5 * TTL_S)
    set_limit(router, resource.RLIM_INFINITY)
    while router.get("/ready").status_code != 200:
        time.sleep(0.05)
    time.sleep(0.5)  # several sweeps
    assert is_alive(router)
    assert speaks(router)


def test_a_process_that_was_stopped_ends_no_call(start_router):
    router = start_router({**ENV, "HEARTBEAT_TTL": "4s", "LEASE_TTL": "4s"})
    a_pod_with_a_call(router)
    os.kill(router.proc.pid, signal.SIGSTOP)
    time.sleep(6)
    os.kill(router.proc.pid, signal.SIGCONT)
    time.sleep(0.5)
    assert is_alive(router)
    assert speaks(router)


def test_a_restart_after_every_lease_has_run_out_ends_no_call(start_router, tmp_path):
    router = start_router(ENV, tmp_path / "data")
    a_pod_with_a_call(router)
    assert router.stop() == 0
    time.sleep(1.5 * TTL_S)
    router = start_router(ENV, tmp_path / "data")
    time.sleep(0.5)
    assert is_alive(router)
    assert speaks(router)


@pytest.mark.parametrize("stopped", [False, True])
def test_silence_that_could_be_heard_ends_it(start_router, stopped):
    """The counterpart: forgiven is not forgotten."""
    router = start_router(ENV)
    a_pod_with_a_call(router)
    if stopped:
        os.kill(router.proc.pid, signal.SIGSTOP)
        time.sleep(4)
        os.kill(router.proc.pid, signal.SIGCONT)
    end = time.monotonic() + 20
    while is_alive(router):
        assert time.monotonic() < end, "the pod is silent but still there"
        time.sleep(0.05)
    wait_until(lambda: router.log_lines("call ended"), "the end of the call is logged")
    assert [line["reason"] for line in router.log_lines("call ended")] in (["pod_gone"], ["lease_expired"])
