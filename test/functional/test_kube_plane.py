"""The tests' own control plane: it is a real one, and the test acts as the kubelet as it should."""

import signal

import kube
import pytest
from kube import wait_until

QUICK_ELECTION = {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "500ms"}


def ready(pod):
    conditions = pod["status"].get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def test_a_pod_runs_when_its_kubelet_says_so(namespace):
    pending = namespace.create_pod("agent-0", ready=None)
    assert pending["status"]["phase"] == "Pending" and not ready(pending)

    namespace.set_status("agent-0", ready=False)
    assert not ready(namespace.pod("agent-0"))

    namespace.set_status("agent-0")
    pod = namespace.pod("agent-0")
    assert pod["status"]["phase"] == "Running" and ready(pod) and pod["status"]["podIP"]
    assert list(namespace.pods()) == ["agent-0"]


def test_many_pods_come_in_pages(namespace):
    namespace.create_pods([f"agent-{i}" for i in range(25)])
    assert len({pod["status"]["podIP"] for pod in namespace.pods().values()}) == 25

    first = namespace.list_pods(limit=20)
    rest = namespace.list_pods(limit=20, **{"continue": first["metadata"]["continue"]})
    assert len(first["items"]) == 20 and len(rest["items"]) == 5


def test_a_deleted_pod_is_terminating_until_it_is_ended(namespace):
    uid = namespace.create_pod("agent-0")["metadata"]["uid"]
    namespace.delete_pod("agent-0")
    pod = namespace.pod("agent-0")
    assert pod["metadata"]["deletionTimestamp"] and pod["status"]["phase"] == "Running" and ready(pod)

    assert namespace.replace_pod("agent-0")["metadata"]["uid"] != uid
    namespace.end_pod("agent-0")
    assert namespace.pods() == {}


def test_a_container_restarts_and_the_pod_stays_the_same(namespace):
    before = namespace.create_pod("agent-0")
    after = namespace.restart_container("agent-0")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["podIP"] == before["status"]["podIP"]
    assert after["status"]["containerStatuses"][0]["restartCount"] == 1


def test_a_watch_tells_what_happened_since_the_list(namespace):
    version = namespace.list_pods()["metadata"]["resourceVersion"]
    namespace.create_pod("agent-0")
    namespace.end_pod("agent-0")
    types = [event["type"] for event in namespace.api.watch(namespace.path("pods"), version, timeoutSeconds=1)]
    assert types[:2] == ["ADDED", "MODIFIED"] and types[-1] == "DELETED"


def test_namespaces_do_not_see_each_other(control_plane, namespace):
    namespace.create_pod("agent-0")
    assert control_plane.create_namespace().pods() == {}


def test_a_restarted_apiserver_has_forgotten_old_versions(control_plane, namespace):
    version = namespace.list_pods()["metadata"]["resourceVersion"]
    namespace.create_pods(["agent-0", "agent-1"])
    control_plane.restart_apiserver()

    events = list(namespace.api.watch(namespace.path("pods"), version, timeoutSeconds=1))
    assert [event["type"] for event in events] == ["ERROR"]
    assert events[0]["object"]["code"] == 410 and events[0]["object"]["reason"] in ("Expired", "Gone")
    assert set(namespace.pods()) == {"agent-0", "agent-1"}


def test_a_stateful_set_of_five_scales_to_eight_and_to_three(controllers, namespace):
    kubelet = namespace.start_kubelet()
    namespace.create_stateful_set("agent", 5)

    def run(count):
        pods = namespace.pods()
        return set(pods) == {f"agent-{i}" for i in range(count)} and all(ready(pod) for pod in pods.values())

    wait_until(lambda: run(5), "five pods run")
    namespace.scale("agent", 8)
    wait_until(lambda: run(8), "eight pods run")

    kubelet.hold("agent-7")
    namespace.scale("agent", 3)
    wait_until(lambda: set(namespace.pods()) == {"agent-0", "agent-1", "agent-2", "agent-7"}, "but the held one is gone")
    assert "deletionTimestamp" in namespace.pod("agent-7")["metadata"]
    kubelet.let_go("agent-7")
    wait_until(lambda: run(3), "three pods are left")


def test_a_stateful_set_replaces_a_pod_under_the_same_name(controllers, namespace):
    namespace.start_kubelet()
    namespace.create_stateful_set("agent", 1)
    uid = wait_until(lambda: namespace.pods().get("agent-0"), "the pod is there")["metadata"]["uid"]
    namespace.delete_pod("agent-0")
    wait_until(lambda: namespace.pods().get("agent-0", {}).get("metadata", {}).get("uid") not in (None, uid), "a new one")


def test_an_account_may_do_what_its_rules_say_and_nothing_else(namespace):
    namespace.create_pod("agent-0")
    reader = namespace.create_account("reader", rules=[kube.POD_READER]).client()
    assert len(reader.get(namespace.path("pods"))["items"]) == 1

    for path in (namespace.path("leases", group="coordination.k8s.io/v1"), "/api/v1/namespaces/default/pods"):
        with pytest.raises(kube.ApiError) as refused:
            reader.get(path)
        assert refused.value.code == 403
    with pytest.raises(kube.ApiError) as refused:
        reader.patch(namespace.path("pods/agent-0"), {"metadata": {"annotations": {"a": "b"}}})
    assert refused.value.code == 403
    reader.close()

    stranger = kube.Api(namespace.plane, "no-such-token")
    with pytest.raises(kube.ApiError) as refused:
        stranger.get(namespace.path("pods"))
    assert refused.value.code == 401
    stranger.close()


def test_electors_take_turns(namespace, start_elector):
    kubeconfig = namespace.create_account(rules=[kube.LEASE_HOLDER]).kubeconfig()

    def start(identity):
        return start_elector(kubeconfig, namespace.name, "leader", identity, **QUICK_ELECTION)

    def holder():
        return namespace.lease("leader")["spec"].get("holderIdentity")

    first = start("first")
    wait_until(first.is_leading, "the first one leads")
    second = start("second")
    wait_until(lambda: any(event.get("leader") == "first" for event in second.events()), "the second one sees it")
    assert holder() == "first" and not second.is_leading()

    assert first.terminate() == 0
    assert not first.is_leading()
    wait_until(second.is_leading, "the second one leads when the first has given it back")
    assert holder() == "second"

    third = start("third")
    second.send(signal.SIGKILL)
    wait_until(third.is_leading, "the third one leads when the second is silent")
    assert holder() == "third" and namespace.lease("leader")["spec"]["leaseTransitions"] == 2
