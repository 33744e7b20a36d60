"""Clients that hold all connections, and webhooks that get through all the same; and how many connections one client may have."""

import concurrent.futures
import contextlib
import http.client
import re
import select
import socket
import ssl
import threading
import time
import urllib.parse

import httpx
import pytest
import tls
from conftest import DEADLINE_S, wait_until

HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
TRIES = 10  # of one webhook; each on a connection of its own, but for the first


class Holders:
    """Keeps that many connections open, and opens each one again as soon as it is closed."""

    def __init__(self, port, count, has_asked=False, context=None):
        self.port, self.count, self.has_asked, self.context = port, count, has_asked, context
        self.came_back = 0
        self.open = {}
        self.poll = select.epoll()
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)
        try:
            if self.context:
                sock = self.context.wrap_socket(sock, server_hostname="localhost")
            if self.has_asked:
                sock.sendall(HEALTH)
        except OSError:  # it had to go before it could ask
            sock.close()
            return
        sock.setblocking(False)
        self.open[sock.fileno()] = sock
        self.poll.register(sock, select.EPOLLIN)

    def has_ended(self, sock):
        try:
            while sock.recv(65536):
                pass
            return True
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True

    def run(self):
        while not self.is_over.is_set():
            while len(self.open) < self.count and not self.is_over.is_set():
                self.connect()
            for fd, _ in self.poll.poll(0.05):
                if self.has_ended(self.open[fd]):
                    self.poll.unregister(fd)
                    self.open.pop(fd).close()
                    self.came_back += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join(DEADLINE_S)
        for sock in self.open.values():
            sock.close()
        self.poll.close()


def webhook(connection, sid):
    form = urllib.parse.urlencode({"CallSid": sid})
    connection.request("POST", "/api/v1/twilio/allocate", form, {"Content-Type": "application/x-www-form-urlencoded"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def webhook_until_answered(connection, sid):
    """As a provider: who finds its connection closed before an answer asks again on a new one.

    While all holders come back, a client that is slow to ask is the one that was silent for the longest time, and is closed.
    """
    for _ in range(TRIES):
        try:
            return webhook(connection, sid)
        except TimeoutError:
            raise
        except OSError:
            connection.close()  # the next request opens a new one
    pytest.fail(f"{sid}: closed {TRIES} times without an answer")


def metric(router, name, url=None):
    text = httpx.get((url or router.metrics_url) + "/metrics", timeout=DEADLINE_S, trust_env=False).text
    return float(re.search(rf'^smart_router_http_{name}{{listener="http"}} (\S+)$', text, re.M).group(1))


def is_answered(answer):
    status, body = answer
    assert status == 200, body
    assert b"<Response>" in body and (b"<Stream" in body or b"<Say" in body or b"<Reject" in body), body
    return True


@pytest.mark.parametrize("has_asked", [False, True], ids=["silent", "kept-alive"])
@pytest.mark.parametrize("kind", ["http", "https"])
def test_webhooks_get_through_while_idle_clients_hold_every_connection(start_router, tmp_path, kind, has_asked):
    """Each holder comes back as soon as it was closed. Five calls get a pod, the others are told that all are busy."""
    places = 64 if kind == "http" else 24
    certificate = tls.Certificate(tmp_path / "certificate") if kind == "https" else None
    env = {"MAX_CONNECTIONS": places, "HTTP_IDLE_TIMEOUT": "10m", **(certificate.env if certificate else {})}
    router = start_router({name: str(value) for name, value in env.items()})
    router.client.close()
    context = certificate.context() if certificate else None
    port = router.tls_port if certificate else router.port

    def connect():
        if context:
            return http.client.HTTPSConnection("localhost", port, timeout=DEADLINE_S, context=context)
        return http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)

    def on_a_new_connection(number):
        with contextlib.closing(connect()) as connection:
            return is_answered(webhook_until_answered(connection, f"CA-new-{number}"))

    def on_a_kept_connection(number):
        with contextlib.closing(connect()) as connection:
            return all(is_answered(webhook_until_answered(connection, f"CA-kept-{number}-{i}")) for i in range(20))

    with Holders(port, places, has_asked, context) as holders:
        wait_until(lambda: metric(router, "connections") == places, "they hold every connection")
        for number in range(100):
            on_a_new_connection(number)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(pool.map(on_a_new_connection, range(100, 200)))
            assert all(pool.map(on_a_kept_connection, range(8)))
        # Whoever was closed has come back, and holds a connection again.
        wait_until(lambda: metric(router, "connections") == places, "they hold every connection again")
        assert holders.came_back > 0
        assert metric(router, "connections_refused_total") == 0
        assert metric(router, "connections_evicted_total") >= holders.came_back


def read_tls(session, incoming, sock):
    while True:
        try:
            return session.read(65536)
        except ssl.SSLWantReadError:
            data = sock.recv(65536)
            assert data, "closed without an answer"
            incoming.write(data)


def test_a_webhook_is_not_lost_while_only_half_of_its_tls_record_has_come(start_router, tmp_path):
    """The router cannot read the request before the record is whole. Clients without one make room first."""
    certificate = tls.Certificate(tmp_path / "certificate")
    env = {"MAX_CONNECTIONS": "6", "HTTP_IDLE_TIMEOUT": "10m", "HTTP_READ_TIMEOUT": "10m", **certificate.env}
    router = start_router({name: str(value) for name, value in env.items()})
    router.client.close()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = certificate.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    sock = socket.create_connection(("127.0.0.1", router.tls_port), timeout=DEADLINE_S)
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            sock.sendall(outgoing.read())
            incoming.write(sock.recv(65536))
    sock.sendall(outgoing.read())
    wait_until(lambda: metric(router, "connections") == 1, "the handshake is over")
    idle = [connect_from(router, "127.0.0.1", HEALTH) for _ in range(5)]
    assert [answer_of(one)[0] for one in idle] == [200] * 5
    time.sleep(1.1)  # now the TLS client is the first that has to go
    form = "CallSid=CA1&Text=" + "x" * 3000
    head = f"POST /api/v1/twilio/allocate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(form)}\r\n"
    session.write((head + "Content-Type: application/x-www-form-urlencoded\r\n\r\n" + form).encode())
    record = outgoing.read()
    sock.sendall(record[:1000])
    time.sleep(0.1)  # the router has taken it; if not, it sees it where it is
    new = [connect_from(router, "127.0.0.1", HEALTH) for _ in range(3)]
    assert [answer_of(one)[0] for one in new] == [200] * 3
    sock.sendall(record[1000:])
    assert read_tls(session, incoming, sock).startswith(b"HTTP/1.1 200 ")
    assert metric(router, "connections_evicted_total") == 3
    for one in [sock, *idle, *new]:
        one.close()


def test_webhooks_get_through_where_there_are_fewer_descriptors_than_connections(start_router):
    router = start_router({"MAX_CONNECTIONS": "10000"}, nofile=256)
    router.client.close()
    silent = [socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S) for _ in range(300)]
    for number in range(20):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", router.port, timeout=DEADLINE_S)) as connection:
            assert is_answered(webhook_until_answered(connection, f"CA{number}"))
    allowed = next(line["connections_allowed"] for line in router.log_lines() if "connections_allowed" in line)
    assert metric(router, "connections") <= allowed < 256
    assert metric(router, "connections_refused_total") == 0
    for sock in silent:
        sock.close()


# MAX_CONNECTIONS_PER_CLIENT


def connect_from(router, address, data=b""):
    sock = socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S, source_address=(address, 0))
    sock.sendall(data)
    return sock


def answer_of(sock):
    """Status and text of the first answer, which must come as one piece."""
    text = sock.recv(65536).decode()
    return int(text.split(" ", 2)[1]), text


def ask_from(router, address, path):
    with connect_from(router, address, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()) as sock:
        return answer_of(sock)


def test_one_client_gets_so_many_connections_and_no_more(start_router):
    router = start_router({"MAX_CONNECTIONS_PER_CLIENT": "5", "TRUSTED_PROXIES": "127.0.0.3"})
    router.client.close()
    held = [connect_from(router, "127.0.0.2", HEALTH) for _ in range(5)]
    assert [answer_of(sock)[0] for sock in held] == [200] * 5
    status, text = ask_from(router, "127.0.0.2", "/api/v1/status")
    assert (status, "too many connections" in text, "Retry-After: 1" in text) == (503, True, True)
    assert ask_from(router, "127.0.0.2", "/health")[0] == 200
    assert ask_from(router, "127.0.0.4", "/api/v1/status")[0] == 200  # another client
    proxied = [connect_from(router, "127.0.0.3", HEALTH) for _ in range(20)]
    assert [answer_of(sock)[0] for sock in proxied] == [200] * 20
    assert metric(router, "connections_evicted_total") == 0
    lines = [line for line in router.log_lines() if line["msg"].startswith("too many connections of one client")]
    assert [(line["peer"], line["max_connections_per_client"]) for line in lines] == [("127.0.0.2", 5)]
    # The others are as good as ever, and one that goes makes room.
    for sock in held:
        sock.sendall(HEALTH)
        assert answer_of(sock)[0] == 200
    held.pop().close()
    wait_until(lambda: ask_from(router, "127.0.0.2", "/api/v1/status")[0] == 200, "there is room again")
    for sock in held + proxied:
        sock.close()


def test_one_client_gets_so_many_connections_over_tls_and_in_clear_text_together(start_router, tmp_path):
    certificate = tls.Certificate(tmp_path / "certificate")
    router = start_router({**certificate.env, "MAX_CONNECTIONS_PER_CLIENT": "5"})
    router.client.close()

    def connect(address, data):
        sock = socket.create_connection(("127.0.0.1", router.tls_port), timeout=DEADLINE_S, source_address=(address, 0))
        conn = tls.TlsSocket(sock, certificate.context())
        conn.sendall(data)
        return conn

    def ask(address, path):
        with connect(address, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()) as conn:
            return answer_of(conn)

    # Handshakes that go no further are not counted.
    handshakes = [socket.create_connection(("127.0.0.1", router.tls_port), timeout=DEADLINE_S, source_address=("127.0.0.2", 0)) for _ in range(10)]
    held = [connect("127.0.0.2", HEALTH) for _ in range(3)] + [connect_from(router, "127.0.0.2", HEALTH) for _ in range(2)]
    assert [answer_of(sock)[0] for sock in held] == [200] * 5
    status, text = ask("127.0.0.2", "/api/v1/status")
    assert (status, "too many connections" in text) == (503, True)
    assert ask_from(router, "127.0.0.2", "/api/v1/status")[0] == 503
    assert ask("127.0.0.2", "/health")[0] == 200
    assert ask("127.0.0.4", "/api/v1/status")[0] == 200  # another client
    held.pop(0).close()
    wait_until(lambda: ask("127.0.0.2", "/api/v1/status")[0] == 200, "there is room again")
    for sock in held + handshakes:
        sock.close()


def test_without_a_limit_one_client_may_have_them_all(start_router):
    router = start_router()
    held = [connect_from(router, "127.0.0.2", HEALTH) for _ in range(300)]
    assert [answer_of(sock)[0] for sock in held] == [200] * 300
    for sock in held:
        sock.close()


# Streams of events


def test_streams_of_events_take_a_quarter_of_the_connections(start_router):
    router = start_router({"MAX_CONNECTIONS": "16"})
    ask = b"GET /api/v1/events HTTP/1.1\r\nHost: x\r\n\r\n"
    streams = [connect_from(router, "127.0.0.1", ask) for _ in range(4)]
    assert [answer_of(sock)[0] for sock in streams] == [200] * 4
    with connect_from(router, "127.0.0.1", ask) as sock:
        status, text = answer_of(sock)
        assert (status, "Retry-After: " in text) == (503, True)
        assert "too many requests are waiting already" in text
    assert router.get("/api/v1/status").status_code == 200
    streams.pop().close()

    def is_let_in():
        with connect_from(router, "127.0.0.1", ask) as sock:
            return answer_of(sock)[0] == 200

    wait_until(is_let_in, "there is room for another one")
    for sock in streams:
        sock.close()
