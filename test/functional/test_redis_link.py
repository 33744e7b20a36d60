"""The link to Redis by itself, against real Redis servers, sentinels and clusters.

Drives $BUILD_DIR/test/redis-link-driver: one link at the end of a pipe, whose lines redis_link_driver.c explains.
"""

import hashlib
import os
import pathlib
import signal
import socket
import subprocess
import threading
import time

import basics
import pytest
import redis

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build"))
if not BUILD.is_absolute():
    BUILD = ROOT / BUILD
PATIENCE = 30  # seconds until a test that hears nothing gives up

ECHO = "return ARGV[1]"
PUT = "redis.call('SET', KEYS[1], ARGV[1]) return 'put'"
ENDLESS = "while true do end"


def wait_until(condition, what):
    return basics.wait_until(condition, what, PATIENCE)


class Server:
    """A redis-server, or a sentinel, in a directory of its own."""

    def __init__(self, directory, options, port=None, sentinel=None):
        self.directory = directory
        self.port = basics.free_port() if port is None else port
        self.options = options
        self.sentinel = sentinel
        self.process = None

    def start(self, wait=True):
        self.directory.mkdir(exist_ok=True)
        command = ["redis-server"]
        if self.sentinel is not None:
            config = self.directory / "sentinel.conf"
            config.write_text(self.sentinel)
            command += [str(config), "--sentinel"]
        command += ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.directory), "--save", ""]
        for name, value in self.options.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        with open(self.directory / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if wait:
            wait_until(self.answers, "redis-server answers")

    def answers(self):
        if self.process.poll() is not None:
            pytest.fail("redis-server ended: " + (self.directory / "log").read_text()[-2000:])
        try:
            self.client().ping()
        except redis.ResponseError:
            return True
        except redis.AuthenticationError:
            return True
        except redis.RedisError:
            return False
        return True

    def client(self, **kwargs):
        if self.port:
            return redis.Redis(port=self.port, decode_responses=True, socket_timeout=PATIENCE, **kwargs)
        return redis.Redis(unix_socket_path=str(self.options["unixsocket"]), decode_responses=True, **kwargs)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if not self.process:
            return
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"


@pytest.fixture
def start_redis(tmp_path):
    servers = []

    def start(port=None, sentinel=None, **options):
        server = Server(tmp_path / f"redis-{len(servers)}", options, port, sentinel)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.kill()


class Fake:
    """Answers each connection as a script says: a function of (socket, number of the connection)."""

    def __init__(self, behave):
        self.behave = behave
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self.count = 0
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            threading.Thread(target=self.speak, args=(conn, self.count), daemon=True).start()

    def speak(self, conn, number):
        with conn:
            conn.settimeout(PATIENCE)
            try:
                self.behave(conn, number)
            except OSError:
                pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


@pytest.fixture
def fake():
    fakes = []

    def start(behave):
        fakes.append(Fake(behave))
        return fakes[-1]

    yield start
    for one in fakes:
        one.close()


class Link:
    def __init__(self, url, timeout_ms, wait, sentinels, tmp_path):
        command = [str(BUILD / "test" / "redis-link-driver"), url, str(timeout_ms), str(wait)]
        if sentinels:
            command += [",".join(f"127.0.0.1:{server.port}" for server in sentinels), "main"]
        self.tmp_path = tmp_path
        self.log_path = tmp_path / f"link-{time.monotonic_ns()}.log"
        self.log_file = open(self.log_path, "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log_file)
        self.lines = []
        self.results = {}
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()
        self.next_id = 0
        self.shas = {}

    def read(self):
        for line in self.process.stdout:
            with self.changed:
                self.take(line.decode().rstrip("\n"))
                self.changed.notify_all()
        with self.changed:
            self.lines.append("end")
            self.changed.notify_all()

    def take(self, line):
        kind, _, rest = line.partition(" ")
        if kind not in ("done", "refused"):
            self.lines.append(line)
            return
        number, _, rest = rest.partition(" ")
        assert int(number) not in self.results, f"{number} was answered twice"
        if kind == "refused":
            self.results[int(number)] = ("refused", rest)
        else:
            err, _, reply = rest.partition(" ")
            self.results[int(number)] = (err, reply)

    def log(self):
        return self.log_path.read_text()

    def expect(self, wanted, after=0):
        """The first line from number `after` on for which `wanted` is true."""
        end = time.monotonic() + PATIENCE
        with self.changed:
            at = after
            while True:
                for line in self.lines[at:]:
                    if wanted(line):
                        return line
                    if line == "end":
                        pytest.fail(f"the driver ended: {self.log()[-3000:]}")
                at = len(self.lines)
                if not self.changed.wait(end - time.monotonic()):
                    pytest.fail(f"waited in vain; {self.lines[-10:]} {self.log()[-2000:]}")

    def tell(self, *words):
        self.process.stdin.write((" ".join(str(word) for word in words) + "\n").encode())
        self.process.stdin.flush()

    def start(self, kind, *words):
        self.next_id += 1
        self.tell(kind, self.next_id, *words)
        return self.next_id

    def result(self, number):
        """("0", reply), (errno, "") or ("refused", errno)"""
        with self.changed:
            if not self.changed.wait_for(lambda: number in self.results or "end" in self.lines, PATIENCE):
                pytest.fail(f"no answer to {number}; {self.lines[-10:]} {self.log()[-2000:]}")
            if number not in self.results:
                pytest.fail(f"the driver ended: {self.log()[-3000:]}")
            return self.results[number]

    def command(self, *words):
        return self.result(self.start("cmd", *words))

    def script(self, name, text):
        path = self.tmp_path / f"{name}.lua"
        path.write_text(text)
        self.shas[name] = hashlib.sha1(text.encode()).hexdigest()
        self.tell("script", name, self.shas[name], path)

    def call(self, *words):
        return self.result(self.start("call", *words))

    def wait_up(self):
        wait_until(lambda: self.state()[0] == "up", "the link is up")

    def wait_down(self):
        wait_until(lambda: self.state()[0] == "down", "the link is down")

    def state(self):
        after = len(self.lines)
        self.tell("state")
        _, is_up, failures, detail = self.expect(lambda line: line.startswith("state "), after).split(" ", 3)
        return is_up, int(failures), detail

    def wait_detail(self, *texts):
        return wait_until(lambda: all(text in self.state()[2] for text in texts), f"the detail says {texts}")

    def calm(self):
        self.tell("calm")
        _, answered, failed, wrong = self.expect(lambda line: line.startswith("flood ")).split(" ")
        return int(answered), int(failed), int(wrong)

    def close(self):
        """Ends it; everything that was taken must have been answered once, and nothing may be left over."""
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait(PATIENCE)
        self.thread.join()
        self.log_file.close()
        assert self.process.returncode == 0, self.log()[-4000:]
        assert sorted(self.results) == list(range(1, self.next_id + 1))
        assert "runtime error" not in self.log() and "Sanitizer" not in self.log(), self.log()[-4000:]


@pytest.fixture
def connect(tmp_path):
    links = []

    def start(url, timeout_ms=1000, wait=0, sentinels=None, up=True):
        link = Link(url, timeout_ms, wait, sentinels, tmp_path)
        links.append(link)
        link.script("echo", ECHO)
        link.script("put", PUT)
        if up:
            link.wait_up()
        return link

    yield start
    for link in links:
        try:
            link.close()
        finally:
            link.process.kill()


# Coming about


def test_commands_and_scripts_are_answered(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    assert link.command("SET", "a", "b") == ("0", "OK")
    assert link.command("GET", "a") == ("0", "b")
    assert link.command("GET", "none") == ("0", "nil")
    assert link.command("INCR", "n") == ("0", ":1")
    assert link.command("MGET", "a", "n", "none") == ("0", "[b 1 nil]")
    assert link.call("echo", "k", "hello") == ("0", "hello")
    assert link.state() == ("up", 0, "")


def test_a_burst_goes_out_in_order_and_each_gets_its_answer(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    ids = [link.start("call", "echo", "k", f"word-{i}") for i in range(500)]
    assert [link.result(number) for number in ids] == [("0", f"word-{i}") for i in range(500)]


def test_a_name_is_looked_up(start_redis, connect):
    server = start_redis()
    link = connect(f"redis://localhost:{server.port}")
    assert link.command("PING") == ("0", "PONG")


def test_a_name_that_does_not_exist_is_reported(connect):
    link = connect("redis://no-such-host.invalid:6379", up=False)
    wait_until(lambda: link.state()[1] > 0, "the link has failed")
    assert link.state()[2].startswith("no-such-host.invalid:6379: ")
    assert link.command("PING") == ("refused", "ENOTCONN")


def test_unix_socket_with_database(start_redis, connect, tmp_path):
    path = tmp_path / "r.sock"
    server = start_redis(port=0, unixsocket=path)
    link = connect(f"unix://{path}?db=5")
    assert link.command("SET", "a", "b") == ("0", "OK")
    assert server.client(db=5).get("a") == "b"
    server.kill()
    link.wait_down()
    link.wait_detail(f"{path}: ")


def test_database_is_selected_again_after_a_reconnect(start_redis, connect):
    server = start_redis()
    link = connect(server.url + "/7")
    assert link.command("SET", "a", "1") == ("0", "OK")
    server.client().client_kill_filter(_type="normal", skipme=True)
    wait_until(lambda: link.state()[1] == 1, "the link noticed")
    link.wait_up()
    assert link.command("SET", "b", "1") == ("0", "OK")
    assert sorted(server.client(db=7).keys()) == ["a", "b"]


def test_a_database_that_does_not_exist_keeps_it_down(start_redis, connect):
    server = start_redis(databases=2)
    link = connect(server.url + "/2", up=False)
    link.wait_detail("DB index is out of range")


def test_password(start_redis, connect):
    server = start_redis(requirepass="s3cret")
    link = connect(f"redis://:s3cret@127.0.0.1:{server.port}")
    assert link.command("PING") == ("0", "PONG")


def test_user_and_password(start_redis, connect):
    server = start_redis()
    server.client().acl_setuser("alice", enabled=True, passwords=["+p@ss"], keys=["*"], commands=["+@all"])
    link = connect(f"redis://alice:p%40ss@127.0.0.1:{server.port}")
    assert link.command("ACL", "WHOAMI") == ("0", "alice")


@pytest.mark.parametrize(
    "user, says",
    [("", "NOAUTH"), (":wrong-secret@", "WRONGPASS"), ("bob:wrong-secret@", "WRONGPASS")],
)
def test_a_wrong_password_is_said_and_not_shown(start_redis, connect, user, says):
    server = start_redis(requirepass="s3cret")
    link = connect(f"redis://{user}127.0.0.1:{server.port}", up=False)
    link.wait_detail(says, "password is wrong or missing")
    assert link.command("PING") == ("refused", "ENOTCONN")
    failures = link.state()[1]
    time.sleep(0.5)
    assert link.state()[1] <= failures + 1  # slowly
    assert "wrong-secret" not in link.log()
    # It goes on trying: whoever repairs the server need not restart the router.
    server.client(password="s3cret").config_set("requirepass", "wrong-secret" if user else "")
    if "bob" not in user:
        link.wait_up()


def test_a_password_that_the_server_repeats_is_not_shown(fake, connect):
    def behave(conn, _):
        conn.recv(4096)
        conn.sendall(b"-ERR unknown command 'AUTH', with args beginning with: 'wrong-secret'\r\n+PONG\r\n")
        conn.recv(1)

    link = connect(fake(behave).url.replace("//", "//:wrong-secret@"), up=False)
    link.wait_detail("AUTH was refused")
    assert "wrong-secret" not in link.log()


def test_a_user_without_rights_to_ping_still_works(start_redis, connect):
    server = start_redis()
    server.client().acl_setuser("alice", enabled=True, passwords=["+pw"], keys=["*"], commands=["+get"])
    link = connect(f"redis://alice:pw@127.0.0.1:{server.port}")
    assert link.command("GET", "a") == ("0", "nil")
    assert link.command("SET", "a", "b") == ("EACCES", "")


def test_a_refused_connection_is_tried_until_the_server_is_there(start_redis, connect):
    port = basics.free_port()
    link = connect(f"redis://127.0.0.1:{port}", up=False)
    link.wait_detail("Connection refused", str(port))
    assert link.command("PING") == ("refused", "ENOTCONN")
    wait_until(lambda: link.state()[1] >= 3, "several tries")
    start_redis(port=port)
    link.wait_up()
    assert link.state()[2] == ""
    assert [line for line in link.lines if line.startswith("change")] == ["change up"]


def test_a_server_that_accepts_and_says_nothing(fake, connect):
    link = connect(fake(lambda conn, number: conn.recv(1) and time.sleep(PATIENCE)).url, timeout_ms=100, up=False)
    link.wait_detail("no answer within 100 ms")


# Being lost


def test_a_stopped_server_fails_in_time_and_its_late_answers_are_nobodys(start_redis, connect):
    server = start_redis()
    link = connect(server.url, timeout_ms=300)
    server.signal(signal.SIGSTOP)
    first = link.start("call", "put", "first", "1")
    time.sleep(0.1)
    later = [link.start("call", "echo", "k", f"late-{i}") for i in range(10)]
    assert link.result(first) == ("ETIMEDOUT", "")
    assert {link.result(number) for number in later} <= {("ENOTCONN", ""), ("ETIMEDOUT", "")}
    link.wait_down()
    assert link.command("PING") == ("refused", "ENOTCONN")
    server.signal(signal.SIGCONT)
    link.wait_up()
    ids = [link.start("call", "echo", "k", f"new-{i}") for i in range(100)]
    assert [link.result(number) for number in ids] == [("0", f"new-{i}") for i in range(100)]


def test_a_silent_death_of_an_idle_connection_is_noticed(start_redis, connect):
    server = start_redis()
    link = connect(server.url, timeout_ms=200)
    server.signal(signal.SIGSTOP)
    link.expect(lambda line: line == "change down")
    server.signal(signal.SIGCONT)
    link.wait_up()


def test_a_killed_server_fails_everything_and_the_next_one_is_used(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    link.tell("flood", 100, "echo", "k")
    for _ in range(3):
        time.sleep(0.2)
        server.kill()
        link.wait_down()
        server.start()
        link.wait_up()
    time.sleep(0.2)
    answered, failed, wrong = link.calm()
    assert answered > 0 and failed > 0 and wrong == 0


def test_killed_connections_under_load_give_no_wrong_answer(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    link.tell("flood", 200, "echo", "k")
    for i in range(5):
        wait_until(lambda: link.state()[1] >= i, "the link noticed")
        link.wait_up()
        time.sleep(0.05)
        server.client().client_kill_filter(_type="normal", skipme=True)
    link.wait_up()
    answered, failed, wrong = link.calm()
    assert answered > 0 and failed > 0 and wrong == 0


def test_stops_under_load_give_no_wrong_answer(start_redis, connect):
    server = start_redis()
    link = connect(server.url, timeout_ms=150)
    link.tell("flood", 200, "echo", "k")
    for _ in range(4):
        time.sleep(0.1)
        server.signal(signal.SIGSTOP)
        link.wait_down()
        server.signal(signal.SIGCONT)
        link.wait_up()
    answered, failed, wrong = link.calm()
    assert answered > 0 and failed > 0 and wrong == 0


def test_a_server_that_sleeps_in_between_is_dropped(start_redis, connect):
    server = start_redis(enable_debug_command="yes")
    link = connect(server.url, timeout_ms=300)
    sleep = link.start("cmd", "DEBUG", "SLEEP", "1")
    after = link.start("cmd", "PING")
    assert link.result(sleep) == ("ETIMEDOUT", "")
    assert link.result(after)[0] in ("ETIMEDOUT", "ENOTCONN")
    assert "no answer within 300 ms" in link.state()[2]
    link.wait_up()
    assert link.command("ECHO", "fresh") == ("0", "fresh")


def test_the_rest_fails_with_the_overdue_one(start_redis, connect):
    server = start_redis(enable_debug_command="yes")
    link = connect(server.url, timeout_ms=1000)
    sleep = link.start("cmd", "DEBUG", "SLEEP", "2")
    time.sleep(0.5)
    after = link.start("cmd", "PING")
    assert link.result(sleep) == ("ETIMEDOUT", "")
    assert link.result(after) == ("ENOTCONN", "")


def hear_command(conn):
    """Reads one command of the protocol; returns its words."""
    file = conn.makefile("rb", buffering=0)
    line = file.readline()
    if not line:
        raise OSError("gone")
    words = []
    for _ in range(int(line[1:])):
        size = int(file.readline()[1:])
        words.append(file.read(size + 2)[:-2])
    return words


SOME_TIME = b"*2\r\n$10\r\n1770000000\r\n$1\r\n0\r\n"
NO_CLUSTER = b"-ERR This instance has cluster support disabled\r\n"


def hear_ping(conn, nodes=NO_CLUSTER, role=None):
    """Answers what comes before the PING of a new connection."""
    answers = {b"CLUSTER": nodes, b"ROLE": role, b"TIME": SOME_TIME}
    while (words := hear_command(conn)) != [b"PING"]:
        conn.sendall(answers[words[0]])


def greet(conn, **answers):
    hear_ping(conn, **answers)
    conn.sendall(b"+PONG\r\n")


def test_a_connection_cut_in_the_middle_of_a_reply(fake, connect):
    def behave(conn, number):
        greet(conn)
        while True:
            words = hear_command(conn)
            if number == 1:
                hear_command(conn)
                conn.sendall(b"+one\r\n$20\r\nhalf an ans")
                return
            conn.sendall(b"+" + words[1] + b"\r\n")

    link = connect(fake(behave).url)
    first, second = link.start("cmd", "ECHO", "one"), link.start("cmd", "ECHO", "two")
    assert link.result(first) == ("0", "one")
    assert link.result(second) == ("ENOTCONN", "")
    link.wait_up()
    assert link.command("ECHO", "three") == ("0", "three")


def test_garbage_instead_of_the_protocol(fake, connect):
    def behave(conn, number):
        greet(conn)
        while True:
            words = hear_command(conn)
            if number == 1:
                conn.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            else:
                conn.sendall(b"+" + words[1] + b"\r\n")

    link = connect(fake(behave).url)
    assert link.command("ECHO", "one") == ("ENOTCONN", "")
    assert 'Protocol error' in link.log()
    link.wait_up()
    assert link.command("ECHO", "two") == ("0", "two")


@pytest.mark.parametrize("pause", [0, 0.2])
def test_an_answer_that_nobody_asked_for_is_given_to_nobody(fake, connect, pause):
    def behave(conn, number):
        greet(conn)
        while True:
            words = hear_command(conn)
            answer = b"+" + words[-1] + b"\r\n"
            if number > 1:
                conn.sendall(answer)
            elif pause == 0:
                conn.sendall(answer + b"+stale\r\n")
            else:
                conn.sendall(answer)
                time.sleep(pause)
                conn.sendall(b"+stale\r\n")

    link = connect(fake(behave).url)
    assert link.command("ECHO", "one") in [("0", "one"), ("ENOTCONN", "")]
    wait_until(lambda: link.state()[1] == 1, "the link was dropped")
    wait_until(lambda: "nobody asked for" in link.log(), "the log has the reason")  # written when the turn ends
    link.wait_up()
    assert link.command("ECHO", "two") == ("0", "two")


def test_too_many_at_once_are_refused(start_redis, connect):
    server = start_redis()
    link = connect(server.url, timeout_ms=3000)
    server.signal(signal.SIGSTOP)
    ids = [link.start("cmd", "ECHO", "x") for _ in range(16384 + 5)]
    assert link.result(ids[-1]) == ("refused", "EBUSY")
    server.signal(signal.SIGCONT)
    results = [link.result(number) for number in ids]
    assert results.count(("refused", "EBUSY")) >= 5
    assert set(results) <= {("refused", "EBUSY"), ("0", "x")}


def test_closing_answers_what_is_under_way(start_redis, connect):
    server = start_redis()
    link = connect(server.url, timeout_ms=20000)
    server.signal(signal.SIGSTOP)
    ids = [link.start("call", "echo", "k", "x") for _ in range(3)]
    link.tell("close")
    assert [link.result(number) for number in ids] == [("ENOTCONN", "")] * 3
    assert link.expect(lambda line: line in ("closed",)) == "closed"


# Scripts


def test_scripts_are_loaded_on_demand_and_once(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    client = server.client()
    for _ in range(3):
        ids = [link.start("call", "echo", "k", f"{i}") for i in range(50)]
        assert [link.result(number) for number in ids] == [("0", f"{i}") for i in range(50)]
        stats = client.info("commandstats")
        assert stats["cmdstat_script|load"]["calls"] == 1
        client.script_flush()
        client.config_resetstat()


def test_first_calls_are_carried_out_in_the_order_in_which_they_were_sent(start_redis, connect):
    """A call that is repeated after NOSCRIPT comes behind what was sent after it."""
    server = start_redis()
    for connection in range(3):
        link = connect(server.url)
        ids = [link.start("call", "put", "key", "script"), link.start("command", "SET", "key", "command")]
        assert [link.result(number)[0] for number in ids] == ["0", "0"]
        assert server.client().get("key") == "command", connection
        server.client().script_flush()
    assert "errorstat_NOSCRIPT" not in server.client().info("errorstats")


def test_script_flush_under_load(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    link.tell("flood", 50, "echo", "k")
    client = server.client()
    for _ in range(100):
        client.script_flush()
    answered, failed, wrong = link.calm()
    # A script that goes away twice under one call is reported; it is not tried for ever.
    assert answered > 0 and wrong == 0 and failed < answered


def test_a_script_that_cannot_be_loaded(start_redis, connect):
    server = start_redis()
    server.client().acl_setuser(
        "alice", enabled=True, passwords=["+pw"], keys=["*"], commands=["+@all", "-script"]
    )
    link = connect(f"redis://alice:pw@127.0.0.1:{server.port}")
    assert link.call("echo", "k", "a") == ("EACCES", "")
    assert "NOPERM" in link.log()


def test_a_script_that_does_not_compile(start_redis, connect):
    link = connect(start_redis().url)
    link.script("broken", "return (")
    assert link.call("broken", "k") == ("EIO", "")
    assert "Error compiling script" in link.log()
    assert link.call("echo", "k", "still-here") == ("0", "still-here")


# Errors of Redis


def test_out_of_memory(start_redis, connect):
    server = start_redis(maxmemory="1mb", maxmemory_policy="noeviction")
    link = connect(server.url)
    server.client().config_set("maxmemory", 1)
    assert link.command("SET", "a", "b") == ("ENOSPC", "")
    assert link.call("put", "a", "b") == ("ENOSPC", "")
    server.client().config_set("maxmemory", 0)
    assert link.call("put", "a", "b") == ("0", "put")
    assert link.state() == ("up", 0, "")
    assert "OOM command not allowed" in link.log()


def test_wrong_type(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    server.client().rpush("list", "x")
    link.script("get", "return redis.call('GET', KEYS[1])")
    assert link.command("GET", "list") == ("EBADMSG", "")
    assert link.call("get", "list") == ("EBADMSG", "")
    assert link.state() == ("up", 0, "")


def test_an_unknown_command(start_redis, connect):
    link = connect(start_redis().url)
    assert link.command("NOSUCH") == ("EIO", "")
    assert "unknown command" in link.log()


def test_a_flood_of_errors_is_not_a_flood_of_lines(start_redis, connect):
    link = connect(start_redis().url)
    started = time.monotonic()
    ids = [link.start("cmd", "NOSUCH") for _ in range(300)]
    assert {link.result(number) for number in ids} == {("EIO", "")}
    assert link.log().count("unknown command") <= 2 + time.monotonic() - started


def test_a_busy_script(start_redis, connect):
    server = start_redis(busy_reply_threshold=50)
    link = connect(server.url, timeout_ms=5000)
    endless = threading.Thread(target=lambda: pytest.raises(redis.RedisError, server.client().eval, ENDLESS, 0))
    endless.start()
    wait_until(lambda: link.command("GET", "a") == ("EAGAIN", ""), "Redis is busy")
    assert link.call("echo", "k", "x") == ("EAGAIN", "")
    server.client().script_kill()
    endless.join()
    assert link.call("echo", "k", "x") == ("0", "x")
    assert link.state() == ("up", 0, "")


def test_a_loading_server_is_waited_for(fake, connect):
    def behave(conn, number):
        hear_ping(conn)
        if number < 3:
            conn.sendall(b"-LOADING Redis is loading the dataset in memory\r\n")
            conn.recv(1)
        else:
            conn.sendall(b"+PONG\r\n")
            while True:
                hear_command(conn)
                conn.sendall(b"-LOADING Redis is loading the dataset in memory\r\n")

    link = connect(fake(behave).url)
    assert "LOADING" in link.log()
    assert link.command("GET", "a") == ("EAGAIN", "")


def test_a_master_that_became_a_replica(start_redis, connect):
    master, server = start_redis(), start_redis()
    link = connect(server.url)
    assert link.call("put", "a", "1") == ("0", "put")
    server.client().replicaof("127.0.0.1", master.port)
    wait_until(lambda: server.client().info("replication")["master_link_status"] == "up", "it replicates")
    wait_until(lambda: link.call("put", "a", "2") == ("EROFS", ""), "it is read-only")
    link.wait_detail("is not a master")
    assert link.command("GET", "a") == ("refused", "ENOTCONN")
    server.client().execute_command("REPLICAOF", "NO", "ONE")
    link.wait_up()
    assert link.call("put", "a", "3") == ("0", "put")


# WAIT


def replica_of(start_redis, master):
    replica = start_redis(replicaof=f"127.0.0.1 {master.port}", repl_diskless_sync_delay=0)
    wait_until(lambda: replica.client().info("replication")["master_link_status"] == "up", "it replicates")
    return replica


def test_wait_for_no_replica_only_answers(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    assert link.result(link.start("wait")) == ("0", ":0")
    assert "cmdstat_wait" not in server.client().info("commandstats")


def test_wait_until_a_replica_has_it(start_redis, connect):
    server = start_redis(repl_diskless_sync_delay=0)
    replica = replica_of(start_redis, server)
    link = connect(server.url, timeout_ms=30000, wait=1)
    for i in range(20):
        # The first one brings its script: the wait counts for the call.
        put, wait = link.start("call", "put", f"key-{i}", "1"), link.start("wait")
        assert link.result(wait)[0] == "0"
        assert replica.client().get(f"key-{i}") == "1"
        assert link.result(put) == ("0", "put")


def test_wait_counts_for_a_call_that_had_to_be_sent_again(fake, connect):
    heard = []

    def behave(conn, _):
        greet(conn)
        while True:
            heard.append(hear_command(conn)[0])
            first_call = heard.count(b"EVALSHA") == 1
            conn.sendall(b"-NOSCRIPT No matching script.\r\n" if first_call and heard[-1] == b"EVALSHA" else b":1\r\n")

    link = connect(fake(behave).url, wait=1)
    link.next_id = 2
    link.tell("call 1 put key 1\nwait 2")
    assert link.result(1) == ("0", ":1")
    assert link.result(2) == ("0", ":1")
    assert heard == [b"SCRIPT", b"EVALSHA", b"WAIT"] * 2


def test_wait_in_vain_keeps_the_connection_and_lets_others_pass(start_redis, connect):
    server = start_redis(repl_diskless_sync_delay=0)
    replica = replica_of(start_redis, server)
    link = connect(server.url, timeout_ms=3000, wait=1)
    replica.signal(signal.SIGSTOP)
    link.call("put", "key", "1")
    waits = []
    for _ in range(5):
        waits.append(link.start("wait"))
        assert link.call("put", "key", "2") == ("0", "put")
    assert not any(number in link.results for number in waits)
    assert {link.result(number) for number in waits} == {("ETIMEDOUT", "")}
    assert link.state() == ("up", 0, "")
    replica.signal(signal.SIGCONT)
    wait_until(lambda: link.result(link.start("wait")) == ("0", ":1"), "the replica has it all")
    put, wait = link.start("call", "put", "last", "1"), link.start("wait")
    assert link.result(wait) == ("0", ":1")
    assert link.result(put) == ("0", "put")


def test_wait_fails_with_the_connection(start_redis, connect):
    server = start_redis()
    link = connect(server.url, timeout_ms=5000, wait=1)
    link.command("SET", "a", "b")
    wait = link.start("wait")
    time.sleep(0.1)
    server.kill()
    assert link.result(wait) == ("ENOTCONN", "")


# Cluster


def start_cluster(start_redis):
    """Two nodes, each with half of the slots."""
    nodes = [
        start_redis(cluster_enabled="yes", cluster_port=basics.free_port(), cluster_node_timeout=2000, enable_debug_command="yes")
        for _ in range(2)
    ]
    first, second = (node.client() for node in nodes)
    first.execute_command("CLUSTER ADDSLOTSRANGE", 0, 8191)
    second.execute_command("CLUSTER ADDSLOTSRANGE", 8192, 16383)
    second.execute_command("CLUSTER SET-CONFIG-EPOCH", 2)
    first.execute_command("CLUSTER MEET", "127.0.0.1", nodes[1].port, nodes[1].options["cluster_port"])
    for client in (first, second):
        wait_until(lambda: client.execute_command("CLUSTER INFO")["cluster_state"] == "ok", "the cluster is up")
        wait_until(lambda: client.execute_command("CLUSTER COUNTKEYSINSLOT", 1) == 0, "the slots are known")
    return nodes


def key_of_second(client):
    return next(key for key in (f"{{k{i}}}:a" for i in range(1000)) if client.execute_command("CLUSTER KEYSLOT", key) > 8191)


def test_cluster_moved_is_followed_without_an_error(start_redis, connect):
    first, second = start_cluster(start_redis)
    key = key_of_second(first.client())
    link = connect(first.url)
    ids = [link.start("call", "put", key, "1") for _ in range(20)]
    # Those that come while the link is on its way are refused at once.
    assert {link.result(number) for number in ids} <= {("0", "put"), ("refused", "ENOTCONN")}
    assert link.result(ids[0]) == ("0", "put")
    link.wait_up()
    assert link.command("GET", key) == ("0", "1")
    stats = first.client().info("commandstats")
    moved = stats["cmdstat_evalsha"]["rejected_calls"]
    link.call("put", key, "2")
    assert first.client().info("commandstats")["cmdstat_evalsha"]["rejected_calls"] == moved
    assert link.state() == ("up", 0, "")
    assert second.client().get(key) == "2"


def test_cluster_a_dead_node_is_replaced_by_others_until_it_is_back(start_redis, connect):
    first, second = start_cluster(start_redis)
    key = key_of_second(first.client())
    link = connect(first.url)
    assert link.call("put", key, "1") == ("0", "put")
    second.kill()
    link.wait_down()
    second.start()
    # Meanwhile the link may have found the first node, which sends it back.
    wait_until(lambda: link.call("put", key, "2") == ("0", "put"), "the owner of the slot is found")


def test_cluster_keys_in_two_slots_are_an_error_and_not_a_race(start_redis, connect):
    first, second = start_cluster(start_redis)
    there = key_of_second(first.client())
    here = next(key for key in (f"{{h{i}}}:a" for i in range(1000)) if first.client().execute_command("CLUSTER KEYSLOT", key) < 8192)
    link = connect(first.url)
    for i in range(30):
        result = link.command("SET", here if i % 2 else there, "x")
        assert result in [("0", "OK"), ("refused", "ENOTCONN"), ("ENOTCONN", "")]
        time.sleep(0.02)
    assert "several slots" in link.log()


def test_cluster_ask_is_not_now(start_redis, connect):
    first, second = start_cluster(start_redis)
    client = first.client()
    slot = client.execute_command("CLUSTER KEYSLOT", "{h}")
    owner, other = (first, second) if slot < 8192 else (second, first)
    other_id = other.client().execute_command("CLUSTER MYID")
    owner.client().execute_command("CLUSTER SETSLOT", slot, "MIGRATING", other_id)
    link = connect(owner.url)
    assert link.command("GET", "{h}") == ("EAGAIN", "")
    assert link.state() == ("up", 0, "")


def slots_of(*servers):
    """The answer to CLUSTER SLOTS of a cluster that has all slots on the first; the others are its replicas."""
    nodes = [b"*3\r\n$9\r\n127.0.0.1\r\n:%d\r\n$2\r\nid\r\n" % server.port for server in servers]
    return b"*1\r\n*%d\r\n:0\r\n:16383\r\n" % (2 + len(nodes)) + b"".join(nodes)


def speak_as_node(conn, answer_of, nodes):
    """Greets as a node that knows nodes(); then answer_of(words) is what it says."""
    greet(conn, nodes=nodes(), role=b"*1\r\n$5\r\nslave\r\n")
    while True:
        words = hear_command(conn)
        conn.sendall(nodes() if words[0] == b"CLUSTER" else answer_of(words))


def test_cluster_a_node_that_says_for_long_that_the_cluster_is_down_is_left(start_redis, connect, fake):
    good = start_redis()
    answer = b"-CLUSTERDOWN The cluster is down\r\n"
    cut_off = fake(lambda conn, _: speak_as_node(conn, lambda words: answer, lambda: slots_of(cut_off, good)))
    link = connect(cut_off.url)
    assert link.call("put", "a", "1") == ("EAGAIN", "")
    wait_until(lambda: link.call("put", "a", "2") == ("0", "put"), "the other node is asked")
    assert good.client().get("a") == "2"


def test_cluster_a_silent_node_that_moved_names_is_left(start_redis, connect, fake):
    good = start_redis()
    silent = fake(lambda conn, _: conn.recv(1) and time.sleep(PATIENCE))
    owners = [silent]
    moved = lambda words: b"-MOVED 1 127.0.0.1:%d\r\n" % owners[0].port
    node = fake(lambda conn, _: speak_as_node(conn, moved, lambda: slots_of(silent, node)))
    link = connect(node.url)
    assert link.call("put", "a", "1")[0] in ("ENOTCONN", "ETIMEDOUT")
    owners[0] = good  # promoted
    wait_until(lambda: link.call("put", "a", "2") == ("0", "put"), "the new owner is found")
    assert good.client().get("a") == "2"
    assert "several slots" not in link.log()


def test_cluster_nodes_that_are_new_are_learned_while_the_connection_lasts(start_redis, connect, fake):
    new, gone = start_redis(), start_redis()
    gone.kill()
    known = [gone]
    asked = []

    def nodes():
        asked.append(1)
        return slots_of(*known)

    def behave(conn, number):
        if number == 1:
            speak_as_node(conn, lambda words: SOME_TIME if words == [b"TIME"] else b"?", nodes)

    link = connect(fake(behave).url)
    known[0] = new
    wait_until(lambda: len(asked) >= 2, "the nodes are asked for again")
    assert link.command("GET", "a") == ("ENOTCONN", "")  # is answered with nonsense, and the connection is dropped
    wait_until(lambda: link.call("put", "a", "1") == ("0", "put"), "the new node is found")
    assert new.client().get("a") == "1"


def test_cluster_a_user_who_may_not_ask_for_the_nodes(start_redis, connect):
    first, second = start_cluster(start_redis)
    for node in (first, second):
        node.client().execute_command("ACL SETUSER u on >p ~* &* +@all -cluster")
    key = key_of_second(first.client())
    link = connect(f"redis://u:p@127.0.0.1:{first.port}")
    assert link.call("put", key, "1") == ("0", "put")
    assert "NOPERM" not in link.log()
    assert link.state() == ("up", 0, "")


def test_cluster_any_seed_of_a_list_will_do(start_redis, connect):
    gone = start_redis()
    gone.kill()
    first, second = start_cluster(start_redis)
    key = key_of_second(first.client())
    link = connect(f"{gone.url},127.0.0.1:{first.port}")
    assert link.call("put", key, "1") == ("0", "put")


# A list of servers without a cluster


def test_a_list_leads_to_the_master(start_redis, connect):
    gone = start_redis()
    gone.kill()
    master = start_redis(repl_diskless_sync_delay=0)
    replica = replica_of(start_redis, master)
    link = connect(f"{gone.url},{replica.url},{master.url}")
    assert link.call("put", "a", "1") == ("0", "put")
    assert f"{replica.port} is not a master" in link.log()
    master.kill()
    link.wait_down()
    replica.client().execute_command("REPLICAOF", "NO", "ONE")
    wait_until(lambda: link.call("put", "a", "2") == ("0", "put"), "the new master is found")
    assert replica.client().get("a") == "2"


def test_a_list_in_which_the_master_changes(start_redis, connect):
    master = start_redis(repl_diskless_sync_delay=0)
    replica = replica_of(start_redis, master)
    link = connect(f"redis://127.0.0.1:{master.port},127.0.0.1:{replica.port}")
    assert link.call("put", "a", "1") == ("0", "put")
    replica.client().execute_command("REPLICAOF", "NO", "ONE")
    master.client().replicaof("127.0.0.1", replica.port)
    wait_until(lambda: link.call("put", "a", "2") == ("0", "put") and replica.client().get("a") == "2", "it is followed")


def test_a_server_without_a_cluster_is_asked_once_and_nothing_is_logged(start_redis, connect):
    server = start_redis()
    link = connect(server.url)
    assert link.call("put", "a", "1") == ("0", "put")
    stats = server.client().info("commandstats")
    assert (stats["cmdstat_cluster|slots"]["calls"], stats["cmdstat_cluster|slots"]["failed_calls"]) == (1, 1)
    assert "redis reports an error" not in link.log() and "cluster" not in link.log()


# Sentinel


def sentinel_config(master):
    return (
        f"sentinel monitor main 127.0.0.1 {master.port} 2\n"
        "sentinel down-after-milliseconds main 1000\n"
        "sentinel failover-timeout main 10000\n"
        "sentinel parallel-syncs main 1\n"
    )


@pytest.fixture
def failover_set(start_redis):
    """One master, two replicas, three sentinels that know each other."""
    master = start_redis(repl_diskless_sync_delay=0)
    replicas = [replica_of(start_redis, master) for _ in range(2)]
    sentinels = [start_redis(sentinel=sentinel_config(master)) for _ in range(3)]
    for sentinel in sentinels:
        client = sentinel.client()
        wait_until(
            lambda: (lambda m: m["num-slaves"] == 2 and m["num-other-sentinels"] == 2)(client.sentinel_master("main")),
            "the sentinels know everybody",
        )
    return master, replicas, sentinels


def current_master(sentinels):
    for sentinel in sentinels:
        try:
            return int(sentinel.client().sentinel_get_master_addr_by_name("main")[1])
        except redis.RedisError:
            continue
    return None


def test_sentinel_failover_when_the_master_dies(failover_set, connect):
    master, _, sentinels = failover_set
    link = connect("redis://ignored", sentinels=sentinels, timeout_ms=1000)
    assert link.call("put", "a", "1") == ("0", "put")
    link.tell("flood", 10, "echo", "k")
    master.kill()
    wait_until(lambda: current_master(sentinels) not in (None, master.port), "a replica is promoted")
    promoted = time.monotonic()
    link.wait_up()
    assert link.call("put", "a", "2") == ("0", "put")
    assert time.monotonic() - promoted < 5
    assert link.calm()[2] == 0
    assert link.command("ROLE")[1].startswith("[master ")


def test_sentinel_failover_with_the_old_master_alive(failover_set, connect):
    master, _, sentinels = failover_set
    link = connect("redis://ignored", sentinels=sentinels, timeout_ms=1000)
    assert link.call("put", "a", "1") == ("0", "put")
    # Stopped, not dead: the connection stays open.
    master.signal(signal.SIGSTOP)
    wait_until(lambda: current_master(sentinels) not in (None, master.port), "a replica is promoted")
    wait_until(lambda: link.call("put", "a", "2") == ("0", "put"), "the link is at the new master")
    assert redis.Redis(port=current_master(sentinels), decode_responses=True).get("a") == "2"


def names(server_of):
    """A sentinel whose answer is the server that server_of() gives."""

    def behave(conn, _):
        while True:
            assert hear_command(conn)[2] == b"main"
            port = str(server_of().port).encode()
            conn.sendall(b"*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n" % (len(port), port))

    return behave


def test_a_new_master_is_noticed_while_the_old_one_still_answers(start_redis, connect, fake):
    masters = [start_redis(), start_redis()]
    sentinel = fake(names(lambda: masters[0]))
    link = connect("redis://ignored", sentinels=[sentinel])
    assert link.call("put", "a", "1") == ("0", "put")
    masters.reverse()
    wait_until(lambda: "the sentinels have a new master" in link.log(), "it is noticed")
    link.wait_up()
    assert link.call("put", "a", "2") == ("0", "put")
    assert masters[0].client().get("a") == "2"
    assert sentinel.count == 1  # the questions share a connection


def test_sentinels_that_are_away_or_know_nothing_are_passed_over(start_redis, connect, fake):
    master = start_redis()
    ignorant = start_redis(sentinel="")
    silent = fake(lambda conn, number: conn.recv(1) and time.sleep(PATIENCE))
    knowing = start_redis(sentinel=sentinel_config(master))
    gone = start_redis()
    gone.kill()
    link = connect("redis://ignored", sentinels=[gone, silent, ignorant, knowing], timeout_ms=300)
    assert link.call("put", "a", "1") == ("0", "put")
    # No sentinel is left; the master still answers.
    for sentinel in (ignorant, knowing):
        sentinel.kill()
    time.sleep(2.5)
    assert link.call("put", "a", "2") == ("0", "put")
    assert link.state() == ("up", 0, "")


def test_no_sentinel_knows_the_master(start_redis, connect):
    ignorant = start_redis(sentinel="")
    link = connect("redis://ignored", sentinels=[ignorant], timeout_ms=300, up=False)
    link.wait_detail("does not know a master of that name")


def test_a_sentinel_that_names_a_replica_is_not_believed(start_redis, connect, fake):
    master = start_redis(repl_diskless_sync_delay=0)
    replica = replica_of(start_redis, master)
    link = connect("redis://ignored", sentinels=[fake(names(lambda: replica)), fake(names(lambda: master))])
    assert "is not a master" in link.log()
    assert link.call("put", "a", "1") == ("0", "put")
