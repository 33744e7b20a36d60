"""The harness: starts the real binary, talks to it as a client would, and looks at how it ends.

Every router that a test starts is stopped with SIGTERM afterwards; an exit code other than 0, a leak or any
other report of a sanitizer fails the test. The tests of one run may run side by side: every router has
its own directory and takes free ports.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess

import basics
import first_router
import httpx
import kube
import load
import pytest
import redis_servers
import streams
import talkers

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD_DIR = pathlib.Path(os.environ.get("BUILD_DIR", "build"))
BINARY = (BUILD_DIR if BUILD_DIR.is_absolute() else ROOT / BUILD_DIR) / "smart-router"

FIVE_PODS = ",".join(f"voice-agent-{i}" for i in range(5))
HIDES_PORTS = ("warn", "error")  # levels at which the log does not say where the router listens
BATCH = 4  # tests that a worker gets at a time: those of one file share what is made once for it
DEADLINE_S = 60  # for what should take milliseconds: only a hang gets there
SANITIZER_REPORTS = ("AddressSanitizer", "LeakSanitizer", "runtime error:", "UndefinedBehaviorSanitizer")


def connect_without_delay(*args, **kwargs):
    conn = _create_connection(*args, **kwargs)
    conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return conn


# Debian's httpx sends head and body apart and leaves Nagle's algorithm on: each POST would wait 40 ms for a
# delayed acknowledgement.
_create_connection = socket.create_connection
socket.create_connection = connect_without_delay


def wait_until(condition, what):
    """Returns the first true value of condition(); fails if there is none for a long time."""
    return basics.wait_until(condition, what, DEADLINE_S)


def clean_environment(env, data_dir):
    kept = ("PATH", "LANG", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")
    clean = {name: os.environ[name] for name in kept if name in os.environ}
    clean.update(HTTP_PORT="0", METRICS_PORT="0", DATA_DIR=str(data_dir), STATIC_PODS=FIVE_PODS)
    clean["SHUTDOWN_DELAY"] = "0"  # no load balancer is here that would need it
    for name, value in (env or {}).items():
        if value is None:
            clean.pop(name, None)
        else:
            clean[name] = str(value)
    return clean


class Router:
    """A running router. `get`, `post`, `put`, `delete` and `request` are httpx's, on its URL."""

    def __init__(self, env, data_dir, log_path, nofile=None):
        self.data_dir = pathlib.Path(data_dir)
        self.log_path = log_path
        self.env = clean_environment(env, data_dir)
        self.port = None
        self.metrics_port = None
        self.tls_port = None
        self.is_stopped = False
        command = ["prlimit", f"--nofile={nofile}", str(BINARY)] if nofile else [str(BINARY)]
        with open(log_path, "wb") as log:
            self.proc = subprocess.Popen(
                command, env=self.env, cwd=self.data_dir.parent, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.client = None

    def log(self):
        return self.log_path.read_text(errors="replace")

    def log_lines(self, msg=None):
        """The JSON lines of the log, all or those of one event."""
        lines = []
        for line in self.log().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and (msg is None or entry.get("msg") == msg):
                lines.append(entry)
        return lines

    def _listening(self, name):
        if self.proc.poll() is not None:
            pytest.fail(f"the router ended with {self.proc.returncode}:\n{self.log()}")
        for line in self.log_lines("listening"):
            if line.get("name") == name:
                return line["port"]
        return None

    def wait_ready(self):
        if self.env.get("LOG_LEVEL") in HIDES_PORTS:
            pytest.fail(f"LOG_LEVEL={self.env['LOG_LEVEL']} hides the ports: start it with wait=False, or at info")
        self.port = wait_until(lambda: self._listening("http"), "the router listens")
        self.metrics_port = wait_until(lambda: self._listening("metrics"), "the metrics listener listens")
        if self.env.get("TLS_CERT_FILE"):
            self.tls_port = wait_until(lambda: self._listening("https"), "the TLS listener listens")
        self.client = httpx.Client(base_url=self.url, timeout=DEADLINE_S, trust_env=False, headers=self._credentials())
        wait_until(lambda: self.get("/ready").status_code == 200, "the router is ready")
        if self.env.get("POD_SOURCE") != "api":
            pods = len([pod for pod in self.env.get("STATIC_PODS", "").split(",") if pod])
            # 0 of an answer 503: a store that is slow for a moment.
            wait_until(
                lambda: self.get("/api/v1/pods?limit=1").json().get("total", 0) >= pods, "all static pods are there"
            )

    def _credentials(self):
        """The first key of API_KEY, or of its file at the start, if it has one; else the first admin of API_KEYS."""
        keys = self._setting("API_KEY").split(",")[0].strip()
        if not keys:
            lines = [line.split() for line in self._setting("API_KEYS").splitlines()]
            keys = next((line[2] for line in lines if line[1:2] == ["admin"]), "")
        return {"Authorization": f"Bearer {keys}"} if keys else {}

    def _setting(self, name):
        if f"{name}_FILE" in self.env:
            return pathlib.Path(self.env[f"{name}_FILE"]).read_text()
        return self.env.get(name, "")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def metrics_url(self):
        return f"http://127.0.0.1:{self.metrics_port}"

    def request(self, method, path, **kwargs):
        return self.client.request(method, path, **kwargs)

    def get(self, path, **kwargs):
        return self.client.get(path, **kwargs)

    def post(self, path, json=None, **kwargs):
        return self.client.post(path, json=json, **kwargs)

    def put(self, path, json=None, **kwargs):
        return self.client.put(path, json=json, **kwargs)

    def delete(self, path, **kwargs):
        return self.client.delete(path, **kwargs)

    def allocate(self, call_sid, **fields):
        """Allocates and expects it to work."""
        answer = self.post("/api/v1/allocate", {"call_sid": call_sid, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def allocate_until_answered(self, call_sid, **fields):
        """Allocates as a client does where the router gives up on the store soon: a store that did not answer is no answer yet."""

        def ask():
            answer = self.post("/api/v1/allocate", {"call_sid": call_sid, **fields})
            return answer if answer.status_code != 503 or answer.json()["code"] != "unavailable" else None

        answer = wait_until(ask, "the allocation is answered")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def release(self, call_sid):
        answer = self.post("/api/v1/release", {"call_sid": call_sid})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def release_until_answered(self, call_sid):
        """Releases as a client does: 503 is no answer yet. Returns the pod; None: an earlier try was carried out after all."""
        tries = 0

        def ask():
            nonlocal tries
            tries += 1
            answer = self.post("/api/v1/release", {"call_sid": call_sid})
            return answer if answer.status_code != 503 else None

        answer = wait_until(ask, "the release is answered")
        assert answer.status_code == 200 or (answer.status_code == 404 and tries > 1), answer.text
        return answer.json().get("pod_name")

    def state(self):
        """Everything a client can see of the router's state, to compare before and after."""
        status = self.get("/api/v1/status").json()
        status.pop("uptime_seconds")
        return {
            "status": status,
            "pods": self.get("/api/v1/pods?limit=1000").json(),
            "calls": self.get("/api/v1/calls?limit=1000").json(),
            "merchants": self.get("/api/v1/merchants").json(),
            "tiers": self.get("/api/v1/tiers").text,
        }

    def raw(self, data, half_close=False):
        """Sends bytes as they are; returns what comes back until the router closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S) as conn:
            conn.sendall(data)
            if half_close:
                conn.shutdown(socket.SHUT_WR)
            received = b""
            try:
                while chunk := conn.recv(65536):
                    received += chunk
            except ConnectionResetError:
                pass
            return received

    def stop(self):
        """SIGTERM; returns the exit code."""
        if self.client:
            self.client.close()
        self.is_stopped = True
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        return self.proc.wait(DEADLINE_S + 20)

    def kill(self):
        """SIGKILL: a crash."""
        if self.client:
            self.client.close()
        self.is_stopped = True
        self.proc.kill()
        self.proc.wait()


def pytest_collection_modifyitems(items):
    """A test of minutes begins first: the others fill the time beside it."""
    items.sort(key=lambda item: not getattr(item.module, "STARTS_EARLY", False))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Few tests at a time to a worker: with a long list of slow ones it would work alone at the end, for a minute and more."""
    if config.getvalue("dist") != "load":
        return None
    from xdist.scheduler import LoadScheduling

    class SmallBatches(LoadScheduling):
        def _send_tests(self, node, num):
            super()._send_tests(node, min(num, BATCH))

        def check_schedule(self, node, duration=0):
            if self.pending and len(self.node2pending[node]) >= 2:  # it needs to know the next one, and no more
                return
            super().check_schedule(node, duration)

    return SmallBatches(config, log)


def pytest_terminal_summary(terminalreporter):
    """What tests measured and do not judge, each a line at the end of the run."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, text in report.user_properties if report.when == "call" else ():
                if name == "verdict":
                    terminalreporter.write_line(text)


@pytest.fixture
def tell(record_property):
    """tell(text): shown at the end of the run, and kept in the junit file."""
    return lambda text: record_property("verdict", text)


@pytest.fixture(autouse=True)
def no_load_is_left():
    """Clients of a test that failed do not go on beside the next one."""
    yield
    load.stop_all()


@pytest.fixture
def start_router(tmp_path):
    """start_router(env=None, data_dir=None, wait=True, nofile=None) -> Router. A variable that is None is left unset."""
    routers = []

    def start(env=None, data_dir=None, wait=True, nofile=None):
        number = len(routers)
        router = Router(env, data_dir or tmp_path / f"data-{number}", tmp_path / f"log-{number}", nofile)
        routers.append(router)
        if wait:
            router.wait_ready()
        return router

    yield start

    problems = []
    for router in routers:
        if not router.is_stopped:
            try:
                code = router.stop()
            except subprocess.TimeoutExpired:
                router.kill()
                code = "nothing: it had to be killed"
            if code != 0:
                problems.append(f"the router ended with {code}:\n{router.log()[-4000:]}")
        reports = [report for report in SANITIZER_REPORTS if report in router.log()]
        if reports:
            problems.append(f"{reports}:\n{router.log()[-8000:]}")
    if problems:
        pytest.fail("\n".join(problems))


@pytest.fixture
def router(start_router):
    """One router with five pods and the default tiers."""
    return start_router()


@pytest.fixture
def run_router(tmp_path):
    """run_router(env) -> a finished process, for starts that must fail. Its text is in `output`."""

    def run(env=None, args=(), data_dir=None):
        done = subprocess.run(
            [str(BINARY), *args],
            env=clean_environment(env, data_dir or tmp_path / "run-data"),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DEADLINE_S,
            check=False,
        )
        done.output = (done.stdout + done.stderr).decode(errors="replace")
        for report in SANITIZER_REPORTS:
            assert report not in done.output, done.output
        return done

    return run


@pytest.fixture
def start_redis():
    """start_redis(has_port=False, **options) -> RedisServer."""
    servers = []

    def start(*args, **kwargs):
        server = redis_servers.RedisServer(*args, **kwargs)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def redis_server(start_redis):
    """One Redis, empty."""
    return start_redis()


@pytest.fixture(params=["embedded", "redis"])
def store(request):
    """The environment of a router with the one store or the other: a test runs with both."""
    if request.param == "embedded":
        return {}
    return {"REDIS_URL": request.getfixturevalue("redis_server").url}


@pytest.fixture
def start_on(start_redis, start_router):  # start_redis: so that the routers are stopped before the servers are
    """start_on(server, env=None, ...) -> Router that keeps its state in that Redis. Quick, but for what env says."""

    def start(server, env=None, **kwargs):
        return start_router({"REDIS_URL": server.url, **redis_servers.QUICK, **(env or {})}, **kwargs)

    return start


@pytest.fixture
def start_first(redis_server):
    """start_first(**options) -> first_router.FirstRouter on the test's Redis."""
    started = []

    def start(**options):
        started.append(first_router.FirstRouter(redis_server, **options))
        return started[-1]

    yield start
    for one in started:
        one.close()


@pytest.fixture
def start_talkers():
    """start_talkers(pods=1, ...) -> talkers.Talkers: agents and providers. No call may ever have talked over another one."""
    started = []

    def start(*args, **kwargs):
        started.append(talkers.Talkers(*args, **kwargs))
        return started[-1]

    yield start
    for one in started:
        one.close()
    for one in started:
        one.expect_no_violation()


@pytest.fixture
def start_in(start_router):
    """start_in(namespace, env=None, account=None, ...) -> Router that follows the pods of that namespace."""

    def start(namespace, env=None, account=None, **kwargs):
        where = {
            "KUBECONFIG": (account or namespace.account()).kubeconfig(),
            "NAMESPACE": namespace.name,
            "POD_LABEL_SELECTOR": "app=agent",
            "POD_SOURCE": "kubernetes",
            "STATIC_PODS": None,
        }
        return start_router({**where, **(env or {})}, **kwargs)

    return start


@pytest.fixture(scope="session")
def control_plane():
    """A real Kubernetes API server, one for all tests of a worker."""
    plane = kube.ControlPlane()
    yield plane
    plane.stop()


@pytest.fixture
def namespace(control_plane):
    """An empty namespace; its pods run only if the test says so."""
    namespace = control_plane.create_namespace()
    yield namespace
    namespace.close()


@pytest.fixture
def controllers(control_plane):
    """With these a StatefulSet makes its pods."""
    control_plane.start_controllers()


@pytest.fixture
def start_elector():
    """start_elector(kubeconfig, namespace, lease, identity, lease_duration="15s", ...) -> kube.Elector"""
    electors = []

    def start(*args, **kwargs):
        elector = kube.Elector(*args, **kwargs)
        electors.append(elector)
        return elector

    yield start
    for elector in electors:
        elector.close()


@pytest.fixture
def start_world(start_router, tmp_path):
    """start_world(front="router", agents=2, ...) -> streams.World: voice agents, a router, and what stands before it."""
    worlds = []

    def start(front="router", **kwargs):
        if front.startswith("nginx") and not streams.Nginx.is_installed():
            redis_servers.need("nginx")
        world = streams.World(start_router, tmp_path / f"world-{len(worlds)}", front)
        worlds.append(world)
        world.start(**kwargs)
        return world

    yield start
    for world in worlds:
        world.close()


# Fixtures of more than one file. Their modules import this one, so they are imported when they are needed.


@pytest.fixture
def shifted_server():
    from edges import ShiftedServer

    server = ShiftedServer()
    yield server
    server.stop()


@pytest.fixture
def group(start_redis):
    """A primary, two replicas and three sentinels."""
    from test_redis_sentinel import Group

    redis_servers.need()
    return Group(start_redis)


@pytest.fixture
def make_server():
    """The HTTP server by itself."""
    from test_http_server import Server

    servers = []

    def make(**settings):
        servers.append(Server(**settings))
        return servers[-1]

    yield make
    for server in servers:
        server.stop()


@pytest.fixture
def start_agents(tmp_path):
    """start_agents(*options) -> simulators.Agents: a running agent-sim."""
    import simulators

    started = []

    def start(*arguments):
        started.append(simulators.Agents(arguments, tmp_path / f"agents-{len(started)}"))
        return started[-1]

    yield start
    codes = [agents.stop() for agents in started]
    logs = "".join(agents.log_path.read_text() for agents in started)
    assert codes == [0] * len(codes), logs
    assert not any(report in logs for report in SANITIZER_REPORTS), logs
