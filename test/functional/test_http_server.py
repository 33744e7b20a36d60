"""The HTTP server by itself, spoken to over raw sockets.

Drives $BUILD_DIR/test/http-test-server, whose handlers do one thing each.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
if not BUILD.is_absolute():
    BUILD = ROOT / BUILD
PATIENCE = 20  # seconds until a test that hears nothing gives up


class Server:
    def __init__(self, read_ms=10000, write_ms=10000, idle_ms=10000, max_connections=1000, nofile=None):
        command = [str(BUILD / "test" / "http-test-server"), str(read_ms), str(write_ms), str(idle_ms), str(max_connections)]
        if nofile:
            command = ["prlimit", f"--nofile={nofile}", *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())

    def connect(self, host="127.0.0.1", receive_buffer=None):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(PATIENCE)
        sock.connect((host, self.port))
        return Client(sock)

    def stats(self):
        with self.connect() as client:
            client.send(request("GET", "/stats"))
            return client.answer().json()

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        """Ends it and makes sure that nothing was left open, leaked or broken."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, errors.decode()
        return errors.decode()


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class Client:
    def __init__(self, sock):
        self.sock = sock
        self.data = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def receive(self):
        piece = self.sock.recv(65536)
        self.data += piece
        return piece

    def until(self, mark):
        while mark not in self.data:
            assert self.receive(), f"closed after {self.data[:300]!r}"
        before, self.data = self.data.split(mark, 1)
        return before

    def take(self, count):
        while len(self.data) < count:
            assert self.receive(), "closed in the middle of a body"
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        match = re.fullmatch(r"HTTP/1\.1 (\d\d\d) [A-Za-z ]+", lines[0])
        assert match, lines[0]
        headers = {}
        for line in lines[1:]:
            name, value = line.split(": ", 1)
            assert name.lower() not in headers, f"{name} twice"
            headers[name.lower()] = value
        return int(match.group(1)), headers

    def answer(self, head_only=False):
        status, headers = self.head()
        if head_only or status in (100, 101, 204, 304):
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.until(b"\r\n"), 16):
                body += self.take(size)
                assert self.take(2) == b"\r\n"
            assert self.take(2) == b"\r\n"
            return Answer(status, headers, body)
        return Answer(status, headers, self.take(int(headers["content-length"])))

    def is_closed(self):
        """Waits for the end of the connection: nothing more may come, and it must be orderly."""
        assert self.data == b""
        assert self.sock.recv(65536) == b""
        return True


def request(method, target, headers=(), body=b"", version="HTTP/1.1"):
    lines = [f"{method} {target} {version}", "Host: test"]
    lines += headers
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def wait_for(check):
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def client(server):
    with server.connect() as client:
        yield client


# What is asked, and how it is answered


def test_a_request_arrives_as_it_was_sent(client):
    client.send(request("POST", "/echo?a=1&b=%20", ["x-ECHO:  spaced out \t"], b"hello"))
    answer = client.answer()
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", answer.headers["date"])
    assert "connection" not in answer.headers
    assert answer.json() == {
        "method": "POST", "path": "/echo", "query": "a=1&b=%20", "x_echo": "spaced out", "host": "test",
        "body": "hello", "route": "/echo", "id": None, "part": None, "rest": None, "peer": "127.0.0.1",
        "wants_upgrade": False,
    }  # fmt: skip


def test_an_empty_header_is_not_an_absent_one(client):
    client.send(request("GET", "/echo", ["X-Echo:"]))
    assert client.answer().json()["x_echo"] == ""
    client.send(request("GET", "/echo", ["X-Echo: \t "]))
    assert client.answer().json()["x_echo"] == ""
    client.send(request("GET", "/echo"))
    assert client.answer().json()["x_echo"] is None


def test_parameters_are_decoded(client):
    client.send(request("POST", "/items/a%2Fb/parts/%C3%A9/"))
    answer = client.answer().json()
    assert (answer["id"], answer["part"], answer["route"]) == ("a/b", "é", "/items/{id}/parts/{part}")
    client.send(request("GET", "/files/7/x/y%20z?q"))
    answer = client.answer().json()
    assert (answer["id"], answer["rest"], answer["query"]) == ("7", "x/y z", "q")


def test_a_hidden_nul_in_a_path_is_refused(client):
    client.send(request("GET", "/items/a%00b"))
    assert client.answer().status == 400


def test_the_peer_is_named_over_ipv6_too(server):
    if not pathlib.Path("/proc/net/if_inet6").exists() or not pathlib.Path("/proc/net/if_inet6").read_text():
        pytest.skip("this machine has no IPv6")
    with server.connect("::1") as client:
        client.send(request("GET", "/echo"))
        assert client.answer().json()["peer"] == "::1"


def test_an_absolute_target_is_taken_by_its_path(client):
    client.send(request("GET", "http://elsewhere:99/items/5?x=1"))
    answer = client.answer().json()
    assert (answer["path"], answer["id"], answer["query"]) == ("/items/5", "5", "x=1")


def test_an_unknown_path_is_404(client):
    client.send(request("GET", "/nowhere"))
    answer = client.answer()
    assert answer.status == 404
    assert answer.json() == {"success": False, "error": "no such path", "code": "not_found"}


@pytest.mark.parametrize("method", ["PATCH", "DELETE", "OPTIONS", "PROPFIND", "TRACE"])
def test_a_wrong_method_is_405_and_says_what_is_allowed(client, method):
    client.send(request(method, "/echo"))
    answer = client.answer()
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD, POST, PUT"
    assert answer.json() == {"success": False, "error": "method not allowed", "code": "method_not_allowed"}


@pytest.mark.parametrize("line", [b"OPTIONS * HTTP/1.1", b"CONNECT elsewhere:443 HTTP/1.1"])
def test_what_only_a_proxy_does_is_405(client, line):
    client.send(line + b"\r\nHost: test\r\n\r\nGET /echo HTTP/1.1\r\nHost: test\r\n\r\n")
    answer = client.answer()
    assert answer.status == 405
    assert "GET" in answer.headers["allow"]
    assert client.is_closed()


def test_head_has_the_length_but_no_body(client):
    client.send(request("HEAD", "/tiny") + request("GET", "/tiny"))
    head = client.answer(head_only=True)
    full = client.answer()
    assert head.status == full.status == 200
    assert head.headers["content-length"] == str(len(full.body))


def test_head_of_a_stream_has_no_body(client):
    client.send(request("HEAD", "/stream") + request("GET", "/tiny"))
    assert client.answer(head_only=True).status == 200
    assert client.answer().status == 200


@pytest.mark.parametrize("code", [204, 304])
def test_an_answer_without_body_has_no_length(client, code):
    client.send(request("GET", f"/status?code={code}") + request("GET", "/tiny"))
    answer = client.answer()
    assert answer.status == code
    assert "content-length" not in answer.headers
    assert client.answer().status == 200


def test_503_says_when_to_come_back(client):
    client.send(request("GET", "/status?code=503"))
    answer = client.answer()
    assert answer.headers["retry-after"] == "1"
    assert answer.json() == {"success": False, "error": 'told to "fail"', "code": "unavailable"}
    client.send(request("GET", "/status?code=503&retry=7"))
    assert client.answer().headers["retry-after"] == "7"


def test_a_header_of_an_answer_cannot_start_another(client):
    client.send(request("GET", "/status"))
    answer = client.answer()
    assert "x-injected" not in answer.headers
    assert answer.headers["x-odd"].startswith("a ")


@pytest.mark.parametrize(
    "code,name",
    [(400, "bad_request"), (401, "unauthorized"), (403, "forbidden"), (404, "not_found"), (409, "conflict"),
     (429, "rate_limited"), (500, "internal"), (501, "not_implemented")],
)  # fmt: skip
def test_an_error_has_the_code_of_its_status(client, code, name):
    client.send(request("GET", f"/status?code={code}"))
    answer = client.answer()
    assert (answer.status, answer.json()["code"]) == (code, name)


@pytest.mark.parametrize("value", ["a", "x" * 128, "trace-1:2/3_~!"])
def test_a_request_id_is_echoed(client, value):
    client.send(request("GET", "/tiny", [f"X-Request-ID: {value}"]))
    assert client.answer().headers["x-request-id"] == value


@pytest.mark.parametrize("value", ["", "x" * 129, "a b", 'a"b', "a\\b", "caf\xe9"])
def test_a_request_id_that_is_not_usable_is_replaced(client, value):
    client.send(request("GET", "/tiny", [f"X-Request-Id: {value}"]) + request("GET", "/tiny"))
    first = client.answer().headers["x-request-id"]
    second = client.answer().headers["x-request-id"]
    assert first != value and re.fullmatch("[0-9a-f]{24}", first)
    assert second != first


# Connections


def test_a_connection_is_kept(client):
    for _ in range(20):
        client.send(request("POST", "/echo", body=b"x" * 500))
        assert client.answer().status == 200


def test_connection_close_is_obeyed(client):
    client.send(request("GET", "/tiny", ["Connection: close"]))
    assert client.answer().headers["connection"] == "close"
    assert client.is_closed()


def test_http_1_0_closes_unless_asked_otherwise(server):
    with server.connect() as client:
        client.send(b"GET /tiny HTTP/1.0\r\n\r\n")
        assert client.answer().headers["connection"] == "close"
        assert client.is_closed()
    with server.connect() as client:
        for _ in range(3):
            client.send(b"GET /tiny HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert client.answer().headers["connection"] == "keep-alive"


@pytest.mark.parametrize("count", [1, 2, 50, 2000])
@pytest.mark.parametrize("path", ["/items/", "/delay?ms=0&n="])
def test_pipelined_requests_are_answered_in_order(server, count, path):
    if path.startswith("/delay"):
        count = min(count, 200)
    with server.connect() as client:
        data = b"".join(request("GET", f"{path}{i}") for i in range(count))
        sender = threading.Thread(target=client.send, args=(data,))
        sender.start()
        for i in range(count):
            answer = client.answer().json()
            assert (answer["path"] + "?" + answer["query"]).rstrip("?") == f"{path}{i}"
        sender.join()
        assert client.data == b""


def test_pipelined_bodies_do_not_run_together(client):
    bodies = [bytes([65 + i]) * (i * 700) for i in range(12)]
    client.send(b"".join(request("POST", "/delay?ms=2", body=body) for body in bodies))
    for body in bodies:
        assert client.answer().json()["body"] == body.decode()


def test_a_client_that_sends_ahead_without_end_is_made_to_wait(server):
    """While a handler works, the server reads no more than fits, and it all is answered afterwards."""
    with server.connect() as client:
        one = request("GET", "/tiny")
        count = 40000
        client.send(request("GET", "/delay?ms=300"))
        sender = threading.Thread(target=client.send, args=(one * count,))
        sender.start()
        assert client.answer().status == 200
        for _ in range(count):
            assert client.answer().status == 200
        sender.join()


def test_a_request_may_come_in_single_bytes(client):
    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    chunked = (b"POST /echo?q HTTP/1.1\r\nHost: test\r\nX-Echo: one byte\r\nTransfer-Encoding: chunked\r\n\r\n"
               b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nTrail: er\r\n\r\n")  # fmt: skip
    plain = request("POST", "/echo?q", ["X-Echo: one byte"], b"abcde")
    for data in (plain, chunked):
        for i in range(len(data)):
            client.send(data[i : i + 1])
            time.sleep(0.0005)
        answer = client.answer().json()
        assert (answer["body"], answer["x_echo"], answer["query"]) == ("abcde", "one byte", "q")


def test_every_cut_into_two_pieces_is_the_same_request(client):
    client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = (b"POST /items/9/parts/8?q=1 HTTP/1.1\r\nHost: test\r\nX-Echo: value\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nTrail: er\r\n\r\n")  # fmt: skip
    for cut in range(1, len(data)):
        client.send(data[:cut])
        time.sleep(0.001)
        client.send(data[cut:])
        answer = client.answer().json()
        assert (answer["body"], answer["x_echo"], answer["id"], answer["part"]) == ("abcde", "value", "9", "8")


def test_empty_lines_before_a_request_are_passed_over(client):
    client.send(b"\r\n\r\n" + request("GET", "/items/1") + b"\r\n" + request("GET", "/items/2"))
    assert client.answer().json()["id"] == "1"
    assert client.answer().json()["id"] == "2"


def test_who_closes_its_sending_side_still_gets_the_answers(client):
    client.send(request("GET", "/delay?ms=50") + request("GET", "/tiny") + request("GET", "/delay?ms=1"))
    client.sock.shutdown(socket.SHUT_WR)
    for _ in range(3):
        assert client.answer().status == 200
    assert client.is_closed()


def test_half_a_request_is_not_answered(client):
    client.send(b"GET /tiny HTTP/1.1\r\nHost: te")
    client.sock.shutdown(socket.SHUT_WR)
    assert client.is_closed()


def test_a_client_that_is_gone_does_not_disturb_the_handler(server):
    before = server.stats()
    for linger in (b"\1\0\0\0\0\0\0\0", None):
        client = server.connect()
        client.send(request("POST", "/delay?ms=150", body=b"x" * 20000) + request("GET", "/tiny"))
        if linger:
            time.sleep(0.05)
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)  # a reset
        client.sock.close()
    wait_for(lambda: server.stats()["gone"] > before["gone"])


# Bodies


@pytest.mark.parametrize("size", [0, 1, 4000, 4096, 65535, 65536])
def test_a_body_up_to_the_limit_is_taken(client, size):
    client.send(request("POST", "/echo", body=b"b" * size) + request("GET", "/tiny"))
    assert len(client.answer().json()["body"]) == size
    assert client.answer().status == 200


@pytest.mark.parametrize("piece", [1, 7, 1000, 65536])
def test_a_chunked_body_up_to_the_limit_is_taken(client, piece):
    body = bytes(97 + i % 26 for i in range(65536 if piece > 1 else 20000))
    data = b"".join(b"%x\r\n%s\r\n" % (len(body[i : i + piece]), body[i : i + piece]) for i in range(0, len(body), piece))
    client.send(request("POST", "/echo", ["Transfer-Encoding: Chunked"]) + data + b"0\r\n\r\n" + request("GET", "/tiny"))
    assert client.answer().json()["body"] == body.decode()
    assert client.answer().status == 200


def test_a_body_over_the_limit_is_413_before_it_is_sent(client):
    client.send(request("POST", "/echo", ["Content-Length: 65537"]))
    answer = client.answer()
    assert (answer.status, answer.json()["code"]) == (413, "too_large")
    assert answer.headers["connection"] == "close"
    assert client.is_closed()


def test_a_413_can_be_read_by_a_client_that_keeps_sending(client):
    client.send(request("POST", "/echo", ["Content-Length: 1000000"]))
    client.send(b"x" * 1000000)
    assert client.answer().status == 413
    assert client.is_closed()


def test_a_chunked_body_over_the_limit_is_413(client):
    client.send(request("POST", "/echo", ["Transfer-Encoding: chunked"]))
    for _ in range(9):
        client.send(b"2000\r\n" + b"x" * 0x2000 + b"\r\n")
    assert client.answer().status == 413
    assert client.is_closed()


def test_expect_is_answered_before_the_body(client):
    for encoding, body in (("Content-Length: 5", b"hello"), ("Transfer-Encoding: chunked", b"5\r\nhello\r\n0\r\n\r\n")):
        client.send(request("POST", "/echo", ["Expect: 100-continue", encoding]))
        assert client.answer().status == 100
        client.send(body)
        assert client.answer().json()["body"] == "hello"


def test_expect_is_not_answered_when_there_is_nothing_to_wait_for(client):
    client.send(request("POST", "/echo", ["Expect: 100-continue", "Content-Length: 5"]) + b"hello")
    assert client.answer().status == 200
    client.send(request("POST", "/echo", ["Expect: 100-continue", "Content-Length: 0"]))
    assert client.answer().status == 200
    client.send(request("POST", "/echo", ["Expect: 100-continue", "Content-Length: 70000"]))
    assert client.answer().status == 413
    assert client.is_closed()


def test_another_expectation_is_417(client):
    client.send(request("POST", "/echo", ["Expect: a miracle", "Content-Length: 5"]))
    answer = client.answer()
    assert (answer.status, answer.json()["code"]) == (417, "expectation_failed")
    assert client.is_closed()


# Limits of the header


def header_of(size):
    """A request whose line and headers have exactly that many bytes."""
    start = b"GET /tiny HTTP/1.1\r\nHost: test\r\nX-Fill: "
    return start + b"f" * (size - len(start) - 4) + b"\r\n\r\n"


def test_a_header_of_8_kib_is_taken(client):
    client.send(header_of(8192) + request("GET", "/tiny"))
    assert client.answer().status == 200
    assert client.answer().status == 200


@pytest.mark.parametrize("size", [8193, 9000, 200000])
def test_a_larger_header_is_431(client, size):
    client.send(header_of(size))
    answer = client.answer()
    assert (answer.status, answer.json()["code"]) == (431, "header_too_large")
    assert client.is_closed()


def test_a_header_without_end_is_431(client):
    client.send(b"GET /" + b"a" * 9000)
    assert client.answer().status == 431
    assert client.is_closed()


def test_empty_lines_without_end_are_refused(client):
    client.send(b"\r\n" * 5000)
    assert client.answer().status == 431
    assert client.is_closed()


def test_a_hundred_headers_are_taken_and_one_more_is_431(client):
    client.send(request("GET", "/tiny", [f"X-{i}: {i}" for i in range(99)]))
    assert client.answer().status == 200
    client.send(request("GET", "/tiny", [f"X-{i}: {i}" for i in range(100)]))
    assert client.answer().status == 431
    assert client.is_closed()


def test_connection_may_name_sixteen_things_and_no_more(server):
    """Each of them is compared with the name of each header that the gateway passes on: the product is what is bounded."""
    for lines in (["x," * 15 + "x"], ["Keep-Alive,Upgrade"] * 8, [""] * 16):
        with server.connect() as client:
            client.send(request("GET", "/tiny", [f"Connection: {line}" for line in lines]))
            assert client.answer().status == 200
    for lines in (["x," * 16 + "x"], ["," * 16], ["a,b"] * 8 + ["c"], [""] * 17, ["x," * 3800 + "x"]):
        with server.connect() as client:
            client.send(request("GET", "/tiny", [f"Connection: {line}" for line in lines]))
            answer = client.answer()
            assert (answer.status, answer.json()["error"]) == (400, "too many elements in Connection")
            assert client.is_closed()


def test_a_large_trailer_is_431(client):
    client.send(request("POST", "/echo", ["Transfer-Encoding: chunked"]) + b"0\r\nX: " + b"t" * 9000)
    assert client.answer().status == 431
    assert client.is_closed()


# Requests that two servers could understand differently

SMUGGLED = b"GET /items/smuggled HTTP/1.1\r\nHost: test\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nHost: test\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

ATTACKS = {
    "both length headers": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "both length headers, the other way round": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "conflicting lengths": POST + b"Content-Length: 5\r\nContent-Length: 0\r\n\r\nhello",
    "the same length twice": POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    "a list of lengths": POST + b"Content-Length: 5, 5\r\n\r\nhello",
    "a negative length": POST + b"Content-Length: -5\r\n\r\nhello",
    "a length with a sign": POST + b"Content-Length: +5\r\n\r\nhello",
    "a hexadecimal length": POST + b"Content-Length: 0x5\r\n\r\nhello",
    "a length with a space inside": POST + b"Content-Length: 1 0\r\n\r\nhello",
    "an empty length": POST + b"Content-Length:\r\n\r\nhello",
    "a length beyond 64 bits": POST + b"Content-Length: 18446744073709551621\r\n\r\nhello",
    "a space before the colon": POST + b"Content-Length : 5\r\n\r\nhello",
    "a tab before the colon": POST + b"Content-Length\t: 5\r\n\r\nhello",
    "a space before the colon of the encoding": POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a bare CR in a value": POST + b"X-Echo: a\rContent-Length: 5\r\n\r\nhello",
    "a bare CR at the end of a line": POST + b"X-Echo: a\rX-Two: b\r\n\r\n",
    "a bare CR in the request line": b"GET /echo\rx HTTP/1.1\r\nHost: test\r\n\r\n",
    "a NUL in a value": POST + b"X-Echo: a\0b\r\n\r\n",
    "a NUL in a name": POST + b"X-E\0cho: a\r\n\r\n",
    "a NUL in the target": b"GET /echo\0 HTTP/1.1\r\nHost: test\r\n\r\n",
    "two encodings": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "an encoding besides chunked": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunked and identity": POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello",
    "an unknown encoding": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a vertical tab before chunked": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a parameter of chunked": POST + b"Transfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
    "an encoding in HTTP/1.0": b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded header": POST + b"X-Echo: a\r\n b\r\n\r\n",
    "a folded header with a tab": POST + b"X-Echo: a\r\n\tb\r\n\r\n",
    "a folded header with an empty first line": POST + b"X-Echo:\r\n b\r\n\r\n",
    "a folded encoding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a folded length": POST + b"Content-Length:\r\n 5\r\n\r\nhello",
    "a first header that starts with a space": b"POST /echo HTTP/1.1\r\n Host: test\r\n\r\n",
    "a bare LF after the request line": b"GET /echo HTTP/1.1\nHost: test\r\n\r\n",
    "a bare LF after a header": b"GET /echo HTTP/1.1\r\nHost: test\nX-Echo: a\r\n\r\n",
    "a bare LF that hides a length": POST + b"X-Echo: a\nContent-Length: 5\r\n\r\nhello",
    "a bare LF at the end of the header": b"GET /echo HTTP/1.1\r\nHost: test\r\n\n",
    "only bare LFs": b"GET /echo HTTP/1.1\nHost: test\n\n",
    "a CR without LF at the end of the header": b"GET /echo HTTP/1.1\r\nHost: test\r\n\rX",
    "no Host": b"GET /echo HTTP/1.1\r\n\r\n",
    "two Hosts": b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    "a space in the target": b"GET /ec ho HTTP/1.1\r\nHost: test\r\n\r\n",
    "a tab in the target": b"GET /ec\tho HTTP/1.1\r\nHost: test\r\n\r\n",
    "a control character in the target": b"GET /ec\x01ho HTTP/1.1\r\nHost: test\r\n\r\n",
    "a DEL in the target": b"GET /ec\x7fho HTTP/1.1\r\nHost: test\r\n\r\n",
    "a byte above 127 in the target": b"GET /ec\xffho HTTP/1.1\r\nHost: test\r\n\r\n",
    "a fragment": b"GET /echo#x HTTP/1.1\r\nHost: test\r\n\r\n",
    "a target without a slash": b"GET echo HTTP/1.1\r\nHost: test\r\n\r\n",
    "an absolute target without a path": b"GET http://test HTTP/1.1\r\nHost: test\r\n\r\n",
    "no target": b"GET HTTP/1.1\r\nHost: test\r\n\r\n",
    "a colon as the first byte of a header": POST + b": a\r\n\r\n",
    "a header without a colon": POST + b"X-Echo\r\n\r\n",
    "a space in the name of a header": POST + b"X Echo: a\r\n\r\n",
    "a control character in a value": POST + b"X-Echo: a\x01b\r\n\r\n",
    "an unknown method": b"BREW /echo HTTP/1.1\r\nHost: test\r\n\r\n",
    "a method in lower case": b"get /echo HTTP/1.1\r\nHost: test\r\n\r\n",
    "something that is not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a chunk size that is not a number": CHUNKED + b"z\r\nhello\r\n0\r\n\r\n",
    "a negative chunk size": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "a chunk size with 0x": CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n",
    "an empty chunk size": CHUNKED + b"\r\nhello\r\n0\r\n\r\n",
    "a chunk size beyond 64 bits": CHUNKED + b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"4\r\nhello\r\n0\r\n\r\n",
    "a bare LF after the chunk size": CHUNKED + b"5\nhello\r\n0\r\n\r\n",
    "a bare LF after a chunk": CHUNKED + b"5\r\nhello\n0\r\n\r\n",
    "a bare CR in a chunk extension": CHUNKED + b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "a bare LF in a chunk extension": CHUNKED + b"5;a=b\nhello\r\n0\r\n\r\n",
    "a NUL in a chunk extension": CHUNKED + b"5;a\0\r\nhello\r\n0\r\n\r\n",
    "a bare LF at the end of the body": CHUNKED + b"5\r\nhello\r\n0\r\n\n",
    "a bare LF after the last chunk": CHUNKED + b"5\r\nhello\r\n0\n\r\n",
    "a bare LF after a trailer": CHUNKED + b"0\r\nX: y\n\r\n",
    "a bare LF between trailers": CHUNKED + b"0\r\nX: y\nZ: w\r\n\r\n",
    "a length in the trailer": CHUNKED + b"0\r\nContent-Length : 5\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("how", ["at once", "in single bytes"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_what_is_ambiguous_is_refused(client, attack, how):
    data = attack + SMUGGLED
    if how == "at once":
        client.send(data)
    else:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for i in range(len(data)):
                client.send(data[i : i + 1])
                if i % 8 == 0:
                    time.sleep(0.0002)
        except (BrokenPipeError, ConnectionResetError):
            pass
    answer = client.answer()
    assert (answer.status, answer.json()["code"]) == (400, "bad_request")
    assert answer.headers["connection"] == "close"
    assert client.is_closed()


@pytest.mark.parametrize(
    "data",
    [
        b"GET /echo HTTP/2.0\r\nHost: test\r\n\r\n",
        b"GET /echo HTTP/1.2\r\nHost: test\r\n\r\n",
        b"GET /echo HTTP/0.9\r\nHost: test\r\n\r\n",
        b"GET /echo\r\n\r\n",
        b"GET /echo RTSP/1.0\r\nHost: test\r\n\r\n",
        b"SOURCE /echo ICE/1.0\r\nHost: test\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_other_versions_are_505(client, data):
    client.send(data + SMUGGLED)
    answer = client.answer()
    assert (answer.status, answer.json()["code"]) == (505, "version_not_supported")
    assert client.is_closed()


def test_what_is_not_ambiguous_is_taken(client):
    """The attacks' harmless neighbours, so that the checks above are not merely a refusal of everything."""
    client.send(POST + b"content-length:\t5 \r\n\r\nhello")
    assert client.answer().json()["body"] == "hello"
    client.send(POST + b"transfer-encoding:CHUNKED\r\n\r\n0005;flag;q=\"a;b\"\r\nhello\r\n0\r\nX: y\r\n\r\n")
    assert client.answer().json()["body"] == "hello"


# Slow clients


def test_a_slow_header_is_408(make_server):
    server = make_server(read_ms=300)
    with server.connect() as client:
        client.send(b"GET /tiny HTTP/1.1\r\n")
        stop = threading.Event()

        def drip():
            while not stop.wait(0.05):
                try:
                    client.send(b"X: y\r\n")
                except OSError:
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        answer = client.answer()
        stop.set()
        dripping.join()
        assert (answer.status, answer.json()["code"]) == (408, "timeout")
        assert answer.headers["connection"] == "close"
        assert client.is_closed()


@pytest.mark.parametrize("encoding,piece", [("Content-Length: 5000", b"x"), ("Transfer-Encoding: chunked", b"1\r\nx\r\n")])
def test_a_slow_body_is_408(make_server, encoding, piece):
    server = make_server(read_ms=300)
    with server.connect() as client:
        client.send(request("POST", "/echo", [encoding]) + piece)
        time.sleep(0.1)
        client.send(piece)
        answer = client.answer()
        assert answer.status == 408
        assert "body" in answer.json()["error"]
        assert client.is_closed()


def test_the_body_has_as_long_again_as_the_header(make_server):
    server = make_server(read_ms=3000)
    with server.connect() as client:
        data = request("POST", "/echo", body=b"hello")
        client.send(data[:10])
        time.sleep(2)
        client.send(data[10:-1])
        time.sleep(2)
        client.send(data[-1:])
        assert client.answer().json()["body"] == "hello"


def test_a_slow_second_request_is_408_too(make_server):
    server = make_server(read_ms=300)
    with server.connect() as client:
        client.send(request("GET", "/tiny") + b"GET /tiny HT")
        assert client.answer().status == 200
        assert client.answer().status == 408


def test_a_slow_handler_is_not_the_clients_fault(make_server):
    server = make_server(read_ms=200, write_ms=200, idle_ms=200)
    with server.connect() as client:
        client.send(request("GET", "/delay?ms=900"))
        assert client.answer().status == 200


def test_an_idle_connection_is_closed_without_a_word(make_server):
    server = make_server(idle_ms=300)
    with server.connect() as fresh, server.connect() as used:
        used.send(request("GET", "/tiny"))
        assert used.answer().status == 200
        assert used.is_closed()
        assert fresh.is_closed()
    wait_for(lambda: server.stats()["connections"] == 1)


@pytest.mark.parametrize("path", ["/large?bytes=8000000", "/stream?chunks=1000&size=60000"])
def test_a_client_that_does_not_read_is_cut_off(make_server, path):
    server = make_server(write_ms=300)
    with server.connect(receive_buffer=4096) as client:
        client.send(request("GET", path))
        wait_for(lambda: server.stats()["connections"] == 1)
        with pytest.raises((ConnectionResetError, AssertionError)):
            client.answer()


# Large and streamed answers


@pytest.mark.parametrize("path", ["/large?bytes=60000", "/tiny"])
def test_a_client_that_only_asks_is_cut_off(make_server, path):
    """Pipelines without end and never reads, with the smallest window that there is."""
    server = make_server(write_ms=200)
    client = server.connect(receive_buffer=1)
    client.sock.settimeout(0.5)
    with pytest.raises(ConnectionError):
        while True:
            try:
                client.sock.send(request("GET", path) * 100)
            except TimeoutError:
                pass  # it is made to wait, until its time is over
    assert server.stats()["connections"] == 1


def test_a_client_that_reads_byte_by_byte_is_cut_off(make_server):
    server = make_server(write_ms=300)
    client = server.connect(receive_buffer=1)
    client.send(request("GET", "/large?bytes=8000000"))
    with pytest.raises(ConnectionResetError):
        while client.sock.recv(1):
            time.sleep(0.001)


def test_a_large_answer_arrives_whole(client):
    client.send(request("GET", "/large?bytes=8000000") + request("GET", "/tiny"))
    assert client.answer().body == b"x" * 8000000
    assert client.answer().status == 200


def test_a_large_answer_to_a_slow_reader_arrives_whole(server):
    with server.connect(receive_buffer=4096) as client:
        client.send(request("GET", "/large?bytes=3000000") + request("GET", "/items/2"))
        time.sleep(0.2)
        assert client.answer().body == b"x" * 3000000
        assert client.answer().json()["id"] == "2"


@pytest.mark.parametrize("chunks", [0, 1, 100])
def test_a_stream_is_chunked_and_the_connection_goes_on(server, client, chunks):
    closed = server.stats()["streams_closed"]
    client.send(request("GET", f"/stream?chunks={chunks}&size=1000") + request("GET", "/tiny"))
    answer = client.answer()
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.body == b"s" * 1000 * chunks
    assert client.answer().status == 200
    assert server.stats()["streams_closed"] == closed + 1


def test_a_stream_ends_with_the_connection_in_http_1_0(client):
    client.send(b"GET /stream?chunks=5&size=10 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    status, headers = client.head()
    assert (status, headers["connection"]) == (200, "close")
    assert "transfer-encoding" not in headers
    assert client.take(50) == b"s" * 50
    assert client.is_closed()


def test_a_stream_waits_for_a_slow_reader(server):
    before = server.stats()
    with server.connect(receive_buffer=4096) as client:
        client.send(request("GET", "/stream?chunks=500&size=20000"))
        wait_for(lambda: server.stats()["stream_agains"] > before["stream_agains"])
        assert client.answer().body == b"s" * 20000 * 500
    wait_for(lambda: server.stats()["streams_closed"] == before["streams_closed"] + 1)


def test_a_stream_notices_that_the_client_has_gone(server):
    before = server.stats()
    with server.connect() as client:
        client.send(request("GET", "/stream?ms=3600000"))
        client.head()
    wait_for(lambda: server.stats()["streams_closed"] == before["streams_closed"] + 1)


# Upgrades

UPGRADE = ["Connection: keep-alive, Upgrade", "Upgrade: echo"]


@pytest.mark.parametrize("ms", [0, 30])
@pytest.mark.parametrize("early", [b"", b"early bytes", b"e" * 3000])
def test_an_upgrade_hands_over_the_connection_and_what_came_early(server, ms, early):
    with server.connect() as client:
        client.send(request("GET", f"/upgrade?ms={ms}", UPGRADE) + early)
        assert client.answer().status == 101
        assert client.take(len(early)) == early
        client.send(b"more\0bytes")
        assert client.take(10) == b"more\0bytes"


def test_an_upgraded_connection_is_no_longer_counted(server):
    before = server.stats()["connections"]
    with server.connect() as client:
        client.send(request("GET", "/upgrade", UPGRADE))
        assert client.answer().status == 101
        assert server.stats()["connections"] == before


@pytest.mark.parametrize("kind", ["echo", "h2c", "websocket"])
def test_a_declined_upgrade_is_an_ordinary_request(client, kind):
    headers = ["Connection: Upgrade, HTTP2-Settings", f"Upgrade: {kind}", "HTTP2-Settings: AAA"]
    client.send(request("POST", "/echo", headers, b"body") + request("GET", "/items/2"))
    answer = client.answer().json()
    assert (answer["wants_upgrade"], answer["body"]) == (True, "body")
    assert client.answer().json()["id"] == "2"


def test_an_upgrade_without_the_connection_header_is_none(client):
    client.send(request("GET", "/upgrade", ["Upgrade: echo"]))
    assert client.answer().status == 426


def test_a_client_gone_before_its_upgrade_is_survived(server):
    before = server.stats()
    client = server.connect()
    client.send(request("GET", "/upgrade?ms=100", UPGRADE))
    time.sleep(0.03)
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.sock.close()
    wait_for(lambda: server.stats()["gone"] == before["gone"] + 1)


# Many connections


def fill(server, count):
    """Takes that many connections, all of which are being served until they are closed. Idle ones would make room."""
    clients = [server.connect() for _ in range(count)]
    for client in clients:
        client.send(request("GET", "/tiny") + request("GET", "/wait"))
        assert client.answer().status == 200
    return clients


def close_all(clients):
    for client in clients:
        client.sock.close()


def has_room(server):
    with server.connect() as client:
        client.send(request("GET", "/tiny"))
        return client.answer().status == 200


def is_refusal(answer):
    assert (answer.status, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["connection"] == "close"
    return True


def test_connections_over_the_limit_get_503(make_server):
    server = make_server(max_connections=10)
    clients = fill(server, 10)
    over = [server.connect() for _ in range(100)]
    for client in over[:50]:
        client.send(request("POST", "/echo", body=b"x" * 1000))
        assert is_refusal(client.answer())
        assert client.is_closed()
    for client in over[50:]:
        assert is_refusal(client.answer())  # their time is over
    clients.pop().sock.close()
    close_all(over)
    wait_for(lambda: has_room(server))
    wait_for(lambda: server.stats().get("refused", 0) >= 100)  # the connection before it may still count
    for client in clients:  # they are still being served
        client.sock.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.sock.recv(1)
    close_all(clients)


def test_a_vital_path_is_answered_over_the_limit(make_server):
    server = make_server(max_connections=3)
    clients = fill(server, 3)
    silent = [server.connect() for _ in range(50)]
    for data in (request("GET", "/vital"), request("POST", "/vital/7", body=b"x" * 9000)):
        with server.connect() as client:
            client.send(data)
            answer = client.answer()
            assert (answer.status, answer.headers["connection"]) == (200, "close")
            assert client.is_closed()
    with server.connect() as client:
        client.send(request("HEAD", "/vital"))
        assert client.answer(head_only=True).status == 200
    for data in (request("PUT", "/vital"), request("GET", "/vitals"), b"OPTIONS * HTTP/1.1\r\nHost: test\r\n\r\n"):
        with server.connect() as client:
            client.send(data)
            assert is_refusal(client.answer())
    close_all(clients + silent)


def test_who_says_nothing_over_the_limit_is_sent_away(make_server):
    server = make_server(max_connections=1)
    clients = fill(server, 1)
    silent, trickling = server.connect(), server.connect()
    trickling.send(b"GET /vital HTTP/1.1\r\n")
    for client in (silent, trickling):
        assert is_refusal(client.answer())
        assert client.is_closed()
    close_all(clients)


def test_a_flood_over_the_limit_sends_away_the_oldest(make_server):
    server = make_server(max_connections=1)
    clients = fill(server, 1)
    flood = [server.connect() for _ in range(256 + 20)]
    for client in flood[:20]:
        assert is_refusal(client.answer())
    for client in flood[-3:]:
        client.send(request("GET", "/vital"))
        assert client.answer().status == 200
    close_all(clients + flood)


def test_who_asked_in_time_is_answered_however_many_come_after(make_server):
    server = make_server(max_connections=1)
    clients = fill(server, 1)
    server.process.send_signal(signal.SIGSTOP)
    early = [server.connect() for _ in range(2)]
    early[0].send(request("GET", "/vital"))
    early[1].send(request("GET", "/tiny"))
    flood = [server.connect() for _ in range(400)]
    server.process.send_signal(signal.SIGCONT)
    assert early[0].answer().status == 200
    assert is_refusal(early[1].answer())
    close_all(clients + early + flood)


def test_large_requests_are_bounded_all_together(make_server):
    """Each may have 64 KiB; as many at once as there may be connections would be far more than a process has."""
    server = make_server(read_ms=600000)
    piece = b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 65536\r\n\r\n" + b"x" * 60000
    large = []
    for _ in range(600):
        large.append(server.connect())
        large[-1].send(piece)

    def is_taken(client):
        try:
            client.send(b"x" * 5536)
            answer = client.answer()
        except ConnectionError:  # its 503 is some time ago
            return False
        return answer.status == 200 or not is_refusal(answer)

    # The last ones were refused, or the first ones if it took so long that they had to make room.
    taken = [is_taken(client) for client in large]
    assert 400 < sum(taken) < 600
    close_all(large)
    wait_for(lambda: server.stats()["connections"] == 1)
    with server.connect() as client:
        client.send(request("POST", "/echo", body=b"x" * 65536))
        assert client.answer().status == 200


def test_large_requests_that_do_not_go_on_make_room_for_others(make_server):
    server = make_server(read_ms=600000)
    piece = b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 65536\r\n\r\n" + b"x" * 60000
    large = [server.connect() for _ in range(600)]
    for client in large:
        client.send(piece)

    def is_taken():
        with server.connect() as client:
            client.send(request("POST", "/echo", body=b"x" * 60000))
            return client.answer().status == 200

    wait_for(is_taken)
    assert is_refusal(large[0].answer())
    close_all(large)


def test_a_body_that_was_announced_and_did_not_come_takes_no_room(make_server):
    """5,000 bytes of 64 KiB each: together far less than all may have, announced far more."""
    server = make_server()
    piece = b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 65536\r\n\r\n" + b"x" * 4000
    slow = [server.connect() for _ in range(800)]
    for client in slow:
        client.send(piece)
    wait_for(lambda: server.stats()["connections"] == len(slow) + 1)
    for client in slow:
        client.send(b"x" * 1000)
    assert server.stats()["connections"] == len(slow) + 1
    for size in (8192, 65536):
        with server.connect() as client:
            client.send(request("POST", "/echo", body=b"x" * size))
            assert client.answer().status == 200
    slow[0].send(b"x" * (65536 - 5000))
    assert slow[0].answer().json()["body"] == "x" * 65536
    close_all(slow)


def test_answers_that_are_not_read_are_bounded_all_together(make_server):
    server = make_server(write_ms=60000)
    clients = [server.connect() for _ in range(20)]
    for client in clients:
        client.send(request("GET", "/large?bytes=8000000"))
        client.head()
    with pytest.raises(ConnectionResetError):
        while clients[0].sock.recv(65536):
            pass
    assert len(clients[-1].take(8000000)) == 8000000
    clients[-1].send(request("GET", "/tiny"))
    assert clients[-1].answer().status == 200
    close_all(clients)


def test_running_out_of_descriptors_does_not_stop_or_spin(make_server):
    server = make_server(nofile=40)
    clients = []
    for _ in range(80):
        clients.append(server.connect())
    before = server.cpu_seconds()
    time.sleep(0.5)
    assert server.cpu_seconds() - before < 0.25
    with server.connect() as client:
        client.send(request("GET", "/vital"))
        assert client.answer().status == 200
    close_all(clients)

    def answers():
        try:
            return server.stats()["connections"] == 1
        except (OSError, AssertionError):
            return False

    wait_for(answers)
    assert server.stop().count("descriptors are nearly used up: more connections are refused") == 1


def test_idle_connections_cost_little_memory(make_server):
    server = make_server(max_connections=2000)

    def resident():
        text = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024

    clients = [server.connect() for _ in range(100)]
    server.stats()
    before = resident()
    clients += [server.connect() for _ in range(800)]
    for client in clients:
        client.send(request("GET", "/tiny"))
        assert client.answer().status == 200
    server.stats()
    # A buffer of 4 KiB for each would already be too much. Sanitizers surround every piece of memory.
    limit = 2000 if "asan" not in pathlib.Path(f"/proc/{server.process.pid}/maps").read_text() else 6000
    assert (resident() - before) / 800 < limit
    for client in clients:
        client.sock.close()


# The end


def test_a_drain_finishes_what_is_in_flight(make_server):
    server = make_server()
    working, idle, reading = server.connect(), server.connect(), server.connect()
    idle.send(request("GET", "/tiny"))
    assert idle.answer().status == 200
    reading.send(b"POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: 5\r\n\r\nhe")
    working.send(request("GET", "/delay?ms=300"))
    time.sleep(0.1)
    server.process.send_signal(signal.SIGTERM)
    assert idle.is_closed()
    with pytest.raises(ConnectionRefusedError):
        server.connect()
    reading.send(b"llo")
    answer = reading.answer()
    assert (answer.json()["body"], answer.headers["connection"]) == ("hello", "close")
    assert reading.is_closed()
    answer = working.answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert working.is_closed()
    assert server.process.wait(timeout=PATIENCE) == 0


def test_an_end_at_once_waits_only_for_handlers(make_server):
    server = make_server()
    clients = [server.connect() for _ in range(6)]
    clients[0].send(request("GET", "/delay?ms=200"))
    clients[1].send(request("GET", "/stream?ms=3600000"))
    clients[2].send(request("GET", "/large?bytes=8000000"))
    clients[3].send(b"GET /tiny HT")
    # Long after the end on any machine: once it is upgraded, the connection is the handler's and stays.
    clients[4].send(request("GET", "/upgrade?ms=2000", UPGRADE))
    time.sleep(0.1)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.02)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(timeout=PATIENCE) == 0
    for client in clients:
        client.sock.close()
