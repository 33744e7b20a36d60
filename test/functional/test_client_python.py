"""The Python client against the real router: killed, stopped, slow, answering 500 and 503; nothing is leaked.

CLIENT_CALLS and CLIENT_TASKS are the size of the storm: 10,000 and 500 in the full campaign.
"""

import asyncio
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import basics
import client_faults
import pytest
from conftest import DEADLINE_S, ROOT, wait_until

CLIENT = ROOT / "clients/python"
sys.path.insert(0, str(CLIENT / "src"))
import smartrouter  # noqa: E402

OPEN_GATE = smartrouter.Rollout(enabled=True, percentage=100)
DEFAULT_URL = "wss://voice.test/agent/voice/breeze-buddy/twilio/callback/order-confirmation/v2"
TIMEOUT_MS = 1500  # long enough for a router that is well, on a machine that is busy
ROOM = '{"basic":{"type":"shared","target":5,"max_concurrent":100}}'


class HandClock:
    """Stands still until a test moves it: however slow the machine is, 29 s are not 30 s."""

    def __init__(self):
        self.at = 0.0

    def now(self):
        return self.at

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)


class Watch(smartrouter.Hooks):
    """Counts the requests that leave, and remembers the breaker's states."""

    def __init__(self):
        self.requests = 0
        self.states = []

    def request(self, event):
        self.requests += 1

    def breaker(self, old, new):
        self.states.append(new)


def settings_of(url, **members):
    base = {"voice_agent_base_url": "wss://voice.test", "rollout": OPEN_GATE, "timeout_ms": TIMEOUT_MS}
    return smartrouter.Settings(**{"base_url": url, **base, **members})


def make_client(url, clock=None, **members):
    """A client with a breaker of its own. With a clock its background runs only by `finish_background`."""
    settings = settings_of(url, **members)
    breaker = smartrouter.Breaker.of(settings, clock.now) if clock else smartrouter.Breaker.of(settings)
    client = smartrouter.Client(settings, hooks=Watch(), breaker=breaker, clock=clock, jitter=lambda: 0.0)
    if clock:
        client.background.run_by_hand()
    return client


@pytest.fixture
def start_faults():
    proxies = []

    def start(router):
        proxies.append(client_faults.FaultProxy(router.port))
        return proxies[-1]

    yield start
    for proxy in proxies:
        proxy.close()


@pytest.fixture
def environment():
    return {"HTTP_PORT": basics.free_port(), "TIER_CONFIG": ROOM}


def calls_of(router):
    return sorted(call["call_sid"] for call in router.get("/api/v1/calls?limit=1000").json()["calls"])


def free_pods(router):
    return [pod["pod_name"] for pod in router.get("/api/v1/pods").json()["pods"] if not pod["calls"]]


async def expect_fallback(client, call_sid, reason):
    allocation = await client.allocate(call_sid, "shop-7")
    assert (allocation.outcome, allocation.reason, allocation.ws_url) == ("fallback", reason, DEFAULT_URL)


async def finish_background(client, clock):
    """All that is left to the background, now."""
    while client.pending_releases:
        clock.at = max(clock.at, client.background.next_due())
        await client.background.run_until(clock.at)


async def live_a_breakers_life(client, clock, break_it, repair_it):
    """From closed to open, half open, open, half open and closed. CA5 to CA7 have pods at the end."""
    watch = client.hooks
    assert (await client.allocate("CA0", "shop-7")).has_pod and watch.requests == 1
    break_it()
    await expect_fallback(client, "CA1", "unavailable")
    assert (client.breaker.state, watch.requests) == ("closed", 4)
    await expect_fallback(client, "CA2", "unavailable")
    assert (client.breaker.state, watch.requests) == ("open", 6)
    # No request leaves while it is open.
    await expect_fallback(client, "CA3", "breaker_open")
    assert not await client.release("CA0")
    for ask in (client.status(), client.renew(["CA0"]), client.heartbeat("voice-agent-0", [])):
        with pytest.raises(smartrouter.RouterUnavailable):
            await ask
    clock.at += 29
    await expect_fallback(client, "CA3", "breaker_open")
    assert watch.requests == 6
    # Half open: one failure opens it again.
    clock.at += 1
    assert client.breaker.state == "half_open"
    await expect_fallback(client, "CA4", "unavailable")
    assert (client.breaker.state, watch.requests) == ("open", 7)
    repair_it()
    clock.at += 29
    await expect_fallback(client, "CA4", "breaker_open")
    assert watch.requests == 7
    # Half open: three successes close it.
    clock.at += 1
    for call_sid in ("CA5", "CA6", "CA7"):
        assert client.breaker.state == "half_open"
        assert (await client.allocate(call_sid, "shop-7")).has_pod
    assert watch.states == ["open", "half_open", "open", "half_open", "closed"]


@pytest.mark.parametrize("fault", ["killed", "stopped", "late", "lost", 500, 503])
def test_the_breaker_lives_its_life_and_nothing_is_leaked(fault, environment, start_router, start_faults, tmp_path):
    router = start_router(environment, tmp_path / "data")
    is_proxied = fault not in ("killed", "stopped")
    proxy = start_faults(router) if is_proxied else None
    if proxy:
        proxy.retry_after = "0"  # without it there would be no second try after 503
    # A process that is stopped takes requests, and carries them out when it goes on.
    break_it = {"killed": router.kill, "stopped": lambda: router.proc.send_signal(signal.SIGSTOP)}.get(
        fault, lambda: setattr(proxy, "fault", fault)
    )

    def repair_it():
        nonlocal router
        if fault == "killed":
            router = start_router(environment, tmp_path / "data")
        elif fault == "stopped":
            router.proc.send_signal(signal.SIGCONT)
            wait_until(lambda: router.get("/ready").status_code == 200, "the router goes on")
        else:
            proxy.fault = None

    async def run():
        clock = HandClock()
        async with make_client(proxy.url if proxy else router.url, clock) as client:
            try:
                await live_a_breakers_life(client, clock, break_it, repair_it)
            finally:
                router.proc.send_signal(signal.SIGCONT)
            if proxy:
                assert len(proxy.asked) == client.hooks.requests
            await finish_background(client, clock)
            assert calls_of(router) == ["CA5", "CA6", "CA7"]
            for call_sid in ("CA5", "CA6", "CA7"):
                assert await client.release(call_sid)
        assert calls_of(router) == [] and len(free_pods(router)) == 5

    asyncio.run(run())


def test_503_without_retry_after_is_not_repeated_and_no_pods_is_an_answer(start_router, start_faults):
    router = start_router({"STATIC_PODS": "voice-agent-0"})
    proxy = start_faults(router)

    async def run():
        async with make_client(proxy.url) as client:
            proxy.fault = 503
            await expect_fallback(client, "CA1", "unavailable")
            assert proxy.asked == ["POST /api/v1/allocate"]
            proxy.fault = None
            assert (await client.allocate("CA2")).has_pod
            await expect_fallback(client, "CA3", "no_pods")
            assert proxy.asked.count("POST /api/v1/allocate") == 3 and client.breaker.state == "closed"
            assert await client.release("CA2")

    asyncio.run(run())


def test_answers_that_are_lost_leave_no_call_behind(router, start_faults):
    proxy = start_faults(router)
    count = 5

    async def run():
        async with make_client(proxy.url, failure_threshold=1000, timeout_ms=10000) as client:
            proxy.fault = "lost"
            found = await asyncio.gather(*(client.allocate(f"CA{i}") for i in range(count)))
            assert {(one.outcome, one.reason) for one in found} == {("fallback", "unavailable")}
            assert len(calls_of(router)) == count, "the router has done what it was asked"
            proxy.fault = None
            while client.pending_releases:
                await asyncio.sleep(0.05)
        assert calls_of(router) == []

    asyncio.run(run())


def test_cancelled_tasks_leave_no_call_behind(start_router, start_faults):
    router = start_router({"TIER_CONFIG": ROOM})
    proxy = start_faults(router)
    proxy.late_s = 0.3

    async def run():
        async with make_client(proxy.url, failure_threshold=1000, timeout_ms=10000) as client:

            async def talk(number):
                async with client.call(f"CA{number}"):
                    await asyncio.sleep(3600)

            proxy.fault = "late"
            tasks = [asyncio.create_task(talk(number)) for number in range(20)]
            while len(calls_of(router)) < 10:  # some have their answer soon, none has it yet
                await asyncio.sleep(0.01)
            for task in tasks[:10]:
                task.cancel()
            proxy.fault = None
            await asyncio.sleep(0.5)
            for task in tasks[10:]:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(error, asyncio.CancelledError) for error in ended)
            while client.pending_releases:
                await asyncio.sleep(0.05)
        assert calls_of(router) == [] and len(free_pods(router)) == 5

    asyncio.run(run())


def test_a_call_is_kept_and_its_release_survives_an_outage(environment, start_router, tmp_path):
    router = start_router(environment, tmp_path / "data")

    async def run():
        async with make_client(router.url, heartbeat_interval=0.1, recovery_timeout=0.3) as client:
            async with client.call("CA1", "shop-7") as call:
                assert call.has_pod

                def renewed_by():
                    return router.get("/api/v1/call/CA1").json().get("renewed_by")

                while renewed_by() != "client":
                    await asyncio.sleep(0.05)
                router.kill()
            assert client.pending_releases == 1
            again = start_router(environment, tmp_path / "data")
            assert calls_of(again) == ["CA1"] or client.pending_releases == 0
            while client.pending_releases:
                await asyncio.sleep(0.05)
            assert calls_of(again) == []

    asyncio.run(run())


def test_many_timeouts_do_not_use_up_the_connections(router):
    async def run():
        clock = HandClock()
        async with make_client(router.url, clock, failure_threshold=1000, retry_attempts=1) as client:
            router.proc.send_signal(signal.SIGSTOP)
            try:
                for _ in range(2):
                    await asyncio.gather(*(client.allocate(f"CA{i}") for i in range(100)))
            finally:
                router.proc.send_signal(signal.SIGCONT)
            wait_until(lambda: router.get("/ready").status_code == 200, "the router goes on")
            await finish_background(client, clock)
            assert (await client.allocate("CA1000")).has_pod and await client.release("CA1000")
        assert calls_of(router) == []

    asyncio.run(run())


def test_the_sync_face_and_every_operation_work_with_a_real_router(start_router):
    router = start_router({"POD_SOURCE": "api", "STATIC_PODS": None, "API_KEY": "a-key-of-the-test", "TIER_CONFIG": ROOM})
    settings = settings_of(router.url, api_key="a-key-of-the-test", timeout_ms=3000)
    with smartrouter.SyncClient(settings) as client:
        assert client.health() and client.status()["active_calls"] == 0
        registration = client.register("agent-1", "127.0.0.1:9000", "start-1")
        assert registration.heartbeat_interval_seconds == 30 and registration.is_new
        with client.call("CA1", "shop-7", "plivo") as call:
            assert call.pod_name == "agent-1" and "/plivo/" in call.ws_url
            assert client.allocate("CA1", "shop-7").was_existing
            assert client.renew(["CA1", "CA2"]).renewed == ("CA1",)
            beat = client.heartbeat("agent-1", ["CA1", "CA3"])
            assert (beat.renewed, beat.adopted) == (("CA1",), ("CA3",))
            assert client.drain("agent-1", 300).has_active_call
            assert client.drained("agent-1").calls == ("CA1", "CA3")
        assert client.release("CA3", "agent-1", "completed") and client.release("CA3", "agent-1")
        assert client.drained("agent-1", 10).is_drained
        with pytest.raises(smartrouter.RouterRefused) as refused:
            client.renew(["CA1"])
        assert (refused.value.outcome, refused.value.status) == ("not_found", 404)
        client.remove("agent-1")
        client.remove("agent-1")
        with pytest.raises(smartrouter.RouterRefused):
            client.heartbeat("agent-1", [])
    with smartrouter.SyncClient(settings_of(router.url, api_key="wrong")) as wrong:
        assert wrong.allocate("CA4").reason == "refused"


class Storm:
    """A process of agents and callers."""

    def __init__(self, url, folder, calls, tasks, first=0):
        self.log = folder / f"storm-{first}.log"
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CLIENT / "src"), "FIRST": str(first)}
        command = [sys.executable, ROOT / "test/functional/client_storm.py", url, str(calls), str(tasks), "10"]
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, env=env, stdout=log, stderr=log)

    def has_said(self, says):
        return re.search(f"^{says}", self.log.read_text(), re.MULTILINE)


def test_pods_are_free_again_when_a_process_in_the_middle_of_its_calls_is_killed(start_router, tmp_path, tell):
    calls, tasks = int(os.environ.get("CLIENT_CALLS", "300")), int(os.environ.get("CLIENT_TASKS", "60"))
    deadline = DEADLINE_S + calls / 50
    tiers = '{"basic":{"type":"shared","target":10,"max_concurrent":%d}}' % (tasks // 5)
    env = {"POD_SOURCE": "api", "STATIC_PODS": None, "TIER_CONFIG": tiers, "HEARTBEAT_TTL": "3s", "CLEANUP_INTERVAL": "1s"}
    router = start_router(env)
    with contextlib.ExitStack() as stack:
        storm = Storm(router.url, tmp_path, calls, tasks)
        stack.callback(storm.process.kill)
        # In the middle: half of its calls are done.
        basics.wait_until(lambda: storm.has_said(f"served {calls // 10 * 5}$"), "half of the calls are served", deadline)
        storm.process.kill()
        storm.process.wait()
        killed_at = time.monotonic()
        left = router.get("/api/v1/status").json()["active_calls"]
        assert left > 0, "it was killed in the middle of calls"
        wait_until(lambda: router.get("/api/v1/status").json()["active_calls"] == 0, "no call of the dead is left")
        wait_until(lambda: router.get("/api/v1/pods").json()["total"] == 0, "the dead agents are gone")
        tell(f"client: {left} calls of a killed process were over {time.monotonic() - killed_at:.1f} s later (HEARTBEAT_TTL 3 s)")
        # Its successor has all pods, and serves as many calls again.
        second = Storm(router.url, tmp_path, calls - calls // 10 * 5, tasks, first=calls)
        stack.callback(second.process.kill)
        assert second.process.wait(deadline) == 0, second.log.read_text()[-4000:]
        assert second.has_said(f"done {calls - calls // 10 * 5}$")
    assert router.get("/api/v1/status").json()["active_calls"] == 0


def test_a_process_that_starts_again_has_its_pods_at_once(start_router, tmp_path):
    tiers = '{"basic":{"type":"shared","target":10,"max_concurrent":6}}'
    router = start_router({"POD_SOURCE": "api", "STATIC_PODS": None, "TIER_CONFIG": tiers, "HEARTBEAT_TTL": "1h"})
    with contextlib.ExitStack() as stack:
        storm = Storm(router.url, tmp_path, 100000, 60)
        stack.callback(storm.process.kill)
        wait_until(lambda: router.get("/api/v1/status").json()["active_calls"] > 30, "it has calls")
        storm.process.kill()
        storm.process.wait()
        assert router.get("/api/v1/status").json()["active_calls"] > 0
        second = Storm(router.url, tmp_path, 60, 60, first=100000)
        stack.callback(second.process.kill)
        assert second.process.wait(DEADLINE_S) == 0, second.log.read_text()[-4000:]
    assert router.get("/api/v1/status").json()["active_calls"] == 0


def test_the_snippets_of_the_readme_run(start_router, tmp_path):
    router = start_router({"TIER_CONFIG": ROOM})
    snippets = re.findall(r"^```python\n(.*?)^```", (CLIENT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 4
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(CLIENT / "src"), "SMART_ROUTER_BASE_URL": router.url}
    env |= {"ENABLE_VOICE_AGENT_POD_ISOLATION": "true", "SMART_ROUTER_PERCENTAGE": "100"}
    env |= {"VOICE_AGENT_BASE_URL": "wss://voice.test", "POD_NAME": "agent-1", "POD_IP": "127.0.0.1"}
    for number, snippet in enumerate(snippets):
        script = tmp_path / f"snippet-{number}.py"
        script.write_text(snippet)
        done = subprocess.run([sys.executable, script], env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
        assert done.returncode == 0, f"{snippet}\n{done.stderr}"
        shown = re.findall(r"# prints: (.*)", snippet)
        assert done.stdout.splitlines() == shown, snippet
    assert calls_of(router) == []


def test_the_wheel_and_the_source_archive_install_and_run_an_example(start_router, tmp_path):
    subprocess.run([ROOT / "scripts/python-dist", tmp_path / "dist"], check=True, timeout=DEADLINE_S, capture_output=True)
    wheel, = (tmp_path / "dist").glob("smartrouter-*.whl")
    archive, = (tmp_path / "dist").glob("smartrouter-*.tar.gz")
    # httpx and websockets are Debian's: nothing is fetched.
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", tmp_path / "venv"], check=True, timeout=DEADLINE_S)
    python = tmp_path / "venv/bin/python"
    install = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--force-reinstall"]
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for form in (archive, wheel):
        subprocess.run([*install, "--no-deps", form], check=True, timeout=DEADLINE_S, env=env, cwd=tmp_path)
    where = subprocess.run(
        [python, "-c", "import smartrouter; print(smartrouter.__file__)"], check=True, capture_output=True, text=True, env=env, cwd=tmp_path
    ).stdout.strip()
    assert pathlib.Path(where).is_relative_to(tmp_path / "venv")
    assert pathlib.Path(where).with_name("py.typed").exists()
    router = start_router({"POD_SOURCE": "api", "STATIC_PODS": None, "TIER_CONFIG": ROOM})
    example = shutil.copy(CLIENT / "examples/websockets_agent.py", tmp_path)
    env |= {"SMART_ROUTER_BASE_URL": router.url, "POD_NAME": "agent-1", "POD_IP": "127.0.0.1", "PORT": str(basics.free_port())}
    agent = subprocess.Popen([python, example], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        wait_until(lambda: router.get("/api/v1/pod/agent-1").status_code == 200, "the example has registered")
        agent.send_signal(signal.SIGTERM)
        out, _ = agent.communicate(timeout=DEADLINE_S)
        assert agent.returncode == 0, out
    finally:
        agent.kill()
        agent.wait()
    assert router.get("/api/v1/pod/agent-1").status_code == 404
