"""Routers that die, or stop, under calls of all three providers: the calls go on at the same agents.

RESUME_CALLS is how many go on; a few more end on purpose in the moment of the death, and none of those may come back. With 100
and more the test also waits until the calls whose callers found nobody are ended (a minute). The figures are printed.
"""

import collections
import concurrent.futures
import contextlib
import datetime
import http.client
import json
import os
import random
import signal
import threading
import time
import urllib.parse

import conftest
import pytest
from basics import free_port
from conftest import BINARY, DEADLINE_S, wait_until
from redis_servers import QUICK
from service_manager import ServiceManager
from simulators import Provider, journal

CALLS = int(os.environ.get("RESUME_CALLS", "20"))
IS_LARGE = CALLS >= 100
SEED = int(os.environ.get("RESUME_SEED") or time.time_ns())
ENDING = max(2, CALLS // 10)  # of each kind of end
WAITING = 3
FOREVER_S = 3600
STREAM_END_NS = 1_000_000_000  # from a release until its stream is closed
RESUME_S = 60  # a call may come back for so long
SECRET = "0123456789abcdef0123456789abcdef"
KINDS = ("agent", "released", "reported")
STATUS = {
    "twilio": lambda call_sid: {"CallSid": call_sid, "CallStatus": "completed"},
    "plivo": lambda call_sid: {"CallUUID": call_sid, "Event": "Hangup", "CallStatus": "completed"},
    "exotel": lambda call_sid: {"CallSid": call_sid, "Status": "completed", "EventType": "terminal"},
}


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def provider_of(call_sid):
    return "twilio" if call_sid.startswith("CA") else "plivo" if "-" in call_sid else "exotel"


def ask(url, path, body="", content_type="application/json"):
    """True: it was done. Quicker than httpx, which takes its time until it sends anything."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=DEADLINE_S)
    try:
        connection.request("POST", path, body, {"Content-Type": content_type})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False  # the router has died
    finally:
        connection.close()


class Session:
    """A call at an agent."""

    def __init__(self, line):
        self.call_sid, self.agent, self.resumed = line["call_sid"], line["agent"], line["resumed"]
        self.began, self.ended, self.code = line["at_ns"], None, 0


class World:
    """Agents, callers of several simulated providers, and what is known about their ends."""

    def __init__(self, agents, agents_path, tmp_path):
        self.agents, self.agents_path, self.tmp_path = agents, agents_path, tmp_path
        self.sims = {}
        self.ended = {}  # call_sid -> when its end was answered; the provider's journal adds those that it saw
        self.random = random.Random(SEED)

    def env(self, port, **more):
        pods = ",".join(f"{name}={address}" for name, address in self.agents.addresses.items())
        count = len(self.agents.addresses)
        return {"HTTP_PORT": str(port), "STATIC_PODS": pods, "GATEWAY_SECRET": SECRET, "HOLD_MAX_WAIT": "10m",
                "PUBLIC_BASE_URL": f"http://127.0.0.1:{port}", "CLEANUP_INTERVAL": "1s",
                "TIER_CONFIG": json.dumps({"gold": {"type": "exclusive", "target": count}}), **more}  # fmt: skip

    def call(self, name, router, count, *options):
        path = self.tmp_path / f"calls-{name}"
        self.sims[name] = Provider(router, path, "--calls", count, "--concurrent", count, "--seconds", FOREVER_S,
                                   "--exotel-fork", *options)  # fmt: skip

    def hang_up(self, name):
        self.sims[name].process.send_signal(signal.SIGTERM)

    def sessions(self):
        """call_sid -> its sessions, in their order."""
        found = collections.defaultdict(list)
        for line in journal(self.agents_path) if self.agents_path.exists() else []:
            if line["event"] == "start":
                found[line["call_sid"]].append(Session(line))
            elif line["event"] == "end":
                last = [one for one in found[line["call_sid"]] if one.agent == line["agent"] and one.ended is None][0]
                last.ended, last.code = line["at_ns"], line.get("code", 0)
        return found

    def talking(self):
        return {call_sid for call_sid, sessions in self.sessions().items() if sessions[-1].ended is None}

    def wait_talking(self, count):
        wait_until(lambda: len(self.talking()) == count, f"{count} calls are at agents")

    def assert_alone(self):
        """No agent had two calls at once, and no call two agents. A stream may outlive its released call for a moment."""
        for by in (lambda one: one.agent, lambda one: one.call_sid):
            groups = collections.defaultdict(list)
            for sessions in self.sessions().values():
                for one in sessions:
                    groups[by(one)].append(one)
            for name, group in groups.items():
                group.sort(key=lambda one: one.began)
                for one, other in zip(group, group[1:]):
                    late_ns = STREAM_END_NS if one.call_sid in self.ends | self.leave and one.call_sid != other.call_sid else 0
                    assert one.ended is not None and one.ended <= other.began + late_ns, (name, vars(one), vars(other))

    def results(self, name):
        """call_sid -> its line in the provider's journal; after the provider has ended."""
        return {line["call_sid"]: line for line in journal(self.tmp_path / f"calls-{name}") if line["event"] == "call"}

    def end_on_purpose(self, router):
        """Ends some calls of the provider "ends" in all ways, each at any time in the next moment. Does not wait for them."""
        calls = sorted(call_sid for call_sid in self.ends)
        self.random.shuffle(calls)
        sessions = self.sessions()
        pool = concurrent.futures.ThreadPoolExecutor(len(calls))

        def end(kind, call_sid, delay_s):
            agent, provider = sessions[call_sid][-1].agent, provider_of(call_sid)
            form = urllib.parse.urlencode(STATUS[provider](call_sid))
            time.sleep(delay_s)
            if kind == "agent":  # whether the router saw it, the provider's journal says
                ask(self.agents.control, f"/agent/{agent}/hangup")
            elif kind == "released":
                answered = ask(router.url, "/api/v1/release", json.dumps({"call_sid": call_sid, "pod_name": agent}))
            else:
                answered = ask(router.url, f"/api/v1/{provider}/status", form, "application/x-www-form-urlencoded")
            if kind != "agent" and answered:
                self.ended[call_sid] = now_ns()

        for i, call_sid in enumerate(calls):
            pool.submit(end, KINDS[i % len(KINDS)], call_sid, self.random.random() * 0.1)
        pool.shutdown(wait=False)
        return pool

    def begin(self, router, *options):
        """All kinds of callers talk, and some wait."""
        self.call("stay", router, CALLS, *options)
        self.call("leave", router, ENDING, *options)
        self.call("ends", router, len(KINDS) * ENDING, *options)
        self.wait_talking(self.agent_count)
        self.call("wait", router, WAITING, *options)
        wait_until(lambda: waiting(router) == WAITING, "some calls wait")
        before = self.sessions()
        by_run = collections.defaultdict(set)
        for call_sid in before:
            by_run[self.run_of(call_sid)].add(call_sid)
        sizes = {len(group): group for group in by_run.values()}
        self.stay, self.leave, self.ends = sizes[CALLS], sizes[ENDING], sizes[len(KINDS) * ENDING]

    @staticmethod
    def run_of(call_sid):
        text = call_sid.replace("-", "").removeprefix("CA")
        return text[:16]

    @property
    def agent_count(self):
        return len(self.agents.addresses)

    def wait_resumed(self, calls, count=1):
        """Each of the calls is at its agent for the next time."""

        def missing():
            sessions = self.sessions()
            return [call_sid for call_sid in calls if len(sessions[call_sid]) <= count or sessions[call_sid][-1].ended is not None]

        wait_until(lambda: not missing(), "the calls are back")
        time.sleep(0.3)  # their callers hear the agents again, for the figures
        sessions = self.sessions()
        for call_sid in calls:
            assert {one.agent for one in sessions[call_sid]} == {sessions[call_sid][0].agent}, "at the same agent"
            assert [one.resumed > 0 for one in sessions[call_sid]] == [False] + [True] * count

    def finish(self):
        """All hang up; returns the summaries of the providers."""
        for name in self.sims:
            if self.sims[name].process.poll() is None:
                self.hang_up(name)
        return {name: sim.result(DEADLINE_S) for name, sim in self.sims.items()}

    def assert_no_ended_call_came_back(self, died_ns):
        """After finish(). Returns (how many ends were seen, how many calls were back before or without that).

        Exotel asks for its stream after it was told that the call goes on. An end between the two, at the next router, is
        not known from a new call: such calls count as back.
        """
        results, sessions = self.results("ends"), self.sessions()
        for call_sid, line in results.items():
            # An end that its provider saw: the first stream was closed with 1000, and that was the last one.
            if line["close_code"] == 1000 and line["outcome"] == "failed" and line["streams"] == 1:
                self.ended.setdefault(call_sid, sessions[call_sid][0].ended)
        seen = {call_sid: at for call_sid, at in self.ended.items() if at <= died_ns or provider_of(call_sid) != "exotel"}
        back = {call_sid for call_sid in self.ends if len(sessions[call_sid]) > 1}
        again = [vars(one) for call_sid, at in seen.items() for one in sessions[call_sid] if one.began > at]
        assert not again, again
        return len(seen), len(back)


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def waiting(router):
    return router.get("/api/v1/status").json().get("waiting", 0)


def free(router):
    """Every pod is in its pool, no call is left, nobody waits."""
    status = router.get("/api/v1/status").json()
    tiers = status["tiers"].values()
    return status["active_calls"] == status.get("waiting", 0) == 0 and all(t["available"] == t["assigned"] for t in tiers)


class Paused(Exception):
    """The machine stood still, and every lease is a long one now: nobody waits for that."""


def was_paused(router):
    return any("was paused for" in line["msg"] for line in router.log_lines())


def what_is_left(router):
    """Calls that should be over, and what the log says of them."""
    calls = router.get("/api/v1/calls?limit=1000").json()["calls"]
    left = [line for line in router.log().splitlines() if any(f'"{call["call_sid"]}"' in line for call in calls)]
    return "\n".join([router.get("/api/v1/status").text, *map(json.dumps, calls), *left])


def wait_free(router, within_s=DEADLINE_S):
    end = time.monotonic() + within_s
    while not free(router):
        if within_s > DEADLINE_S and was_paused(router):
            raise Paused
        if time.monotonic() > end:
            pytest.fail(what_is_left(router))
        time.sleep(0.2)
    assert router.get("/api/v1/waiting").json()["waiting"] == []


@pytest.fixture
def world(start_agents, tmp_path):
    """start(count) -> a World with so many agents."""
    worlds = []

    def start(count=CALLS + ENDING + len(KINDS) * ENDING):
        path = tmp_path / "agents"
        agents = start_agents("--agents", str(count), "--journal", str(path))
        worlds.append(World(agents, path, tmp_path))
        return worlds[-1]

    yield start
    for one in worlds:
        for sim in one.sims.values():
            sim.process.kill()
            sim.process.wait()


def silence(summaries):
    times = summaries["stay"]["silence_us"]
    return f"silence ({times['count']} times) median {times['p50'] / 1000:.0f} ms, p99 {times['p99'] / 1000:.0f} ms"


def redis_env(server, **more):
    return {"REDIS_URL": server.url, **QUICK, "RECONCILE_INTERVAL": "2s", **more}


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_calls_go_on_through_another_router(world, start_router, redis_server, tell, how):
    w = world()
    port, other_port = free_port(), free_port()
    env = w.env(port, **redis_env(redis_server, SHUTDOWN_DELAY="500ms", GATEWAY_DRAIN_TIMEOUT="500ms",
                                  HTTP_SHUTDOWN_TIMEOUT="500ms"))  # fmt: skip
    dying = start_router(env)
    w.begin(dying, "--router", f"http://127.0.0.1:{other_port}")  # where nobody listens yet
    other = start_router({**env, "HTTP_PORT": str(other_port)})
    assert other.get("/api/v1/status").json()["active_calls"] == w.agent_count
    ending = w.end_on_purpose(dying)
    time.sleep(w.random.random() * 0.05)
    w.hang_up("leave")
    time.sleep(w.random.random() * 0.05)
    if how == "kill":
        dying.kill()
    else:
        assert dying.stop() == 0
    died_ns = now_ns()
    ending.shutdown()
    w.wait_resumed(w.stay)
    # Their ends have freed pods for those who waited.
    wait_until(lambda: waiting(other) == 0, "those who waited are served")
    summaries = w.finish()
    w.assert_alone()
    seen, back = w.assert_no_ended_call_came_back(died_ns)
    assert summaries["stay"]["completed"] == CALLS and summaries["stay"]["failures"] == {}
    assert summaries["leave"]["frames_corrupt"] == summaries["stay"]["frames_corrupt"] == 0
    with contextlib.suppress(Paused):
        wait_free(other, 30 + RESUME_S + DEADLINE_S)
    tell(f"router {how}, Redis: {CALLS} of {CALLS} calls resumed at their agents, {silence(summaries)}; of {len(w.ends)} that "
         f"ended on purpose {seen} were seen and stayed ended, {back} ends died with the router; {len(w.leave)} hung up "
         f"(seed {SEED})")  # fmt: skip


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """As whose service start_router starts routers."""
    directory = tmp_path / "manager"
    directory.mkdir()
    manager = ServiceManager(directory, [BINARY])
    monkeypatch.setattr(conftest, "BINARY", manager.command)
    yield manager
    manager.close()


def stop_and_start(start_router, router, env):
    """As a service manager restarts a service: the next process as soon as the last one has gone."""
    router.client.close()
    router.is_stopped = True
    router.proc.send_signal(signal.SIGTERM)
    assert router.proc.wait(DEADLINE_S) == 0, router.log()
    died_ns = now_ns()
    return start_router(env, data_dir=router.data_dir), died_ns


@pytest.mark.parametrize("has_socket", [False, True], ids=["own port", "inherited port"])
def test_calls_go_on_after_a_restart_with_the_embedded_store(world, start_router, tell, request, has_socket):
    port = request.getfixturevalue("manager").listen("http") if has_socket else free_port()
    w = world()
    # Exotel cannot be told to ask later: its question needs somebody who listens, or a port that stays open.
    providers = ("--provider", "mix") if has_socket else ("--provider", "twilio")
    env = w.env(port, SHUTDOWN_DELAY="2s")
    first = start_router(env)
    w.begin(first, *providers)
    ending = w.end_on_purpose(first)
    time.sleep(w.random.random() * 0.05)
    w.hang_up("leave")
    time.sleep(w.random.random() * 0.05)
    late = threading.Timer(0.5, lambda: w.call("late", first, 2, "--provider", "plivo"))
    late.start()
    second, died_ns = stop_and_start(start_router, first, env)
    late.join()
    ending.shutdown()
    departed = [line for line in first.log_lines() if line["msg"].startswith("calls may come back")]
    assert departed, first.log()[-3000:]
    w.wait_resumed(w.stay)
    wait_until(lambda: waiting(second) == 0, "those who waited are served")
    summaries = w.finish()
    w.assert_alone()
    seen, back = w.assert_no_ended_call_came_back(died_ns)
    assert summaries["stay"]["completed"] == CALLS and summaries["stay"]["failures"] == {}
    assert summaries["late"]["failures"] == {}, summaries["late"]
    with contextlib.suppress(Paused):
        wait_free(second, RESUME_S + DEADLINE_S)
    tell(f"SIGTERM and restart, embedded store, {request.node.callspec.id}: {CALLS} of {CALLS} calls resumed at their agents, "
         f"{silence(summaries)}; of {len(w.ends)} that ended on purpose {seen} were seen and stayed ended, {back} came back; "
         f"{len(w.leave)} hung up (seed {SEED})")  # fmt: skip


@pytest.mark.parametrize("has_socket", [False, True], ids=["own port", "inherited port"])
def test_calls_whose_question_is_heard_go_on_after_a_crash_with_the_embedded_store(world, start_router, tell, request, has_socket):
    port = request.getfixturevalue("manager").listen("http") if has_socket else free_port()
    w = world(2 * CALLS + ENDING + len(KINDS) * ENDING if not has_socket else CALLS + ENDING + len(KINDS) * ENDING)
    env = w.env(port)
    first = start_router(env)
    if not has_socket:  # as many callers whose providers ask once
        w.call("once", first, CALLS, "--ask-within", 1)
        w.wait_talking(CALLS)
        once = w.talking()
    else:
        once = set()
    w.begin(first, *(() if has_socket else ("--retry", 30)))
    w.stay -= once
    ending = w.end_on_purpose(first)
    time.sleep(w.random.random() * 0.05)
    w.hang_up("leave")
    time.sleep(w.random.random() * 0.05)
    first.kill()
    died_ns = now_ns()
    second = start_router(env, data_dir=first.data_dir)
    ending.shutdown()
    w.wait_resumed(w.stay)
    time.sleep(0 if has_socket else 1)
    sessions = w.sessions()
    heard = {call_sid for call_sid in once if len(sessions[call_sid]) > 1}
    left = {call["call_sid"]: call for call in second.get("/api/v1/calls?limit=1000").json()["calls"]}
    limit = time.time() + RESUME_S + 1
    summaries = w.finish()
    w.assert_alone()
    seen, back = w.assert_no_ended_call_came_back(died_ns)
    assert summaries["stay"]["completed"] == CALLS and summaries["stay"]["failures"] == {}
    if once:
        lost = [line for line in w.results("once").values() if line["failure"] == "no answer to the webhook"]
        assert len(lost) + len(heard) == CALLS, summaries["once"]
    # Nobody will ask for the others: their pods are kept for them for a while, and not longer.
    if IS_LARGE and not was_paused(second):
        with contextlib.suppress(Paused):
            wait_free(second, RESUME_S + DEADLINE_S)
    if not free(second):
        for call_sid in left.keys() - w.talking() - heard - w.stay:
            answer = second.get(f"/api/v1/call/{call_sid}")
            if answer.status_code == 200:
                assert seconds_of(answer.json()["expires_at"]) <= limit or was_paused(second), answer.text
                # With its pod: a release without one is kept for those who are on their way back.
                released = second.post("/api/v1/release", {"call_sid": call_sid, "pod_name": answer.json()["pod_name"]})
                assert released.status_code in (200, 404), released.text
        wait_free(second)
    tell(f"kill -9, embedded store, {request.node.callspec.id}: {CALLS} of {CALLS} calls that were asked for again resumed at "
         f"their agents, {silence(summaries)}; {len(heard)} of {len(once)} that were asked for once within a second; of {len(w.ends)} that ended "
         f"on purpose {seen} were seen and stayed ended, {back} ends died with the router (seed {SEED})")  # fmt: skip
