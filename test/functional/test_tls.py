"""The TLS listener: what real clients get, what hostile ones do not, and how certificates change.

Streams of the gateway over TLS are in test_gateway.py, where they are told from those in clear text by nothing else.
"""

import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

import httpx
import pytest
import tls
from conftest import wait_until

MANY_PODS = ",".join(f"voice-agent-{i}" for i in range(1000))
# Under AddressSanitizer: memory that was freed does not count for long.
LEAN = {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "quarantine_size_mb=1"]))}
HELLO = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """made(**kwargs) -> a Certificate, each kind once in a run. Who changes its files copies it."""
    known = {}

    def make(**kwargs):
        key = json.dumps(kwargs, sort_keys=True)
        if key not in known:
            known[key] = tls.Certificate(tmp_path_factory.mktemp("certificate"), **kwargs)
        return known[key]

    return make


@pytest.fixture
def certificate(made):
    return made()


@pytest.fixture
def start(start_router, certificate):
    """start(**env): a router with a TLS listener."""
    return lambda **env: start_router({**certificate.env, **env})


def url(router, path="/health"):
    return f"https://localhost:{router.tls_port}{path}"


def curl(router, certificate, path, *args):
    command = ["curl", "-sS", "-m", "60", "--noproxy", "*", "--cacert", certificate.cert, *args, url(router, path)]
    return subprocess.run(command, capture_output=True, check=False, timeout=90)


def client(router, certificate, **kwargs):
    return httpx.Client(base_url=url(router, ""), verify=certificate.context(), timeout=60, trust_env=False, **kwargs)


def s_client(router, *args, given=b""):
    command = ["openssl", "s_client", "-connect", f"127.0.0.1:{router.tls_port}", *args]
    done = subprocess.run(command, input=given, capture_output=True, check=False, timeout=90)
    return (done.stdout + done.stderr).decode(errors="replace")


def read_all(conn):
    """All that comes until the end, however it ends, and whether it ended with an error."""
    parts = []
    try:
        while data := conn.recv(65536):
            parts.append(data)
    except OSError:
        return b"".join(parts), True
    return b"".join(parts), False


def plain(router, timeout=60):
    return socket.create_connection(("127.0.0.1", router.tls_port), timeout=timeout)


def metric(router, name):
    for line in router.get("/metrics").text.splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])
    return None


def handshakes(router, status):
    return metric(router, f'smart_router_tls_handshakes_total{{status="{status}"}}')


def descriptors(router):
    return len(os.listdir(f"/proc/{router.proc.pid}/fd"))


def memory_kb(router):
    with open(f"/proc/{router.proc.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


def settles(router, before):
    """All connections are gone, and all that they had."""
    wait_until(lambda: metric(router, "smart_router_tls_connections") == 0, "no TLS connection is open")
    wait_until(lambda: descriptors(router) <= before, "the descriptors are back")


def still_works(router, certificate):
    assert curl(router, certificate, "/health").stdout == b'{"status":"ok"}'


# ----- Real clients -----


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_curl_is_answered_over_tls_and_beside_it_in_clear_text(start_router, made, kind):
    certificate = made(kind=kind)
    router = start_router(certificate.env)
    body = json.dumps({"call_sid": "CA1"})
    done = curl(router, certificate, "/api/v1/allocate", "-d", body)
    assert json.loads(done.stdout)["success"], done
    assert router.allocate("CA1")["pod_name"] == json.loads(done.stdout)["pod_name"]
    assert handshakes(router, "ok") == 1


@pytest.mark.parametrize("version, works", [("tls1_1", False), ("tls1_2", True), ("tls1_3", True)])
def test_tls_1_2_and_1_3_are_spoken_and_nothing_older(start, version, works):
    router = start()
    text = s_client(router, f"-{version}", "-cipher", "ALL:@SECLEVEL=0")
    assert ("Cipher is (NONE)" in text) != works, text
    assert ("protocol version" in text) != works, text
    assert handshakes(router, "ok" if works else "failed") == 1


def test_http_1_1_is_agreed_upon_and_http_2_alone_is_refused(start, certificate):
    router = start()
    for offered, agreed in ((["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), ([], None)):
        context = certificate.context()
        if offered:
            context.set_alpn_protocols(offered)
        with tls.connect(router.tls_port, context) as conn:
            assert conn.tls.selected_alpn_protocol() == agreed
    assert "no application protocol" in s_client(router, "-alpn", "h2")


def test_old_ciphers_and_renegotiation_are_refused(start):
    router = start()
    assert "Cipher is (NONE)" in s_client(router, "-tls1_2", "-cipher", "AES128-SHA:ECDHE-ECDSA-AES128-SHA")
    told = s_client(router, "-tls1_2", given=b"R\n")
    assert "RENEGOTIATING" in told
    wait_until(lambda: "smart_router_tls_cut_total 1" in router.get("/metrics").text, "the connection is cut")
    assert 'smart_router_tls_handshakes_total{status="ok"} 1' in router.get("/metrics").text


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_is_resumed_by_its_ticket(start, certificate, version):
    router = start()
    context = certificate.context()
    context.maximum_version = version
    session = None
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", router.tls_port), timeout=60) as sock:
            with context.wrap_socket(sock, server_hostname="localhost", session=session) as conn:
                conn.sendall(HELLO)
                assert conn.recv(65536).startswith(b"HTTP/1.1 200 ")
                was_resumed, session = conn.session_reused, conn.session
    assert was_resumed


def test_the_whole_chain_is_sent(start_router, made, tmp_path):
    certificate, other = made(), made(name="another")
    chain = tmp_path / "chain.pem"
    chain.write_text(certificate.cert.read_text() + other.cert.read_text())
    router = start_router({**certificate.env, "TLS_CERT_FILE": chain})
    assert s_client(router, "-showcerts").count("BEGIN CERTIFICATE") == 2


def test_one_connection_carries_many_requests_and_large_answers(start, certificate):
    router = start(STATIC_PODS=MANY_PODS)
    with client(router, certificate) as one:
        for number in range(50):
            answer = one.post("/api/v1/allocate", json={"call_sid": f"CA{number}"})
            assert answer.status_code == 200
        for _ in range(5):
            answer = one.get("/api/v1/pods?limit=1000")
            assert len(answer.content) > 100_000
            assert answer.json() == router.get("/api/v1/pods?limit=1000").json()
    assert handshakes(router, "ok") == 1


def test_bodies_of_every_size_arrive_and_too_large_ones_are_refused(start, certificate):
    router = start()
    with client(router, certificate) as one:
        for size in (1, 4096, 16383, 16384, 16385, 65000):
            answer = one.post("/api/v1/allocate", json={"call_sid": "CA1", "padding": "x" * size})
            assert answer.status_code == 200, (size, answer.text)
        answer = one.post("/api/v1/allocate", content=b"x" * 200_000)
        assert answer.status_code == 413


def test_pipelined_requests_are_answered_in_order(start, certificate):
    router = start()
    requests = b"".join(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: r%d\r\n\r\n" % i for i in range(200))
    with tls.connect(router.tls_port, certificate.context()) as conn:
        conn.sendall(requests + b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        received, failed = read_all(conn)
    assert not failed
    assert re.findall(rb"X-Request-Id: (r\d+)\r\n", received) == [b"r%d" % i for i in range(200)]
    assert received.count(b"HTTP/1.1 200 OK") == 201


def test_a_request_in_single_bytes_is_a_request(start, certificate):
    router = start()
    with tls.connect(router.tls_port, certificate.context()) as conn:
        for byte in HELLO:
            conn.sendall(bytes([byte]))
        assert conn.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_who_asked_is_known(start, certificate):
    router = start()
    assert curl(router, certificate, "/api/v1/nothing").returncode == 0
    lines = wait_until(lambda: router.log_lines("request refused"), "it is in the log, which may come after the answer")
    assert [line["peer"] for line in lines] == ["127.0.0.1"]


@pytest.mark.parametrize("end", ["notify", "fin"])
def test_who_has_finished_sending_still_gets_the_answer(start, certificate, end):
    router = start(STATIC_PODS=MANY_PODS)
    with tls.connect(router.tls_port, certificate.context()) as conn:
        conn.sendall(b"GET /api/v1/pods?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n")
        if end == "notify":
            conn.shutdown(socket.SHUT_WR)
        else:
            conn.sock.shutdown(socket.SHUT_WR)
        received, failed = read_all(conn)
    assert not failed
    head, _, body = received.partition(b"\r\n\r\n")
    assert int(re.search(rb"Content-Length: (\d+)", head).group(1)) == len(body) > 100_000


def test_an_answer_that_ends_the_connection_ends_it_with_a_word(start, certificate):
    router = start(STATIC_PODS=MANY_PODS)
    with tls.connect(router.tls_port, certificate.context()) as conn:
        conn.sendall(b"GET /api/v1/pods?limit=1000 HTTP/1.0\r\n\r\n")
        received, failed = read_all(conn)
    assert not failed  # close_notify: nobody has cut it short
    assert json.loads(received.partition(b"\r\n\r\n")[2])["total"] == 1000


def counts(router):
    """Connections of the HTTP server, and of the TLS listener. Asked elsewhere, so as not to be one of them."""
    with urllib.request.urlopen(f"{router.metrics_url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    names = (r'smart_router_http_connections\{listener="http"\}', "smart_router_tls_connections")
    return tuple(int(re.search(rf"^{name} (\d+)", text, re.M).group(1)) for name in names)


def rest(router):
    """What the counts are once they stay so."""
    last, same = None, 0
    while same < 10:
        time.sleep(0.02)
        now = counts(router)
        same = same + 1 if now == last else 0
        last = now
    return last


def ask_without_reading(router, certificate, requests):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect(("127.0.0.1", router.tls_port))
    conn = tls.TlsSocket(sock, certificate.context())
    request = b"GET /api/v1/pods?limit=200 HTTP/1.1\r\nHost: x\r\nConnection: %s\r\n\r\n"
    conn.sendall(request % b"keep-alive" * (requests - 1) + request % b"close")
    return conn


def closed_behind_its_back(router, certificate):
    """A connection that the HTTP server has answered and closed, while the kernel does not take all of it yet.

    How much the kernel takes is found by trying: with less the connection has ended, with more the server waits.
    """
    router.client.close()
    few, many = 1, 500
    for _ in range(60):
        requests = (few + many) // 2
        conn = ask_without_reading(router, certificate, requests)
        state = rest(router)
        if state == (0, 1):
            return conn, requests
        if state == (0, 0):
            few = requests
        else:
            many = requests
        conn.sock.close()
        wait_until(lambda: counts(router) == (0, 0), "it is gone")
        if many - few < 2:  # the kernel has changed its mind
            few, many = max(1, few - 20), many + 20
    pytest.fail("the kernel takes now more, now less")


def is_all(received, requests):
    head, _, body = received.partition(b"\r\n\r\n")
    body = body[: int(re.search(rb"Content-Length: (\d+)", head).group(1))]
    return received.count(body) == requests and received.endswith(body)


def test_a_slow_reader_gets_everything_though_the_server_has_closed(start, certificate):
    router = start(STATIC_PODS=MANY_PODS, HTTP_WRITE_TIMEOUT="10m")
    conn, requests = closed_behind_its_back(router, certificate)
    with conn:
        received, failed = read_all(conn)
    assert not failed  # it was told that this is all
    assert is_all(received, requests)


def test_shutdown_waits_for_a_slow_reader_though_the_server_has_closed(start, certificate):
    router = start(STATIC_PODS=MANY_PODS, HTTP_WRITE_TIMEOUT="10m")
    conn, requests = closed_behind_its_back(router, certificate)
    router.proc.send_signal(signal.SIGTERM)
    wait_until(lambda: router.log_lines("stopping"), "it stops")
    with conn:
        received, failed = read_all(conn)
    assert not failed
    assert is_all(received, requests)
    assert router.proc.wait(60) == 0


def test_events_are_told_over_tls(start, certificate):
    router = start()
    with client(router, certificate) as one, one.stream("GET", "/api/v1/events") as answer:
        lines = answer.iter_lines()
        assert answer.status_code == 200
        assert "listening" in next(line for line in lines if line.startswith("event"))
        router.allocate("CA1")
        assert "allocated" in next(line for line in lines if line.startswith("event"))


# ----- Those who do not belong here -----


def test_clear_text_is_told_that_this_port_speaks_tls(start, certificate):
    router = start()
    answer = httpx.get(f"http://127.0.0.1:{router.tls_port}/health", trust_env=False)
    assert answer.status_code == 400
    assert answer.text == "This port speaks TLS.\r\n"
    still_works(router, certificate)


@pytest.mark.parametrize("said", ["nothing", "half a hello", "a hello"])
def test_a_handshake_that_takes_too_long_is_cut(start, certificate, said):
    router = start(HTTP_READ_TIMEOUT="2s")  # who is honest must be quick enough, on any machine
    before = descriptors(router)
    with plain(router) as sock:
        conn = tls.TlsSocket(sock, certificate.context(), handshake=False)
        conn.step()
        hello = conn.outgoing.read()
        sock.sendall({"nothing": b"", "half a hello": hello[: len(hello) // 2], "a hello": hello}[said])
        read_all(sock)
    assert handshakes(router, "timeout") == 1
    settles(router, before)
    still_works(router, certificate)


def test_slow_handshakes_make_room_for_those_who_mean_it(start, certificate):
    router = start(HTTP_READ_TIMEOUT="10m")
    before = descriptors(router)
    slow = [plain(router) for _ in range(1100)]
    wait_until(lambda: handshakes(router, "crowded") >= 76, "the oldest have made room")
    still_works(router, certificate)
    assert slow[0].recv(1) == b""
    for sock in slow:
        sock.close()
    settles(router, before)


def test_slow_handshakes_leave_descriptors_for_others(start_router, certificate):
    router = start_router({**certificate.env, "HTTP_READ_TIMEOUT": "10m"}, nofile=256)
    slow = [plain(router) for _ in range(400)]
    wait_until(lambda: handshakes(router, "crowded") == 400 - 256 // 8, "the oldest have made room")
    assert httpx.get(f"{router.url}/health", trust_env=False).status_code == 200
    still_works(router, certificate)
    router.allocate("CA1")
    for sock in slow:
        sock.close()


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize("stage", ["nothing", "half a hello", "a hello", "handshake", "request"])
def test_a_client_may_go_away_at_any_moment(start, certificate, stage, how):
    router = start()
    before = descriptors(router)
    for _ in range(20):
        with plain(router) as sock:
            conn = tls.TlsSocket(sock, certificate.context(), handshake=stage in ("handshake", "request"))
            if stage == "request":
                conn.sendall(HELLO * 10)
            elif stage.endswith("hello"):
                conn.step()
                hello = conn.outgoing.read()
                sock.sendall(hello[: len(hello) // 2] if stage == "half a hello" else hello)
            if how == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    settles(router, before)
    still_works(router, certificate)


def hostile(router, certificate, chance):
    """One connection that is honest up to some point, and random from there on."""
    with plain(router, timeout=0.5) as sock:
        conn = tls.TlsSocket(sock, certificate.context(), handshake=False)
        honest_steps = chance.randrange(4)
        try:
            for _ in range(honest_steps):
                is_done = conn.step()
                data = conn.outgoing.read()
                if chance.random() < 0.3 and data:  # one byte is not what it should be
                    at = chance.randrange(len(data))
                    data = data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
                sock.sendall(data)
                if is_done:
                    conn.sendall(HELLO)
                    break
                conn.fill()
            noise = chance.randbytes(chance.choice((1, 5, 100, 20_000)))
            if chance.random() < 0.5:  # it looks like a record
                noise = bytes([chance.randrange(20, 25), 3, chance.randrange(5)]) + noise
            sock.sendall(noise)
            if chance.random() < 0.5:
                sock.shutdown(socket.SHUT_WR)
            read_all(sock)
        except (OSError, ssl.SSLError):
            pass


def test_random_bytes_at_every_stage_break_nothing(start, certificate):
    router = start(HTTP_READ_TIMEOUT="2s", HTTP_IDLE_TIMEOUT="2s")
    before = descriptors(router)
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(25):
        threads = [threading.Thread(target=hostile, args=(router, certificate, random.Random(chance.random()))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    settles(router, before)
    assert handshakes(router, "failed") > 0
    still_works(router, certificate)


def test_who_does_not_read_is_cut_off_and_costs_little_memory(start, certificate):
    router = start(STATIC_PODS=MANY_PODS, HTTP_WRITE_TIMEOUT="1s", **LEAN)
    still_works(router, certificate)
    before, memory_before = descriptors(router), memory_kb(router)
    lazy = []
    for _ in range(30):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(60)
        sock.connect(("127.0.0.1", router.tls_port))
        lazy.append(tls.TlsSocket(sock, certificate.context()))
        lazy[-1].sendall(b"GET /api/v1/pods?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n" * 60)
    still_works(router, certificate)
    assert handshakes(router, "ok") == 1 + 30 + 1
    settles(router, before)
    assert memory_kb(router) - memory_before < 200_000
    for conn in lazy:
        conn.sock.close()


def test_who_sends_and_never_reads_is_held_back(start, certificate):
    router = start(STATIC_PODS=MANY_PODS, HTTP_WRITE_TIMEOUT="10m", **LEAN)
    memory_before = memory_kb(router)
    request = b"GET /api/v1/pods?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n" * 300
    sent = 0
    with plain(router) as sock:
        conn = tls.TlsSocket(sock, certificate.context())
        sock.settimeout(2)
        with pytest.raises(TimeoutError):
            while sent < 200_000_000:
                conn.sendall(request)
                sent += len(request)
        still_works(router, certificate)
        assert memory_kb(router) - memory_before < 100_000


def test_beyond_the_limit_the_server_says_no_and_health_is_still_answered(start, certificate):
    router = start(MAX_CONNECTIONS="3", GATEWAY_MAX="1", HTTP_WRITE_TIMEOUT="10m")
    router.client.close()  # it is one of the three
    open_ones = []
    for _ in range(3):  # they do not read their answers: who is idle would make room
        conn = tls.connect(router.tls_port, certificate.context())
        conn.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 400)
        open_ones.append(conn)
    is_refused = lambda: curl(router, certificate, "/api/v1/status", "-w", "%{http_code}").stdout.endswith(b"503")
    wait_until(is_refused, "all three are busy")
    still_works(router, certificate)
    for conn in open_ones:
        conn.sock.close()
    is_let_in = lambda: curl(router, certificate, "/api/v1/status", "-w", "%{http_code}").stdout.endswith(b"200")
    wait_until(is_let_in, "there is room again")


def test_who_only_connects_makes_room_for_a_new_one(start, certificate):
    """As many as there may be, those of the gateway and those that only ask for health included, and none begins its handshake."""
    router = start(MAX_CONNECTIONS="3", GATEWAY_MAX="1", HTTP_READ_TIMEOUT="10m")
    held = [plain(router) for _ in range(3 + 1 + 256)]
    still_works(router, certificate)
    assert read_all(held[0])[0] == b""
    assert (handshakes(router, "crowded"), handshakes(router, "refused")) == (1, 0)
    for sock in held:
        sock.close()
    wait_until(lambda: handshakes(router, "failed") == len(held) - 1, "they are gone")
    still_works(router, certificate)


def test_a_thousand_connections_leave_nothing_behind(start, certificate):
    router = start(**LEAN)
    context = certificate.context()
    before = descriptors(router)

    def some(count):
        for _ in range(count):
            with tls.connect(router.tls_port, context) as conn:
                conn.sendall(HELLO)
                assert conn.recv(65536).startswith(b"HTTP/1.1 200 ")

    some(200)
    memory_before = memory_kb(router)
    threads = [threading.Thread(target=some, args=(200,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    settles(router, before)
    assert handshakes(router, "ok") == 1000
    assert memory_kb(router) - memory_before < 20_000


# ----- Certificates -----


def own(made, tmp_path, **kwargs):
    """A copy whose files may change."""
    one = object.__new__(tls.Certificate)
    one.cert, one.key = tmp_path / "cert.pem", tmp_path / "key.pem"
    one.replace_with(made(**kwargs))
    one.key.chmod(0o600)
    return one


def name_of(conn):
    return dict(pair[0] for pair in conn.tls.getpeercert()["subject"])["commonName"]


def test_a_new_certificate_is_for_new_connections_and_old_ones_go_on(start_router, made, tmp_path):
    files = own(made, tmp_path)
    router = start_router(files.env)
    with tls.connect(router.tls_port, made().context()) as old:
        files.replace_with(made(name="new"))
        router.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: router.log_lines("certificate reloaded"), "it was reloaded")
        with tls.connect(router.tls_port, made(name="new").context()) as new:
            assert name_of(new) == "new"
            assert name_of(old) == "localhost"
            for conn in (old, new):
                conn.sendall(HELLO)
                assert conn.recv(65536).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("wrong", ["missing", "garbage", "key of another", "half written"])
def test_a_bad_reload_keeps_the_old_certificate(start_router, made, tmp_path, wrong):
    files = own(made, tmp_path)
    router = start_router(files.env)
    if wrong == "missing":
        files.cert.unlink()
    elif wrong == "garbage":
        files.cert.write_bytes(os.urandom(1000))
    elif wrong == "key of another":
        files.key.write_bytes(made(name="new").key.read_bytes())
    else:
        files.key.write_bytes(files.key.read_bytes()[:-60])
    router.proc.send_signal(signal.SIGHUP)
    said = wait_until(lambda: router.log_lines("reload of the certificate refused, the old one stays in use"), "it was refused")
    assert said[0]["variable"] == ("TLS_KEY_FILE" if wrong in ("key of another", "half written") else "TLS_CERT_FILE")
    still_works(router, made())
    files.replace_with(made())
    router.proc.send_signal(signal.SIGHUP)
    wait_until(lambda: router.log_lines("certificate reloaded"), "the next reload works")
    still_works(router, made())


def test_the_key_can_be_changed_while_connections_come_and_go(start_router, made, tmp_path):
    files = own(made, tmp_path)
    router = start_router(files.env)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    failures = []
    is_over = threading.Event()

    def come_and_go():
        while not is_over.is_set():
            try:
                with tls.connect(router.tls_port, context) as conn:
                    conn.sendall(HELLO)
                    assert conn.recv(65536).startswith(b"HTTP/1.1 200 ")
            except Exception as error:  # whatever it is, it must not be
                failures.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(20):
        files.replace_with(made(name="new") if number % 2 else made())
        router.proc.send_signal(signal.SIGHUP)
        wait_until(lambda: len(router.log_lines("certificate reloaded")) == number + 1, "it was reloaded")
    is_over.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_odd_certificates_are_warned_about_and_used(start_router, made, tmp_path):
    expired = made(end="20200201000000Z")
    router = start_router(expired.env)
    assert [line for line in router.log_lines() if "has expired" in line["msg"]][0]["level"] == "warn"
    assert "certificate has expired" in curl(router, expired, "/health").stderr.decode()
    assert curl(router, expired, "/health", "-k").stdout == b'{"status":"ok"}'
    assert metric(router, "smart_router_tls_certificate_expiry_timestamp_seconds") == 1580515200
    early = made(start="20980101000000Z")
    assert "not valid yet" in start_router(early.env).log()
    exposed = own(made, tmp_path)
    exposed.key.chmod(0o644)
    lines = start_router(exposed.env).log_lines()
    assert [line["variable"] for line in lines if "can read" in line["msg"]] == ["TLS_KEY_FILE"], "it is said once"
    assert not [line for line in start_router(made().env).log_lines() if "TLS_" in line["msg"]]


@pytest.mark.parametrize(
    "wrong, variable, why",
    [
        ("no key", "TLS_KEY_FILE", "must be set"),
        ("no cert", "TLS_CERT_FILE", "must be set"),
        ("missing cert", "TLS_CERT_FILE", "No such file"),
        ("missing key", "TLS_KEY_FILE", "No such file"),
        ("directory", "TLS_CERT_FILE", "Is a directory"),
        ("device", "TLS_KEY_FILE", "cannot be read"),
        ("large", "TLS_CERT_FILE", "larger than 1 MiB"),
        ("swapped", "TLS_CERT_FILE", "no certificate"),
        ("no key in it", "TLS_KEY_FILE", "no private key"),
        ("encrypted", "TLS_KEY_FILE", "encrypted"),
        ("another", "TLS_KEY_FILE", "not the key of the certificate"),
        ("broken chain", "TLS_CERT_FILE", "after the first"),
        ("weak", "TLS_CERT_FILE", "key too small"),
    ],
)
def test_files_that_cannot_be_used_stop_the_start_by_name(run_router, made, tmp_path, wrong, variable, why):
    one, two = made(), made(name="new")
    files = {"cert": str(one.cert), "key": str(one.key)}
    other = tmp_path / "other.pem"
    if wrong == "encrypted":
        tls.openssl("pkey", "-in", one.key, "-aes256", "-passout", "pass:s3cret", "-out", other)
    elif wrong == "weak":
        weak = ["-newkey", "rsa:1024", "-nodes", "-keyout", tmp_path / "weak.pem", "-out", other, "-subj", "/CN=localhost"]
        tls.openssl("req", "-x509", *weak)
    elif wrong == "broken chain":
        other.write_text(one.cert.read_text() + two.cert.read_text().replace("M", "*", 1))
    elif wrong == "large":
        other.write_bytes(b"x" * (2 << 20))
    changes = {
        "no key": {"key": None},
        "no cert": {"cert": None},
        "missing cert": {"cert": tmp_path / "nowhere"},
        "missing key": {"key": tmp_path / "nowhere"},
        "directory": {"cert": tmp_path},
        "device": {"key": "/dev/zero"},
        "large": {"cert": other},
        "swapped": {"cert": one.key, "key": one.cert},
        "no key in it": {"key": one.cert},
        "encrypted": {"key": other},
        "another": {"key": two.key},
        "broken chain": {"cert": other},
        "weak": {"cert": other, "key": tmp_path / "weak.pem"},
    }
    files.update(changes[wrong])
    env = {"TLS_CERT_FILE": files["cert"], "TLS_KEY_FILE": files["key"], "TLS_PORT": "0"}
    for args in ([], ["check-config"]):
        done = run_router(env, args=args)
        assert done.returncode == 2, done.output
        assert done.output.startswith(variable), done.output
        assert why in done.output


def test_a_port_that_is_taken_is_named(run_router, certificate):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run_router({**certificate.env, "TLS_PORT": str(taken.getsockname()[1])})
    assert done.returncode == 1
    assert "set TLS_PORT to another" in done.output


# ----- The end -----


def test_shutdown_answers_what_was_asked_and_ends_every_connection_with_a_word(start, certificate):
    router = start(STATIC_PODS=MANY_PODS)
    idle = tls.connect(router.tls_port, certificate.context())
    busy = tls.connect(router.tls_port, certificate.context())
    silent = plain(router)
    with client(router, certificate) as one, one.stream("GET", "/api/v1/events") as answer:
        assert answer.status_code == 200
        busy.sendall(b"GET /api/v1/pods?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert busy.recv(1) == b"H"
        router.proc.send_signal(signal.SIGTERM)
        received, failed = read_all(busy)
        assert not failed and len(received) > 100_000
        assert read_all(idle) == (b"", False)
        assert read_all(silent)[0] == b""
        answer.read()
    assert router.proc.wait(60) == 0


def test_shutdown_does_not_wait_for_ever_for_those_who_do_not_read(start, certificate):
    router = start(STATIC_PODS=MANY_PODS, HTTP_SHUTDOWN_TIMEOUT="1s", HTTP_WRITE_TIMEOUT="10m")
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", router.tls_port))
    conn = tls.TlsSocket(sock, certificate.context())
    conn.sendall(b"GET /api/v1/pods?limit=1000 HTTP/1.1\r\nHost: x\r\n\r\n" * 60)
    wait_until(lambda: metric(router, "smart_router_tls_connections") == 1, "the handshake is done on the other side, too")
    assert router.stop() == 0
    sock.close()
