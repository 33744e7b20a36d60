"""What the tests of edges share: other calls that come and go, a Redis whose clock jumps, and looks at the state."""

import mmap
import os
import random
import struct
import subprocess
import time

import load
import pytest
import redis
from conftest import BINARY, wait_until
from redis_servers import RedisServer

SHIM = BINARY.parent / "test" / "clock-shim.so"


def answer_of(router, path):
    """The store's own answer: 503 says nothing of what is there, and neither does a status without the store."""

    def ask():
        answer = router.get(path)
        is_away = answer.status_code == 503 or answer.json().get("status") == "down"
        return None if is_away else answer

    return wait_until(ask, "the store answers")


def pod_of(router, call_sid):
    """Where the store has the call; None if it has no such call."""
    answer = answer_of(router, f"/api/v1/call/{call_sid}")
    assert answer.status_code in (200, 404), answer.text
    return answer.json().get("pod_name")


def calls_of(router):
    """call_sid -> pod, of all calls."""
    calls, cursor = {}, ""
    while cursor is not None:
        page = answer_of(router, "/api/v1/calls?limit=1000" + (f"&cursor={cursor}" if cursor else "")).json()
        calls.update((call["call_sid"], call["pod_name"]) for call in page["calls"])
        cursor = page.get("next_cursor") or None
    return calls


def promoted(group):
    """A client of the new primary; None as long as there is none."""
    for client in group.clients:
        try:
            if client.info("replication")["role"] == "master":
                return client
        except redis.ConnectionError:
            pass  # sentinels cut everybody off from a server whose role they change
    return None


def is_free(router):
    """No call is left, and every pod is in its pool."""
    status = answer_of(router, "/api/v1/status").json()
    tiers = status["tiers"].values()
    return status["active_calls"] == 0 and all(tier["available"] == tier["assigned"] for tier in tiers)


def wait_free(router, what="no call is left and every pod is free"):
    wait_until(lambda: is_free(router), f"{what}: {router.get('/api/v1/status').json().get('tiers')}, {calls_of(router)}")
    assert calls_of(router) == {}


def sweeps(router):
    """How often it has swept; its metrics need no store."""
    name = "smart_router_sweeps_total "
    page = router.client.get(router.metrics_url + "/metrics").text.splitlines()
    return sum(int(line.removeprefix(name)) for line in page if line.startswith(name))


def wait_ready(*routers):
    for router in routers:
        wait_until(lambda r=router: r.get("/ready").status_code == 200, "the router is ready")


def wait_swept(*routers):
    """Whoever leads has swept, more than once."""
    before = sum(sweeps(router) for router in routers)
    wait_until(lambda: sum(sweeps(router) for router in routers) >= before + 3, "the leader sweeps")


def carry(talkers, routers, count):
    """So many calls with open streams, each allocated and carried by any router. call_sid -> (pod, stream)"""
    carried = {}
    for i in range(count):
        call_sid, router = f"carried-{i}", routers[i % len(routers)]
        answer = routers[(i // 2) % len(routers)].allocate_until_answered(call_sid)
        carried[call_sid] = (answer["pod_name"], talkers.open(router, answer, wait=False))
    for _, stream in carried.values():
        stream.wait_open()
    return carried


def not_known(router, carried):
    """Those that the store does not have where they are."""
    calls = calls_of(router)
    return [call_sid for call_sid, (pod, _) in carried.items() if calls.get(call_sid) != pod]


def wait_all_echo(streams):
    """Each of them, if it is open, gets an answer from its agent."""
    before = [stream.echoes for stream in streams]
    wait_until(
        lambda: all(stream.echoes > echoes or not stream.is_open for stream, echoes in zip(streams, before)), "all echo"
    )


def expect_carried(talkers, router, carried):
    """All of them are in the store, once, and talk on their pods."""
    wait_until(lambda: not not_known(router, carried), "every carried call is in the store, on its pod")
    wait_all_echo([stream for _, stream in carried.values()])
    assert [stream.call_sid for stream in talkers.cut_off] == []
    talking = talkers.all_talking()
    assert {call_sid: talking[pod] for call_sid, (pod, _) in carried.items()} == {call_sid: {call_sid} for call_sid in carried}
    talkers.expect_no_violation()


class Others:
    """Calls that come and go all the time, at any router; what they got is remembered."""

    def __init__(self, routers, clients=4, hold_s=0.3, seed=0):
        self.history = load.History()
        self.urls = [router.url for router in routers]
        self.work = load.Load(self.history)
        self.hold_s = hold_s
        for i in range(clients):
            self.work.start(self.one, load.Client(self.history, self.urls), random.Random(f"{seed} {i}"), [f"other-{i}-", 0])

    def one(self, client, rng, name):
        name[1] += 1
        call_sid = name[0] + str(name[1])
        client.allocate(call_sid)
        time.sleep(0.02 + rng.random() * self.hold_s)
        while not client.release(call_sid):
            if self.work.stopped.wait(0.1):
                break

    @property
    def pods(self):
        """All that any of them ever had."""
        return {entry[3] for entry in list(self.history.allocations)}

    def served(self):
        return self.history.outcomes["allocate 200 new"]

    def wait_served(self, count=5):
        before = self.served()
        wait_until(lambda: self.served() >= before + count, "other calls get pods")

    def stop(self):
        self.work.stop()
        assert [odd for odd in self.history.oddities if odd] == []


class ShiftedServer(RedisServer):
    """A Redis whose clock can jump ahead; otherwise it runs as the machine's does."""

    def __init__(self, **options):
        if not SHIM.exists():
            pytest.fail(f"{SHIM} is missing: build with scripts/with-tests")
        self.shift_s = 0
        super().__init__(**options)

    def _spawn(self):
        path = self.directory + "/clock"
        with open(path, "wb") as file:
            file.write(struct.pack("=q", self.shift_s))
        env = {**os.environ, "LD_PRELOAD": str(SHIM), "CLOCK_SHIM_OFFSET_FILE": path}
        with open(self.directory + "/log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)

    def jump(self, seconds):
        """Its clock is ahead by so much more."""
        self.shift_s += seconds
        with open(self.directory + "/clock", "r+b") as file, mmap.mmap(file.fileno(), 8) as page:
            page[:8] = struct.pack("=q", self.shift_s)
