"""What a real API server does not do on demand: answers that come late, twice, or at the wrong moment."""

import time

import pytest
from conftest import wait_until
from scripted_pods import ScriptedPods
from test_kubernetes import MISTAKE, has_call, names, take_all, wait_for_pods
from test_kubernetes_rows import ENV

CALM = {**ENV, "RECONCILE_INTERVAL": "1h"}


@pytest.fixture
def kube():
    with ScriptedPods() as server:
        yield server


def start_with_calls(kube, start_router, env, count=3):
    """A router whose pods all have a call: the router and {call_sid: pod}."""
    kube.put_all(names(count))
    router = start_router({**env, **kube.where})
    wait_for_pods(router, names(count))
    calls = take_all(router)
    assert len(calls) == count
    return router, calls


def cut_and_wait(kube):
    """The watch breaks; the router has listed again, and has had the time to do what it wants to do then."""
    lists, watches = kube.lists, kube.watches
    kube.cut_watches()
    wait_until(lambda: kube.lists > lists and kube.watches > watches, "it lists and watches again")
    time.sleep(1)


def test_a_watch_that_breaks_does_not_confirm_a_first_list_before_its_time(kube, start_router):
    router, calls = start_with_calls(kube, start_router, CALM)
    assert router.stop() == 0
    kube.forget_silently(names(3))
    kube.put("stranger")
    router = start_router({**CALM, **kube.where}, data_dir=router.data_dir)
    wait_until(lambda: router.log_lines(MISTAKE), "it does not believe the list")

    cut_and_wait(kube)
    assert kube.gets == [] and all(has_call(router, call_sid) for call_sid in calls)


def test_a_watch_that_breaks_does_not_confirm_an_empty_list_before_its_time(kube, start_router):
    router, calls = start_with_calls(kube, start_router, CALM)
    kube.forget_silently(names(3))
    cut_and_wait(kube)
    cut_and_wait(kube)
    assert kube.gets == [] and all(has_call(router, call_sid) for call_sid in calls)
