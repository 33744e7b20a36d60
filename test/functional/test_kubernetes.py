"""The pools follow the pods of a real Kubernetes control plane; one router with a store of its own.

KUBE_AWAY_SECONDS is how long the API server stays out of reach in the test of that; 300 is for campaigns.
"""

import collections
import json
import os
import time

import kube
import pytest
import scripted_kube
from conftest import wait_until

AWAY_S = float(os.environ.get("KUBE_AWAY_SECONDS") or "5")
MARKS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "controller.kubernetes.io/pod-deletion-cost": "1000",
    "karpenter.sh/do-not-disrupt": "true",
}
FORBIDDEN = (
    "Kubernetes does not allow it: a Role must give this service account the verbs get, list and watch on pods in "
    "this namespace"
)


MISTAKE = (
    "most live calls are on pods that the first list does not have: NAMESPACE, POD_LABEL_SELECTOR or the cluster may be"
    " wrong. Nothing is changed until a second list confirms it"
)


def names(count, first=0):
    return [f"agent-{i}" for i in range(first, first + count)]


def pods(router):
    """{name: pod}, as the router sees them."""
    return {pod["pod_name"]: pod for pod in router.get("/api/v1/pods?limit=1000").json()["pods"]}


def pod(router, name):
    """None if there is none."""
    answer = router.get(f"/api/v1/pod/{name}")
    return answer.json() if answer.status_code == 200 else None


def has_call(router, call_sid):
    return router.get(f"/api/v1/call/{call_sid}").status_code == 200


def wait_for_pods(router, expected):
    wait_until(lambda: set(pods(router)) == set(expected), f"the pods are {sorted(expected)}: {sorted(pods(router))}")


def wait_for_state(router, name, state):
    return wait_until(lambda: (p := pod(router, name)) and p["state"] == state and p, f"{name} is {state}")


def tiers(router):
    return collections.Counter(pod["tier"] for pod in pods(router).values())


def ended(router, call_sid):
    """Why the call ended, as the log says it."""
    lines = [line for line in router.log_lines("call ended") if line["call_sid"] == call_sid]
    return [(line["pod"], line["reason"]) for line in lines]


def take_all(router, prefix="fill"):
    """Gives a call to every place that is free; returns {call_sid: pod}."""
    taken = {}
    while True:
        call_sid = f"{prefix}-{len(taken)}"
        answer = router.post("/api/v1/allocate", {"call_sid": call_sid})
        if answer.status_code != 200:
            return taken
        taken[call_sid] = answer.json()["pod_name"]


def release_all(router, calls):
    for call_sid in calls:
        router.release(call_sid)


@pytest.fixture
def five(namespace, start_in):
    """A router that sees five pods."""
    namespace.create_pods(names(5))
    router = start_in(namespace)
    wait_for_pods(router, names(5))
    return router


@pytest.fixture
def line(control_plane):
    line = kube.Line(control_plane)
    yield line
    line.close()


def test_a_stateful_set_is_in_its_tiers_and_scales(controllers, namespace, start_in):
    kubelet = namespace.start_kubelet()
    router = start_in(namespace)
    namespace.create_stateful_set("agent", 5)
    wait_for_pods(router, names(5))
    wait_until(lambda: all(pod["state"] == "available" for pod in pods(router).values()), "all are ready")
    assert tiers(router) == {"gold": 1, "standard": 3, "basic": 1}
    addresses = {name: f"{pod['status']['podIP']}:8000" for name, pod in namespace.pods().items()}
    assert {name: pod["address"] for name, pod in pods(router).items()} == addresses

    namespace.scale("agent", 8)
    wait_for_pods(router, names(8))
    wait_until(lambda: all(pod["state"] == "available" for pod in pods(router).values()), "all are ready")
    assert tiers(router) == {"gold": 1, "standard": 6, "basic": 1}

    kubelet.hold("agent-6")
    namespace.scale("agent", 3)
    wait_for_pods(router, [*names(3), "agent-6"])
    wait_for_state(router, "agent-6", "draining")
    kubelet.let_go("agent-6")
    wait_for_pods(router, names(3))
    assert len(take_all(router)) == sum({"gold": 1, "standard": 1, "basic": 3}[t] * n for t, n in tiers(router).items())


def test_pods_of_other_labels_and_pods_that_are_not_ready_stay_out(namespace, start_in):
    namespace.create_pod("other-0", labels={"app": "other"})
    namespace.create_pod("agent-0", ready=None)
    namespace.create_pod("agent-1", ready=False)
    namespace.create_pod("agent-2")
    router = start_in(namespace)
    wait_for_pods(router, ["agent-2"])
    assert set(take_all(router).values()) == {"agent-2"}

    namespace.set_status("agent-0")
    wait_for_state(router, "agent-0", "available")


def test_a_pod_that_vanishes_ends_its_call(namespace, five):
    name = five.allocate("CA1")["pod_name"]
    namespace.end_pod(name)
    wait_until(lambda: pod(five, name) is None, "the pod is gone")
    assert not has_call(five, "CA1")
    assert ended(five, "CA1") == [(name, "pod_gone")]
    wait_for_pods(five, set(names(5)) - {name})


def test_the_same_name_with_a_new_uid_is_a_new_pod(namespace, five):
    name = five.allocate("CA1")["pod_name"]
    kube.grow_old()
    namespace.replace_pod(name)
    wait_until(lambda: not has_call(five, "CA1"), "the call has ended")
    assert [why for _, why in ended(five, "CA1")] in (["pod_gone"], ["pod_restarted"])
    fresh = wait_for_state(five, name, "available")
    assert fresh["calls"] == [] and not fresh["has_active_lease"]
    assert name in take_all(five).values()


def test_a_container_that_restarts_has_lost_its_call(namespace, five):
    name = five.allocate("CA1")["pod_name"]
    kube.grow_old()
    namespace.restart_container(name)
    wait_until(lambda: not has_call(five, "CA1"), "the call has ended")
    assert ended(five, "CA1") == [(name, "pod_restarted")]
    assert wait_for_state(five, name, "available")["calls"] == []
    assert name in take_all(five).values()


def test_a_pod_that_is_not_ready_for_a_while_keeps_its_call_and_gets_no_other(namespace, five):
    name = five.allocate("CA1")["pod_name"]
    namespace.set_status(name, ready=False)
    assert wait_for_state(five, name, "suspended")["calls"] == ["CA1"]
    taken = take_all(five)
    assert name not in taken.values()
    assert five.allocate("CA1")["was_existing"]

    namespace.set_status(name)
    assert wait_for_state(five, name, "busy")["calls"] == ["CA1"]
    assert take_all(five, "more") == {}
    five.release("CA1")
    assert take_all(five, "then").popitem()[1] == name
    assert ended(five, "CA1") == []


def test_a_pod_released_while_it_is_not_ready_comes_back_when_it_is(namespace, five):
    name = five.allocate("CA1")["pod_name"]
    namespace.set_status(name, ready=False)
    wait_for_state(five, name, "suspended")
    five.release("CA1")
    assert name not in take_all(five).values()
    namespace.set_status(name)
    wait_for_state(five, name, "available")


def test_a_terminating_pod_finishes_its_call_and_gets_no_new_one(namespace, five):
    name = five.allocate("CA1")["pod_name"]
    namespace.delete_pod(name)
    assert wait_for_state(five, name, "draining")["calls"] == ["CA1"]
    taken = take_all(five)
    assert name not in taken.values() and has_call(five, "CA1")

    assert five.release("CA1")["pod_name"] == name
    assert pod(five, name)["state"] == "draining"
    assert take_all(five, "more") == {}
    namespace.end_pod(name)
    wait_until(lambda: pod(five, name) is None, "the pod is gone")
    assert ended(five, "CA1") == []


def test_the_api_server_restarts_and_nothing_is_lost(control_plane, namespace, line, start_in):
    namespace.create_pods(names(5))
    router = start_in(namespace, {"KUBECONFIG": namespace.account().kubeconfig(server=line.url)})
    wait_for_pods(router, names(5))
    namespace.create_pod("agent-5")  # comes by the watch, whose version is known from then on
    wait_for_pods(router, names(6))
    calls = {f"CA{i}": router.allocate(f"CA{i}")["pod_name"] for i in range(3)}
    before = pods(router)
    # The server's memory begins after these two: a watch from the version that the router has would not tell them.
    line.cut()
    namespace.create_pods(names(2, first=6))
    control_plane.restart_apiserver()
    line.mend()
    wait_for_pods(router, names(8))
    assert router.log_lines("the pods cannot be followed")
    after = pods(router)
    for name, seen in before.items():  # idle ones may have moved to another tier
        assert (after[name]["calls"], after[name]["address"]) == (seen["calls"], seen["address"])
    assert all(router.allocate(call_sid)["pod_name"] == name for call_sid, name in calls.items())
    assert router.log_lines("call ended") == [] and router.log_lines("pod gone") == []


def test_missing_rights_are_said_and_when_they_come_it_recovers(namespace, start_in):
    namespace.create_pods(names(2))
    account = namespace.create_account(rules=[])
    router = start_in(namespace, account=account)
    (said,) = wait_until(lambda: router.log_lines(FORBIDDEN), "it says what is missing")
    assert (said["level"], said["verb"], said["resource"], said["namespace"]) == ("error", "list", "pods", namespace.name)
    assert account.name in said["answer"]
    assert router.get("/health").status_code == 200 and pods(router) == {}

    account.set_rules([{**kube.POD_READER, "verbs": ["get", "list"]}])
    wait_for_pods(router, names(2))
    said = wait_until(lambda: router.log_lines(FORBIDDEN)[1:], "it says that it may not watch")
    assert said[0]["verb"] == "watch"

    account.set_rules([kube.POD_READER])
    wait_until(lambda: router.log_lines("the pods are followed again"), "it says that all is well")
    namespace.create_pod("agent-2")
    wait_for_pods(router, names(3))


def test_one_empty_list_removes_nothing_until_another_confirms_it(namespace, start_in, tmp_path):
    namespace.create_pods(names(5))
    router = start_in(namespace)
    wait_for_pods(router, names(5))
    calls = take_all(router)
    assert router.stop() == 0

    # The selector is somebody's mistake. The second list would come in an hour.
    wrong = {"POD_LABEL_SELECTOR": "app=agnet", "RECONCILE_INTERVAL": "1h"}
    router = start_in(namespace, wrong, data_dir=router.data_dir)
    empty = "Kubernetes lists no pods: what the store knows stays until a second list confirms it"
    wait_until(lambda: router.log_lines(empty), "it says that the list is empty")
    wait_until(lambda: "smart_router_sweeps_total" in router.get("/metrics").text, "the manager works")
    assert set(pods(router)) == set(names(5))
    assert all(has_call(router, call_sid) for call_sid in calls)

    # One pod that shows up does not make it true: most calls are on pods that this list does not have, either.
    namespace.create_pod("misfit-0", labels={"app": "agnet"})
    said = wait_until(lambda: router.log_lines(MISTAKE), "it says that the list would lose the calls")
    assert (said[0]["level"], said[0]["calls"], said[0]["would_end"]) == ("error", len(calls), len(calls))
    assert set(pods(router)) == set(names(5))
    assert router.stop() == 0

    # A second list confirms it. But the pods exist, so they finish their calls, and get no new one.
    router = start_in(namespace, {**wrong, "RECONCILE_INTERVAL": "1s"}, data_dir=router.data_dir)
    wait_until(lambda: {pod["state"] for pod in pods(router).values()} == {"available", "draining"}, "the pods drain")
    assert set(pods(router)) == {"misfit-0", *names(5)}
    assert all(has_call(router, call_sid) for call_sid in calls)
    assert router.log_lines("call ended") == []
    release_all(router, calls)
    wait_for_pods(router, ["misfit-0"])
    namespace.end_pod("misfit-0")
    wait_for_pods(router, [])


def test_without_the_api_server_calls_go_on_and_then_one_sync_repairs(namespace, line, start_in):
    namespace.create_pods(names(6))
    router = start_in(namespace, {"KUBECONFIG": namespace.account().kubeconfig(server=line.url)})
    wait_for_pods(router, names(6))
    lost, kept, released = [router.allocate(f"CA-{what}")["pod_name"] for what in ("lost", "kept", "released")]
    line.cut()
    wait_until(lambda: router.log_lines("the pods cannot be followed"), "it notices")

    # What happens meanwhile, the router cannot see.
    idle = sorted(set(names(6)) - {lost, kept, released})
    namespace.end_pod(lost)
    namespace.end_pod(idle[0])
    namespace.restart_container(idle[1])
    namespace.create_pod("agent-6")
    router.release("CA-released")
    end = time.monotonic() + AWAY_S
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        assert router.allocate(f"CA-{rounds}")["pod_name"] in names(6)
        router.release(f"CA-{rounds}")
        time.sleep(0.05)
    assert rounds > 10 and set(pods(router)) == set(names(6))
    assert has_call(router, "CA-lost") and router.log_lines("call ended") == []

    line.mend()
    wait_for_pods(router, set(names(7)) - {lost, idle[0]})
    wait_until(lambda: ended(router, "CA-lost") == [(lost, "pod_gone")], "the lost pod's call has ended")
    assert router.allocate("CA-kept")["pod_name"] == kept
    assert len(router.log_lines("call ended")) == 1
    synced = router.log_lines("pods synced")
    assert [(line["added"], line["removed"]) for line in synced] == [(6, 0), (1, 1)]
    assert [line["pod"] for line in router.log_lines("pod gone")] == [lost]  # with its call, after the server was asked


def test_in_the_cluster_the_service_account_is_enough_and_its_token_rotates(control_plane, namespace, start_in, tmp_path):
    namespace.create_pods(names(2))
    account = namespace.account()
    mount = account.write_mount(tmp_path / "serviceaccount")
    env = {
        "KUBECONFIG": None,
        "POD_SOURCE": None,
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": control_plane.port,
        "SERVICE_ACCOUNT_DIR": mount,
    }
    # The first token is one that the server does not know (any more).
    (mount / "token").write_text("expired")
    router = start_in(namespace, env)
    refused = "Kubernetes does not know us: the token or certificate was refused"
    wait_until(lambda: router.log_lines(refused), "it says that the token is refused")
    assert pods(router) == {}

    # The kubelet writes the new one beside it and moves it into place.
    (mount / "token.new").write_text(account.new_token())
    os.replace(mount / "token.new", mount / "token")
    wait_for_pods(router, names(2))
    assert account.token not in router.log() and "Bearer" not in router.log()


def annotations(namespace, name):
    return namespace.pod(name)["metadata"].get("annotations") or {}


def test_a_pod_with_a_call_is_marked_and_relieved_afterwards(namespace, five):
    busy = five.allocate("CA1")["pod_name"]
    kube.wait_until(lambda: MARKS.items() <= annotations(namespace, busy).items(), "it is marked")
    idle = [name for name in names(5) if name != busy]
    assert all(annotations(namespace, name) == {} for name in idle)
    five.release("CA1")
    kube.wait_until(lambda: annotations(namespace, busy) == {}, "it is relieved")


def test_without_the_right_to_patch_pods_are_not_marked_and_all_else_works(namespace, start_in):
    namespace.create_pods(names(3))
    router = start_in(namespace, account=namespace.create_account(rules=[kube.POD_READER]))
    wait_for_pods(router, names(3))
    calls = take_all(router)
    warning = "pods with calls are not protected from scaling down: the role lacks a verb on pods"
    (said,) = wait_until(lambda: router.log_lines(warning), "it says that it may not patch")
    assert (said["verb"], said["resource"], said["namespace"]) == ("patch", "pods", namespace.name)
    release_all(router, calls)
    namespace.create_pod("agent-3")
    wait_for_pods(router, names(4))
    calls = take_all(router, "again")
    time.sleep(6)  # a round of marking: it has nothing more to say
    assert len(router.log_lines(warning)) == 1
    assert all(annotations(namespace, name) == {} for name in names(4))


def test_pods_of_the_api_beside_those_of_kubernetes(namespace, five):
    answer = five.post("/api/v1/pods", {"pod_name": "guest-0", "address": "127.0.0.1:9000"})
    assert answer.status_code == 200
    wait_for_pods(five, [*names(5), "guest-0"])
    namespace.create_pod("agent-5")
    wait_for_pods(five, [*names(6), "guest-0"])


def test_pods_whose_names_cannot_be_used_are_left_out_and_it_is_said_once(start_router):
    """However often they are told: a Deployment of them must not fill the log."""

    def told(name, version):
        return {
            "metadata": {"name": name, "uid": "u-" + name.replace(".", "-"), "resourceVersion": str(version)},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
        }

    bad = ["agent.with.dots", "a" * 64, "metadata"]
    page = {"kind": "PodList", "metadata": {"resourceVersion": "5"}, "items": [told(name, 5) for name in [*bad, "agent-0"]]}
    events = [{"type": "MODIFIED", "object": told(name, 6 + i)} for i in range(5) for name in bad]
    events.append({"type": "ADDED", "object": told("agent-1", 20)})
    with scripted_kube.ScriptedKube() as server:
        path = "/api/v1/namespaces/default/pods"
        watch = scripted_kube.stream([json.dumps(event).encode() for event in events], "hang")
        server.on(path, scripted_kube.answer(200, json.dumps(page).encode()), watch)
        env = {"POD_SOURCE": "kubernetes", "KUBE_API_URL": server.url, "NAMESPACE": "default", "MARK_BUSY_PODS": "false"}
        router = start_router({**env, "STATIC_PODS": ""})
        wait_for_pods(router, names(2))
        assert len(router.log_lines("a pod is left out: its name cannot be used")) == 1
        router.stop()
