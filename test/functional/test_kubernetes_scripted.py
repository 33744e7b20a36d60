"""What a real API server does not do on demand: answers that come late, twice, or at the wrong moment."""

import threading
import time

import pytest
import scripted_kube
from conftest import wait_until
from scripted_pods import PATH, ScriptedPods, not_found
from test_kubernetes import MARKS, MISTAKE, has_call, names, pod, take_all, wait_for_pods, wait_for_state
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


def test_an_old_answer_does_not_end_the_call_of_a_successor(kube, start_router):
    """The pod was asked for, is back as another one, and then loses its label, before the answer is there."""
    router, calls = start_with_calls(kube, start_router, CALM)
    (old,) = [call_sid for call_sid, name in calls.items() if name == "agent-0"]
    may_answer = threading.Event()
    steps = [scripted_kube.slow(not_found("agent-0"), may_answer)]
    kube.before_get = lambda exchange, name: steps.pop() if steps else None

    kube.remove("agent-0")
    wait_until(lambda: kube.gets == ["agent-0"], "it is asked for")
    kube.put("agent-0", started_at=time.time() + 60)
    wait_for_state(router, "agent-0", "available")
    assert not has_call(router, old)
    assert router.allocate("young")["pod_name"] == "agent-0"
    kube.hide("agent-0")
    wait_for_state(router, "agent-0", "draining")
    may_answer.set()
    wait_until(lambda: len(kube.gets) > 1, "it is asked for again")
    time.sleep(0.5)
    assert has_call(router, "young") and pod(router, "agent-0")["state"] == "draining"


@pytest.mark.parametrize("step", [not_found("agents", "services"), scripted_kube.status_object(404, "NotFound")])
def test_only_a_pod_that_was_not_found_is_gone(step, kube, start_router):
    """A server behind a proxy may not know the path, or the namespace: that says nothing about the pod."""
    router, calls = start_with_calls(kube, start_router, CALM)
    kube.before_get = lambda exchange, name: step
    kube.hide("agent-0")
    wait_for_state(router, "agent-0", "draining")
    wait_until(lambda: kube.gets, "it is asked for")
    time.sleep(0.5)
    assert all(has_call(router, call_sid) for call_sid in calls)


def test_questions_that_fail_are_said_once_and_not_for_each_pod_at_each_sync(kube, start_router):
    router, calls = start_with_calls(kube, start_router, ENV, count=8)
    kube.before_get = lambda exchange, name: scripted_kube.status_object(503, "ServiceUnavailable", "not now")
    for name in names(8):
        kube.hide(name)
    wait_until(lambda: len(kube.gets) > 50, "each was asked for several times")
    (line,) = [line for line in router.log_lines() if line["msg"].startswith("it is not known whether a pod")]
    assert line["pod"] in names(8) and "not now" in line["error"]
    assert all(has_call(router, call_sid) for call_sid in calls)


@pytest.mark.parametrize("marks", ["true", "false"])
def test_pods_of_a_list_that_is_in_doubt_keep_their_marks(marks, kube, start_router):
    """It may be the list of another router's pods, which that one has marked for its calls."""
    router, _ = start_with_calls(kube, start_router, CALM)
    assert router.stop() == 0
    kube.forget_silently(names(3))
    kube.put("stranger", annotations={**MARKS, "smart-router/marks": "pod-deletion-cost,safe-to-evict,do-not-disrupt"})
    before, lists = kube.lists, []
    kube.on(f"{PATH}/stranger", lambda exchange: lists.append(kube.lists) or exchange.answer(200, {}), method="PATCH")
    env = {**CALM, "MARK_BUSY_PODS": marks, "RECONCILE_INTERVAL": "10s", **kube.where}
    router = start_router(env, data_dir=router.data_dir)
    wait_until(lambda: router.log_lines(MISTAKE), "it does not believe the list")
    wait_until(lambda: lists, "its marks are taken off when the list was meant")
    assert lists[0] >= before + 2, "a second list has confirmed the first one by then"


def test_stopping_while_pods_are_asked_for_ends_no_call(kube, start_router):
    router, calls = start_with_calls(kube, start_router, CALM, count=8)
    kube.before_get = lambda exchange, name: scripted_kube.silence
    for name in names(8):
        kube.hide(name)
    wait_until(lambda: len(kube.gets) >= 4, "the first of them are asked for")
    assert router.stop() == 0
    router = start_router({**CALM, **kube.where}, data_dir=router.data_dir)
    assert all(has_call(router, call_sid) for call_sid in calls)
