"""Three routers, one Redis, and a Lease of a real Kubernetes that says who leads; clients work throughout.

The times are short here. KUBE_CAMPAIGN=1 takes the defaults of the settings (15 s, 10 s, 2 s), 64 clients without a rest,
and a leader that sleeps for a minute. What is measured is told at the end of the run, and not judged.
"""

import contextlib
import os
import signal
import threading
import time

import kube
import load
import pytest
import redis_servers
from conftest import wait_until
from test_redis_leader import agree, agree_after, leads, says_that_it_leads, status, syncs

CAMPAIGN = bool(os.environ.get("KUBE_CAMPAIGN"))
CLIENTS = 64 if CAMPAIGN else 12
REST_S = 0 if CAMPAIGN else 0.6
ASLEEP_S = 60 if CAMPAIGN else 8
DURATION_S, DEADLINE_S, RETRY_S = (15, 10, 2) if CAMPAIGN else (5, 3, 0.5)
LOCK = "smart-router-leader"  # which the shipped Role names
PODS = 2 * CLIENTS
TIERS = f'{{"tiers": {{"gold": {{"target": {PODS}}}}}, "default_chain": ["gold"]}}'
NO_NUMBER = (
    "the leader has no fence number in Redis yet: until it has one, changes of pods are not followed; "
    "it is tried again with the next renewal of the lease"
)
ACTS = ("pods synced", "pod joined", "pod gone", "call ended", "pods rebalanced", "pods recovered", "pods listed")
GOOD = {"allocate 200 new", "allocate 200 existing", "release 200 ", "release 404 not_found"}


def election_env():
    return {
        "LEADER_ELECTION_DURATION": f"{DURATION_S}s",
        "LEADER_ELECTION_RENEW_DEADLINE": f"{DEADLINE_S}s",
        "LEADER_ELECTION_RETRY_PERIOD": f"{int(RETRY_S * 1000)}ms",
        "LEADER_ELECTION_LOCK_NAME": LOCK,
    }


class Site:
    """Routers on one Redis that follow one namespace, and the clients that work with them."""

    def __init__(self, namespace, server, start_in, pods):
        self.namespace = namespace
        self.server = server
        self.start_in = start_in
        self.routers = []
        self.history = load.History()
        self.work = self.callers = None
        namespace.create_pods(pods)

    def start(self, count=1, **env):
        for _ in range(count):
            number = len(self.routers)
            settings = {
                "REDIS_URL": self.server.url,
                **redis_servers.QUICK,
                **election_env(),
                "POD_NAME": f"router-{number}",
                "TIER_CONFIG": TIERS,
                **env,
            }
            self.routers.append(self.start_in(self.namespace, settings))
        return self.routers[-1]

    def holder(self):
        return self.namespace.lease(LOCK)["spec"].get("holderIdentity")

    def pods(self, router):
        return {pod["pod_name"] for pod in router.get("/api/v1/pods?limit=1000").json()["pods"]}

    def _lease_path(self):
        return self.namespace.path(f"leases/{LOCK}", group="coordination.k8s.io/v1")

    def delete_lease(self):
        self.namespace.api.delete(self._lease_path())

    def has_lease(self):
        return self.namespace.api.request("GET", self._lease_path()).status_code == 200

    def fence(self):
        """The number of whoever leads; 0: there is none."""
        return int(self.server.client().get("voice:leader:fence") or 0)

    def start_clients(self):
        self.work = load.Load(self.history, rest_s=REST_S)
        urls = [router.url for router in self.routers]
        self.callers = load.Callers(self.history, urls)
        self.callers.start(self.work, CLIENTS)

    def wait_for_answers(self, count=100):
        enough = self.history.answers() + count
        wait_until(lambda: self.history.answers() >= enough, "the clients get answers")

    def avoid(self, router):
        """Taken out of the rotation, as a balancer does with one that is gone or does not answer."""
        self.history.avoid(router.port)

    def finish(self, killed=()):
        """What was wrong, but for requests to routers that were killed, which got no answer."""
        self.work.stop()
        self.callers.finish()
        print(dict(sorted(self.history.outcomes.items())))
        assert load.violations(self.history, lambda pool: 1) == []
        ports = {router.port for router in killed}
        assert set(self.history.no_answer) <= ports, self.history.no_answer
        bad = {key: n for key, n in self.history.outcomes.items() if key not in GOOD and "None" not in key}
        assert bad == {}, bad
        assert self.history.outcomes["allocate 200 new"] > 50


@pytest.fixture
def site(namespace, redis_server, start_in):
    return Site(namespace, redis_server, start_in, [f"agent-{i}" for i in range(PODS)])


def has_pods(router, count):
    wait_until(lambda: router.get("/api/v1/pods?limit=1").json().get("total") == count, f"there are {count} pods")


def test_one_leads_and_when_it_goes_another_does(site, tell):
    site.start(3)
    first, others = agree(site.routers)
    assert site.holder() == status(first)["leader"] and site.holder().startswith(first.env["POD_NAME"])
    has_pods(first, PODS)
    assert [syncs(router) for router in others] == [0, 0]
    site.start_clients()
    site.wait_for_answers()

    # SIGTERM: the lease is given up.
    name, fences = site.holder(), [site.fence()]
    site.avoid(first)
    began = time.monotonic()
    first.proc.send_signal(signal.SIGTERM)
    second, (third,) = agree_after(others, name)
    wait_until(lambda: syncs(second) > 0, "the second one acts")
    after_term = time.monotonic() - began
    first.is_stopped = True  # its clients may keep it for a moment longer
    assert first.proc.wait(DEADLINE_S) == 0
    site.wait_for_answers()

    # kill -9: it runs out.
    name = site.holder()
    fences.append(site.fence())
    began = time.monotonic()
    second.kill()
    site.history.avoided.add(second.port)
    agree_after([third], name)
    wait_until(lambda: syncs(third) > 0, "the third one acts")
    after_kill = time.monotonic() - began
    fences.append(site.fence())
    assert 0 < fences[0] < fences[1] < fences[2]
    site.wait_for_answers()
    site.namespace.create_pod("late-0")
    has_pods(third, PODS + 1)
    site.finish(killed=[second])
    tell(
        f"Lease {DURATION_S} s / {DEADLINE_S} s / {RETRY_S} s, {CLIENTS} clients, {site.history.answers()} answers: after SIGTERM "
        f"the next one led after {after_term:.2f} s, after kill -9 after {after_kill:.2f} s"
    )


def test_a_leader_that_slept_does_not_act_when_it_wakes(site, tell):
    """Its picture is old by then: a sync of it would bring a pod back that is gone, and remove one that is new."""
    # Whatever its timers do is due when it wakes.
    site.start(3, RECONCILE_INTERVAL="50ms", CLEANUP_INTERVAL="50ms")
    old, others = agree(site.routers)
    has_pods(old, PODS)
    site.start_clients()
    site.wait_for_answers()
    name = site.holder()
    site.avoid(old)
    os.kill(old.proc.pid, signal.SIGSTOP)
    began = time.monotonic()
    try:
        new, _ = agree_after(others, name)
        after = time.monotonic() - began
        # The checker cannot know which calls ended with the pod.
        site.history.may_have_ended(time.monotonic(), time.monotonic() + load.LATE_S, pod="agent-0")
        site.namespace.end_pod("agent-0")
        site.namespace.create_pods([f"new-{i}" for i in range(3)])
        has_pods(new, PODS + 2)
        call_pod = new.allocate("CA-kept")["pod_name"]
        time.sleep(max(0, ASLEEP_S - (time.monotonic() - began)))
        lines_before, new_lines_before = len(old.log_lines()), len(new.log_lines())
    finally:
        os.kill(old.proc.pid, signal.SIGCONT)
    # It may answer with 503 at first: its connections are as old as its sleep.
    wait_until(lambda: status(old).get("leader") == status(new)["leader"], "the old one knows who leads")
    assert not leads(old) and leads(new) and site.holder() == status(new)["leader"]
    before = syncs(new)
    wait_until(lambda: syncs(new) >= before + 5, "the new one syncs")

    told = old.log_lines()[lines_before:]
    assert [line for line in told if line["msg"] in ACTS] == []
    assert {line["msg"] for line in told if line["msg"].startswith("this router")} == {"this router follows"}
    # The new one would have put right what the old one did, and said so.
    assert [line for line in new.log_lines()[new_lines_before:] if line["msg"] in ACTS] == []
    names = site.pods(new)
    assert "agent-0" not in names and {"new-0", "new-1", "new-2"} <= names
    assert new.allocate("CA-kept")["pod_name"] == call_pod
    new.release("CA-kept")
    site.finish()
    tell(f"a leader stopped for {ASLEEP_S} s: another led after {after:.2f} s, and the first one followed when it woke")


class HeldLine(kube.Line):
    """One on which nothing passes while the test says so: the connections stand."""

    def __init__(self, plane):
        self.may_pass = threading.Event()
        self.may_pass.set()
        super().__init__(plane)

    def _carry(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.may_pass.wait()
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(kube.socket.SHUT_RDWR)

    def cut(self):
        self.may_pass.set()
        super().cut()


@pytest.fixture
def held_line(control_plane):
    line = HeldLine(control_plane)
    yield line
    line.close()


def refused(router):
    return [line for line in router.log_lines("redis reports an error") if "FENCED" in line["text"]]


def test_of_two_that_believe_to_lead_only_the_newer_one_changes_anything(site, held_line):
    """A Lease is deleted by hand, and made anew by another router, while its holder hears nothing from the API server.

    The old leader's picture is old: a sync of it would bring a pod back that is gone, and remove those that are new.
    """
    env = {
        "LEADER_ELECTION_DURATION": "300s",
        "LEADER_ELECTION_RENEW_DEADLINE": "250s",  # for so long it believes
        "RECONCILE_INTERVAL": "50ms",
        "CLEANUP_INTERVAL": "50ms",
    }
    old = site.start(KUBECONFIG=site.namespace.account().kubeconfig(server=held_line.url), **env)
    wait_until(lambda: leads(old), "the first one leads")
    has_pods(old, PODS)
    new = site.start(**env)
    agree([old, new])
    fence = site.fence()
    site.start_clients()
    site.wait_for_answers()

    held_line.may_pass.clear()
    site.delete_lease()
    wait_until(lambda: leads(new), "the second one leads")
    wait_until(lambda: syncs(new) > 0, "it acts")
    old_lines_before = len(old.log_lines())
    # The checker cannot know which calls ended with the pod.
    site.history.may_have_ended(time.monotonic(), time.monotonic() + load.LATE_S, pod="agent-0")
    site.namespace.end_pod("agent-0")
    site.namespace.create_pods([f"new-{i}" for i in range(3)])
    has_pods(new, PODS + 2)
    is_right = {f"agent-{i}" for i in range(1, PODS)} | {f"new-{i}" for i in range(3)}
    before = syncs(new)
    while syncs(new) < before + 20:
        assert site.pods(new) == is_right
    assert leads(old) and leads(new)
    assert [line for line in old.log_lines()[old_lines_before:] if line["msg"] in ACTS] == []
    assert refused(old) and not refused(new)
    assert site.fence() > fence
    site.wait_for_answers()

    held_line.may_pass.set()
    leader, _ = agree([old, new])
    assert leader is new
    site.finish()


def test_a_lease_that_is_deleted_by_hand_again_and_again(site):
    """Whoever makes it anew leads; nobody takes the number back whose Lease is gone."""
    site.start(3)
    agree(site.routers)
    site.start_clients()
    for _ in range(5):
        site.delete_lease()
        wait_until(site.has_lease, "somebody makes it anew")
        name = site.holder()
        wait_until(lambda n=name: all(status(router).get("leader") == n for router in site.routers), "all know who")
        (leader,) = [router for router in site.routers if leads(router)]
        for _ in range(2):
            fence, before = site.fence(), syncs(leader)
            wait_until(lambda r=leader, b=before: syncs(r) >= b + 3, "it syncs")
        assert site.fence() == fence > 0 and site.holder() == name
        site.wait_for_answers(30)
    site.finish()


def test_a_wiped_redis_has_its_number_and_its_pods_back(site):
    site.start(3)
    leader, others = agree(site.routers)
    has_pods(leader, PODS)
    client = site.server.client()
    fence = site.fence()
    spoil = (
        client.flushall,
        lambda: client.delete("voice:leader:fence"),
        lambda: client.set("voice:leader:fence", "many"),
        lambda: (client.delete("voice:leader:fence"), client.sadd("voice:leader:fence", "of the wrong type")),
        client.flushall,
    )
    for break_it in spoil:
        break_it()
        is_number = lambda: client.type("voice:leader:fence") == "string" and client.get("voice:leader:fence").isdigit()
        wait_until(is_number, "there is a number again")
        has_pods(leader, PODS)
        before = syncs(leader)
        wait_until(lambda b=before: syncs(leader) >= b + 3, "it syncs")
        assert site.fence() > fence  # never an old one
        fence = site.fence()
    assert leads(leader) and len(leader.log_lines("this router leads")) == 1
    assert [syncs(router) for router in others] == [0, 0]


def test_who_leads_before_redis_is_there_acts_when_it_is(site):
    """The Lease is good, and there is no number: the work of a leader is not begun, and fails nowhere."""
    site.start(2)
    old, (new,) = agree(site.routers)
    fence = site.fence()
    lines_before = len(new.log_lines())
    with site.server.paused():
        old.kill()
        wait_until(lambda: says_that_it_leads(new), "the other one leads")
        wait_until(lambda: new.log_lines(NO_NUMBER), "it says what it lacks")
    has_pods(new, PODS)
    wait_until(lambda: syncs(new) > 0, "it acts")
    assert site.fence() > fence
    told = new.log_lines()[lines_before:]
    assert len([line for line in told if line["msg"] == NO_NUMBER]) == 1
    assert [line for line in told if line["msg"] == "background task failed"] == []


def test_the_go_client_and_the_router_take_turns(site, start_elector):
    config = site.namespace.account().kubeconfig()
    durations = {
        "lease_duration": f"{DURATION_S}s",
        "renew_deadline": f"{DEADLINE_S}s",
        "retry_period": f"{int(RETRY_S * 1000)}ms",
    }

    def elector(identity):
        return start_elector(config, site.namespace.name, LOCK, identity, **durations)

    go = elector("go-1")
    wait_until(go.is_leading, "the Go client leads")
    router = site.start()
    wait_until(lambda: status(router).get("leader") == "go-1", "the router sees who leads")
    assert not leads(router) and syncs(router) == 0

    # Given up by the one, taken by the other, both ways.
    assert go.terminate() == 0
    wait_until(lambda: leads(router), "the router leads")
    has_pods(router, PODS)
    assert site.holder() == status(router)["leader"]
    go = elector("go-2")
    wait_until(lambda: any(e.get("leader") == site.holder() for e in go.events()), "the Go client sees who leads")
    time.sleep(DURATION_S + 2 * RETRY_S)
    assert leads(router) and not go.is_leading()
    assert router.stop() == 0
    wait_until(go.is_leading, "the Go client leads again")
    assert site.holder() == "go-2"

    # Run out, both ways.
    router = site.start()
    go.send(signal.SIGKILL)
    wait_until(lambda: leads(router), "the router leads when the Go client is silent")
    go = elector("go-3")
    router.kill()
    wait_until(go.is_leading, "the Go client leads when the router is silent")
    assert site.holder() == "go-3"
    assert site.namespace.lease(LOCK)["spec"]["leaseTransitions"] >= 4


def test_missing_rights_on_leases_are_said_and_when_they_come_it_leads(namespace, redis_server, start_in):
    namespace.create_pod("agent-0")
    account = namespace.create_account(rules=[kube.POD_READER])
    env = {"REDIS_URL": redis_server.url, **redis_servers.QUICK, **election_env()}
    router = start_in(namespace, env, account=account)
    message = "this router cannot lead: its role lacks a verb on leases"
    (said,) = wait_until(lambda: router.log_lines(message), "it says what is missing")
    assert (said["verb"], said["resource"], said["namespace"]) == ("get", "leases.coordination.k8s.io", namespace.name)
    assert not leads(router) and router.get("/health").status_code == 200

    account.set_rules(kube.ROUTER_RULES)
    wait_until(lambda: leads(router), "it leads")
    has_pods(router, 1)


def test_without_the_api_server_the_leader_steps_down_and_all_serve(control_plane, namespace, redis_server, start_in):
    namespace.create_pods([f"agent-{i}" for i in range(3)])
    lines = [kube.Line(control_plane) for _ in range(2)]
    routers = []
    try:
        for line in lines:
            config = namespace.account().kubeconfig(server=line.url)
            env = {"REDIS_URL": redis_server.url, **redis_servers.QUICK, **election_env(), "KUBECONFIG": config}
            routers.append(start_in(namespace, env))
        leader, (other,) = agree(routers)
        has_pods(leader, 3)
        # The leader alone is cut off: another one leads, and pods go on being followed.
        lines[routers.index(leader)].cut()
        wait_until(lambda: not leads(leader), "it steps down")
        wait_until(lambda: leads(other), "the other one leads")
        namespace.create_pod("agent-3")
        has_pods(leader, 4)
        # Nobody leads, and calls go on.
        lines[routers.index(other)].cut()
        wait_until(lambda: not leads(other), "nobody leads")
        calls = {router.allocate(f"CA-{i}")["pod_name"] for i, router in enumerate(routers)}
        assert len(calls) == 2
        for i, router in enumerate(reversed(routers)):
            router.release(f"CA-{i}")
        for line in lines:
            line.mend()
        agree(routers)
        namespace.end_pod("agent-3")
        has_pods(leader, 3)
    finally:
        for line in lines:
            line.close()
