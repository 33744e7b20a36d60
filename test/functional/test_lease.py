"""Leader election by a Lease, and the marks of pods with calls: on a real API server, against client-go's own election,
and on a scripted server for what a real one will not do.

Drives $BUILD_DIR/test/lease-driver: one competitor at the end of a pipe, whose lines lease_driver.c explains.
"""

import json
import pathlib
import re
import signal
import subprocess
import threading
import time

import kube
import pytest
from conftest import BUILD_DIR, ROOT
from kube import LEASE_HOLDER, POD_PATCHER, wait_until
from scripted_kube import ScriptedKube, answer, silence, status_object

DRIVER = (BUILD_DIR if BUILD_DIR.is_absolute() else ROOT / BUILD_DIR) / "test" / "lease-driver"
DURATION_MS, DEADLINE_MS, RETRY_MS = 3000, 2000, 400
ELECTOR = {"lease_duration": "3s", "renew_deadline": "2s", "retry_period": "400ms"}
MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/voice/leases"


class Competitor:
    """One of ours. An exit code other than 0, or a sanitizer's report, fails the test, unless the test killed it."""

    def __init__(self, directory, identity, *where, namespace, lease="router"):
        self.identity = identity
        self.log_path = pathlib.Path(directory) / f"{identity}.log"
        times = (DURATION_MS, DEADLINE_MS, RETRY_MS)
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in (DRIVER, *where, namespace, lease, identity, *times)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.events = []
        self.is_killed = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def changes(self):
        return [event for event in list(self.events) if event["event"] == "change"]

    def leads(self):
        return bool(self.changes()) and self.changes()[-1]["is_leader"]

    def follows(self, leader):
        return bool(self.changes()) and not self.leads() and self.changes()[-1]["leader"] == leader

    def acts(self):
        """(from, to, who) for each time that it might act as the leader; whole only once it has ended."""
        return [(event["from"], event["to"], self.identity) for event in list(self.events) if event["event"] == "act"]

    def log(self):
        return self.log_path.read_text(errors="replace")

    def log_lines(self, level):
        lines = [json.loads(line) for line in self.log().splitlines() if line.startswith("{")]
        return [line for line in lines if line["level"] == level]

    def kill(self):
        self.is_killed = True
        self.process.kill()

    def stop(self):
        """SIGTERM, and what comes of it."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(kube.PATIENCE_S)
        self._reader.join(kube.PATIENCE_S)
        self.process.stdin.close()
        self.process.stdout.close()
        if not self.is_killed:
            assert code == 0, self.log()
        assert "Sanitizer" not in self.log() and "runtime error:" not in self.log(), self.log()


@pytest.fixture
def start(tmp_path):
    """start(identity, "kubeconfig"|"url", where, namespace=..., lease="router") -> Competitor"""
    started = []

    def start_one(identity, *args, **kwargs):
        started.append(Competitor(tmp_path, identity, *args, **kwargs))
        return started[-1]

    yield start_one
    for competitor in started:
        competitor.process.send_signal(signal.SIGCONT)
        competitor.stop()


@pytest.fixture
def account(namespace):
    return namespace.create_account(rules=[LEASE_HOLDER, POD_PATCHER])


@pytest.fixture
def compete(account, start):
    """compete(identity) -> Competitor, all of them for the same Lease of the test's namespace"""
    path = account.kubeconfig()
    return lambda identity: start(identity, "kubeconfig", path, namespace=account.namespace.name)


def acted_alone(*competitors):
    """Never did two of them act at the same time."""
    for competitor in competitors:
        competitor.stop()
    acts = sorted(act for competitor in competitors for act in competitor.acts())
    assert acts
    for (_, end, who), (begin, _, other) in zip(acts, acts[1:]):
        assert who == other or end < begin, acts


def one_leads(competitors):
    leaders = [competitor for competitor in competitors if competitor.leads()]
    return leaders[0] if len(leaders) == 1 else None


# On a real API server


def test_the_lease_is_written_as_the_api_server_wants_it(namespace, compete):
    ours = compete("ours")
    wait_until(ours.leads, "it leads")
    spec = namespace.lease("router")["spec"]
    assert spec["holderIdentity"] == "ours"
    assert spec["leaseDurationSeconds"] == DURATION_MS // 1000
    assert spec.get("leaseTransitions", 0) == 0
    assert MICRO_TIME.fullmatch(spec["acquireTime"]) and MICRO_TIME.fullmatch(spec["renewTime"])

    wait_until(lambda: namespace.lease("router")["spec"]["renewTime"] != spec["renewTime"], "it is renewed")
    assert namespace.lease("router")["spec"]["acquireTime"] == spec["acquireTime"]
    ours.stop()
    given_up = namespace.lease("router")["spec"]
    assert given_up.get("holderIdentity", "") == "" and given_up["leaseDurationSeconds"] == 1
    assert not ours.log_lines("warn") and not ours.log_lines("error")


def test_two_compete_and_one_leads(compete):
    both = [compete("a"), compete("b")]
    leader = wait_until(lambda: one_leads(both), "one leads")
    follower = both[1 - both.index(leader)]
    wait_until(lambda: follower.follows(leader.identity), "the other one knows")
    time.sleep(2 * DURATION_MS / 1000)
    assert len(leader.changes()) == 1 and len(follower.changes()) == 1
    acted_alone(*both)


def test_kill_9_is_followed_by_the_other_one_when_the_lease_has_run_out(namespace, compete):
    first = compete("a")
    wait_until(first.leads, "it leads")
    second = compete("b")
    wait_until(lambda: second.follows("a"), "the other one follows")
    first.kill()
    wait_until(second.leads, "the other one leads")
    spec = namespace.lease("router")["spec"]
    assert spec["holderIdentity"] == "b" and spec["leaseTransitions"] == 1


def test_a_leader_that_is_told_to_stop_hands_over(namespace, compete):
    first = compete("a")
    wait_until(first.leads, "it leads")
    second = compete("b")
    wait_until(lambda: second.follows("a"), "the other one follows")
    first.stop()
    released = namespace.lease("router")["spec"]
    wait_until(second.leads, "the other one leads")
    assert released.get("holderIdentity", "") in ("", "b")  # it may have been that quick
    acted_alone(first, second)


def test_a_leader_that_slept_does_not_act_when_it_wakes(compete):
    first = compete("a")
    wait_until(first.leads, "it leads")
    second = compete("b")
    wait_until(lambda: second.follows("a"), "the other one follows")
    first.process.send_signal(signal.SIGSTOP)
    wait_until(second.leads, "the other one leads")
    time.sleep(1)
    first.process.send_signal(signal.SIGCONT)
    wait_until(lambda: first.follows("b"), "it follows")
    acted_alone(first, second)


def test_an_api_server_that_falls_silent_ends_the_lead_before_the_lease(control_plane, compete):
    first = compete("a")
    wait_until(first.leads, "it leads")
    with control_plane.paused_apiserver():
        wait_until(lambda: not first.leads(), "it no longer leads")
    wait_until(first.leads, "it leads again")
    acted_alone(first)


def test_an_api_server_that_restarts_is_found_again(control_plane, compete):
    both = [compete("a"), compete("b")]
    wait_until(lambda: one_leads(both), "one leads")
    control_plane.restart_apiserver()
    wait_until(lambda: one_leads(both), "one leads")
    acted_alone(*both)


def test_a_lease_that_was_deleted_is_made_again(namespace, compete):
    first = compete("a")
    wait_until(first.leads, "it leads")
    path = namespace.path("leases/router", group="coordination.k8s.io/v1")
    namespace.api.delete(path)

    def is_back():
        answer = namespace.api.request("GET", path)
        return answer.status_code == 200 and answer.json()["spec"]["holderIdentity"] == "a"

    wait_until(is_back, "the Lease is back")
    assert len(first.changes()) == 1


def test_what_others_put_into_the_lease_stays(namespace, compete):
    first = compete("a")
    wait_until(first.leads, "it leads")
    path = namespace.path("leases/router", group="coordination.k8s.io/v1")
    namespace.api.patch(path, {"metadata": {"labels": {"team": "voice"}, "annotations": {"why": 'ä "b"\n'}}})
    version = namespace.lease("router")["metadata"]["resourceVersion"]
    second = compete("b")
    wait_until(lambda: second.follows("a"), "the other one follows")
    first.stop()
    wait_until(second.leads, "the other one leads")
    metadata = namespace.lease("router")["metadata"]
    assert metadata["resourceVersion"] != version
    assert metadata["labels"] == {"team": "voice"} and metadata["annotations"] == {"why": 'ä "b"\n'}


def test_missing_rights_are_named_and_granting_them_is_enough(namespace, start):
    account = namespace.create_account(rules=[POD_PATCHER])
    ours = start("a", "kubeconfig", account.kubeconfig(), namespace=namespace.name)
    wait_until(lambda: ours.log_lines("error"), "it complains")
    time.sleep(4 * RETRY_MS / 1000)
    (line,) = ours.log_lines("error")
    assert line["verb"] == "get" and line["resource"] == "leases.coordination.k8s.io"
    assert line["namespace"] == namespace.name and "cannot get resource" in line["error"]
    account.set_rules([{**LEASE_HOLDER, "verbs": ["get"]}])
    wait_until(lambda: len(ours.log_lines("error")) == 2, "it complains of the next verb")
    assert ours.log_lines("error")[-1]["verb"] == "create"
    account.set_rules([LEASE_HOLDER])
    wait_until(ours.leads, "it leads")
    account.set_rules([])
    wait_until(lambda: not ours.leads(), "it no longer leads")


def test_a_missing_namespace_is_named(control_plane, start):
    ours = start("a", "kubeconfig", control_plane.write_kubeconfig(kube.ADMIN_TOKEN), namespace="nowhere")
    wait_until(lambda: ours.log_lines("error"), "it complains")
    assert "no such namespace" in ours.log_lines("error")[0]["msg"]
    assert ours.log_lines("error")[0]["namespace"] == "nowhere"


# With client-go


def test_client_go_and_ours_take_turns(account, namespace, compete, start_elector):
    ours = compete("ours")
    wait_until(ours.leads, "ours leads")
    theirs = start_elector(account.kubeconfig(), namespace.name, "router", "theirs", **ELECTOR)
    wait_until(lambda: theirs.events() and theirs.events()[-1].get("leader") == "ours", "client-go follows ours")
    assert not theirs.is_leading()

    ours.stop()
    wait_until(theirs.is_leading, "client-go leads")
    ours = compete("ours-again")
    wait_until(lambda: ours.follows("theirs"), "ours follows client-go")
    assert theirs.terminate() == 0
    wait_until(ours.leads, "ours leads again")
    assert namespace.lease("router")["spec"]["leaseTransitions"] >= 2


def test_client_go_killed_is_followed_by_ours_and_the_other_way_round(account, namespace, compete, start_elector):
    theirs = start_elector(account.kubeconfig(), namespace.name, "router", "theirs", **ELECTOR)
    wait_until(theirs.is_leading, "client-go leads")
    ours = compete("ours")
    wait_until(lambda: ours.follows("theirs"), "ours follows")
    time.sleep(DURATION_MS / 1000)
    assert not ours.leads()  # client-go's renewals are seen
    theirs.kill()
    wait_until(ours.leads, "ours leads")
    assert namespace.lease("router")["spec"]["leaseTransitions"] == 1

    theirs = start_elector(account.kubeconfig(), namespace.name, "router", "theirs-again", **ELECTOR)
    time.sleep(DURATION_MS / 1000)
    assert not theirs.is_leading()  # and ours by client-go
    ours.kill()
    wait_until(theirs.is_leading, "client-go leads")
    assert namespace.lease("router")["spec"]["leaseTransitions"] == 2


# Marks


def annotations(namespace, pod):
    return namespace.pod(pod)["metadata"].get("annotations") or {}


def tell(ours, namespace, pod):
    metadata = namespace.pod(pod)["metadata"]
    ours.say("known", pod, metadata["uid"], json.dumps(metadata.get("annotations") or {}))


def test_a_pod_with_a_call_is_marked_and_relieved(namespace, compete):
    user = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "of": "the user"}
    namespace.create_pod("agent-0")
    namespace.create_pod("agent-1", annotations=user)
    ours = compete("ours")
    for pod in ("agent-0", "agent-1"):
        tell(ours, namespace, pod)
        ours.say("want", pod, "yes")
    all_three = {
        "controller.kubernetes.io/pod-deletion-cost": "1000",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }
    for pod in ("agent-0", "agent-1"):
        wait_until(lambda p=pod: all_three.items() <= annotations(namespace, p).items(), "it is marked")
        ours.say("want", pod, "no")
    wait_until(lambda: annotations(namespace, "agent-0") == {}, "it is relieved")
    wait_until(lambda: annotations(namespace, "agent-1") == user, "what is the user's stays")


def test_marks_that_another_leader_left_are_relieved(namespace, compete):
    namespace.create_pod("agent-0")
    first = compete("a")
    tell(first, namespace, "agent-0")
    first.say("want", "agent-0", "yes")
    wait_until(lambda: annotations(namespace, "agent-0"), "it is marked")
    first.stop()
    second = compete("b")
    tell(second, namespace, "agent-0")
    second.say("want", "agent-0", "no")
    wait_until(lambda: not annotations(namespace, "agent-0"), "it is relieved")


def test_a_pod_that_came_back_under_its_name_is_not_marked_for_the_old_one(namespace, compete):
    old = namespace.create_pod("agent-0")["metadata"]
    namespace.create_pod("agent-1")
    namespace.replace_pod("agent-0")
    ours = compete("ours")
    ours.say("known", "agent-0", old["uid"], "{}")
    ours.say("want", "agent-0", "yes")
    tell(ours, namespace, "agent-1")
    ours.say("want", "agent-1", "yes")
    wait_until(lambda: annotations(namespace, "agent-1"), "the other one is marked")
    time.sleep(0.5)
    assert annotations(namespace, "agent-0") == {}
    tell(ours, namespace, "agent-0")
    wait_until(lambda: annotations(namespace, "agent-0"), "now it is")


def test_without_the_right_to_patch_pods_they_are_left_alone_with_a_warning_for_one_and_an_error_for_all(namespace, start):
    account = namespace.create_account(rules=[LEASE_HOLDER])
    names = [f"agent-{i}" for i in range(5)]
    namespace.create_pods(names)
    ours = start("a", "kubeconfig", account.kubeconfig(), namespace=namespace.name)
    for pod in names:
        tell(ours, namespace, pod)
        ours.say("want", pod, "yes")
    wait_until(ours.leads, "it leads all the same")
    wait_until(lambda: ours.log_lines("warn") and ours.log_lines("error"), "it says so")
    time.sleep(0.5)
    (one,), (all_of_them,) = ours.log_lines("warn"), ours.log_lines("error")
    assert one["status"] == 403 and one["pod"] in names
    assert (all_of_them["verb"], all_of_them["resource"]) == ("patch", "pods")
    assert all_of_them["namespace"] == namespace.name and "cannot patch" in all_of_them["error"]
    assert "tried again" in all_of_them["next"]


# On a scripted server


def lease_body(version, **spec):
    return json.dumps(
        {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": "router", "namespace": "voice", "resourceVersion": str(version)},
            "spec": spec,
        }
    ).encode()


def test_stopping_does_not_wait_for_a_silent_server(start):
    with ScriptedKube() as server:
        server.on(LEASES + "/router", status_object(404, "NotFound"), silence)
        server.on(LEASES, answer(201, lease_body(1, holderIdentity="a", leaseDurationSeconds=3)))
        ours = start("a", "url", server.url, namespace="voice")
        wait_until(ours.leads, "it leads")
        ours.stop()
        assert "could not be given up" in ours.log()


def test_garbage_is_not_taken_for_a_lease(start):
    with ScriptedKube() as server:
        server.on(LEASES + "/router", answer(200, b"<html>"), answer(200, b"[]"), answer(200, b'{"kind":"Lease"}'))
        ours = start("a", "url", server.url, namespace="voice")
        wait_until(lambda: len(server.asked(LEASES + "/router")) >= 5, "it keeps asking")
        assert not ours.changes()
        assert {request.method for request in server.requests} == {"GET"}
        ours.stop()


def test_a_busy_server_is_given_time(start):
    with ScriptedKube() as server:
        server.on(
            LEASES + "/router",
            answer(429, retry_after="1"),
            answer(200, lease_body(1, holderIdentity="rival", leaseDurationSeconds=3)),
        )
        ours = start("a", "url", server.url, namespace="voice")
        wait_until(lambda: ours.follows("rival"), "it follows")
        ours.stop()
