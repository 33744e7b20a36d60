"""A leader that was held up in the middle of its work, and followed by another one, changes nothing any more."""

import contextlib
import functools
import hashlib
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import pytest
import redis
from conftest import ROOT, wait_until
from redis_servers import keyspace

SCRIPTS = ROOT / "scripts" / "redis"
VERSION = "0" * 40  # of the tiers; the tests say which one is stored
TIERS = VERSION + "\ngold 0 2\nbasic 3 5\n"
FENCED = {path.stem for path in SCRIPTS.glob("*.lua") if "-- include fence\n" in path.read_text()}

LATER = "9999999999999"  # a time that never was too long ago
NO_RESCUE = [""] * 6 + ["0"]  # calls do not go on elsewhere: what a chain would need is not given

# What each of them is asked to do: arguments after the fence. All of them would change something.
WORK = {
    "seen": ["90000", "0", *NO_RESCUE, "pod-9", "10.0.0.9:80", "uid-9", "", "static", "r", "0"],
    "gone": ["static", "gone", *NO_RESCUE, "pod-1"],
    "place": ["settle", "pod-1"],
    "move_pods": ["pod-1", "basic"],
    "strays": ["basic", "0", "100"],
    "scale": ["pod-1", "d"],
    "begin_sweep": ["90000"],
    "departed": [LATER, "100", "1"],
    "serve": ["90000", "50"],
    "sweep_calls": [LATER, "50", "90000"],
    "sweep_pods": [LATER, "90000", "50", "0", *NO_RESCUE],
    "tidy": ["0", "100"],
    "mend": [LATER, "pods", "0", "50", "0"],
    "import": ["0", "200", "14400000", "static"],
    "tiers": ["check"],
}


@functools.cache
def text_of(script):
    tool = pathlib.Path(ROOT) / "scripts" / "embed-redis-scripts"
    return subprocess.run([tool, "--print", SCRIPTS, script], capture_output=True, text=True, check=True).stdout


def call(client, script, *args):
    client.set("voice:tier:version:" + VERSION, "1")
    deadline = [LATER] if "-- include deadline\n" in (SCRIPTS / f"{script}.lua").read_text() else []
    return client.eval(text_of(script), 1, "voice:calls:active", "voice:", TIERS, "basic", *args, *deadline)


def take(client, who, how="take"):
    return call(client, "leader", who, "60000", how)


@pytest.fixture
def client(redis_server):
    return redis_server.client()


def something_to_do(client):
    """A store in which there is work for every script that only a leader runs."""
    for name in ("pod-1", "pod-2"):
        call(client, "seen", "", "90000", "0", *NO_RESCUE, name, "10.0.0.1:80", "uid-1", "gold", "static", "r", "0")
    client.hset("voice:pods", "pod-1", client.hget("voice:pods", "pod-1").replace('"pinned":true', '"pinned":false'))
    client.hset("voice:call:CA-old", mapping={"pod_name": "pod-2", "source_pool": "pool:gold"})
    client.zadd("voice:calls:active", {"CA-old": 1, "CA-without-record": 9e12})
    client.srem("voice:pool:gold:assigned", "pod-1")
    client.sadd("voice:pool:basic:assigned", "pod-2")
    client.sadd("voice:pods:out", "nobody")
    client.sadd("voice:carried", "router-dead")
    client.sadd("voice:pool:basic:available", "of the wrong type")
    client.srem("voice:pool:gold:available", "pod-1")
    client.sadd("voice:pool:gold:assigned", "pod-of-another-program")
    client.set("voice:pod:tier:pod-of-another-program", "gold")


def test_every_script_of_the_leader_has_work_here():
    assert FENCED == set(WORK)


@pytest.mark.parametrize("script", sorted(WORK))
def test_a_stale_fence_changes_nothing(client, script):
    something_to_do(client)
    _, old = take(client, "A")
    client.delete("voice:leader")  # as if it had run out
    _, new = take(client, "B")
    assert int(new) == int(old) + 1
    before = keyspace(client)
    with pytest.raises(redis.ResponseError, match="^FENCED another router leads"):
        call(client, script, old, *WORK[script])
    assert keyspace(client) == before
    call(client, script, new, *WORK[script])
    assert keyspace(client) != before


@pytest.mark.parametrize("script", sorted(WORK))
def test_without_a_fence_nothing_is_compared(client, script):
    something_to_do(client)
    before = keyspace(client)
    call(client, script, "", *WORK[script])
    assert keyspace(client) != before


def test_a_wiped_store_gives_a_new_fence_and_never_an_old_one(client):
    _, first = take(client, "A")
    client.flushall()
    with pytest.raises(redis.ResponseError, match="FENCED"):
        call(client, "sweep_calls", first, LATER, "50", "90000")
    assert take(client, "B", "wait") == ["", "0"]  # whoever led comes first
    leader, second = take(client, "A")
    assert leader == "A" and int(second) >= int(first)
    call(client, "sweep_calls", second, LATER, "50", "90000")
    client.delete("voice:leader:fence")  # the lock alone is left
    _, third = take(client, "A")
    assert int(third) > 0
    call(client, "sweep_calls", third, LATER, "50", "90000")


# With a Lease of Kubernetes the number is claimed by itself.


def claim(client, mine=""):
    return call(client, "claim_fence", mine, "router-0", "15000")


def test_a_number_that_is_ones_own_is_kept_and_another_ones_is_not(client):
    first = claim(client)
    assert int(first) > 0 and claim(client, first) == first
    second = claim(client)
    assert int(second) > int(first) and claim(client, second) == second
    with pytest.raises(redis.ResponseError, match="^FENCED another router leads"):
        call(client, "sweep_calls", first, LATER, "50", "90000")
    call(client, "sweep_calls", second, LATER, "50", "90000")
    # Its Lease is good although it was fenced: it has a new one with the next renewal.
    third = claim(client, first)
    assert int(third) > int(second)
    assert client.pttl("voice:leader:fence") == -1


def test_a_claim_after_a_wipe_gives_a_number_that_nobody_had(client):
    numbers = [claim(client)]
    for _ in range(5):
        client.flushall()
        time.sleep(0.002)  # numbers start from the time in ms
        numbers.append(claim(client, numbers[-1]))
    assert [int(number) for number in numbers] == sorted({int(number) for number in numbers})


@pytest.mark.parametrize("stored", ["many", "", "-5", "007", "1e3", "9" * 16, "1" * 40])
def test_a_claim_puts_a_number_right_that_was_made_by_hand(client, stored):
    client.set("voice:leader:fence", stored)
    number = claim(client)
    assert number.isdigit() and len(number) < 16 and client.get("voice:leader:fence") == number
    client.set("voice:leader:fence", stored)
    assert int(claim(client, stored)) > 0 and client.get("voice:leader:fence") != stored


def test_a_claim_replaces_a_number_of_the_wrong_type(client):
    client.rpush("voice:leader:fence", "1")
    number = claim(client)
    assert client.get("voice:leader:fence") == number


def test_a_claim_is_larger_than_what_is_stored_and_the_lock_goes_on_from_it(client):
    client.set("voice:leader:fence", "99999999999999")  # of a server whose clock was wrong
    assert claim(client) == "100000000000000"
    assert take(client, "A") == ["A", "100000000000001"]


def test_a_claim_that_comes_late_changes_nothing(client):
    number = claim(client)
    with pytest.raises(redis.ResponseError, match="^LATE "):
        client.eval(text_of("claim_fence"), 1, "voice:leader:fence", "voice:", TIERS, "basic", "", "router-0", "15000", "1")
    assert client.get("voice:leader:fence") == number


class Proxy:
    """Stands between a router and Redis. From a request on that has `word` in it, it keeps what the router sends."""

    def __init__(self, server, path):
        self.server = server
        self.path = str(path)
        self.word = None
        self.is_holding = threading.Event()
        self.may_go_on = threading.Event()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                router, _ = self.listener.accept()
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(self.server.socket_path)
                threading.Thread(target=self._pass_on, args=(router, upstream, True), daemon=True).start()
                threading.Thread(target=self._pass_on, args=(upstream, router, False), daemon=True).start()

    def _pass_on(self, source, target, is_request):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if is_request and self.word and self.word in data:
                    self.is_holding.set()
                    self.may_go_on.wait()
                target.sendall(data)
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.may_go_on.set()
        self.listener.close()


@pytest.fixture
def proxy(redis_server, tmp_path_factory):
    made = Proxy(redis_server, tmp_path_factory.mktemp("p") / "s")
    yield made
    made.close()


def leads(router):
    return router.get("/api/v1/status").json().get("is_leader")


@pytest.mark.parametrize("script", ["seen", "place", "sweep_pods"])
def test_what_a_leader_had_under_way_is_refused_when_another_one_leads(redis_server, start_on, proxy, script):
    """It is stopped with a step of its work on the way: it had asked whether it may, and could.

    It has other pods in its settings than the other one, so that a sync of it would bring those back.
    """
    often = {"RECONCILE_INTERVAL": "50ms", "CLEANUP_INTERVAL": "50ms", "REDIS_TIMEOUT": "30s"}
    old = start_on(redis_server, {"STATIC_PODS": "old-0,old-1", "REDIS_URL": f"unix://{proxy.path}", **often})
    wait_until(lambda: leads(old), "it leads")
    proxy.word = hashlib.sha1(text_of(script).encode()).hexdigest().encode()
    assert proxy.is_holding.wait(20)
    os.kill(old.proc.pid, signal.SIGSTOP)
    try:
        new = start_on(redis_server, {"STATIC_PODS": "new-0,new-1", "RECONCILE_INTERVAL": "24h"})
        wait_until(lambda: leads(new), "another one leads")
        names = lambda: {p["pod_name"] for p in new.get("/api/v1/pods").json()["pods"]}
        wait_until(lambda: names() == {"new-0", "new-1"}, "its pods are there")
        pod = new.allocate("CA1")["pod_name"]
        proxy.word = None
        proxy.may_go_on.set()
    finally:
        os.kill(old.proc.pid, signal.SIGCONT)
    refused = lambda: [line for line in old.log_lines("redis reports an error") if "FENCED" in line["text"]]
    wait_until(refused, "its work is refused, and it says so")
    wait_until(lambda: not leads(old), "it follows")
    assert names() == {"new-0", "new-1"}
    assert (again := new.allocate("CA1"))["was_existing"] and again["pod_name"] == pod
