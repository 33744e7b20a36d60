"""Pods are followed: with the real client, on a real control plane, and on a scripted server for what that will not do.

Drives $BUILD_DIR/test/pods-driver, whose lines pods_driver.c explains.
"""

import json
import os
import pathlib
import queue
import subprocess
import threading
import time

import kube
import pytest
from scripted_kube import PATIENCE, ScriptedKube, answer, half, status_object, stream
from scripted_pods import not_found

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
if not BUILD.is_absolute():
    BUILD = ROOT / BUILD
LONG_PATIENCE = 90  # the waits after failures come on top
PODS = "/api/v1/namespaces/ns/pods"


class Driver:
    """The driver's process. An exit code other than 0, as of a sanitizer, fails the test."""

    def __init__(self, directory, *arguments):
        self.log_path = pathlib.Path(directory) / "pods.log"
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [str(BUILD / "test" / "pods-driver"), *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.events = queue.Queue()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.events.put(json.loads(line))

    def next(self):
        """The next event, other than troubles: how many there are depends on the moment."""
        end = time.monotonic() + LONG_PATIENCE
        while True:
            told = self.events.get(timeout=max(end - time.monotonic(), 0))
            if told["event"] != "trouble":
                return told

    def next_list(self):
        """The names of the next list; what was told of single pods before it does not matter."""
        while True:
            told = self.next()
            if told["event"] == "list":
                return [pod["name"] for pod in told["pods"]]

    def until(self, kind, **fields):
        """The pod of the next event of that kind with these fields; others are passed over."""
        while True:
            told = self.next()
            if told["event"] == kind and fields.items() <= told["pod"].items():
                return told["pod"]

    def until_trouble(self):
        while self.events.get(timeout=LONG_PATIENCE)["event"] != "trouble":
            pass

    def relist(self):
        self.process.stdin.write("relist\n")
        self.process.stdin.flush()

    def get(self, name):
        self.process.stdin.write(f"get {name}\n")
        self.process.stdin.flush()

    def log(self):
        return [json.loads(line) for line in self.log_path.read_text().splitlines()]

    def stop(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=PATIENCE) == 0, self.log_path.read_text()
        self.thread.join()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def follow(tmp_path):
    """follow("kubeconfig", path, namespace) or follow("url", url, namespace) -> Driver"""
    drivers = []

    def start(*arguments):
        drivers.append(Driver(tmp_path, *arguments))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.kill()


def page(version, *names, token=""):
    items = [{"metadata": {"name": name, "uid": f"uid-{name}"}} for name in names]
    return {"metadata": {"resourceVersion": version, "continue": token}, "items": items}


def event(kind, name, version):
    pod = {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": version}}
    return json.dumps({"type": kind, "object": pod}).encode() + b"\n"


# The real thing


def test_pods_are_listed_and_then_followed(namespace, follow):
    labels = {"app": "voice"}
    uid = namespace.create_pod("agent-1", labels=labels)["metadata"]["uid"]
    namespace.create_pod("agent-0", labels=labels)
    namespace.create_pod("other", labels={"app": "other"})
    driver = follow("kubeconfig", namespace.create_account().kubeconfig(), namespace.name, "app=voice")
    assert driver.next_list() == ["agent-0", "agent-1"]

    namespace.create_pod("agent-2", labels=labels)
    driver.until("seen", name="agent-2", ready=True)
    namespace.set_status("agent-1", ready=False)
    driver.until("seen", name="agent-1", ready=False)
    namespace.set_status("agent-1", restarts=2)
    driver.until("seen", name="agent-1", ready=True, incarnation=f"{uid}:2")
    namespace.delete_pod("agent-1")
    driver.until("seen", name="agent-1", ready=False, terminating=True)
    namespace.end_pod("agent-1")
    driver.until("gone", name="agent-1", incarnation=f"{uid}:2")
    namespace.create_pod("agent-1", labels=labels)
    assert not driver.until("seen", name="agent-1", ready=True)["incarnation"].startswith(uid)

    driver.relist()
    assert driver.next_list() == ["agent-0", "agent-1", "agent-2"]
    driver.stop()


def test_a_pod_that_left_the_selector_can_be_told_from_one_that_is_gone(namespace, follow):
    labels = {"app": "voice"}
    namespace.create_pod("agent-0", labels=labels)
    driver = follow("kubeconfig", namespace.create_account().kubeconfig(), namespace.name, "app=voice")
    assert driver.next_list() == ["agent-0"]
    namespace.api.patch(namespace.path("pods/agent-0"), {"metadata": {"labels": {"app": "other"}}})
    incarnation = driver.until("gone", name="agent-0")["incarnation"]
    driver.get("agent-0")
    assert driver.until("got", name="agent-0")["incarnation"] == incarnation
    driver.get("agent-1")
    assert driver.next()["event"] == "absent"
    driver.stop()


def test_missing_permissions_are_named_and_waited_for(namespace, follow):
    namespace.create_pod("agent-0")
    account = namespace.create_account(rules=())
    driver = follow("kubeconfig", account.kubeconfig(), namespace.name)
    driver.until_trouble()
    driver.until_trouble()
    lines = [line for line in driver.log() if line.get("status") == 403]
    assert len(lines) == 1, "one line for one kind of trouble"
    assert lines[0]["verb"] == "list" and lines[0]["resource"] == "pods" and lines[0]["namespace"] == namespace.name

    account.set_rules([kube.POD_READER])
    assert driver.next_list() == ["agent-0"]
    driver.stop()


def test_a_restarted_apiserver_loses_no_pod(namespace, follow):
    namespace.create_pods(["agent-0", "agent-1"])
    driver = follow("kubeconfig", namespace.create_account().kubeconfig(), namespace.name)
    assert driver.next_list() == ["agent-0", "agent-1"]
    namespace.plane.restart_apiserver()
    namespace.create_pod("agent-2")
    while True:
        told = driver.next()
        assert told["event"] != "gone"
        pods = told["pods"] if told["event"] == "list" else [told["pod"]]
        if any(pod["name"] == "agent-2" for pod in pods):
            break
    driver.relist()
    assert driver.next_list() == ["agent-0", "agent-1", "agent-2"]
    driver.stop()


# What a real one will not do on demand


def test_pages_that_expire_come_as_one(follow):
    with ScriptedKube() as server:
        server.on(
            PODS,
            answer(200, page("5", "b", "a", token="next")),
            status_object(410, "Expired"),
            answer(200, page("7", "c", "b")),
            stream([event("ADDED", "d", "8")], end="hang"),
        )
        driver = follow("url", server.url, "ns")
        assert driver.next_list() == ["b", "c"]
        driver.until("seen", name="d")
        assert [request.target.partition("?")[2] for request in server.asked(PODS)][:3] == [
            "limit=500",
            "limit=500&continue=next",
            "",
        ]
        driver.stop()


def test_a_stream_that_ends_goes_on_where_it_was_and_one_that_breaks_lists_again(follow):
    told = threading.Event()
    with ScriptedKube() as server:
        server.on(
            PODS,
            answer(200, page("5")),
            stream([event("ADDED", "a", "6")], end="finish"),
            # What is on its way when a connection is reset may be lost, so the reset comes afterwards.
            stream([event("ADDED", "b", "7"), told], end="cut"),
            answer(200, page("9", "b", "c")),
            stream([event("ADDED", "d", "10") + event("ADDED", "e", "11")[:-20]], end="finish"),
            answer(200, page("12", "e")),
            stream([event("DELETED", "e", "13")], end="hang"),
        )
        driver = follow("url", server.url, "ns")
        assert driver.next_list() == []
        assert [driver.next()["pod"]["name"] for _ in range(2)] == ["a", "b"]
        told.set()
        assert driver.next_list() == ["b", "c"]
        driver.until("seen", name="d")
        assert driver.next_list() == ["e"]
        driver.until("gone", name="e")
        targets = [request.target for request in server.asked(PODS)]
        for number, version in enumerate([None, "5", "6", None, "9", None, "12"]):
            assert ("watch=1" in targets[number]) == (version is not None)
            assert version is None or f"resourceVersion={version}" in targets[number]
            assert version is not None or "resourceVersion" not in targets[number]
        driver.stop()


@pytest.mark.parametrize("refusal", ["header", "event"])
def test_a_server_that_asks_for_an_hour_gets_half_a_minute(follow, refusal):
    hour = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 3600}}
    error = json.dumps({"type": "ERROR", "object": hour}).encode()
    with ScriptedKube() as server:
        server.on(
            PODS,
            answer(200, page("5")),
            answer(429, hour, retry_after="3600") if refusal == "header" else stream([error], end="hang"),
        )
        driver = follow("url", server.url, "ns")
        driver.until_trouble()
        driver.stop()
        (line,) = [line for line in driver.log() if line.get("status") == 429]
        assert line["retry_ms"] == 30000


def test_a_pod_that_cannot_be_read_is_listed_by_its_name(follow):
    broken = page("5", "a", "b")
    broken["items"][1]["status"] = {"podIP": "nowhere"}
    with ScriptedKube() as server:
        server.on(PODS, answer(200, broken), stream([], end="hang"))
        driver = follow("url", server.url, "ns")
        pods = driver.next()["pods"]
        assert [(pod["name"], pod["unreadable"]) for pod in pods] == [("a", False), ("b", True)]
        driver.stop()


@pytest.mark.parametrize(
    "step, told",
    [
        (not_found("a"), "absent"),
        (status_object(404, "NotFound"), "unknown"),
        (answer(404, b"<html>no such page</html>"), "unknown"),
        (status_object(403, "Forbidden"), "unknown"),
        (status_object(503, "ServiceUnavailable"), "unknown"),
        (answer(200, {"kind": "Pod"}), "unknown"),
        (answer(200, {"metadata": {"name": "a", "uid": "u"}}), "got"),
    ],
)
def test_one_pod_is_asked_for_by_its_name(follow, step, told):
    with ScriptedKube() as server:
        server.on(PODS, answer(200, page("5")), stream([], end="hang"))
        server.on(f"{PODS}/a", step)
        driver = follow("url", server.url, "ns")
        assert driver.next_list() == []
        driver.get("a")
        assert driver.next()["event"] == told
        driver.stop()


def test_half_a_list_is_no_list(follow):
    text = json.dumps(page("5", "a", "b")).encode()
    with ScriptedKube() as server:
        server.on(
            PODS,
            half(200, text[:40], missing=len(text) - 40),
            answer(200, page("5", "a", "b")),
            stream([], end="hang"),
        )
        driver = follow("url", server.url, "ns")
        driver.until_trouble()
        assert driver.next_list() == ["a", "b"]
        driver.stop()


def test_a_large_list_is_taken_whole(follow):
    names = [f"agent-{i:05}" for i in range(20000)]
    with ScriptedKube() as server:
        server.on(PODS, answer(200, page("5", *reversed(names))), stream([], end="hang"))
        driver = follow("url", server.url, "ns")
        assert driver.next_list() == names
        driver.stop()
