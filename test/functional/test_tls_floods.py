"""TLS clients that cause work without sending data: their work is counted, and they are cut at a limit.

The client is build/test/tls-flood. Nothing here looks at a clock: what is asserted is how many records the router has read.
"""

import contextlib
import json
import re
import signal
import socket
import ssl
import struct
import subprocess

import pytest
import tls
from conftest import BINARY, wait_until

FLOOD = BINARY.parent / "test" / "tls-flood"
LIMIT = 64
HELLO = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
CUT = "TLS connections cut: their clients sent records without data"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    return tls.Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def router(start_router, certificate):
    return start_router(certificate.env)


def flood(router, kind, *args):
    command = [FLOOD, "--port", router.tls_port, "--kind", kind, *args]
    done = subprocess.run([str(part) for part in command], capture_output=True, check=True, timeout=90)
    return json.loads(done.stdout)


def metric(router, name):
    found = re.search(rf"^{re.escape(name)} (\S+)", router.get("/metrics").text, re.M)
    return float(found.group(1))


def dataless(router):
    return metric(router, "smart_router_tls_dataless_records_total")


def cut(router):
    return metric(router, "smart_router_tls_cut_total")


def waits(router, reason):
    return metric(router, f'smart_router_tls_waits_total{{reason="{reason}"}}')


@contextlib.contextmanager
def at_once(router):
    """The router stands still meanwhile, and finds all at once what clients send."""
    router.proc.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        router.proc.send_signal(signal.SIGCONT)


def ask(conn):
    conn.sendall(HELLO)
    return conn.recv(65536)


def cut_lines(router):
    return [line for line in router.log_lines() if line["msg"].startswith(CUT)]


def test_a_flood_of_records_without_data_is_cut_at_the_limit(router, certificate):
    with tls.connect(router.tls_port, certificate.context()) as good:
        assert ask(good).startswith(b"HTTP/1.1 200 ")
        found = flood(router, "key-update", "--records", 20_000)
        assert found["cut"] == 1 and found["answers"] == 0
        wait_until(lambda: cut(router) == 1, "the connection is counted as cut")
        # The handshake has used up a few.
        assert LIMIT - 8 <= dataless(router) <= LIMIT
        assert ask(good).startswith(b"HTTP/1.1 200 ")
    assert len(cut_lines(router)) == 1
    assert cut_lines(router)[0]["peer"] == "127.0.0.1"


@pytest.mark.parametrize("kind", ["renegotiate", "renegotiate-packed", "renegotiate-behind"])
def test_who_asks_for_another_handshake_is_cut_before_the_router_reads_it(router, certificate, kind):
    """One record holds up to 4,096 such hellos, each of which OpenSSL would answer with an alert before it reads on."""
    with tls.connect(router.tls_port, certificate.context()) as good:
        assert ask(good).startswith(b"HTTP/1.1 200 ")
        found = flood(router, kind, "--records", 55, "--data-every", 1)
        assert found["cut"] == 1 and found["answers"] == 0
        assert found["alerts"] == 0
        wait_until(lambda: cut(router) == 1, "the connection is counted as cut")
        assert dataless(router) == 0
        assert ask(good).startswith(b"HTTP/1.1 200 ")
    assert len(cut_lines(router)) == 1


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        ("empty", 32),
        ("empty-1.3", 32),
        ("alert", 5),
        ("alert-1.3", 5),
        # One record with many messages: none of them is answered, and no second record is read.
        ("alert-packed", 1),
        ("alert-packed-1.3", 1),
        ("key-update-packed", 1),
        ("renegotiate-packed-1.3", 1),
        ("change", 1),
        ("change-packed", 1),
        ("change-1.3", 1),
    ],
)
def test_other_records_without_data_are_cut_no_later(router, kind, most):
    """OpenSSL has limits of its own for these, which are lower. It says goodbye with one alert, which may get lost."""
    found = flood(router, kind, "--records", 5000)
    assert found["answers"] == 0 and found["alerts"] <= 1
    wait_until(lambda: metric(router, "smart_router_tls_connections") == 0, "the connection is closed")
    assert 0 < dataless(router) <= most


def only(certificate, version):
    context = certificate.context()
    context.minimum_version = context.maximum_version = version
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_honest_clients_are_not_cut_whether_their_session_is_new_or_not(router, certificate, version):
    context = only(certificate, version)
    session = None
    for number in range(4):
        with socket.create_connection(("127.0.0.1", router.tls_port), timeout=60) as sock:
            with context.wrap_socket(sock, server_hostname="localhost", session=session) as conn:
                assert conn.session_reused == (number > 0)
                for _ in range(20):
                    assert ask(conn).startswith(b"HTTP/1.1 200 ")
                session = conn.session
    assert cut(router) == 0
    assert metric(router, 'smart_router_tls_handshakes_total{status="ok"}') == 4


def test_a_client_that_changes_its_keys_now_and_then_is_never_cut(router):
    found = flood(router, "key-update", "--records", 2000, "--data-every", 1)
    assert found == {"connections": 1, "failed": 0, "sent": 2000, "answers": 2001, "cut": 0, "alerts": 0}
    # Ten at once are none too many, as long as as many records with data follow.
    found = flood(router, "key-update", "--records", 10, "--data-every", 10)
    assert found["answers"] == 2
    assert cut(router) == 0
    assert dataless(router) == 2010


def test_data_pays_for_records_without_data_but_not_for_any_number_of_them(router):
    """A request and its answer pay for two of ten."""
    found = flood(router, "key-update", "--records", 20_000, "--data-every", 10)
    assert found["cut"] == 1
    assert found["answers"] <= LIMIT // 8
    wait_until(lambda: cut(router) == 1, "the connection is counted as cut")
    assert dataless(router) <= LIMIT + 2 * found["answers"]


def test_clients_that_come_back_are_cut_again_and_the_log_says_how_many(router, certificate):
    for _ in range(50):
        assert flood(router, "key-update", "--records", 2 * LIMIT)["answers"] == 0
    wait_until(lambda: cut(router) == 50, "all of them are counted")
    assert dataless(router) <= 50 * LIMIT
    assert 1 <= sum(line["connections"] for line in cut_lines(router)) <= 50  # at most one line in a second
    with tls.connect(router.tls_port, certificate.context()) as good:
        assert ask(good).startswith(b"HTTP/1.1 200 ")


def read_to_the_end(sock):
    received = b""
    try:
        while data := sock.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


def in_pieces(hello, size):
    """The records of a handshake once more, with so few bytes in each."""
    (length,) = struct.unpack(">H", hello[3:5])
    assert len(hello) == 5 + length
    body = hello[5:]
    pieces = [body[at : at + size] for at in range(0, length, size)]
    return [hello[:3] + struct.pack(">H", len(piece)) + piece for piece in pieces]


def test_a_hello_in_many_small_records_is_cut_and_in_some_it_is_answered(router, certificate):
    with socket.create_connection(("127.0.0.1", router.tls_port), timeout=60) as sock:
        conn = tls.TlsSocket(sock, certificate.context(), handshake=False)
        conn.step()
        sock.sendall(b"".join(in_pieces(conn.outgoing.read(), 1)))
        assert read_to_the_end(sock) == b""
    wait_until(lambda: metric(router, 'smart_router_tls_handshakes_total{status="failed"}') == 1, "it has failed")
    assert cut(router) == 1
    with socket.create_connection(("127.0.0.1", router.tls_port), timeout=60) as sock:
        conn = tls.TlsSocket(sock, certificate.context(), handshake=False)
        conn.step()
        sock.sendall(b"".join(in_pieces(conn.outgoing.read(), 16)))
        while not conn.step():
            conn.fill()
        conn.flush()
        assert ask(conn).startswith(b"HTTP/1.1 200 ")
    assert cut(router) == 1


def packed_behind(hello, message):
    """The one record of a handshake, filled up with so many more messages as fit."""
    body = hello[5:] + message * ((16384 - len(hello)) // len(message))
    return hello[:3] + struct.pack(">H", len(body)) + body


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("message", [b"\x01\0\0\0", b"\0\0\0\0", b"\x18\0\0\x01\0"], ids=["hello", "request", "key-update"])
def test_more_messages_than_a_handshake_has_are_answered_with_one_alert(router, certificate, version, message):
    with socket.create_connection(("127.0.0.1", router.tls_port), timeout=60) as sock:
        conn = tls.TlsSocket(sock, only(certificate, version), handshake=False)
        conn.step()
        sock.sendall(packed_behind(conn.outgoing.read(), message))
        types = [record[0] for record in records(read_to_the_end(sock))]
    assert types.count(21) <= 1
    assert len(types) <= 10  # the router's half of a handshake, in records
    wait_until(lambda: metric(router, 'smart_router_tls_handshakes_total{status="failed"}') == 1, "it has failed")


def records(received):
    while received:
        (length,) = struct.unpack(">H", received[3:5])
        yield received[: 5 + length]
        received = received[5 + length :]


def test_records_that_announce_encryption_again_and_again_are_cut(router, certificate):
    """With TLS 1.3 they mean nothing, and may come at any time in the handshake."""
    with socket.create_connection(("127.0.0.1", router.tls_port), timeout=60) as sock:
        conn = tls.TlsSocket(sock, only(certificate, ssl.TLSVersion.TLSv1_3), handshake=False)
        conn.step()
        sock.sendall(conn.outgoing.read() + b"\x14\x03\x03\0\x01\x01" * 1000)
        read_to_the_end(sock)
    wait_until(lambda: metric(router, 'smart_router_tls_handshakes_total{status="failed"}') == 1, "it has failed")


def test_records_that_were_read_ahead_are_not_forgotten(router, certificate):
    """Ten requests in records of one byte come in one go: more than one turn of the loop reads, and no poll tells of the rest."""
    with tls.connect(router.tls_port, certificate.context()) as conn:
        requests = HELLO * 10 + HELLO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        for byte in requests:
            conn.tls.write(bytes([byte]))
        conn.flush()
        received = b""
        while data := conn.recv(65536):
            received += data
    assert received.count(b"HTTP/1.1 200 ") == 11
    assert cut(router) == 0


def write_in_bytes(conn, data):
    """In records of one byte each, that go out with the next flush."""
    for byte in data:
        conn.tls.write(bytes([byte]))


def test_one_connection_gets_32_records_in_a_turn(router, certificate):
    requests = HELLO * 20
    with tls.connect(router.tls_port, certificate.context()) as conn:
        assert ask(conn).startswith(b"HTTP/1.1 200 ")
        before = waits(router, "share")
        with at_once(router):
            write_in_bytes(conn, requests)
            conn.flush()
        received = b""
        while received.count(b"HTTP/1.1 200 ") < 20:
            received += conn.recv(65536)
        assert waits(router, "share") - before >= len(requests) // 32 - 1
    assert waits(router, "owing") == 0


def test_one_connection_gets_64_kib_of_an_answer_in_a_turn(start_router, certificate):
    router = start_router({**certificate.env, "STATIC_PODS": ",".join(f"voice-agent-{i}" for i in range(1000))})
    with tls.connect(router.tls_port, certificate.context()) as conn:
        conn.sendall(b"GET /api/v1/pods?limit=1000 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = b""
        while data := conn.recv(65536):
            received += data
    assert len(received) > 128 * 1024
    assert waits(router, "share") > 0


def test_a_hello_in_pieces_gets_four_of_them_in_a_turn(router, certificate):
    with socket.create_connection(("127.0.0.1", router.tls_port), timeout=60) as sock:
        conn = tls.TlsSocket(sock, certificate.context(), handshake=False)
        conn.step()
        pieces = in_pieces(conn.outgoing.read(), 16)
        with at_once(router):
            sock.sendall(b"".join(pieces))
        while not conn.step():
            conn.fill()
        conn.flush()
        assert ask(conn).startswith(b"HTTP/1.1 200 ")
    assert waits(router, "hello") >= len(pieces) // 4
    # The client's last message gets in line, too, unless it comes while the handshake still has its turn.
    assert waits(router, "answered") <= 1


def test_who_owes_data_waits_in_a_line_of_its_own(router):
    """Four key updates a turn, and from eight on one such connection in each turn."""
    updates = 40
    found = flood(router, "key-update", "--records", updates)
    assert found["answers"] == 1
    assert waits(router, "owing") >= updates // 4 - 3
    assert cut(router) == 0


def test_who_comes_when_the_time_of_a_turn_is_used_up_waits_for_the_next(router, certificate):
    """A hundred clients ask at once, with 32 records each: a turn's time is enough for a few of them."""
    conns = [tls.connect(router.tls_port, certificate.context()) for _ in range(100)]
    for conn in conns:
        assert ask(conn).startswith(b"HTTP/1.1 200 ")
    before = waits(router, "busy")
    with at_once(router):
        for conn in conns:
            write_in_bytes(conn, HELLO[:31])
            conn.tls.write(HELLO[31:])
            conn.flush()
    for conn in conns:
        assert conn.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert waits(router, "busy") - before > 0
    assert waits(router, "owing") == 0
    for conn in conns:
        conn.sock.close()


def test_many_handshakes_at_once_are_all_done(router, certificate):
    """They get in line. Nobody is forgotten there, not even behind those who have gone away or say nothing more."""
    waiting = []
    for number in range(150):
        sock = socket.create_connection(("127.0.0.1", router.tls_port), timeout=60)
        conn = tls.TlsSocket(sock, certificate.context(), handshake=False)
        conn.step()
        conn.flush()
        if number % 3 == 0:
            sock.close()
        else:
            waiting.append(conn)
    for conn in waiting[::2]:
        while not conn.step():
            conn.flush()
            conn.fill()
        conn.flush()
        assert ask(conn).startswith(b"HTTP/1.1 200 ")
    assert metric(router, 'smart_router_tls_handshakes_total{status="ok"}') == 50
    for conn in waiting:
        conn.sock.close()
    wait_until(lambda: metric(router, "smart_router_tls_connections") == 0, "no TLS connection is open")


def hello_bytes(certificate):
    conn = tls.TlsSocket(None, certificate.context(), handshake=False)
    conn.step()
    return conn.outgoing.read()


def test_nobody_who_waits_for_the_router_is_given_up_for_others(start_router, certificate):
    """There may be 32 handshakes at once, and 200 clients have sent the same hello: each gets an answer before it makes room."""
    router = start_router({**certificate.env, "HTTP_READ_TIMEOUT": "10m"}, nofile=256)
    sock = socket.create_connection(("127.0.0.1", router.tls_port), timeout=60)
    honest = tls.TlsSocket(sock, certificate.context(), handshake=False)
    honest.step()
    honest.flush()
    while not honest.step():
        honest.fill()
    # It is the oldest now, and the router waits for what it is about to send.
    with at_once(router):
        honest.flush()
        hello = hello_bytes(certificate)
        replayed = [socket.create_connection(("127.0.0.1", router.tls_port), timeout=60) for _ in range(200)]
        for other in replayed:
            other.sendall(hello)
    assert ask(honest).startswith(b"HTTP/1.1 200 ")
    assert [number for number, other in enumerate(replayed) if not other.recv(1)] == []
    wait_until(
        lambda: metric(router, 'smart_router_tls_handshakes_total{status="crowded"}') == 200 - 256 // 8,
        "those who said nothing more have made room",
    )
    assert metric(router, 'smart_router_tls_handshakes_total{status="ok"}') == 1
    for other in [*replayed, sock]:
        other.close()


def announce(router, length):
    """A hello of which only the beginning comes."""
    sock = socket.create_connection(("127.0.0.1", router.tls_port), timeout=60)
    sock.sendall(b"\x16\x03\x01\x00\x09\x01" + struct.pack(">I", length)[1:] + b"hello")
    return sock


def test_a_hello_that_announces_too_much_gets_no_memory(start_router, certificate):
    """OpenSSL would make room for all of it at once, and a thousand such clients would have 150 MB."""
    router = start_router({**certificate.env, "HTTP_READ_TIMEOUT": "10m"})
    with announce(router, 16 * 1024 + 1) as sock:
        assert read_to_the_end(sock) == b""
    wait_until(lambda: metric(router, 'smart_router_tls_handshakes_total{status="failed"}') == 1, "it has failed")
    with announce(router, 16 * 1024), tls.connect(router.tls_port, certificate.context()) as good:
        assert ask(good).startswith(b"HTTP/1.1 200 ")
        assert metric(router, 'smart_router_tls_handshakes_total{status="failed"}') == 1
