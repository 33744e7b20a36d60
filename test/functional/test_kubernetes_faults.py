"""Settings that are wrong, rights that are missing, servers that ask too much: what becomes of pods and marks.

KUBE_SLOW=1 also waits for what the router tries again only after minutes.
"""

import os
import random
import threading
import time

import kube
import scripted_kube
from conftest import wait_until
from test_kubernetes import MARKS, MISTAKE, annotations, has_call, names, pods, release_all, take_all, wait_for_pods
from test_kubernetes_rows import ENV, call_on, shown

SHORT_CALLS = 16
SLOW = bool(os.environ.get("KUBE_SLOW"))
MARKING = {**ENV, "MARK_BUSY_PODS": "true"}


def is_marked(namespace, name):
    return MARKS.items() <= annotations(namespace, name).items()


def marked(namespace):
    notes = {name: pod["metadata"].get("annotations", {}) for name, pod in namespace.pods().items()}
    return {name for name, annotated in notes.items() if MARKS.items() <= annotated.items()}


def admin_of(namespace):
    return namespace.plane.write_kubeconfig(kube.ADMIN_TOKEN, namespace.name)


def test_another_namespace_ends_no_call_until_a_second_list_confirms_it(control_plane, namespace, start_in):
    """There are pods, so the list is not empty; but nearly all calls would end."""
    namespace.create_pods(names(5))
    other = control_plane.create_namespace()
    other.create_pod("agent-9")
    router = start_in(namespace, ENV)
    wait_for_pods(router, names(5))
    calls = take_all(router)
    assert len(calls) == 5 and router.stop() == 0

    wrong = {**ENV, "KUBECONFIG": admin_of(other), "NAMESPACE": other.name, "RECONCILE_INTERVAL": "1h"}
    router = start_in(namespace, wrong, data_dir=router.data_dir)
    (said,) = wait_until(lambda: router.log_lines(MISTAKE), "it says that this cannot be right")
    assert (said["level"], said["namespace"], said["would_end"]) == ("error", other.name, 5)
    assert set(names(5)) <= set(pods(router)) and all(has_call(router, call_sid) for call_sid in calls)
    assert router.log_lines("call ended") == [] and router.stop() == 0

    # It was meant.
    router = start_in(namespace, {**wrong, "RECONCILE_INTERVAL": "1s"}, data_dir=router.data_dir)
    wait_for_pods(router, ["agent-9"])
    assert not any(has_call(router, call_sid) for call_sid in calls)


def test_the_right_namespace_again_and_nothing_has_happened(control_plane, namespace, start_in):
    namespace.create_pods(names(3))
    other = control_plane.create_namespace()
    other.create_pod("agent-9")
    router = start_in(namespace, ENV)
    wait_for_pods(router, names(3))
    calls = take_all(router)
    assert router.stop() == 0
    wrong = {**ENV, "KUBECONFIG": admin_of(other), "NAMESPACE": other.name, "RECONCILE_INTERVAL": "1h"}
    router = start_in(namespace, wrong, data_dir=router.data_dir)
    wait_until(lambda: router.log_lines(MISTAKE), "it says that this cannot be right")
    assert router.stop() == 0

    router = start_in(namespace, ENV, data_dir=router.data_dir)
    wait_until(lambda: router.log_lines("pods listed"), "it has the right list")
    wait_for_pods(router, names(3))
    assert {call_sid: router.allocate(call_sid)["pod_name"] for call_sid in calls} == calls
    assert router.log_lines("call ended") == []


def test_marks_are_taken_off_where_they_are_no_longer_wanted(namespace, start_in):
    namespace.create_pods(names(3))
    router = start_in(namespace, MARKING)
    wait_for_pods(router, names(3))
    busy, unlabelled = (router.allocate(call_sid)["pod_name"] for call_sid in ("CA1", "CA2"))
    wait_until(lambda: is_marked(namespace, busy) and is_marked(namespace, unlabelled), "they are marked")
    # Nobody would take them off later: the router does not see this pod any more.
    namespace.label_pod(unlabelled, app=None)
    wait_until(lambda: annotations(namespace, unlabelled) == {}, "the marks go with the label")
    assert has_call(router, "CA2") and is_marked(namespace, busy)
    namespace.api.patch(namespace.path(f"pods/{busy}"), {"metadata": {"annotations": {"mine": "stays"}}})
    assert router.stop() == 0

    router = start_in(namespace, ENV, data_dir=router.data_dir)
    wait_until(lambda: annotations(namespace, busy) == {"mine": "stays"}, "the marks of the earlier process are gone")
    assert has_call(router, "CA1")


def test_a_pod_that_may_not_be_marked_does_not_keep_others_from_it(namespace, start_in):
    namespace.create_pods(names(3))
    namespace.forbid_changes("agent-1")
    router = start_in(namespace, MARKING)
    wait_for_pods(router, names(3))
    calls = take_all(router)
    wait_until(lambda: marked(namespace) == {"agent-0", "agent-2"}, "the others are marked")
    # And from then on.
    namespace.create_pod("agent-3")
    wait_for_pods(router, names(4))
    calls.update(take_all(router, "more"))
    wait_until(lambda: marked(namespace) == {"agent-0", "agent-2", "agent-3"}, "a new one is marked")
    release_all(router, calls)


def right_to_patch_comes_later(namespace, start_in):
    namespace.create_pods(names(5))
    account = namespace.create_account(rules=[kube.POD_READER])
    router = start_in(namespace, MARKING, account=account)
    wait_for_pods(router, names(5))
    take_all(router)
    lacks = "pods with calls are not protected from scaling down: the role lacks a verb on pods"
    wait_until(lambda: router.log_lines(lacks), "it says what it lacks")
    assert marked(namespace) == set()
    account.set_rules(kube.ROUTER_RULES)
    end = time.monotonic() + 480
    while time.monotonic() < end and marked(namespace) != set(names(5)):
        time.sleep(1)
    assert marked(namespace) == set(names(5))


if SLOW:  # it takes more than five minutes; a test that is always skipped would look like one that cannot run
    test_the_right_to_patch_may_come_later = right_to_patch_comes_later


def test_with_short_calls_only_pods_that_stay_busy_are_marked(namespace, start_in):
    """Calls of about a second wander over 35 pods; five others are held."""
    namespace.create_pods(names(40))
    tiers = '{"tiers": {"gold": {"target": 40}}, "default_chain": ["gold"]}'
    router = start_in(namespace, {**MARKING, "TIER_CONFIG": tiers})
    wait_for_pods(router, names(40))
    held = {router.allocate(f"CA-held-{i}")["pod_name"] for i in range(5)}
    over = threading.Event()

    def wander(number):
        rng = random.Random(number)
        turn = 0
        while not over.is_set():
            turn += 1
            router.allocate(f"CA-{number}-{turn}")
            over.wait(rng.uniform(0.5, 1.5))
            router.release(f"CA-{number}-{turn}")

    threads = [threading.Thread(target=wander, args=(number,)) for number in range(SHORT_CALLS)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: held <= marked(namespace), "those that are held are marked")
        time.sleep(15)  # three looks more
        others = marked(namespace) - held
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert held <= marked(namespace)
    assert len(others) <= 14, others


def test_a_server_that_asks_for_an_hour_is_asked_again_sooner(start_router):
    listed = scripted_kube.answer(
        200, {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [shown("agent-0")]}
    )
    busy = scripted_kube.answer(429, retry_after="3600")
    steps = [busy, listed]

    def step(exchange):
        if "watch=" in exchange.request.query:
            scripted_kube.stream([], "hang")(exchange)
        (steps.pop(0) if len(steps) > 1 else steps[0])(exchange)

    with scripted_kube.ScriptedKube() as server:
        server.on("/api/v1/namespaces/default/pods", step)
        where = {"POD_SOURCE": "kubernetes", "KUBE_API_URL": server.url, "NAMESPACE": "default", "STATIC_PODS": ""}
        router = start_router({**ENV, **where})
        wait_until(lambda: router.log_lines("the pods cannot be followed"), "it was told to wait")
        wait_for_pods(router, ["agent-0"])
        router.stop()


def test_a_dead_connection_is_given_up_when_others_fail_on_it(control_plane, namespace, start_in):
    """Open, and silent: the watch alone would wait for bookmarks. But a pod cannot be marked, either."""
    namespace.create_pods(names(3))
    line = kube.Line(control_plane)
    try:
        env = {**MARKING, "RECONCILE_INTERVAL": "1h", "KUBECONFIG": namespace.account().kubeconfig(server=line.url)}
        router = start_in(namespace, env)
        wait_for_pods(router, names(3))
        line.swallow()
        call_on(router, "agent-0")
        namespace.create_pod("agent-3")
        namespace.end_pod("agent-2")
        wait_for_pods(router, ["agent-0", "agent-1", "agent-3"])
    finally:
        line.close()
