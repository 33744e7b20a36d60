"""What each event does to a live call: one test for each row of the table in docs/KUBERNETES.md.

Two routers follow the same pods, one with the embedded store and one with Redis, and each carries one call on agent-0.
The event happens, and both must show what the row says. The table in the document is compared with the one here.
"""

import dataclasses
import json
import pathlib
import threading
import time
import typing

import kube
import pytest
import redis_servers
import scripted_kube
from conftest import wait_until
from test_kubernetes import FORBIDDEN, ended, has_call, pod, release_all, take_all, wait_for_pods
from test_redis_leader import syncs

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs/KUBERNETES.md"
HEAD = ("event", "its call", "the pod is", "the next call gets")
POD = "agent-0"
PODS = ["agent-0", "agent-1", "agent-2"]
TIERS = '{"tiers": {"gold": {"target": 8}}, "default_chain": ["gold"]}'
ENV = {
    **redis_servers.QUICK,
    "LEADER_ELECTION_ENABLED": "false",
    "MARK_BUSY_PODS": "false",
    "TIER_CONFIG": TIERS,
}

# The words of the table, and what they mean. A call that ends does so for one of these reasons.
GOES_ON = "goes on"
RELEASED = "is released"
RESTARTED = "ends, `pod_restarted`"
GONE = "ends, `pod_gone`"
REPLACED = "ends, `pod_gone` or `pod_restarted`"
REASONS = {RESTARTED: {"pod_restarted"}, GONE: {"pod_gone"}, REPLACED: {"pod_gone", "pod_restarted"}}
NO_POD = "unknown"
ELSEWHERE = "another pod"
HERE = "perhaps this pod"


@dataclasses.dataclass
class Row:
    event: str
    call: str
    state: str
    next_call: str
    act: typing.Callable

    def cells(self):
        return (self.event, self.call, self.state, self.next_call)


ROWS = []


def row(event, call, state, next_call):
    """The decorated function makes it happen."""

    def add(act):
        ROWS.append(Row(event, call, state, next_call, act))
        return act

    return add


def call_on(router, name):
    """A new call on that pod."""
    taken = take_all(router, f"CA-{name}")
    (call_sid,) = [call_sid for call_sid, pod_name in taken.items() if pod_name == name]
    release_all(router, set(taken) - {call_sid})
    return call_sid


class Site:
    """The two routers, their line to the API server, and where their calls are."""

    def __init__(self, namespace, line, start_in, redis_server):
        self.namespace, self.line, self.start_in = namespace, line, start_in
        self.stores = [{}, {"REDIS_URL": redis_server.url}]
        self.account = namespace.account()
        self.routers = []
        self.calls = {}  # router -> call_sid
        self.is_syncing = True  # or has no list to sync with

    def start(self, **env):
        kubeconfig = {"KUBECONFIG": self.account.kubeconfig(server=self.line.url)}
        self.routers = [self.start_in(self.namespace, {**ENV, **kubeconfig, **store, **env}) for store in self.stores]

    def restart(self, **env):
        """The same stores, with other settings."""
        for number, router in enumerate(self.routers):
            assert router.stop() == 0
            settings = {**router.env, **env, "HTTP_PORT": "0"}
            self.routers[number] = self.start_in(self.namespace, settings, data_dir=router.data_dir)
            self.calls[self.routers[number]] = self.calls.pop(router)

    def place_call(self):
        """One call for each router, on agent-0."""
        for router in self.routers:
            wait_for_pods(router, PODS)
            self.calls[router] = call_on(router, POD)

    def release(self):
        for router in self.routers:
            router.release(self.calls[router])

    def wait_for_state(self, state):
        for router in self.routers:
            wait_until(lambda r=router: (pod(r, POD) or {"state": NO_POD})["state"] == state, f"{POD} is {state}")

    def wait_for_log(self, message):
        for router in self.routers:
            wait_until(lambda r=router: r.log_lines(message), f"it says: {message}")

    def settle(self):
        """Two full syncs later nothing changes any more."""
        for router in self.routers if self.is_syncing else ():
            before = syncs(router)
            wait_until(lambda r=router, n=before: syncs(r) >= n + 2, "it syncs")


@pytest.fixture
def line(control_plane):
    line = kube.Line(control_plane)
    yield line
    line.close()


@pytest.fixture
def site(namespace, line, redis_server, start_in):
    namespace.create_pods(PODS, containers=("agent", "sidecar"), statuses=("sidecar", "agent"))
    return Site(namespace, line, start_in, redis_server)


# ---- the rows: each begins with a call on agent-0 ----


@row("it is not ready", GOES_ON, "suspended", ELSEWHERE)
def not_ready(site):
    site.namespace.set_status(POD, ready=False)


@row("it is not ready, and then ready again", GOES_ON, "busy", ELSEWHERE)
def ready_again(site):
    not_ready(site)
    site.wait_for_state("suspended")
    site.namespace.set_status(POD)


@row("a sidecar restarts", GOES_ON, "busy", ELSEWHERE)
def sidecar_restarts(site):
    kube.grow_old()
    site.namespace.restart_container(POD, "sidecar")


@row("the agent's container restarts", RESTARTED, "available", HERE)
def agent_restarts(site):
    kube.grow_old()
    site.namespace.restart_container(POD)


@row(
    "the agent's container restarted before the call came; seen late",
    GOES_ON,
    "busy",
    ELSEWHERE,
)
def agent_had_restarted(site):
    """The kubelet's report is late."""
    site.namespace.restart_container(POD, started_at=time.time() - 10)


@row("it is deleted and has time to finish (terminating)", GOES_ON, "draining", ELSEWHERE)
def terminating(site):
    site.namespace.delete_pod(POD)


@row("it was terminating and is gone", GONE, NO_POD, ELSEWHERE)
def deleted(site):
    terminating(site)
    site.wait_for_state("draining")
    site.namespace.end_pod(POD)


@row("it is deleted by force (`--grace-period=0 --force`)", GONE, NO_POD, ELSEWHERE)
def force_deleted(site):
    site.namespace.end_pod(POD)


@row("a StatefulSet replaces it", REPLACED, "available", HERE)
def recreated(site):
    kube.grow_old()
    site.namespace.replace_pod(POD)


@row("another pod takes its name and does not start", GONE, NO_POD, ELSEWHERE)
def recreated_and_pending(site):
    site.namespace.replace_pod(POD, ready=None)


@row("another pod takes its name, does not start; seen late", GONE, NO_POD, ELSEWHERE)
def had_been_recreated_and_is_pending(site):
    site.line.cut()
    site.wait_for_log("the pods cannot be followed")
    site.namespace.replace_pod(POD, ready=None)
    site.line.mend()


@row("another pod took its name before the call came; seen late", GOES_ON, "busy", ELSEWHERE)
def had_been_recreated(site):
    site.release()
    site.line.cut()
    site.wait_for_log("the pods cannot be followed")
    site.namespace.replace_pod(POD)
    kube.grow_old()
    site.place_call()
    site.line.mend()


@row("it no longer has the label", GOES_ON, "draining", ELSEWHERE)
def unlabelled(site):
    site.namespace.label_pod(POD, app=None)


@row("its label is taken off and put back", GOES_ON, "busy", ELSEWHERE)
def relabelled(site):
    unlabelled(site)
    site.wait_for_state("draining")
    site.namespace.label_pod(POD, app="agent")


@row("its label is taken off, and later it is deleted", GONE, NO_POD, ELSEWHERE)
def unlabelled_and_deleted(site):
    unlabelled(site)
    site.wait_for_state("draining")
    site.namespace.end_pod(POD)


@row("its label is taken off, and its call ends by itself", RELEASED, NO_POD, ELSEWHERE)
def unlabelled_and_released(site):
    unlabelled(site)
    site.wait_for_state("draining")
    site.release()


@row("it ends by itself (phase Succeeded)", GONE, NO_POD, ELSEWHERE)
def succeeded(site):
    site.namespace.finish_pod(POD, "Succeeded")


@row("it fails (phase Failed)", GONE, NO_POD, ELSEWHERE)
def failed(site):
    site.namespace.finish_pod(POD, "Failed")


@row("its node evicts it (phase Failed, reason Evicted)", GONE, NO_POD, ELSEWHERE)
def evicted(site):
    site.namespace.finish_pod(POD, "Failed", reason="Evicted")


@row("the role loses the right to list pods (403)", GOES_ON, "busy", ELSEWHERE)
def forbidden(site):
    site.account.set_rules([])
    site.line.cut()
    site.line.mend()
    site.wait_for_log(FORBIDDEN)


@row("the API server cannot be reached", GOES_ON, "busy", ELSEWHERE)
def away(site):
    site.line.cut()
    site.wait_for_log("the pods cannot be followed")


@row("the API server restarts", GOES_ON, "busy", ELSEWHERE)
def api_server_restarts(site):
    site.line.cut()
    site.namespace.plane.restart_apiserver()
    site.line.mend()
    site.wait_for_log("the pods cannot be followed")


@row("a list is empty, and none has confirmed it", GOES_ON, "busy", ELSEWHERE)
def empty_list(site):
    site.restart(POD_LABEL_SELECTOR="app=agnet", RECONCILE_INTERVAL="1h")
    site.is_syncing = False
    site.wait_for_log("Kubernetes lists no pods: what the store knows stays until a second list confirms it")


@row("the router restarts", GOES_ON, "busy", ELSEWHERE)
def router_restarts(site):
    site.restart()


# ---- what they must show ----


def expect(row, router, call_sid):
    """The row's three promises, of a router that has seen the event."""
    if row.call == GOES_ON:
        assert router.get(f"/api/v1/call/{call_sid}").json()["pod_name"] == POD
        assert router.allocate(call_sid)["was_existing"]
    else:
        assert not has_call(router, call_sid)
    reasons = [reason for _, reason in ended(router, call_sid)]
    assert len(reasons) == (row.call in REASONS) and set(reasons) <= REASONS.get(row.call, set()), reasons
    shown = pod(router, POD)
    assert (shown["state"] if shown else NO_POD) == row.state
    assert (shown["calls"] if shown else []) == ([call_sid] if row.call == GOES_ON else [])
    taken = take_all(router, "next")
    assert (POD in taken.values()) == (row.next_call == HERE), taken
    assert len(set(taken.values())) == len(taken)
    release_all(router, taken)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.act.__name__)
def test_what_the_table_says_of(row, site):
    site.start()
    site.place_call()
    row.act(site)
    for router in site.routers:
        call_sid = site.calls[router]
        wait_until(lambda r=router, c=call_sid: has_call(r, c) == (row.call == GOES_ON), f"the call {row.call}")
    site.wait_for_state(row.state)
    site.settle()
    for router in site.routers:
        expect(row, router, site.calls[router])


UNREADABLE = Row("the API server lists it in a form that cannot be read", GOES_ON, "busy", ELSEWHERE, None)
RESTORED = Row("the API server is restored from a backup that has the pod", GOES_ON, "busy", ELSEWHERE, None)


def shown(name, **status):
    return {
        "metadata": {"name": name, "uid": f"u-{name}", "resourceVersion": "5", "labels": {"app": "agent"}},
        "spec": {"containers": [{"name": "agent"}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {"name": "agent", "restartCount": 0, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
            ],
            **status,
        },
    }


def scripted_pods(lists, may_expire):
    """Each list is the next one of these; the first watch expires when the test says so, and others are silent."""
    expired = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    watches = [scripted_kube.stream([may_expire, json.dumps(expired).encode()]), scripted_kube.stream([], "hang")]
    pages = [
        scripted_kube.answer(200, {"kind": "PodList", "metadata": {"resourceVersion": str(5 + i)}, "items": pods})
        for i, pods in enumerate(lists)
    ]

    def step(exchange):
        steps = watches if "watch=" in exchange.request.query else pages
        (steps.pop(0) if len(steps) > 1 else steps[0])(exchange)

    return step


@pytest.mark.parametrize("broken", [{"status": "none"}, {"metadata": {"name": POD}}], ids=["status", "uid"])
def test_what_the_table_says_of_a_pod_that_cannot_be_read(broken, start_router):
    good = [shown(name) for name in PODS]
    bad = [{**good[0], **broken}, *good[1:], shown("agent-3")]
    may_expire = threading.Event()
    with scripted_kube.ScriptedKube() as server:
        server.on("/api/v1/namespaces/default/pods", scripted_pods([good, bad], may_expire))
        where = {"POD_SOURCE": "kubernetes", "KUBE_API_URL": server.url, "NAMESPACE": "default", "STATIC_PODS": ""}
        router = start_router({**ENV, **where})
        wait_for_pods(router, PODS)
        call_sid = call_on(router, POD)
        may_expire.set()
        wait_until(lambda: pod(router, "agent-3"), "the second list is there")
        expect(UNREADABLE, router, call_sid)
        router.stop()


@pytest.mark.parametrize("named", [True, False])
def test_the_agents_container_is_the_named_one_or_the_first(named, namespace, start_in):
    """Of the spec's: the order of the statuses means nothing."""
    first, second = "proxy", "agent"
    namespace.create_pods(PODS, containers=(first, second), statuses=(second, first))
    router = start_in(namespace, {**ENV, **({"VOICE_AGENT_CONTAINER": second} if named else {})})
    wait_for_pods(router, PODS)
    call_sid = call_on(router, POD)
    kube.grow_old()
    agent, other = (second, first) if named else (first, second)
    namespace.restart_container(POD, other)
    namespace.create_pod("agent-3")
    wait_for_pods(router, [*PODS, "agent-3"])  # by then the restart was seen
    assert has_call(router, call_sid)
    namespace.restart_container(POD, agent)
    wait_until(lambda: ended(router, call_sid) == [(POD, "pod_restarted")], "the call has ended")


def table_of_the_document():
    """The rows below the head, as tuples of their cells."""
    lines = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in DOCUMENT.read_text().splitlines()]
    assert HEAD in lines, f"docs/KUBERNETES.md has no table {HEAD}"
    rest = lines[lines.index(HEAD) + 2 :]
    return rest[: next(i for i, cells in enumerate(rest) if len(cells) != len(HEAD))]


def test_the_document_has_these_rows():
    assert table_of_the_document() == [row.cells() for row in [*ROWS, UNREADABLE, RESTORED]]
