"""Clients that close their connection before they are answered: an allocation of theirs holds nothing, unless it was asked for again.

A router that stands still for longer than its clients wait reads their requests and their ends together. GONE_CLIENTS is how many
clients there are in each test.
"""

import concurrent.futures
import contextlib
import json
import pathlib
import random
import signal
import socket
import struct
import threading
import time

import httpx
import pytest
import redis_servers
import tls
from conftest import wait_until
from edges import calls_of, wait_free, wait_ready, wait_swept
from streams import HOST, Nginx
from talkers import setting

COUNT = int(setting("GONE_CLIENTS", 200))
BURST = min(COUNT, 40)
PODS = BURST + 10
SEED = int(setting("GONE_SEED", time.time()))
PATIENCE_S = 60
PAUSE_S = setting("GONE_PAUSE_S", 2)
FORM = "application/x-www-form-urlencoded"
LISTENS, CLOSED_BY_PEER = "0A", "08"  # of /proc/net/tcp
NOT_BEGUN = "client has gone before its call was allocated"
UNDONE = "client has gone before it was answered: its allocation is undone"
ENV = {
    "STATIC_PODS": ",".join(f"agent-{i}" for i in range(PODS)),
    "TIER_CONFIG": f'{{"gold": {PODS}}}',
    "CLEANUP_INTERVAL": "200ms",
    "CONNECT_TIMEOUT": "0",
    "REDIS_TIMEOUT": "30s",
}


def bursts():
    """Names of the calls, so many at a time that all of them could have pods."""
    names = [f"CA{i}" for i in range(COUNT)]
    return [names[i : i + BURST] for i in range(0, COUNT, BURST)]


def post(path, body, content_type="application/json", version="1.1"):
    head = f"POST {path} HTTP/{version}\r\nHost: x\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return (head + body).encode()


WAYS = {
    "api": lambda sid: post("/api/v1/allocate", json.dumps({"call_sid": sid})),
    "api 1.0": lambda sid: post("/api/v1/allocate", json.dumps({"call_sid": sid}), version="1.0"),
    "twilio": lambda sid: post("/api/v1/twilio/allocate", f"CallSid={sid}", FORM),
    "plivo": lambda sid: post("/api/v1/plivo/allocate", f"CallUUID={sid}", FORM),
    "exotel": lambda sid: post("/api/v1/exotel/allocate", f"CallSid={sid}", FORM),
    "with more behind it": lambda sid: WAYS["api"](sid) + b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 300,
}


def request(number, sid):
    return list(WAYS.values())[number % len(WAYS)](sid)


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)


def leave(sock, number=0):
    """Most close; some reset."""
    if number % 5 == 4:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def is_stopped(process):
    return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


@contextlib.contextmanager
def standing_still(one):
    """SIGSTOP, and nothing of it runs any more; SIGCONT at the end."""
    process = getattr(one, "proc", None) or one.process
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(process), "it has stopped")
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def server_sockets(port):
    """[(state, unread bytes)] of the sockets at this port in the kernel, those that wait to be accepted among them."""
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port and fields[3] != LISTENS:
                found.append((fields[3], int(fields[4].partition(":")[2], 16)))
    return found


def unread(port):
    """How many of them hold something that the server has not read."""
    return sum(count > 0 for _, count in server_sockets(port))


def wait_read(*routers):
    wait_until(lambda: not any(unread(router.port) for router in routers), "it has read everything")


def logged(routers, msg):
    return sum(len(router.log_lines(msg)) for router in routers)


@pytest.fixture(params=["embedded", "always", "redis"])
def routers(request, start_router, start_redis, start_on):
    """One with the embedded store, which answers in the same turn of its loop or after a sync; or two that share a Redis."""
    if request.param != "redis":
        started = [start_router({**ENV, "LOG_FSYNC": "always" if request.param == "always" else "everysec"})]
        started[0].redis = None
    else:
        server = start_redis()
        started = [start_on(server, ENV) for _ in range(2)]
        started[0].redis = server
    for router in started:  # from now on Redis knows the scripts
        router.allocate("warm")
        router.release("warm")
    return started


def ask_again(routers, names):
    """Half of them, at any router. call_sid -> pod"""
    return {sid: routers[i % len(routers)].allocate(sid)["pod_name"] for i, sid in enumerate(names[::2])}


def expect_calls(routers, kept):
    """Within one sweep these calls are there, where they were, and no others; and they stay."""
    wait_ready(*routers)
    wait_swept(*routers)
    wait_until(lambda: calls_of(routers[0]) == kept, f"of {calls_of(routers[0])} only {kept} are left")
    wait_swept(*routers)
    assert calls_of(routers[-1]) == kept
    for sid in kept:
        routers[0].release(sid)
    wait_free(routers[-1])


def test_clients_that_went_before_their_requests_were_read_hold_nothing(routers):
    """Half of the connections wait to be accepted, half have been."""
    router, others = routers[0], routers[1:]
    resets = 0
    for names in bursts():
        early = {sid: connect(router.port) for sid in names[::2]}
        router.get("/health")
        with standing_still(router):
            for number, sid in enumerate(names):
                sock = early.get(sid) or connect(router.port)
                sock.sendall(request(number, sid))
                leave(sock, number)
                resets += number % 5 == 4
            kept = ask_again(others, names[::3]) if others else {}
        wait_read(router)
        kept.update(ask_again(routers, names[1::3]))
        expect_calls(routers, kept)
    assert logged(routers, NOT_BEGUN) >= COUNT - resets
    assert logged(routers, NOT_BEGUN) + logged(routers, UNDONE) <= COUNT
    page = router.client.get(router.metrics_url + "/metrics").text
    assert f'smart_router_allocations_total{{pool="none",status="client_gone",tier="none"}} {logged([router], NOT_BEGUN)}\n' in page


def test_clients_that_went_while_their_requests_were_read_hold_nothing(routers):
    router, others = routers[0], routers[1:]
    for names in bursts():
        waiting = []
        for number, sid in enumerate(names):
            data = request(number, sid)
            cut = 1 + (number * 37) % (data.index(sid.encode()) + 1)
            waiting.append((connect(router.port), data[cut:]))
            waiting[-1][0].sendall(data[:cut])
        wait_read(router)
        with standing_still(router):
            for number, (sock, rest) in enumerate(waiting):
                sock.sendall(rest)
                leave(sock, number)
            kept = ask_again(others, names[::3]) if others else {}
        wait_read(router)
        kept.update(ask_again(routers, names[1::3]))
        expect_calls(routers, kept)


def send_all(socks):
    for number, (sid, sock) in enumerate(socks.items()):
        sock.sendall(request(number, sid))


def wait_asked(port, names):
    """While Redis stands still a router does not read on behind a request, so those with more behind them leave something."""
    wait_until(lambda: unread(port) <= len(names) // len(WAYS) + 1, "it has read the requests")


@pytest.mark.parametrize("routers", ["redis"], indirect=True)
@pytest.mark.parametrize("router_pauses", [False, True], ids=["the router sees them go", "the end comes with the answer of Redis"])
def test_clients_that_went_while_redis_was_asked_hold_nothing(routers, router_pauses):
    router, other, redis = routers[0], routers[1], routers[0].redis
    with concurrent.futures.ThreadPoolExecutor(BURST) as pool:
        for names in bursts():
            with contextlib.ExitStack() as pauses:
                with standing_still(redis):
                    socks = {sid: connect(router.port) for sid in names}
                    send_all(socks)
                    wait_asked(router.port, names)
                    if router_pauses:
                        pauses.enter_context(standing_still(router))
                    for number, sock in enumerate(socks.values()):
                        leave(sock, number)
                    again = {sid: pool.submit(other.allocate, sid) for sid in names[::3]}
                kept = {sid: answer.result()["pod_name"] for sid, answer in again.items()}
            expect_calls(routers, kept)
    assert logged(routers, UNDONE) >= COUNT // 2


def is_answered(sock):
    sock.setblocking(False)
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_a_router_that_stops_anywhere_keeps_the_calls_that_were_answered_and_no_others(routers, tell):
    """While it stands still nothing is on its way, so a client knows whether it was answered. A stop in the very moment between the
    last look and the write cannot be told from an answer that was sent: at most one call for each stop."""
    rng = random.Random(SEED)
    router = routers[0]
    moments = gone = 0
    for names in bursts():
        socks = {sid: connect(router.port) for sid in names}
        sender = threading.Thread(target=send_all, args=(socks,))
        sender.start()
        time.sleep(rng.random() * 0.004)
        with standing_still(router):
            sender.join()
            answered = {sid for sid, sock in socks.items() if is_answered(sock)}
            gone += len(names) - len(answered)
            for sid in names:
                if sid not in answered:
                    leave(socks[sid])
            time.sleep(0.05)  # no client goes after less than that
        wait_read(router)
        wait_ready(*routers)
        wait_swept(*routers)
        calls = calls_of(routers[-1])
        assert answered <= calls.keys()
        assert len(calls.keys() - answered) <= 1, calls.keys() - answered
        moments += len(calls.keys() - answered)
        for sid in calls:
            routers[-1].release(sid)
        for sock in socks.values():
            sock.close()
        wait_free(routers[-1])
    tell(f"stops anywhere: {gone} of {COUNT} clients went unanswered, {moments} in the moment of their answer; seed {SEED}")


def test_eight_allocations_of_a_paused_router_do_not_come_back(redis_server, start_on):
    """They time out at their clients, the calls are allocated and released at another router, and then the first one goes on."""
    env = {**ENV, "STATIC_PODS": ",".join(f"agent-{i}" for i in range(10)), "TIER_CONFIG": '{"gold": 10}'}
    paused, other = (start_on(redis_server, env) for _ in range(2))
    names = [f"CA{i}" for i in range(8)]
    with standing_still(paused):
        for sid in names:
            with pytest.raises(httpx.TimeoutException):
                httpx.post(f"{paused.url}/api/v1/allocate", json={"call_sid": sid}, timeout=0.2, trust_env=False)
        for sid in names:
            other.allocate(sid)
            other.release(sid)
        time.sleep(PAUSE_S)
    wait_read(paused)
    wait_ready(paused, other)
    wait_swept(paused, other)
    wait_free(other)
    assert logged([paused], NOT_BEGUN) == 8


def test_releases_and_status_callbacks_are_carried_out_for_clients_that_have_gone(routers):
    """Many send a release and leave, and providers do not repeat a status callback: each that is lost would keep a pod busy."""
    router = routers[0]
    names = [f"CA{i}" for i in range(6)]
    for sid in names:
        router.allocate(sid, provider="twilio")
    with standing_still(router):
        for number, sid in enumerate(names):
            sock = connect(router.port)
            if number % 2:
                sock.sendall(post("/api/v1/release", json.dumps({"call_sid": sid})))
            else:
                sock.sendall(post("/api/v1/twilio/status", f"CallSid={sid}&CallStatus=completed", FORM))
            sock.close()
    wait_free(routers[-1])


def test_a_client_that_says_that_it_sends_nothing_more_gets_no_pod(routers):
    """It cannot be told from one that has gone. The router finds the request and the end together."""
    with connect(routers[0].port) as sock:
        with standing_still(routers[0]):
            sock.sendall(WAYS["api"]("CA1"))
            sock.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := sock.recv(65536):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 503 ") and logged(routers, NOT_BEGUN) == 1
    wait_swept(*routers)
    assert calls_of(routers[0]) == {}


def test_clients_that_ask_and_wait_on_one_connection_are_served(routers):
    with connect(routers[0].port) as sock:
        sock.settimeout(PATIENCE_S)
        for sid in ("CA1", "CA2", "CA3"):
            sock.sendall(WAYS["api"](sid))
            assert sock.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert calls_of(routers[0]).keys() == {"CA1", "CA2", "CA3"}


@pytest.mark.parametrize("says_so", [True, False], ids=["with the end of TLS", "without a word"])
@pytest.mark.parametrize("store", ["embedded", "redis"])
def test_clients_over_tls_that_have_gone_hold_nothing(store, says_so, start_router, start_redis, start_on, tmp_path):
    certificate = tls.Certificate(tmp_path / "certificate")
    env = {**ENV, **certificate.env}
    router = start_router(env) if store == "embedded" else start_on(start_redis(), env)
    router.allocate("warm")
    router.release("warm")
    names = bursts()[0]
    socks = {sid: tls.connect(router.tls_port, certificate.context()) for sid in names}
    with standing_still(router):
        for number, sid in enumerate(names):
            socks[sid].sendall(request(number, sid))
            if says_so:
                socks[sid].shutdown(socket.SHUT_WR)
            socks[sid].sock.close()
    wait_until(lambda: not unread(router.tls_port), "it has read everything")
    expect_calls([router], ask_again([router], names[1::3]))


def test_clients_over_tls_that_went_while_redis_was_asked_hold_nothing(redis_server, start_on, tmp_path):
    """The router stands still when they go: it finds their ends beside the answers of Redis."""
    certificate = tls.Certificate(tmp_path / "certificate")
    router = start_on(redis_server, {**ENV, **certificate.env})
    router.allocate("warm")
    router.release("warm")
    names = bursts()[0]
    socks = {sid: tls.connect(router.tls_port, certificate.context()) for sid in names}
    with contextlib.ExitStack() as pauses:
        with standing_still(redis_server):
            for number, sid in enumerate(names):
                socks[sid].sendall(request(number, sid))
            wait_asked(router.tls_port, names)
            time.sleep(0.2)  # from the socket to the handlers
            pauses.enter_context(standing_still(router))
            for sock in socks.values():
                sock.sock.close()
        wait_until(lambda: redis_server.client().ping(), "Redis has answered those before")
    expect_calls([router], {})


def has_left(port):
    """Whoever has asked there and was not answered yet."""
    return all(state == CLOSED_BY_PEER for state, count in server_sockets(port) if count > 0)


@pytest.mark.parametrize("routers", ["redis"], indirect=True)
def test_clients_behind_nginx_that_have_gone_hold_nothing(routers, tmp_path):
    """nginx closes its connection to the router when its client does."""
    if not Nginx.is_installed():
        redis_servers.need("nginx")
    router, other = routers
    nginx = Nginx(tmp_path / "nginx", router.port)
    try:
        for names in bursts():
            with standing_still(router):
                socks = [connect(nginx.port) for _ in names]
                for sock, sid in zip(socks, names):
                    data = post("/api/v1/twilio/allocate", f"CallSid={sid}", FORM)
                    sock.sendall(data.replace(b"Host: x", f"Host: {HOST}".encode()))
                wait_until(lambda: unread(router.port) >= BURST // 2, "nginx has passed them on")
                for sock in socks:
                    sock.close()
                wait_until(lambda: has_left(router.port), "nginx has left, too")
                kept = {sid: other.allocate(sid)["pod_name"] for sid in names[::3]}
            wait_read(router)
            expect_calls(routers, kept)
    finally:
        nginx.close()
    assert logged(routers, NOT_BEGUN) >= BURST // 2
