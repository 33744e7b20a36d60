"""Redis that stops, dies, forgets or refuses, under load: every request is answered, and none of them wrongly."""

import contextlib
import random
import socket
import threading
import time

import load
import pytest
from conftest import wait_until
from edges import answer_of
from redis_servers import SURVIVES_KILL

SHARED_MAX = 3
TIERS = f"""{{"tiers": {{"gold": {{"target": 4}}, "standard": {{"target": 3}},
 "basic": {{"type": "shared", "target": 2, "max_concurrent": {SHARED_MAX}}}}},
 "default_chain": ["gold", "standard", "basic"]}}"""
PODS = [f"agent-{i}" for i in range(9)]
ENV = {"TIER_CONFIG": TIERS, "STATIC_PODS": ",".join(PODS), "CLEANUP_INTERVAL": "300ms"}
IMPATIENT = {"REDIS_TIMEOUT": "500ms"}  # where clients ask again after a 503


def room(pool):
    return SHARED_MAX if pool == "pool:basic" else 1


def syncs(router):
    """How many it has done so far, as its metrics have it, which need no store."""
    name = "smart_router_sync_duration_seconds_count "
    page = router.client.get(router.metrics_url + "/metrics").text.splitlines()
    return sum(int(line.removeprefix(name)) for line in page if line.startswith(name))


class Site:
    """Two routers on one Redis, some clients, and somebody who asks all the time how they are."""

    def __init__(self, routers):
        self.routers = routers
        self.history = load.History()
        self.work = load.Load(self.history)
        self.urls = [router.url for router in routers]
        self.callers = load.Callers(self.history, self.urls, hot=3, hold_s=0.1)
        self.probes = {"/health": set(), "/ready": set()}

    def probe(self, client):
        for path, seen in self.probes.items():
            status, _, _, _ = client.ask("GET", path)
            seen.add(status)
        time.sleep(0.01)

    def start(self, clients=6):
        for url in self.urls:
            self.work.start(self.probe, load.Client(self.history, [url]))
        self.callers.start(self.work, clients)

    def works(self, calls=50):
        """Serving for a while."""
        before = self.history.outcomes["allocate 200 new"]
        wait_until(lambda: self.history.outcomes["allocate 200 new"] >= before + calls, "calls get pods")

    def is_down(self):
        """No router has its store; each says so, and answers nevertheless: what was under way, and what comes now."""
        since = time.monotonic()
        waiting = lambda: [sent for sent in list(self.history.under_way.values()) if sent < since]
        wait_until(lambda: not waiting(), "what was under way is answered")
        for router in self.routers:
            wait_until(lambda r=router: r.get("/ready").status_code == 503, "it is not ready")
            assert router.get("/health").status_code == 200
            answer = router.post("/api/v1/allocate", {"call_sid": "CA-down"})
            assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
            assert router.post("/api/v1/release", {"call_sid": "CA-down"}).status_code == 503

    def syncs(self):
        """Whoever leads has looked at everything, more than once."""
        before = sum(syncs(router) for router in self.routers)
        wait_until(lambda: sum(syncs(router) for router in self.routers) >= before + 3, "the leader syncs")

    def ready_everywhere(self):
        for router in self.routers:
            wait_until(lambda r=router: r.get("/ready").status_code == 200, "the router is ready again")

    def finish(self):
        """Stops the load; nothing was wrong, and nothing is lost."""
        self.works()
        self.work.stop()
        self.callers.finish()
        print(dict(sorted(self.history.outcomes.items())), f"slowest {self.history.slowest_s:.3f} s")
        assert load.violations(self.history, room) == []
        assert self.probes["/health"] == {200}
        assert [key for key in self.history.outcomes if "None" in key] == []  # every request was answered
        router = self.routers[0]
        pods = lambda: router.get("/api/v1/pods?limit=1000").json().get("pods", [])
        wait_until(lambda: {pod["pod_name"]: pod["state"] for pod in pods()} == {p: "available" for p in PODS}, "all free")
        assert answer_of(router, "/api/v1/status").json()["active_calls"] == 0


@pytest.fixture
def site(start_on):
    def start(server, url=None, **env):
        env = {**ENV, **IMPATIENT, **env, **({"REDIS_URL": url} if url else {})}
        return Site([start_on(server, env), start_on(server, env)])

    return start


def test_redis_is_stopped_and_goes_on(redis_server, site):
    site = site(redis_server)
    site.start()
    site.works()
    for _ in range(2):
        with redis_server.paused():
            site.is_down()
        site.ready_everywhere()
        site.works()
    site.finish()
    assert any(key.endswith("503 unavailable") for key in site.history.outcomes), site.history.outcomes


def test_redis_is_killed_and_comes_back_with_its_data(start_redis, site):
    server = start_redis(**SURVIVES_KILL)
    site = site(server)
    site.start()
    site.works()
    kept = site.routers[0].allocate_until_answered("CA-kept")["pod_name"]
    for _ in range(2):
        server.kill()
        site.is_down()
        server.start()
        site.ready_everywhere()
        site.works()
    again = site.routers[1].allocate_until_answered("CA-kept")
    assert (again["pod_name"], again["was_existing"]) == (kept, True)
    site.routers[1].release_until_answered("CA-kept")
    site.finish()


def test_redis_is_killed_in_the_middle_of_a_pause(start_redis, site):
    """What a stopped server never got to read has not happened; what it did before it died has."""
    server = start_redis(**SURVIVES_KILL)
    site = site(server)
    site.start()
    site.works()
    with server.paused():
        time.sleep(0.2)
        server.kill()
    server.start()
    site.ready_everywhere()
    site.finish()


def test_connections_are_killed(redis_server, site):
    site = site(redis_server)
    site.start()
    client = redis_server.client()
    for _ in range(10):
        site.works(20)
        client.client_kill_filter(_type="normal", skipme=True)
        site.ready_everywhere()
    site.finish()


class CuttingProxy:
    """Between the routers and Redis; now and then it passes on a part of a reply and hangs up."""

    def __init__(self, server, seed):
        self.server = server
        self.rng = random.Random(seed)
        self.is_cutting = threading.Event()
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(self.server.socket_path)
                threading.Thread(target=self.forward, args=(client, upstream), daemon=True).start()
                threading.Thread(target=self.back, args=(upstream, client), daemon=True).start()

    def forward(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        self.hang_up(source, target)

    def back(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.is_cutting.is_set() and self.rng.random() < 0.01:
                    target.sendall(data[: self.rng.randrange(len(data))])
                    self.cuts += 1
                    break
                target.sendall(data)
        self.hang_up(source, target)

    @staticmethod
    def hang_up(*sockets):
        for sock in sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def test_connections_are_cut_in_the_middle_of_replies(redis_server, site):
    proxy = CuttingProxy(redis_server, 1)
    site = site(redis_server, proxy.url)
    site.start()
    site.works()
    proxy.is_cutting.set()
    wait_until(lambda: proxy.cuts >= 10, "replies are cut")
    proxy.is_cutting.clear()
    site.ready_everywhere()
    site.finish()
    for router in site.routers:
        router.stop()
    proxy.listener.close()


def test_scripts_are_forgotten(redis_server, site):
    site = site(redis_server, REDIS_TIMEOUT="30s")
    site.start()
    client = redis_server.client()
    for _ in range(20):
        site.works(20)
        client.script_flush()
    site.finish()
    # Nobody noticed.
    assert {key for key in site.history.outcomes if " 503 " in key} <= {"allocate 503 no_pods"}
    assert site.probes["/ready"] == {200}


class Agents:
    """The pods themselves: each says all the time which calls it carries."""

    def __init__(self, site):
        self.site = site
        self.calls = {pod: set() for pod in PODS}
        self.conflicts = set()
        self.rounds = 0

    def speak(self, client, pod):
        calls = sorted(self.calls[pod])
        status, answer, _, _ = client.ask("POST", f"/api/v1/pod/{pod}/heartbeat", {"call_sids": calls})
        if status == 200:
            self.conflicts.update(answer["conflicts"])

    def round(self, client):
        for pod in PODS:
            self.speak(client, pod)
        self.rounds += 1
        time.sleep(0.1)

    def have_spoken(self):
        """Each of them, of all the calls that it has now."""
        before = self.rounds
        wait_until(lambda: self.rounds >= before + 2, "all pods speak")

    def start(self):
        self.site.work.start(self.round, load.Client(self.site.history, self.site.urls))


@pytest.mark.parametrize("how", ["FLUSHALL", "restart without data"])
def test_everything_is_forgotten_and_the_pods_know_their_calls(redis_server, site, how):
    site = site(redis_server, HEARTBEAT_TTL="60s", REDIS_TIMEOUT="2s")
    agents = Agents(site)
    agents.start()
    router = site.routers[0]
    router.put("/api/v1/merchants/small", {"fallback": ["basic"]})
    held = {}
    for call_sid, merchant in (("H1", "x"), ("H2", "x"), ("H3", "x"), ("H4", "small"), ("H5", "small"), ("H6", "small")):
        pod = router.allocate(call_sid, merchant_id=merchant)["pod_name"]
        agents.calls[pod].add(call_sid)
        held[call_sid] = pod
    site.start()
    for _ in range(3):
        site.works()
        agents.have_spoken()
        site.syncs()  # so that the leader knows who is heartbeating
        sent = time.monotonic()
        if how == "FLUSHALL":
            redis_server.client().flushall()
        else:
            redis_server.kill()
            redis_server.start()
        # The calls of the load are not spoken of by any pod and may be lost. Those that are held must not be.
        site.history.may_have_ended(sent, time.monotonic() + 0.5)
        site.ready_everywhere()
        status = lambda sid: router.get(f"/api/v1/call/{sid}").status_code
        wait_until(lambda: all(status(sid) == 200 for sid in held), "all held calls are adopted again")
        site.works()
    for call_sid, pod in held.items():
        again = router.allocate(call_sid)
        assert (again["pod_name"], again["was_existing"]) == (pod, True)
    # No exclusive pod that carried a held call was given to another one, and no shared one got too many.
    exclusive = {held[sid] for sid in ("H1", "H2", "H3")}
    assert [entry for entry in site.history.allocations if entry[3] in exclusive] == []
    assert agents.conflicts == set()
    for call_sid, pod in held.items():
        agents.calls[pod].discard(call_sid)
        assert router.release(call_sid)["pod_name"] == pod
    site.finish()


def error_lines(router, word):
    return [line for line in router.log_lines() if line["level"] == "error" and word in str(line)]


def test_a_server_that_became_a_replica(redis_server, start_on):
    router = start_on(redis_server, ENV)
    pod = router.allocate("CA1")["pod_name"]
    client = redis_server.client()
    client.replicaof("127.0.0.1", "1")
    answer = router.post("/api/v1/allocate", {"call_sid": "CA2"})
    assert answer.status_code == 503 and "retry-after" in answer.headers
    wait_until(lambda: "READONLY" in router.log() or "read-only" in router.log(), "it is said")
    assert router.get("/health").status_code == 200
    client.replicaof("NO", "ONE")
    wait_until(lambda: router.get("/ready").status_code == 200, "it is ready again")
    wait_until(lambda: router.post("/api/v1/allocate", {"call_sid": "CA2"}).status_code == 200, "and serves")
    assert router.allocate("CA1")["pod_name"] == pod


def test_a_server_without_memory(redis_server, start_on):
    router = start_on(redis_server, ENV)
    router.put("/api/v1/merchants/small", {"fallback": ["basic"]})
    client = redis_server.client()
    router.allocate("CA1", merchant_id="small")
    client.config_set("maxmemory", "1")
    answer = router.post("/api/v1/allocate", {"call_sid": "CA2", "merchant_id": "small"})
    assert answer.status_code == 503, answer.text
    assert error_lines(router, "OOM"), router.log()[-2000:]
    assert router.get("/health").status_code == 200
    assert router.release("CA1")["released_to_pool"] == "pool:basic"  # frees memory, so it is allowed
    client.config_set("maxmemory", "0")
    assert not router.allocate("CA2", merchant_id="small")["was_existing"]
    assert client.zrange("voice:pool:basic:available", 0, -1, withscores=True)[-1][1] == 1
    router.release("CA2")


KEYS = ["pool:gold:available", "pool:standard:available", "pool:basic:available", "pool:gold:assigned", "calls:active",
        "pods", "pods:names", "merchant:config", "call:CA1", "lease:agent-0", "pod:agent-0", "pod:calls:agent-0",
        "pod:metadata", "pods:out", "tiers:used", "heartbeats", "tier:config", "leader"]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_the_wrong_type(redis_server, start_on, key):
    """Made by hand. Requests may fail until it is gone; the router does not, and afterwards all is well."""
    router = start_on(redis_server, {**ENV, "STATIC_PODS": "agent-0,agent-1,agent-2"})
    client = redis_server.client()
    router.allocate("CA1")
    client.pipeline().delete("voice:" + key).xadd("voice:" + key, {"a": "1"}).execute()  # at once: a sync would put it back
    for path in ("/api/v1/status", "/api/v1/pods", "/api/v1/calls", "/api/v1/merchants", "/api/v1/tiers", "/metrics"):
        assert router.get(path).status_code in (200, 503), path
    for call_sid in ("CA1", "CA2", "CA3"):
        answer = router.post("/api/v1/allocate", {"call_sid": call_sid, "merchant_id": "m"})
        assert answer.status_code in (200, 503), answer.text
    router.post("/api/v1/pod/agent-0/heartbeat", {"call_sids": ["CA1"]})
    router.post("/api/v1/drain", {"pod_name": "agent-2", "ttl_seconds": 1})
    assert router.post("/api/v1/release", {"call_sid": "CA1"}).status_code in (200, 404, 503)
    assert router.get("/health").status_code == 200
    time.sleep(1)  # syncs and sweeps
    client.delete("voice:" + key)
    for call_sid in ("CA1", "CA2", "CA3"):
        wait_until(
            lambda sid=call_sid: router.post("/api/v1/release", {"call_sid": sid}).status_code in (200, 404), "released"
        )
    states = lambda: [pod["state"] for pod in router.get("/api/v1/pods").json().get("pods", [])]
    wait_until(lambda: states() == ["available"] * 3, f"all is well again: {states()}")
    wait_until(lambda: router.get("/api/v1/status").json()["active_calls"] == 0, "no call is left")
    free = lambda: sum(tier["available"] for tier in router.get("/api/v1/status").json()["tiers"].values())
    wait_until(lambda: free() == 3, "all are in their pools")
    pods = {router.allocate(call_sid)["pod_name"] for call_sid in ("CB1", "CB2", "CB3")}
    assert len(pods) == 3


def test_a_key_of_the_wrong_type_is_said(redis_server, start_on):
    router = start_on(redis_server, {**ENV, "RECONCILE_INTERVAL": "24h"})
    client = redis_server.client()
    client.set("voice:pool:gold:available", "oops")
    answer = router.post("/api/v1/allocate", {"call_sid": "CA1"})
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert error_lines(router, "WRONGTYPE"), router.log()[-2000:]


RECORD = ('{"ready":true,"terminating":false,"held_until":0,"tier":"gold","source":"static","pinned":false,'
          '"incarnation":"x","address":""}')  # fmt: skip
SPOILED = ["", "oops", "null", "[]", "{}", RECORD.replace('"gold"', "5"), RECORD.replace("static", "mars"),
           RECORD.replace(":0,", ":-1,"), RECORD.replace(',"address":""', ""), RECORD.replace(":", ": ")]  # fmt: skip


@pytest.mark.parametrize("text", SPOILED)
def test_a_record_of_a_pod_that_was_spoiled_by_hand(redis_server, start_on, text):
    """It counts as lost: nothing else suffers, its call stays, and the next sync writes it anew."""
    router = start_on(redis_server, {**ENV, "STATIC_PODS": "agent-0,agent-1,agent-2"})
    client = redis_server.client()
    pods = {call_sid: router.allocate(call_sid)["pod_name"] for call_sid in ("CA1", "CA2")}
    free = ({"agent-0", "agent-1", "agent-2"} - set(pods.values())).pop()
    for pod in (pods["CA1"], free, "agent-9"):
        client.hset("voice:pods", pod, text)
    for path in ("/api/v1/status", "/api/v1/pods", "/api/v1/calls", "/api/v1/call/CA1", "/api/v1/call/CA2"):
        assert router.get(path).status_code == 200, path
    assert router.post("/api/v1/pod/agent-9/heartbeat", {"call_sids": []}).status_code == 404
    names = lambda: [pod["pod_name"] for pod in router.get("/api/v1/pods").json()["pods"]]
    wait_until(lambda: names() == ["agent-0", "agent-1", "agent-2"], "the sync has written them")
    wait_until(lambda: client.hkeys("voice:pods").count("agent-9") == 0, "nobody speaks of the other one")
    assert {call_sid: router.allocate(call_sid)["pod_name"] for call_sid in pods} == pods
    assert router.allocate("CA3")["pod_name"] == free
    for call_sid, pod in {**pods, "CA3": free}.items():
        assert router.release(call_sid)["pod_name"] == pod
    assert "background task failed" not in router.log()


def test_a_call_that_was_spoiled_by_hand(redis_server, start_on):
    router = start_on(redis_server, {**ENV, "STATIC_PODS": "agent-0,agent-1,agent-2"})
    client = redis_server.client()
    for call_sid in ("CA1", "CA2", "CA3"):
        pod = router.allocate(call_sid)["pod_name"]
        client.hset("voice:call:" + call_sid, mapping={"allocated_at": "yesterday", "misses": "1"})
        client.hdel("voice:call:" + call_sid, "source_pool", "merchant_id", "provider")
    ends = {"CA1": "inf", "CA2": time.time() * 1000 + 60000.5, "CA3": 9e18}
    client.zadd("voice:calls:active", ends)
    assert router.get("/api/v1/calls").json()["total"] == 3
    assert len(router.get("/api/v1/calls").json()["calls"]) == 3
    for call_sid in ends:
        assert router.get("/api/v1/call/" + call_sid).json()["call_sid"] == call_sid
    answer = router.post(f"/api/v1/pod/{pod}/heartbeat", {"call_sids": []})
    assert answer.status_code == 200 and answer.json()["ended"] == ["CA3"]
    assert router.allocate("CA1")["was_existing"] and router.allocate("CA2")["was_existing"]
    for call_sid in ("CA1", "CA2"):
        router.release(call_sid)
