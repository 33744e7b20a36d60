"""Allocations and releases that arrive together go to Redis together; each has an answer of its own."""

import contextlib
import hashlib
import json
import signal
import socket
import struct
import subprocess
import threading
import time
import urllib.parse

import redis_servers
from conftest import ROOT, wait_until

CALLS = 40
BATCH_MAX = 32  # REDIS_CALL_BATCH


def connect(router):
    address = urllib.parse.urlsplit(router.url)
    connection = socket.create_connection((address.hostname, address.port), 30)
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")  # it is accepted once this is answered
    answer_of(connection)
    return connection


def send(connection, path, body):
    text = json.dumps(body)
    connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())


def all_at_once(router, path, bodies, meanwhile=lambda: None):
    """Sends every request while the router does not look. The answers, as (status, JSON), in the same order. `path` is
    that of all, or a list."""
    connections = [connect(router) for _ in bodies]
    paths = [path] * len(bodies) if isinstance(path, str) else path
    router.proc.send_signal(signal.SIGSTOP)
    for connection, one_path, body in zip(connections, paths, bodies):
        send(connection, one_path, body)
    meanwhile()
    router.proc.send_signal(signal.SIGCONT)
    answers = [answer_of(connection) for connection in connections]
    for connection in connections:
        connection.close()
    return answers


def answer_of(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), json.loads(body)


def start(redis_server, start_on, **more):
    env = {**redis_servers.QUIET, **more, "TIER_CONFIG": f'{{"gold": {CALLS}}}',
           "STATIC_PODS": ",".join(f"pod-{i}" for i in range(CALLS))}
    router = start_on(redis_server, env)
    router.allocate("CA-first")  # loads the scripts
    router.release("CA-first")
    return router, redis_server.client()


def sha_of(script):
    tool = ROOT / "scripts/embed-redis-scripts"
    text = subprocess.run([tool, "--print", ROOT / "scripts/redis", script], capture_output=True, check=True).stdout
    return hashlib.sha1(text).hexdigest()


def count_scripts(client):
    """From now on; see scripts_run."""
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("slowlog-max-len", 10000)
    client.slowlog_reset()


def scripts_run(client):
    """How often the script of allocations and releases ran. A leader and its tasks run others meanwhile."""
    sha = sha_of("release_and_allocate")
    return sum(entry["command"].split()[:2] == [b"EVALSHA", sha.encode()] for entry in client.slowlog_get(10000))


def test_calls_that_arrive_together_share_a_script(redis_server, start_on):
    router, client = start(redis_server, start_on)
    bodies = [{"call_sid": f"CA{i}"} for i in range(CALLS)]
    for path in ("/api/v1/allocate", "/api/v1/release"):
        count_scripts(client)
        answers = all_at_once(router, path, bodies)
        assert [status for status, _ in answers] == [200] * CALLS
        assert len({answer["pod_name"] for _, answer in answers}) == CALLS
        # Half of the calls under way go together, and no more than two batches before Redis has answered one.
        assert 2 <= scripts_run(client) <= CALLS / 4
    assert router.get("/api/v1/status").json()["active_calls"] == 0


def test_releases_and_allocations_share_a_script_and_releases_come_first(redis_server, start_on):
    router, client = start(redis_server, start_on)
    for i in range(CALLS - 2):
        router.allocate(f"CA{i}")
    count_scripts(client)
    requests = [request for i in range(CALLS - 2) for request in (("/api/v1/release", {"call_sid": f"CA{i}"}),
                                                              ("/api/v1/allocate", {"call_sid": f"new-{i}"}))]
    answers = all_at_once(router, *zip(*requests))
    # Two pods were free: the other new calls get pods that the releases beside them have freed.
    assert [status for status, _ in answers] == [200] * len(requests)
    assert scripts_run(client) <= len(requests) / 8


def ask(router, call_sid, path="/api/v1/allocate"):
    connection = connect(router)
    send(connection, path, {"call_sid": call_sid})
    assert router.get("/health").status_code == 200  # the router has seen it
    return connection


def while_redis_sleeps(router, redis_server, bodies):
    """Allocations that reach the router one after the other while Redis does not answer; their connections."""
    connections = []
    with redis_server.paused():
        for body in bodies:
            connections.append(ask(router, body["call_sid"]))
        yield connections
    yield [answer_of(connection) for connection in connections]
    for connection in connections:
        connection.close()


def test_redis_has_two_batches_at_the_most_and_what_comes_meanwhile_is_gathered(redis_server, start_on):
    router, client = start(redis_server, start_on)
    count_scripts(client)
    steps = while_redis_sleeps(router, redis_server, [{"call_sid": f"CA{i}"} for i in range(CALLS)])
    next(steps)
    answers = next(steps)
    next(steps, None)
    assert [status for status, _ in answers] == [200] * CALLS
    assert scripts_run(client) <= 2 + -(-CALLS // BATCH_MAX)


class Gathering:
    """Requests that reach the router one after the other while Redis stands still, beside two batches that wait there."""

    def __init__(self, router, redis_server):
        self.router = router
        self.redis_server = redis_server
        self.connections = []
        self.redis_server.process.send_signal(signal.SIGSTOP)
        for i in range(2):
            self.ask("/api/v1/allocate", f"before-{i}")

    def ask(self, path, call_sid):
        self.connections.append(ask(self.router, call_sid, path))

    def ask_together(self, path, call_sids):
        connections = [connect(self.router) for _ in call_sids]
        for connection, call_sid in zip(connections, call_sids):
            send(connection, path, {"call_sid": call_sid})
        assert self.router.get("/health").status_code == 200
        self.connections += connections

    def answers(self):
        """Without those of the two batches."""
        self.redis_server.process.send_signal(signal.SIGCONT)
        answers = [answer_of(connection) for connection in self.connections]
        for connection in self.connections:
            connection.close()
        return answers[2:]


def test_a_release_does_not_overtake_the_allocation_of_its_call(redis_server, start_on):
    """The caller hangs up at once: nobody would release the call a second time."""
    router, _ = start(redis_server, start_on)
    gathering = Gathering(router, redis_server)
    for path in ("allocate", "release", "allocate", "release"):
        gathering.ask("/api/v1/" + path, "CA1")
    gathering.ask("/api/v1/allocate", "CA2")
    answers = gathering.answers()
    assert [status for status, _ in answers] == [200] * 5
    assert [answer.get("was_existing") for _, answer in answers] == [False, None, False, None, False]
    assert router.get("/api/v1/calls/CA1").status_code == 404
    assert router.get("/api/v1/status").json()["active_calls"] == 3


def test_releases_that_keep_coming_do_not_hold_up_an_allocation(redis_server, start_on):
    """All pods are taken: the allocation would only get one if it had waited for the last of the releases."""
    router, _ = start(redis_server, start_on)
    for i in range(CALLS - 2):
        router.allocate(f"CA{i}")
    gathering = Gathering(router, redis_server)
    gathering.ask("/api/v1/allocate", "CA-early")
    gathering.ask_together("/api/v1/release", [f"CA-none-{i}" for i in range(2 * BATCH_MAX)])
    gathering.ask("/api/v1/release", "CA0")
    answers = gathering.answers()
    assert [status for status, _ in answers] == [503] + [404] * 2 * BATCH_MAX + [200]
    assert router.get("/api/v1/calls/CA-early").status_code == 404


def test_what_is_gathered_fails_together_with_the_batches_before_it(redis_server, start_on):
    router, client = start(redis_server, start_on, REDIS_TIMEOUT="1s")
    steps = while_redis_sleeps(router, redis_server, [{"call_sid": f"CA{i}"} for i in range(CALLS)])
    connections = next(steps)
    early = [answer_of(connection) for connection in connections]
    assert [status for status, _ in early] == [503] * CALLS
    steps.close()
    redis_server.process.send_signal(signal.SIGCONT)
    wait_until(lambda: router.get("/ready").status_code == 200, "the router is ready again")
    wait_until(lambda: client.scard("voice:pool:gold:available") == CALLS, "what was answered with an error holds nothing")
    assert router.get("/api/v1/status").json()["active_calls"] == 0


def test_a_connection_that_breaks_while_calls_are_sent_answers_each_of_them(redis_server, start_on):
    """The break is noticed while a request is still being handled: its answer must come later, and once."""
    router, client = start(redis_server, start_on)
    bodies = [{"call_sid": f"CA{i}"} for i in range(CALLS)]
    answers = all_at_once(router, "/api/v1/allocate", bodies, lambda: client.client_kill_filter(_type="normal", skipme=True))
    assert {status for status, _ in answers} <= {200, 503} and (503 in {status for status, _ in answers})
    wait_until(lambda: router.get("/ready").status_code == 200, "the router is ready again")
    held = [answer["call_sid"] for status, answer in answers if status == 200]
    wait_until(lambda: router.get("/api/v1/status").json().get("active_calls") == len(held),
               "the calls that were refused hold nothing")
    assert [status for status, _ in all_at_once(router, "/api/v1/allocate", bodies)] == [200] * CALLS


class HoldingProxy:
    """Between a router and Redis: while `holds`, what the router sends waits here until it is passed on."""

    def __init__(self, server):
        self.server = server
        self.connections = 0
        self.seen = b""  # what the router has sent
        self.holds = False
        self.held = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.connections += 1
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(self.server.socket_path)
                threading.Thread(target=self.forward, args=(client, upstream, self.take), daemon=True).start()
                threading.Thread(target=self.forward, args=(upstream, client, socket.socket.sendall), daemon=True).start()

    def take(self, target, data):
        with self.lock:
            self.seen += data
            self.held.append((target, data))
        if not self.holds:
            self.pass_on()

    def pass_on(self):
        with self.lock:
            for target, data in self.held:
                target.sendall(data)
            self.held = []

    @staticmethod
    def forward(source, target, pass_to):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                pass_to(target, data)
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


def test_calls_that_waited_too_long_are_refused_hold_nothing_and_the_connection_stays(redis_server, start_on):
    """Redis is slow, not gone. The first calls take half of the time there is. For the others it is over before Redis has
    worked on them, or before they could be sent at all."""
    proxy = HoldingProxy(redis_server)
    calls = [f"CA-behind-{i}." for i in range(3 * BATCH_MAX)]
    env = {**redis_servers.QUIET, "TIER_CONFIG": '{"gold": 200}', "REDIS_TIMEOUT": "8s", "TIER_REFRESH_INTERVAL": "1h",
           "STATIC_PODS": ",".join(f"pod-{i}" for i in range(200))}
    router = start_on(redis_server, {**env, "REDIS_URL": proxy.url})
    router.allocate("CA-warm")
    connections_before = proxy.connections
    behind = [connect(router) for _ in calls]
    proxy.holds = True
    first = [ask(router, f"CA-first-{i}") for i in range(2)]
    for connection, call_sid in zip(behind, calls):
        send(connection, "/api/v1/allocate", {"call_sid": call_sid})
    assert router.get("/health").status_code == 200  # the router has seen them
    time.sleep(4)  # half of REDIS_TIMEOUT
    proxy.pass_on()
    assert [answer_of(connection)[0] for connection in first] == [200, 200]
    assert [answer_of(connection)[0] for connection in behind] == [503] * len(calls)
    sent = [call_sid for call_sid in calls if call_sid.encode() in proxy.seen]
    assert 0 < len(sent) <= 2 * BATCH_MAX
    proxy.holds = False
    proxy.pass_on()
    assert router.allocate("CA-after")["pod_name"]
    assert router.get("/api/v1/status").json()["active_calls"] == 4
    assert proxy.connections == connections_before
    assert [call_sid for call_sid in calls if call_sid.encode() in proxy.seen] == sent  # nothing to undo for the others
    proxy.listener.close()


class ResettingProxy:
    """Between a router and Redis. The router finds the reply number `reset_after` and a reset of the connection together: it
    can read the reply, but whatever it writes then fails at once."""

    def __init__(self, server):
        self.server = server
        self.router = None
        self.reset_after = 0
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
                for source, target in ((client, upstream), (upstream, client)):
                    threading.Thread(target=self.forward, args=(source, target, client), daemon=True).start()

    def forward(self, source, target, client):
        is_last = False
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                is_last = target is client and self.reset_after == 1
                if target is client and self.reset_after > 0:
                    self.reset_after -= 1
                if is_last:
                    self.router.proc.send_signal(signal.SIGSTOP)
                target.sendall(data)
                if is_last:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
        for sock in (source, target):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR) if sock is not client else sock.close()
        if is_last:  # never to a router that ends: the leak check of the sanitizer, at exit, would wait for ever
            self.router.proc.send_signal(signal.SIGCONT)


def test_a_write_that_fails_inside_an_answer_of_redis_is_survived(redis_server, start_on):
    """An allocation that met old tiers is sent again from inside the answer that brings the new ones."""
    proxy = ResettingProxy(redis_server)
    env = {**redis_servers.QUIET, "TIER_CONFIG": f'{{"gold": {CALLS}}}', "TIER_REFRESH_INTERVAL": "1h",
           "STATIC_PODS": ",".join(f"pod-{i}" for i in range(CALLS))}
    router = start_on(redis_server, {**env, "REDIS_URL": proxy.url})
    other = start_on(redis_server, env)
    proxy.router = router
    router.allocate("CA-first")
    for number in range(12):
        tiers = {"gold": CALLS, f"other-{number}": {"type": "shared", "target": 0, "max_concurrent": 2}}
        assert other.put("/api/v1/tiers", {"tiers": tiers}).status_code == 200
        proxy.reset_after = number % 4 + 1
        body = {"call_sid": f"CA{number}"}
        assert router.post("/api/v1/allocate", body).status_code in (200, 503)
        proxy.reset_after = 0
        assert router.proc.poll() is None
        wait_until(lambda body=body: router.post("/api/v1/allocate", body).status_code == 200, "the router is connected again")
    proxy.listener.close()


def test_one_call_asked_for_many_times_at_once_gets_one_pod(redis_server, start_on):
    router, client = start(redis_server, start_on)
    answers = all_at_once(router, "/api/v1/allocate", [{"call_sid": "CA1"}] * CALLS)
    assert {answer["pod_name"] for _, answer in answers} == {client.hget("voice:call:CA1", "pod_name")}
    assert sorted(answer["was_existing"] for _, answer in answers) == [False] + [True] * (CALLS - 1)
    answers = all_at_once(router, "/api/v1/release", [{"call_sid": "CA1"}] * CALLS)
    assert sorted(status for status, _ in answers) == [200] + [404] * (CALLS - 1)
    assert client.scard("voice:pool:gold:available") == CALLS


def test_an_error_of_one_call_is_not_that_of_another(redis_server, start_on):
    router, client = start(redis_server, start_on)
    bodies = [{"call_sid": f"CA{i}"} for i in range(CALLS)]
    client.set("voice:call:CA7", "made by hand")
    for path in ("/api/v1/allocate", "/api/v1/release"):
        answers = all_at_once(router, path, bodies)
        assert [status for status, _ in answers] == [503 if i == 7 else 200 for i in range(CALLS)]
    assert client.get("voice:call:CA7") == "made by hand"
    assert any("WRONGTYPE" in line["text"] for line in router.log_lines("redis reports an error"))
    assert router.get("/ready").status_code == 200


def test_each_merchant_keeps_its_own_chain_in_a_shared_script(redis_server, start_on):
    env = {**redis_servers.QUIET, "TIER_CONFIG": '{"gold": 10, "standard": 10, "basic": 10}',
           "STATIC_PODS": ",".join(f"pod-{i}" for i in range(30))}
    router = start_on(redis_server, env)
    for tier in ("gold", "standard", "basic"):
        router.put(f"/api/v1/merchants/{tier}-merchant", {"fallback": [tier]})
    bodies = [{"call_sid": f"CA-{tier}-{i}", "merchant_id": f"{tier}-merchant"}
              for i in range(10) for tier in ("gold", "standard", "basic")]
    answers = all_at_once(router, "/api/v1/allocate", bodies)
    for body, (status, answer) in zip(bodies, answers):
        assert status == 200
        assert answer["source_pool"] == "pool:" + body["merchant_id"].removesuffix("-merchant")
