"""The client of the Kubernetes API by itself, against a scripted server and against nginx for HTTP/2.

Drives $BUILD_DIR/test/k8s-driver: one client at the end of a pipe, whose lines k8s_driver.c explains.
"""

import base64
import email.utils
import json
import os
import pathlib
import queue
import signal
import socket
import subprocess
import threading
import time

import pytest
from basics import free_port
from scripted_kube import (
    PATIENCE,
    Authority,
    ScriptedKube,
    answer,
    cut,
    garbage,
    half,
    silence,
    slow,
    status_object,
    stream,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
if not BUILD.is_absolute():
    BUILD = ROOT / BUILD
TOKEN = "token-that-nobody-may-see"
LONG_MS = PATIENCE * 1000


class Driver:
    """The driver's process. An exit code other than 0, or a sanitizer's report, fails the test."""

    def __init__(self, directory, *arguments, env=None):
        self.log_path = pathlib.Path(directory) / "driver.log"
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        environment.update(env or {})
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [str(BUILD / "test" / "k8s-driver"), *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )
        self.events = queue.Queue()
        self.seen = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.events.put(json.loads(line))
        self.events.put(None)

    def say(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def next(self, event=None, id=None):
        """The next event; which one it must be may be said."""
        got = self.events.get(timeout=PATIENCE)
        assert got is not None, "the driver ended: " + self.log()
        self.seen.append(got)
        assert event is None or got["event"] == event, got
        assert id is None or got["id"] == id, got
        return got

    def text(self, id, wanted):
        """Data of a stream until they are what is wanted."""
        text = ""
        while len(text) < len(wanted):
            text += self.next("data", id)["text"]
        assert text == wanted

    def send(self, id, path, method="GET", timeout_ms=LONG_MS, body_max=65536, body=""):
        self.say("send", id, method, path, timeout_ms, body_max, *([body] if body else []))

    def get(self, path, **options):
        self.send("get", path, **options)
        return self.next("done", "get")

    def stream(self, id, path, timeout_ms=LONG_MS, stall_ms=LONG_MS):
        self.say("stream", id, path, timeout_ms, stall_ms)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def finish(self, has_closed=False):
        """Closes the client; what comes before `closed` is given back."""
        rest = []
        if not has_closed:
            self.process.stdin.close()
            while (event := self.next())["event"] != "closed":
                rest.append(event)
        assert self.process.wait(PATIENCE) == 0, self.log()
        self._reader.join(PATIENCE)
        assert self.events.get(timeout=PATIENCE) is None, "something came after `closed`"
        assert TOKEN not in self.log()
        assert TOKEN not in json.dumps([{**event, "body": ""} for event in self.seen])
        return rest

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def drive(tmp_path):
    drivers = []

    def start(*arguments, **options):
        directory = tmp_path / f"driver-{len(drivers)}"
        directory.mkdir()
        drivers.append(Driver(directory, *arguments, **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.kill()


@pytest.fixture
def server():
    with ScriptedKube() as scripted:
        yield scripted


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def account(tmp_path, authority):
    """A service account's directory."""
    directory = tmp_path / "account"
    directory.mkdir()
    (directory / "ca.crt").write_bytes(authority.ca.read_bytes())
    (directory / "token").write_text(TOKEN + "-1\n")
    (directory / "namespace").write_text("voice")
    return directory


def kubeconfig(directory, cluster, user=None):
    """JSON is YAML."""
    path = directory / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "current-context": "test",
                "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": cluster}],
                "users": [{"name": "u", "user": user or {}}],
            }
        )
    )
    return path


def in_base64(path):
    return base64.b64encode(path.read_bytes()).decode()


# ---- what is sent and what is answered ----


def test_each_method_sends_what_it_should(drive, server):
    server.on("/p", answer(201, {"ok": True}))
    driver = drive("url", server.url)
    for method in ("GET", "POST", "PUT", "PATCH"):
        driver.send(method, "/p?a=b%20c&d=../e", method=method, body="" if method == "GET" else '{"x":1}')
        done = driver.next("done", method)
        assert (done["err"], done["status"], done["body"]) == ("", 201, '{"ok": true}')
    driver.finish()
    types = []
    for request in server.requests:
        assert request.query == "a=b%20c&d=../e"
        assert request.headers["accept"] == "application/json"
        assert request.headers["user-agent"].startswith("smart-router/")
        assert "expect" not in request.headers and "authorization" not in request.headers
        assert request.body == (b"" if request.method == "GET" else b'{"x":1}')
        types.append((request.method, request.headers.get("content-type")))
    assert types == [
        ("GET", None),
        ("POST", "application/json"),
        ("PUT", "application/json"),
        ("PATCH", "application/merge-patch+json"),
    ]
    assert server.connections == 1


def test_the_path_of_the_servers_url_comes_first(drive, server):
    server.on("/prefix/p", answer(200, b"found"))
    driver = drive("url", server.url + "/prefix/")
    assert driver.get("/p")["body"] == "found"
    driver.finish()


def test_a_put_without_a_body_is_a_put(drive, server):
    server.on("/p", answer(200))
    driver = drive("url", server.url)
    assert driver.get("/p", method="PUT")["status"] == 200
    driver.finish()
    assert [(request.method, request.body) for request in server.requests] == [("PUT", b"")]


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422, 500, 503, 504])
def test_a_refusal_is_an_answer_with_its_body(drive, server, code):
    server.on("/p", status_object(code, "Because"))
    driver = drive("url", server.url)
    done = driver.get("/p")
    assert (done["err"], done["status"], json.loads(done["body"])["reason"]) == ("", code, "Because")
    assert done["retry_after_ms"] == 0
    driver.finish()


def test_retry_after_is_told_in_both_its_forms(drive, server):
    date = email.utils.formatdate(time.time() + 100, usegmt=True)
    past = email.utils.formatdate(time.time() - 100, usegmt=True)
    server.on(
        "/p",
        answer(429, retry_after="7"),
        answer(503, retry_after=date),
        answer(503, retry_after=past),
        answer(429, retry_after="soon"),
        answer(429, retry_after="99999999"),
    )
    driver = drive("url", server.url)
    assert driver.get("/p")["retry_after_ms"] == 7000
    assert 10_000 < driver.get("/p")["retry_after_ms"] <= 30_000
    assert driver.get("/p")["retry_after_ms"] == 0
    assert driver.get("/p")["retry_after_ms"] == 0
    assert driver.get("/p")["retry_after_ms"] == 30_000
    driver.finish()


def test_a_redirect_is_not_followed(drive, server):
    server.on("/p", answer(302, Location=f"{server.url}/elsewhere"))
    driver = drive("url", server.url)
    assert driver.get("/p")["status"] == 302
    driver.finish()
    assert not server.asked("/elsewhere")


def test_a_body_may_be_as_long_as_the_limit_and_no_longer(drive, server):
    server.on("/p", answer(200, b"x" * 100_000))
    driver = drive("url", server.url)
    done = driver.get("/p", body_max=100_000)
    assert (done["err"], done["len"]) == ("", 100_000)
    done = driver.get("/p", body_max=99_999)
    assert done["err"] == "EMSGSIZE" and "99999" in done["error"]
    driver.finish()


def test_a_refused_stream_has_a_limit_as_well(drive, server):
    server.on("/w", answer(500, b"x" * 65_537), answer(500, b"x" * 65_536))
    driver = drive("url", server.url)
    driver.stream("w", "/w")
    assert driver.next("done", "w")["err"] == "EMSGSIZE"
    driver.stream("w", "/w")
    done = driver.next("done", "w")
    assert (done["err"], done["status"], done["len"]) == ("", 500, 65_536)
    driver.finish()


def test_there_is_a_limit_to_what_is_under_way(drive, server):
    server.on("/p", silence)
    driver = drive("url", server.url)
    for number in range(65):
        driver.send(number, "/p")
    refused = driver.next("refused", "64")
    assert refused["err"] == "EBUSY"
    driver.say("cancel", 7)
    driver.send("again", "/p")
    assert driver.finish() == []


# ---- failures ----


def test_a_refused_connection_is_told_as_such(drive):
    port = free_port()
    driver = drive("url", f"http://127.0.0.1:{port}")
    done = driver.get("/p?secret=1")
    assert (done["err"], done["status"], done["body"]) == ("ECONNREFUSED", 0, "")
    assert f"GET http://127.0.0.1:{port}/p:" in done["error"] and "secret" not in done["error"]
    driver.finish()


def test_a_name_that_does_not_exist_is_told_as_such(drive):
    driver = drive("url", "http://nowhere.invalid:1")
    assert driver.get("/p")["err"] == "EHOSTUNREACH"
    driver.finish()


@pytest.mark.parametrize("step", [cut, half(200, b"half an answ"), stream([b'{"half'], end="cut")])
def test_a_broken_connection_is_told_as_such(drive, server, step):
    server.on("/p", step)
    driver = drive("url", server.url)
    assert driver.get("/p")["err"] == "ECONNRESET"
    server.on("/p", answer(200, b"back"))
    assert driver.get("/p")["body"] == "back"
    driver.finish()


def test_what_is_no_http_is_told_as_such(drive, server):
    server.on("/p", garbage)
    driver = drive("url", server.url)
    assert driver.get("/p")["err"] == "EPROTO"
    driver.finish()


def test_silence_ends_a_request_and_its_connection(drive, server):
    server.on("/p", silence, answer(200, b"here again"))
    driver = drive("url", server.url)
    done = driver.get("/p", timeout_ms=150)
    assert done["err"] == "ETIMEDOUT" and "150 ms" in done["error"]
    assert server.hung_up.wait(PATIENCE)
    assert driver.get("/p")["body"] == "here again"
    assert [request.connection for request in server.requests] == [1, 2]
    driver.finish()


def test_a_slow_body_does_not_outlive_the_time_for_all_of_it(drive, server):
    server.on("/p", stream([b"x"] * 3, end="hang"))
    driver = drive("url", server.url)
    assert driver.get("/p", timeout_ms=150)["err"] == "ETIMEDOUT"
    driver.finish()


def test_a_connection_that_the_server_closed_meanwhile_is_no_failure(drive, server):
    server.on("/p", answer(200, b"1", Connection="close"), answer(200, b"2"))
    driver = drive("url", server.url)
    assert driver.get("/p")["body"] == "1"
    assert driver.get("/p")["body"] == "2"
    driver.finish()


# ---- streams ----


def test_a_stream_tells_each_piece_and_its_end(drive, server):
    gates = [threading.Event() for _ in range(2)]
    server.on("/w", stream([b'{"a":', gates[0], b"1}", gates[1], b"{}"]))
    driver = drive("url", server.url)
    driver.stream("w", "/w")
    driver.text("w", '{"a":')
    gates[0].set()
    driver.text("w", "1}")
    gates[1].set()
    driver.text("w", "{}")
    done = driver.next("done", "w")
    assert (done["err"], done["status"], done["body"]) == ("", 200, "")
    driver.finish()


def test_a_long_stream_arrives_whole(drive, server):
    pieces = [bytes([ord("a") + number % 26]) * 30_000 for number in range(300)]
    server.on("/w", stream(pieces))
    driver = drive("url", server.url)
    driver.stream("w", "/w")
    driver.text("w", b"".join(pieces).decode())
    assert driver.next("done", "w")["err"] == ""
    driver.finish()


def test_a_stream_that_breaks_has_a_status_and_an_error(drive, server):
    gate = threading.Event()
    server.on("/w", stream([b"{}", gate], end="cut"))
    driver = drive("url", server.url)
    driver.stream("w", "/w")
    driver.text("w", "{}")
    gate.set()
    done = driver.next("done", "w")
    assert (done["err"], done["status"]) == ("ECONNRESET", 200)
    driver.finish()


def test_a_refused_stream_is_answered_as_a_request(drive, server):
    server.on("/w", status_object(410, "Expired"))
    driver = drive("url", server.url)
    driver.stream("w", "/w")
    done = driver.next("done", "w")
    assert (done["err"], done["status"], json.loads(done["body"])["reason"]) == ("", 410, "Expired")
    driver.finish()


def test_a_stream_without_a_head_times_out(drive, server):
    server.on("/w", silence)
    driver = drive("url", server.url)
    driver.stream("w", "/w", timeout_ms=150)
    done = driver.next("done", "w")
    assert (done["err"], done["status"]) == ("ETIMEDOUT", 0)
    driver.finish()


def test_a_stream_that_stalls_is_ended(drive, server):
    server.on("/w", stream([b"{}"], end="hang"))
    driver = drive("url", server.url)
    driver.stream("w", "/w", stall_ms=1000)
    driver.text("w", "{}")
    done = driver.next("done", "w")
    assert (done["err"], done["status"]) == ("ETIMEDOUT", 200) and "1000 ms" in done["error"]
    assert server.hung_up.wait(PATIENCE)
    driver.finish()


def test_the_time_for_the_head_does_not_end_a_stream_that_has_one(drive, server):
    gate = threading.Event()
    server.on("/w", stream([gate, b"late"]))
    driver = drive("url", server.url)
    driver.stream("w", "/w", timeout_ms=1000)
    server.on("/p", silence)
    assert driver.get("/p", timeout_ms=1300)["err"] == "ETIMEDOUT"
    gate.set()
    driver.text("w", "late")
    assert driver.next("done", "w")["err"] == ""
    driver.finish()


# ---- cancelling and closing ----


def test_a_cancelled_request_is_never_heard_of_again(drive, server):
    server.on("/p", silence)
    server.on("/q", answer(200, b"q"))
    driver = drive("url", server.url)
    driver.say("send p GET /p 100 100\ncancel p")  # at once: it has not even been connected
    driver.send("p", "/p")
    while not server.asked("/p"):
        time.sleep(0.001)
    driver.say("cancel", "p")
    assert driver.get("/p", timeout_ms=300)["err"] == "ETIMEDOUT"
    assert driver.get("/q")["body"] == "q"
    assert driver.finish() == []


def test_a_stream_may_be_cancelled_in_its_own_data(drive, server):
    server.on("/w", stream([b"one"], end="hang"), stream([b"two"]))
    driver = drive("url", server.url)
    driver.say("in data w cancel w")
    driver.stream("w", "/w")
    driver.text("w", "one")
    driver.stream("w", "/w")
    driver.text("w", "two")
    assert driver.next("done", "w")["status"] == 200
    driver.finish()


def test_others_may_be_cancelled_and_asked_in_a_callback(drive, server):
    gate = threading.Event()
    server.on("/w", stream([b"go", gate]))
    server.on("/p", silence)
    server.on("/q", answer(200, b"q"))
    driver = drive("url", server.url)
    driver.send("p", "/p")
    driver.say("in data w cancel p")
    driver.say("in data w send q GET /q 10000 100")
    driver.say("in done q send r GET /q 10000 100")
    driver.stream("w", "/w")
    driver.text("w", "go")
    assert driver.next("done", "q")["body"] == "q"
    assert driver.next("done", "r")["body"] == "q"
    gate.set()
    driver.next("done", "w")
    assert driver.finish() == []


@pytest.mark.parametrize("kind", ["data", "done"])
def test_the_client_may_be_closed_in_a_callback(drive, server, kind):
    server.on("/w", stream([b"go"], end="finish" if kind == "done" else "hang"))
    server.on("/p", silence)
    driver = drive("url", server.url)
    driver.send("p", "/p")
    driver.say(f"in {kind} w close")
    driver.stream("w", "/w")
    driver.text("w", "go")
    if kind == "done":
        driver.next("done", "w")
    driver.next("closed")
    driver.finish(has_closed=True)


def test_closing_ends_what_is_under_way_without_a_word(drive, server):
    server.on("/p", silence)
    server.on("/w", stream([b"x"], end="hang"))
    driver = drive("url", server.url)
    driver.stream("w", "/w")
    driver.text("w", "x")
    for number in range(10):
        driver.send(number, "/p")
    assert driver.finish() == []


def test_a_client_that_never_asked_can_be_closed(drive, server):
    assert drive("url", server.url).finish() == []
    assert server.connections == 0


def test_closing_does_not_wait_for_a_name(drive):
    driver = drive("url", "http://nowhere.invalid:1")
    driver.send("p", "/p")
    for event in driver.finish():
        assert event["err"] == "EHOSTUNREACH"


# ---- TLS ----


def test_the_server_is_verified_by_the_given_authority(drive, tmp_path, authority):
    with ScriptedKube(tls=authority.issue("good")) as server:
        server.on("/p", answer(200, b"verified"))
        for cluster in (
            {"server": server.url, "certificate-authority-data": in_base64(authority.ca)},
            {"server": server.url, "certificate-authority": str(authority.ca)},
            {"server": server.url, "insecure-skip-tls-verify": True},
        ):
            driver = drive("kubeconfig", kubeconfig(tmp_path, cluster))
            assert driver.get("/p")["body"] == "verified"
            driver.finish()


def test_another_authority_is_refused(drive, tmp_path, authority):
    other = Authority(tmp_path, "other")
    with ScriptedKube(tls=other.issue("wrong")) as server:
        for cluster in (
            {"server": server.url, "certificate-authority-data": in_base64(authority.ca)},
            {"server": server.url, "certificate-authority": str(authority.ca)},
            {"server": server.url},
        ):
            driver = drive("kubeconfig", kubeconfig(tmp_path, cluster, {"token": TOKEN}))
            done = driver.get("/p")
            assert done["err"] == "EPROTO" and "certificate" in done["error"]
            driver.finish()
        assert server.requests == []


def test_another_name_is_refused(drive, tmp_path, authority):
    with ScriptedKube(tls=authority.issue("named", san="DNS:api.example")) as server:
        cluster = {"server": server.url, "certificate-authority": str(authority.ca)}
        driver = drive("kubeconfig", kubeconfig(tmp_path, cluster, {"token": TOKEN}))
        assert driver.get("/p")["err"] == "EPROTO"
        driver.finish()
        assert server.requests == []


def test_the_name_to_verify_may_be_another_than_the_address(drive, tmp_path, authority):
    with ScriptedKube(tls=authority.issue("by-name", san="DNS:api.example")) as server:
        server.on("/prefix/p", answer(200, b"verified"))
        cluster = {"server": server.url + "/prefix", "certificate-authority": str(authority.ca)}
        driver = drive("kubeconfig", kubeconfig(tmp_path, {**cluster, "tls-server-name": "api.example"}))
        assert driver.get("/p")["body"] == "verified"
        driver.finish()
        assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"
        driver = drive("kubeconfig", kubeconfig(tmp_path, {**cluster, "tls-server-name": "other.example"}))
        assert driver.get("/p")["err"] == "EPROTO"
        driver.finish()


def test_a_client_certificate_is_shown_from_memory_or_file(drive, tmp_path, authority):
    me = authority.issue("smart-router", group="routers")
    with ScriptedKube(tls=authority.issue("mutual"), client_ca=authority.ca) as server:
        server.on("/p", answer(200))
        cluster = {"server": server.url, "certificate-authority-data": in_base64(authority.ca)}
        for user in (
            {"client-certificate-data": in_base64(me.certificate), "client-key-data": in_base64(me.key)},
            {"client-certificate": str(me.certificate), "client-key": str(me.key)},
            {"client-certificate-data": in_base64(me.certificate), "client-key": str(me.key)},
            {},
        ):
            driver = drive("kubeconfig", kubeconfig(tmp_path, cluster, user))
            assert driver.get("/p")["status"] == 200
            driver.finish()
        assert [request.peer for request in server.requests] == ["smart-router"] * 3 + [None]


def test_a_key_that_does_not_belong_is_a_failure_of_the_request(drive, tmp_path, authority):
    me, other = authority.issue("me"), authority.issue("other-key")
    with ScriptedKube(tls=authority.issue("mutual-2"), client_ca=authority.ca) as server:
        cluster = {"server": server.url, "certificate-authority": str(authority.ca)}
        user = {"client-certificate": str(me.certificate), "client-key": str(other.key)}
        driver = drive("kubeconfig", kubeconfig(tmp_path, cluster, user))
        assert driver.get("/p")["err"] == "EPROTO"
        driver.finish()


def test_a_rotated_authority_is_read_again(drive, tmp_path, account, authority):
    other = Authority(tmp_path, "next")
    port = free_port()
    driver = None
    with ScriptedKube(tls=authority.issue("before"), port=port) as server:
        server.on("/p", answer(200, Connection="close"))
        driver = drive("cluster", "127.0.0.1", server.port, account)
        assert driver.get("/p")["status"] == 200
    (account / "ca.crt").write_bytes(other.ca.read_bytes())
    with ScriptedKube(tls=other.issue("after"), port=port) as server:
        server.on("/p", answer(200))
        assert driver.get("/p")["status"] == 200
        driver.finish()


# ---- tokens ----


def test_the_token_is_read_again_when_it_is_old_and_kept_if_it_cannot_be(drive, account, authority):
    with ScriptedKube(tls=authority.issue("tokens")) as server:
        server.on("/p", answer(200))
        driver = drive("cluster", "127.0.0.1", server.port, account)
        driver.get("/p")
        (account / "token").write_text(TOKEN + "-2")
        driver.get("/p")
        driver.say("fresh 0")
        driver.get("/p")
        (account / "token").unlink()
        driver.get("/p")
        driver.get("/p")
        (account / "token").write_text(TOKEN + "-3")
        driver.get("/p")
        driver.finish()
        tokens = [request.token.removeprefix(TOKEN) for request in server.requests]
        assert tokens == ["-1", "-1", "-2", "-2", "-2", "-3"]
        assert driver.log().count("cannot read the Kubernetes token") == 1


def test_a_401_makes_the_next_request_read_the_token(drive, account, authority):
    with ScriptedKube(tls=authority.issue("rotation")) as server:
        server.on("/p", answer(200), status_object(401, "Unauthorized"), answer(200))
        driver = drive("cluster", "127.0.0.1", server.port, account)
        assert driver.get("/p")["status"] == 200
        (account / "token").write_text(TOKEN + "-2")
        assert driver.get("/p")["status"] == 401
        assert driver.get("/p")["status"] == 200
        driver.finish()
        assert [request.token.removeprefix(TOKEN) for request in server.requests] == ["-1", "-1", "-2"]


def test_a_fixed_token_is_shown_over_tls_only(drive, tmp_path, authority, server):
    server.on("/p", answer(200))
    driver = drive("kubeconfig", kubeconfig(tmp_path, {"server": server.url}, {"token": TOKEN}))
    assert driver.get("/p")["status"] == 200
    driver.finish()
    assert server.requests[0].token is None
    with ScriptedKube(tls=authority.issue("fixed")) as secure:
        secure.on("/p", status_object(401, "Unauthorized"))
        cluster = {"server": secure.url, "certificate-authority": str(authority.ca)}
        driver = drive("kubeconfig", kubeconfig(tmp_path, cluster, {"token": TOKEN}))
        assert driver.get("/p")["status"] == 401
        assert driver.get("/p")["status"] == 401
        driver.finish()
        assert [request.token for request in secure.requests] == [TOKEN, TOKEN]


# ---- the environment ----


def test_proxies_of_the_environment_are_ignored(drive, tmp_path, authority, server):
    dead = f"http://127.0.0.1:{free_port()}"
    env = {name: dead for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY")}
    server.on("/p", answer(200, b"direct"))
    driver = drive("url", server.url, env=env)
    assert driver.get("/p")["body"] == "direct"
    driver.finish()
    with ScriptedKube(tls=authority.issue("direct")) as secure:
        secure.on("/p", answer(200, b"direct"))
        cluster = {"server": secure.url, "certificate-authority": str(authority.ca)}
        driver = drive("kubeconfig", kubeconfig(tmp_path, cluster), env=env)
        assert driver.get("/p")["body"] == "direct"
        driver.finish()


# ---- HTTP/2, by nginx ----


class Nginx:
    """An HTTP/2 server on its own port; passes on to the scripted one, in HTTP/1.1."""

    def __init__(self, directory, identity, backend_port):
        self.port = free_port()
        self.log = directory / "access.log"
        config = directory / "nginx.conf"
        config.write_text(
            f"""
            daemon off; worker_processes 1; pid {directory}/pid; error_log {directory}/error.log;
            events {{ worker_connections 256; }}
            http {{
                log_format seen '$connection $connection_requests $server_protocol $request_method $uri $status';
                access_log {self.log} seen;
                client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2; fastcgi_temp_path {directory}/t3;
                uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;
                server {{
                    listen 127.0.0.1:{self.port} ssl http2;
                    ssl_certificate {identity.certificate}; ssl_certificate_key {identity.key};
                    location / {{
                        proxy_pass http://127.0.0.1:{backend_port}; proxy_http_version 1.1;
                        proxy_set_header Connection ""; proxy_buffering off;
                    }}
                }}
            }}
            """
        )
        self.process = subprocess.Popen(["/usr/sbin/nginx", "-c", str(config), "-e", str(directory / "error.log")])
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with socket.socket() as sock:
                if sock.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        pytest.fail("nginx does not listen: " + (directory / "error.log").read_text())

    def seen(self, count):
        """(connection, protocol, uri, status) of so many requests."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            lines = [line.split() for line in self.log.read_text().splitlines()]
            if len(lines) >= count:
                return [(line[0], line[2], line[4], line[5]) for line in lines]
            time.sleep(0.01)
        pytest.fail("nginx has not seen it all: " + self.log.read_text())

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


@pytest.fixture
def nginx(tmp_path, authority, server):
    directory = tmp_path / "nginx"
    directory.mkdir()
    nginx = Nginx(directory, authority.issue(f"nginx-{server.port}"), server.port)
    yield nginx
    nginx.stop()


@pytest.fixture
def over_nginx(drive, tmp_path, authority, nginx):
    cluster = {"server": f"https://127.0.0.1:{nginx.port}", "certificate-authority": str(authority.ca)}
    return drive("kubeconfig", kubeconfig(tmp_path, cluster))


def test_http2_is_used_where_it_is_offered_and_one_connection_for_all(over_nginx, nginx, server):
    gate = threading.Event()
    server.on("/w", stream([b"{}", gate, b"[]"]))
    server.on("/p", answer(200, b"x" * 60_000))
    over_nginx.stream("w", "/w")
    for number in range(20):
        over_nginx.send(number, "/p", method="PUT", body='{"n":1}')
    text, done = "", []
    while len(done) < 20 or text != "{}":
        event = over_nginx.next()
        if event["event"] == "data":
            text += event["text"]
        else:
            assert (event["err"], event["len"]) == ("", 60_000)
            done.append(event["id"])
    assert sorted(done, key=int) == [str(number) for number in range(20)]
    gate.set()
    over_nginx.text("w", "[]")
    assert over_nginx.next("done", "w")["err"] == ""
    over_nginx.finish()
    seen = nginx.seen(21)
    assert {protocol for _, protocol, _, _ in seen} == {"HTTP/2.0"}
    assert len({connection for connection, _, _, _ in seen}) == 1


def test_over_http2_a_stream_may_be_cut_cancelled_and_closed(over_nginx, nginx, server):
    gate = threading.Event()
    server.on("/cut", stream([b"{}", gate], end="cut"))
    server.on("/open", stream([b"{}"], end="hang"))
    server.on("/p", answer(200, b"p"))
    over_nginx.stream("cut", "/cut")
    over_nginx.text("cut", "{}")
    gate.set()
    done = over_nginx.next("done", "cut")
    assert (done["err"], done["status"]) == ("ECONNRESET", 200)
    over_nginx.say("in data own cancel own")
    over_nginx.stream("own", "/open")
    over_nginx.text("own", "{}")
    assert over_nginx.get("/p")["body"] == "p"
    over_nginx.stream("last", "/open")
    over_nginx.text("last", "{}")
    assert over_nginx.finish() == []


def test_over_http2_a_request_that_has_just_ended_may_still_be_cancelled(over_nginx, nginx, server):
    """Both answers lie in the socket when the first is told, whichever that is."""
    gate = threading.Event()
    server.on("/p", slow(answer(200, b"p"), gate))
    over_nginx.say("in done a cancel b")
    over_nginx.say("in done b cancel a")
    over_nginx.send("a", "/p")
    over_nginx.send("b", "/p")
    while len(server.asked("/p")) < 2:
        time.sleep(0.001)
    over_nginx.process.send_signal(signal.SIGSTOP)
    gate.set()
    nginx.seen(2)
    over_nginx.process.send_signal(signal.SIGCONT)
    over_nginx.next("done")
    assert over_nginx.finish() == []


def test_over_http2_a_request_after_a_timeout_gets_another_connection(over_nginx, nginx, server):
    """The stream goes on meanwhile, on the connection that is not trusted any more: bytes came on it."""
    asked, gate = threading.Event(), threading.Event()
    server.on("/w", stream([b"{}", asked, b",", gate, b"[]"]))
    server.on("/silent", silence)
    server.on("/p", answer(200, b"p"))
    over_nginx.stream("w", "/w")
    over_nginx.text("w", "{}")
    over_nginx.send("silent", "/silent", timeout_ms=1000)
    while not server.asked("/silent"):
        time.sleep(0.001)
    asked.set()
    over_nginx.text("w", ",")
    assert over_nginx.next("done", "silent")["err"] == "ETIMEDOUT"
    assert over_nginx.get("/p")["body"] == "p"
    assert over_nginx.get("/p")["body"] == "p"
    gate.set()
    over_nginx.text("w", "[]")
    assert over_nginx.next("done", "w")["err"] == ""
    over_nginx.finish()
    connections = {}
    for connection, _, uri, _ in nginx.seen(4):
        connections.setdefault(uri, set()).add(connection)
    assert connections["/w"] == connections["/silent"]
    assert len(connections["/p"]) == 1 and connections["/p"] != connections["/w"]


def ends_with_its_neighbour(driver, server):
    server.on("/w", stream([b"{}"], end="hang"))
    server.on("/silent", silence)
    server.on("/p", answer(200, b"p"))
    for name in ("w1", "w2"):
        driver.stream(name, "/w")
        driver.text(name, "{}")
    driver.send("silent", "/silent", timeout_ms=500)
    done = driver.next("done", "silent")
    assert (done["err"], done["status"]) == ("ETIMEDOUT", 0)
    for name in ("w1", "w2"):
        done = driver.next("done", name)
        assert (done["err"], done["status"]) == ("ETIMEDOUT", 200)
        assert "the connection seems dead" in done["error"] and "500 ms" in done["error"]
    assert driver.get("/p")["body"] == "p"
    driver.finish()


def test_streams_end_when_another_request_waits_and_nothing_comes_at_all(drive, server):
    ends_with_its_neighbour(drive("url", server.url), server)


def test_over_http2_streams_end_when_another_request_waits_and_nothing_comes_at_all(over_nginx, server):
    ends_with_its_neighbour(over_nginx, server)


def test_a_stream_that_ends_with_its_neighbour_may_be_cancelled_by_it(drive, server):
    """What ends first cancels what would end next; and in the end the client is closed in a callback."""
    server.on("/w", stream([b"{}"], end="hang"))
    server.on("/silent", silence)
    driver = drive("url", server.url)
    for name in ("w1", "w2", "w3"):
        driver.stream(name, "/w")
        driver.text(name, "{}")
    driver.say("in done silent cancel w1")
    driver.say("in done w2 close")
    driver.send("silent", "/silent", timeout_ms=300)
    driver.next("done", "silent")
    assert driver.next("done", "w2")["err"] == "ETIMEDOUT"
    driver.next("closed")
    driver.finish(has_closed=True)
