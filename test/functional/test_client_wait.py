"""Calls of the clients that wait for a pod of the real router: granted, over, stopped, cancelled; routers that restart.

Every test runs with the Python client and with libsmartrouter: both wait in the same way.
"""

import asyncio
import concurrent.futures
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading

import basics
import client_faults
import pytest
from conftest import BINARY, DEADLINE_S, ROOT, SANITIZER_REPORTS, wait_until

sys.path.insert(0, str(ROOT / "clients/python/src"))
import smartrouter  # noqa: E402

DRIVER = pathlib.Path(BINARY).parent / "clients/c/smartrouter-driver"
ONE_POD = {"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": "voice-agent-0", "HOLD_MAX_WAIT": "5m"}
POD = ("pod", "", "voice-agent-0")
LONG_S = 300.0


class PythonClient:
    """The Python client, without asyncio. `wait` returns a future of (outcome, reason, pod_name)."""

    def __init__(self, url, _log_path, threads):
        rollout = smartrouter.Rollout(enabled=True, percentage=100)
        settings = smartrouter.Settings(base_url=url, rollout=rollout, recovery_timeout=0.5)
        self.client = smartrouter.SyncClient(settings, breaker=smartrouter.Breaker.of(settings))
        self.threads = threads
        self.positions = []

    def wait(self, call_sid, seconds=LONG_S):
        return self.threads.submit(self.allocate, call_sid, seconds)

    def allocate(self, call_sid, seconds):
        def hear(waiting):
            self.positions.append((call_sid, waiting.position))

        to = self.client.allocate(call_sid, wait=seconds, on_waiting=hear)
        return to.outcome, to.reason, to.pod_name

    def has_heard(self, call_sid, position):
        return (call_sid, position) in self.positions

    def stop(self, call_sid):
        return self.client.stop_waiting(call_sid)

    def release(self, call_sid):
        assert self.client.release(call_sid)

    def close(self):
        self.client.close()
        assert self.client.pending_releases == 0


class CClient:
    """libsmartrouter in its driver."""

    def __init__(self, url, log_path, _threads):
        self.log_path = log_path
        kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        env = {"SMART_ROUTER_BASE_URL": url, "ENABLE_VOICE_AGENT_POD_ISOLATION": "true", "SMART_ROUTER_PERCENTAGE": "100"}
        env["SMART_ROUTER_CB_RECOVERY_TIMEOUT"] = "0.5"
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(
                [DRIVER], env={**kept, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self.waits = {}
        self.answers = queue.Queue()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            words = line.split()
            if len(words) == 4 and words[0] in self.waits:
                self.waits.pop(words[0]).set_result(tuple("" if word == "-" else word for word in words[1:]))
            else:
                self.answers.put(line.strip())

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def ask(self, line):
        self.tell(line)
        return self.answers.get(timeout=DEADLINE_S)

    def wait(self, call_sid, seconds=LONG_S):
        self.waits[call_sid] = future = concurrent.futures.Future()
        self.tell(f"queue {call_sid} {round(1000 * seconds)}")
        return future

    def has_heard(self, call_sid, position):
        return f"waiting {call_sid} position {position}\n" in self.log_path.read_text()

    def stop(self, call_sid):
        return self.ask(f"leave {call_sid}") == "yes"

    def release(self, call_sid):
        assert self.ask(f"release {call_sid}") == "ok"

    def close(self):
        assert self.ask("pending") == "0"
        self.process.stdin.close()
        try:
            code = self.process.wait(DEADLINE_S)
        finally:
            self.process.kill()
            self.process.wait()
            self.reader.join()
            self.process.stdout.close()
        log = self.log_path.read_text(errors="replace")
        assert code == 0 and not [report for report in SANITIZER_REPORTS if report in log], log[-8000:]


@pytest.fixture(params=["python", "c"])
def start_client(request, tmp_path):
    """start_client(url) -> PythonClient or CClient"""
    clients = []
    threads = concurrent.futures.ThreadPoolExecutor(100)

    def start(url):
        make = PythonClient if request.param == "python" else CClient
        clients.append(make(url, tmp_path / f"client-{len(clients)}", threads))
        return clients[-1]

    yield start
    for client in clients:
        client.close()
    threads.shutdown()


@pytest.fixture
def busy(start_router):
    """A router whose only pod has the call CA1, and where calls may wait."""
    router = start_router(ONE_POD)
    router.allocate("CA1")
    return router


def line(router):
    return router.get("/api/v1/waiting?limit=1000").json()["waiting"]


def waiting(router):
    """The calls that wait, in their order."""
    return [call["call_sid"] for call in line(router)]


def calls_of(router):
    return sorted(call["call_sid"] for call in router.get("/api/v1/calls?limit=1000").json()["calls"])


def begin(client, router, call_sid, seconds=LONG_S):
    """A call that waits."""
    future = client.wait(call_sid, seconds)
    wait_until(lambda: call_sid in waiting(router), f"{call_sid} waits")
    return future


def test_a_pod_that_another_call_releases_goes_to_the_first_who_waits(busy, start_client):
    client = start_client(busy.url)
    assert client.wait("CA1").result(DEADLINE_S) == POD, "it has its pod already"
    second, third = begin(client, busy, "CA2"), begin(client, busy, "CA3")
    wait_until(lambda: client.has_heard("CA2", 1) and client.has_heard("CA3", 2), "they know their places")
    client.release("CA1")
    assert second.result(DEADLINE_S) == POD
    assert not third.done() and waiting(busy) == ["CA3"]
    client.release("CA2")
    assert third.result(DEADLINE_S) == POD
    client.release("CA3")
    assert calls_of(busy) == waiting(busy) == []


def test_a_wait_that_is_over_leaves_the_line(busy, start_client):
    client = start_client(busy.url)
    assert client.wait("CA2", 0.5).result(DEADLINE_S) == ("busy", "no_pods", "")
    assert waiting(busy) == [] and calls_of(busy) == ["CA1"]
    # The next one is not held up by it.
    third = begin(client, busy, "CA3")
    client.release("CA1")
    assert third.result(DEADLINE_S) == POD


def test_the_router_ends_a_wait_that_is_longer_than_it_allows(start_router, start_client):
    router = start_router({**ONE_POD, "HOLD_MAX_WAIT": "1s"})
    router.allocate("CA1")
    client = start_client(router.url)
    assert client.wait("CA2").result(DEADLINE_S) == ("busy", "no_pods", "")
    assert waiting(router) == [] and calls_of(router) == ["CA1"]


@pytest.mark.parametrize("settings", [{"HOLD_MAX_WAIT": "0"}, {"HOLD_MAX_CALLS": "1"}], ids=["off", "full"])
def test_where_nobody_may_wait_the_call_is_refused_at_once(start_router, start_client, settings):
    router = start_router({**ONE_POD, **settings})
    router.allocate("CA1")
    if "HOLD_MAX_CALLS" in settings:
        assert router.post("/api/v1/allocate", {"call_sid": "CA0", "wait": True}).status_code == 202
    client = start_client(router.url)
    assert client.wait("CA2").result(DEADLINE_S) == ("busy", "no_pods", "")
    assert not client.stop("CA2")


def test_a_wait_that_is_stopped_leaves_the_line(busy, start_client):
    client = start_client(busy.url)
    second = begin(client, busy, "CA2")
    assert client.stop("CA2")
    assert second.result(DEADLINE_S) == ("busy", "stopped", "")
    assert waiting(busy) == [] and calls_of(busy) == ["CA1"]
    assert not client.stop("CA2")


def test_a_caller_who_hangs_up_in_line_is_not_asked_for_again(busy, start_client):
    client, other = start_client(busy.url), start_client(busy.url)
    second, third = begin(client, busy, "CA2"), begin(client, busy, "CA3")
    client.release("CA2")
    assert second.result(DEADLINE_S) == ("busy", "stopped", "")
    other.release("CA3")  # as a status callback that another process gets
    assert third.result(DEADLINE_S) == ("busy", "stopped", "")
    other.release("CA1")
    assert waiting(busy) == [] and calls_of(busy) == []


def test_a_wait_goes_on_while_the_router_is_killed_and_starts_again(start_router, start_client, tmp_path):
    env = {**ONE_POD, "HTTP_PORT": basics.free_port(), "LOG_FSYNC": "always"}
    router = start_router(env, tmp_path / "data")
    router.allocate("CA1")
    client = start_client(router.url)
    second = begin(client, router, "CA2")
    third = begin(client, router, "CA3")
    router.kill()
    router = start_router(env, tmp_path / "data")
    wait_until(lambda: waiting(router) == ["CA2", "CA3"], "both have kept their places")
    router.release("CA1")
    assert second.result(DEADLINE_S) == POD
    router.release("CA2")
    assert third.result(DEADLINE_S) == POD


def test_a_wait_goes_on_while_the_router_stops_and_another_one_takes_its_place(start_router, start_client, tmp_path):
    env = {**ONE_POD, "HTTP_PORT": basics.free_port()}
    router = start_router(env, tmp_path / "data")
    router.allocate("CA1")
    client = start_client(router.url)
    second = begin(client, router, "CA2")
    router.stop()
    router = start_router(env, tmp_path / "data")
    wait_until(lambda: waiting(router) == ["CA2"], "it has kept its place")
    router.release("CA1")
    assert second.result(DEADLINE_S) == POD


@pytest.fixture
def late_proxy(busy):
    """Between a client and the router. Closed after the client, whose releases go through it."""
    proxy = client_faults.FaultProxy(busy.port)
    proxy.late_s = DEADLINE_S
    yield proxy
    proxy.close()


def test_a_pod_that_comes_when_the_wait_is_stopped_is_released(busy, late_proxy, start_client):
    """The answer is on its way, with the pod, while the program stops the wait."""
    client = start_client(late_proxy.url)
    second = client.wait("CA2")
    wait_until(lambda: late_proxy.asked.count("POST /api/v1/allocate") > 1, "its request stays open")
    late_proxy.fault = "late"
    # The request that is open now is answered in time: the next one is late.
    busy.release("CA1")
    assert second.result(DEADLINE_S) == POD
    third = client.wait("CA3")
    wait_until(lambda: "CA3" in waiting(busy), "the next call waits, and does not know it yet")
    busy.release("CA2")
    wait_until(lambda: client.stop("CA3"), "the wait is stopped")
    late_proxy.fault = None
    assert third.result(DEADLINE_S) == ("busy", "stopped", "")
    wait_until(lambda: calls_of(busy) == [] and waiting(busy) == [], "its pod is free")


def test_a_cancelled_task_leaves_the_line(busy):
    async def run():
        settings = smartrouter.Settings(
            base_url=busy.url, rollout=smartrouter.Rollout(enabled=True, percentage=100), timeout_ms=10000
        )
        async with smartrouter.Client(settings, breaker=smartrouter.Breaker.of(settings)) as client:
            first, second = (asyncio.create_task(client.allocate(sid, wait=LONG_S)) for sid in ("CA2", "CA3"))
            while len(waiting(busy)) < 2:
                await asyncio.sleep(0.01)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            while waiting(busy) != ["CA3"]:
                await asyncio.sleep(0.01)
            busy.release("CA1")
            assert (await second).has_pod
            assert await client.release("CA3")

    asyncio.run(run())
    assert calls_of(busy) == []


def test_many_waits_at_once_end_each_with_a_pod(start_router, start_client):
    """More than a client keeps requests open for; all of them through two pods."""
    router = start_router({**ONE_POD, "TIER_CONFIG": '{"gold":2}', "STATIC_PODS": "voice-agent-0,voice-agent-1"})
    client = start_client(router.url)
    futures = {f"CA{number}": client.wait(f"CA{number}") for number in range(70)}
    done = set()
    while len(done) < len(futures):
        ended = [sid for sid, future in futures.items() if sid not in done and future.done()]
        for sid in ended:
            assert futures[sid].result()[0] == "pod"
            client.release(sid)
            done.add(sid)
        if not ended:
            concurrent.futures.wait([future for sid, future in futures.items() if sid not in done], DEADLINE_S, "FIRST_COMPLETED")
    assert calls_of(router) == waiting(router) == []


def test_a_client_that_is_killed_does_not_hold_up_the_line(busy, tmp_path, start_client):
    other = start_client(busy.url)
    killed = CClient(busy.url, tmp_path / "killed", None)
    killed.wait("CA2")
    wait_until(lambda: waiting(busy) == ["CA2"], "it waits")
    third = begin(other, busy, "CA3")
    killed.process.send_signal(signal.SIGKILL)
    killed.process.wait()
    wait_until(lambda: waiting(busy) == ["CA3"], "its place is free")
    busy.release("CA1")
    assert third.result(DEADLINE_S) == POD
    other.release("CA3")
