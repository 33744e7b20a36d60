"""Routers that are replaced while they work: no request is lost and no stream is cut.

STOPPING_ROUNDS, STOPPING_PROBE_S, STOPPING_DELAY_S and STOPPING_STREAMS make it a long run: `make soak` has 20 rounds with
the times of an ordinary cluster, and 200 streams.
"""

import collections
import contextlib
import http.client
import json
import os
import random
import select
import signal
import socket
import ssl
import threading
import time

import pytest
from conftest import DEADLINE_S, wait_until
from streams import CLOSE, Agent, Closed, Stream
from tls import Certificate

ROUNDS = int(os.environ.get("STOPPING_ROUNDS", "4"))
PROBE_S = float(os.environ.get("STOPPING_PROBE_S", "0.5"))
DELAY_S = float(os.environ.get("STOPPING_DELAY_S", "4"))
STREAMS = int(os.environ.get("STOPPING_STREAMS", "30"))
CLIENTS = 64
REST_S = 0.05  # of a client between two requests, on average
SECRET = "the-first-secret-is-long-enough"
SHARED = {"standard": {"type": "shared", "target": 8, "max_concurrent": 50}}


class Balancer:
    """Chooses a router for each connection, as a Kubernetes Service does: only a probe says which ones are ready. Never tries again."""

    def __init__(self, probe_s):
        self.probe_s = probe_s
        self.ports = []
        self.ready = []
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.probe, daemon=True)
        self.thread.start()

    @staticmethod
    def is_ready(port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/ready")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def probe(self):
        while not self.is_over.wait(self.probe_s):
            self.ready = [port for port in list(self.ports) if self.is_ready(port)]

    def pick(self):
        return random.choice(self.ready)

    def close(self):
        self.is_over.set()
        self.thread.join()


class Client(threading.Thread):
    """Allocates and releases, on a connection for each request or on one for as long as the router keeps it."""

    def __init__(self, name, balancer, counts, keeps):
        super().__init__(daemon=True)
        self.sid, self.balancer, self.counts, self.keeps = name, balancer, counts, keeps
        self.sock = None
        self.is_over = threading.Event()
        self.mishaps = []

    def connect(self):
        # Pools look whether an idle connection was closed before they use it again.
        if self.sock and select.select([self.sock], [], [], 0)[0]:
            self.drop()
        if not self.sock:
            self.sock = socket.create_connection(("127.0.0.1", self.balancer.pick()), timeout=DEADLINE_S)
            self.counts["connections"] += 1

    def drop(self):
        if self.sock:
            self.sock.close()
        self.sock = None

    def exchange(self, path):
        body = json.dumps({"call_sid": self.sid}).encode()
        keep = "keep-alive" if self.keeps else "close"
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: {keep}\r\nContent-Type: application/json\r\n"
        self.sock.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = http.client.HTTPResponse(self.sock)
        answer.begin()
        answer.read()
        if not self.keeps or answer.getheader("Connection") == "close":
            self.drop()
        return answer.status

    def ask(self, path):
        try:
            self.connect()
        except OSError as error:
            self.note("refused", path, error)
            return
        try:
            status = self.exchange(path)
        except (OSError, http.client.HTTPException) as error:
            self.note("lost", path, error)
            return
        if status == 200:
            self.counts["answered"] += 1
        else:
            self.note("bad", path, status)

    def note(self, what, path, error):
        self.counts[what] += 1
        self.mishaps.append((what, path, repr(error)))
        self.drop()

    def run(self):
        while not self.is_over.wait(random.uniform(0, 2 * REST_S)):
            self.ask("/api/v1/allocate")
            self.ask("/api/v1/release")
        self.drop()


class Cluster:
    """Routers on one Redis, agents, and a balancer."""

    def __init__(self, start_on, redis_server, count=3, **env):
        self.agent = Agent()
        self.start_on, self.server = start_on, redis_server
        self.env = {
            "STATIC_PODS": ",".join(f"agent-{i}=127.0.0.1:{self.agent.port}" for i in range(8)),
            "TIER_CONFIG": json.dumps(SHARED),
            "GATEWAY_SECRET": SECRET,
            "GATEWAY_RELEASE_GRACE": "300ms",
            "SHUTDOWN_DELAY": f"{int(DELAY_S * 1000)}ms",
            **env,
        }
        self.balancer = Balancer(PROBE_S)
        self.routers = []
        for _ in range(count):
            self.add()

    def add(self):
        router = self.start_on(self.server, self.env)
        self.routers.append(router)
        self.balancer.ports.append(router.port)
        wait_until(lambda: router.port in self.balancer.ready, "the balancer knows it")
        return router

    def remove(self, router):
        """After its signal: nobody looks at it any more."""
        self.routers.remove(router)
        self.balancer.ports.remove(router.port)

    def calls(self):
        return self.routers[0].get("/api/v1/status").json()["active_calls"]

    def close(self):
        self.balancer.close()
        self.agent.close()
        left = [router for router in self.routers if not router.is_stopped]
        for router in left:
            router.client.close()
            router.proc.send_signal(signal.SIGINT)  # without the delay
        for router in left:
            router.proc.wait(DEADLINE_S)


@pytest.fixture
def cluster(start_on, redis_server):
    with contextlib.ExitStack() as stack:

        def start(**kwargs):
            world = Cluster(start_on, redis_server, **kwargs)
            stack.callback(world.close)
            return world

        yield start


def begin_stop(router, number=signal.SIGTERM):
    router.client.close()
    router.is_stopped = True
    router.proc.send_signal(number)
    wait_until(lambda: router.log_lines("stopping"), "the router has seen the signal")


def path_of(router, call_sid):
    url = router.allocate(call_sid)["ws_url"]
    return url[url.index("/", url.index("://") + 3) :]


def open_stream(router, path):
    stream = Stream(router.port, path)
    assert stream.status == 101, stream.head.data
    assert stream.echoes()
    return stream


# ----- Requests -----


def test_no_request_is_lost_or_refused_while_routers_are_replaced(cluster, tell):
    world = cluster()
    counts = collections.Counter()
    clients = [Client(f"CA{number}", world.balancer, counts, keeps=number % 2 == 0) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for number in range(ROUNDS):
        before = counts["answered"]
        router = world.routers[number % len(world.routers)]
        assert router.stop() == 0
        world.remove(router)
        world.add()
        wait_until(lambda: counts["answered"] > before + 2 * CLIENTS, "the clients are busy")
    for client in clients:
        client.is_over.set()
    for client in clients:
        client.join()
    mishaps = [mishap for client in clients for mishap in client.mishaps]
    tell(
        f"{ROUNDS} SIGTERMs, probe {PROBE_S} s, delay {DELAY_S} s, {CLIENTS} clients: {counts['answered']} requests on "
        f"{counts['connections']} connections, {counts['lost']} lost, {counts['refused']} refused, {counts['bad']} not 200"
    )
    assert (counts["lost"], counts["refused"], counts["bad"]) == (0, 0, 0), mishaps[:20]
    assert world.calls() == 0


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def test_who_has_connected_to_the_tls_port_before_it_closes_is_answered(alone, tmp_path):
    certificate = Certificate(tmp_path / "tls")
    router = alone(**certificate.env, SHUTDOWN_DELAY="500ms")
    early = [socket.create_connection(("127.0.0.1", router.tls_port)) for _ in range(2)]
    begin_stop(router)
    wait_until(lambda: not accepts(router.tls_port), "the port is closed")
    context = ssl.create_default_context(cafile=certificate.cert)
    for sock in early:
        with context.wrap_socket(sock, server_hostname="localhost") as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert router.proc.wait(DEADLINE_S) == 0


# ----- Streams -----


class Talk:
    """One call with its stream."""

    def __init__(self, world, router, call_sid):
        self.router = router
        self.stream = open_stream(router, path_of(world.routers[0], call_sid))

    def end(self):
        assert self.stream.echoes(), "the stream lives until it is ended"
        self.stream.close()


def test_no_stream_is_cut_while_routers_are_replaced_one_by_one(cluster, tell):
    world = cluster(HTTP_SHUTDOWN_TIMEOUT="500ms", SHUTDOWN_DELAY="1s")
    talks = [Talk(world, world.routers[number % 3], f"CA{number}") for number in range(STREAMS)]
    ended = 0
    for router in list(world.routers):
        mine = [talk for talk in talks if talk.router is router]
        begin_stop(router)
        world.remove(router)
        mine.append(Talk(world, router, f"{router.port}-late"))  # during the delay streams are still accepted
        world.add()
        wait_until(lambda: router.log_lines("stopping: streams are still open"), "only its streams are left")
        for talk in mine:
            assert router.proc.poll() is None
            talk.end()
            ended += 1
            talks.append(Talk(world, random.choice(world.routers), f"CA{STREAMS + ended}"))
            time.sleep(0.05)
        assert router.proc.wait(DEADLINE_S) == 0
        assert "connections cut" not in router.log()
        talks = [talk for talk in talks if talk.router is not router]
        assert all(talk.stream.echoes() for talk in talks)
    for talk in talks:
        talk.end()
    wait_until(lambda: world.calls() == 0, "no call is left behind")
    tell(f"{ended + len(talks)} streams on three routers that were replaced one by one: none was cut")


def test_a_router_that_waits_for_its_streams_renews_them_and_is_seen(cluster):
    world = cluster(count=2, HTTP_SHUTDOWN_TIMEOUT="0", SHUTDOWN_DELAY="0", LEASE_TTL="2s", CALL_MAX_DURATION="1h")
    leaving, staying = world.routers
    with open_stream(leaving, path_of(leaving, "CA1")) as stream:
        begin_stop(leaving)
        wait_until(lambda: leaving.log_lines("stopping: streams are still open"), "it waits")
        end = time.monotonic() + 5  # more than two leases
        while time.monotonic() < end:
            assert stream.echoes()
            assert staying.get("/api/v1/call/CA1").status_code == 200
            time.sleep(0.2)
        connection = http.client.HTTPConnection("127.0.0.1", leaving.metrics_port, timeout=DEADLINE_S)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode().splitlines()
        assert "smart_router_gateway_connections 1" in page
        assert 'smart_router_http_connections{listener="http"} 0' in page
        connection.request("GET", "/ready")
        assert connection.getresponse().status == 503
        connection.close()
    assert leaving.proc.wait(DEADLINE_S) == 0
    assert "connections cut" not in leaving.log()
    wait_until(lambda: staying.get("/api/v1/call/CA1").status_code == 404, "the call is released")


def test_a_call_that_closes_while_its_router_stops_may_come_back_to_another_one(cluster):
    world = cluster(count=2, SHUTDOWN_DELAY="0", GATEWAY_RELEASE_GRACE="3s")
    leaving, staying = world.routers
    path = path_of(leaving, "CA1")
    with open_stream(leaving, path) as stream:
        begin_stop(leaving)
        wait_until(lambda: leaving.log_lines("stopping: streams are still open"), "it waits")
        assert stream.echoes()
    with open_stream(staying, path) as stream:
        assert leaving.proc.wait(DEADLINE_S) == 0
        assert stream.echoes() and staying.get("/api/v1/call/CA1").status_code == 200


def test_a_stopped_router_is_no_carrier_any_more(cluster):
    world = cluster(count=2, HTTP_SHUTDOWN_TIMEOUT="0")
    leaving, staying = world.routers
    path = path_of(leaving, "CA1")
    with open_stream(leaving, path) as stream:
        begin_stop(leaving, signal.SIGINT)
        assert leaving.proc.wait(DEADLINE_S) == 0
        assert stream.is_closed_by_other()
    with open_stream(staying, path):
        assert staying.get("/api/v1/call/CA1").status_code == 200
    wait_until(lambda: staying.get("/api/v1/call/CA1").status_code == 404, "the call is released")
    assert not staying.log_lines("call not released: somebody else keeps it alive")


# ----- How long streams get -----


def is_cut(router, stream):
    """Waits for the end of both; True if the router has ended the stream. With tickets it knows the frames, and says 1012."""
    code = router.proc.wait(DEADLINE_S)
    if router.env.get("GATEWAY_SECRET"):
        assert stream.receive() == (True, CLOSE, b"\x03\xf4the router stops")
    with pytest.raises(Closed):
        stream.receive()
    return code == 0 and "connections cut: the router stops" in router.log()


@pytest.fixture
def alone(start_router):
    """alone(**env) -> a router with the embedded store and an agent."""
    with contextlib.ExitStack() as stack:

        def start(**env):
            agent = Agent()
            stack.callback(agent.close)
            return start_router({"STATIC_PODS": f"agent-0=127.0.0.1:{agent.port}", "TIER_CONFIG": '{"standard":1}', **env})

        yield start


def test_with_the_embedded_store_streams_get_the_shutdown_timeout(alone):
    router = alone(SHUTDOWN_DELAY="500ms", HTTP_SHUTDOWN_TIMEOUT="1s")
    path = path_of(router, "CA1")
    begin_stop(router)
    with open_stream(router, path) as stream:  # during the delay it is still accepted
        assert is_cut(router, stream)


def test_a_drain_timeout_that_is_set_counts_whatever_the_store(alone):
    router = alone(HTTP_SHUTDOWN_TIMEOUT="0", GATEWAY_DRAIN_TIMEOUT="1h")
    with open_stream(router, path_of(router, "CA1")) as stream:
        begin_stop(router)
        wait_until(lambda: router.log_lines("stopping: streams are still open"), "it waits")
        time.sleep(0.3)
        assert stream.echoes()
    assert router.proc.wait(DEADLINE_S) == 0
    assert "connections cut" not in router.log()


def test_the_drain_timeout_ends_streams_though_another_router_is_alive(cluster):
    world = cluster(count=2, HTTP_SHUTDOWN_TIMEOUT="0", SHUTDOWN_DELAY="0", GATEWAY_DRAIN_TIMEOUT="1s")
    with open_stream(world.routers[0], path_of(world.routers[0], "CA1")) as stream:
        begin_stop(world.routers[0])
        assert is_cut(world.routers[0], stream)


def test_the_only_router_on_a_redis_does_not_wait_for_its_streams(cluster):
    world = cluster(count=1, HTTP_SHUTDOWN_TIMEOUT="1s", SHUTDOWN_DELAY="0")
    with open_stream(world.routers[0], path_of(world.routers[0], "CA1")) as stream:
        begin_stop(world.routers[0])
        assert is_cut(world.routers[0], stream)


def test_sigint_cuts_streams_after_the_shutdown_timeout(cluster):
    world = cluster(count=2, HTTP_SHUTDOWN_TIMEOUT="1s", SHUTDOWN_DELAY="1h")
    with open_stream(world.routers[0], path_of(world.routers[0], "CA1")) as stream:
        begin_stop(world.routers[0], signal.SIGINT)
        assert is_cut(world.routers[0], stream)


def test_a_second_signal_cuts_streams_after_the_shutdown_timeout_and_a_third_at_once(cluster):
    world = cluster(count=3, HTTP_SHUTDOWN_TIMEOUT="1s", SHUTDOWN_DELAY="1h")
    first, second, _ = world.routers
    with open_stream(first, path_of(first, "CA1")) as stream:
        begin_stop(first)
        assert stream.echoes()
        first.proc.send_signal(signal.SIGTERM)
        assert is_cut(first, stream)
    with open_stream(second, path_of(second, "CA2")) as stream:
        begin_stop(second)
        second.proc.send_signal(signal.SIGTERM)
        wait_until(lambda: "second signal" in second.log(), "it has seen the second")
        second.proc.send_signal(signal.SIGTERM)
        assert second.proc.wait(DEADLINE_S) == 1
    assert second.log_lines("third signal: exiting at once")


def test_a_redis_that_is_away_does_not_keep_a_router_from_exiting(cluster, redis_server):
    world = cluster(count=1, SHUTDOWN_DELAY="0", LEADER_ELECTION_ENABLED="false")
    router = world.routers[0]
    wait_until(lambda: redis_server.client().zcard("voice:routers") == 1, "it is known")
    redis_server.stop()
    assert router.stop() == 0
    assert "the store does not know that this router has stopped" in router.log()
