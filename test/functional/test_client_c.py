"""libsmartrouter beside the real router: killed, stopped, slowed, answering 500 and 503; agents; what is installed of it.

`smartrouter-driver` (clients/c/test/driver.c) is a program with a client; each test tells it what to do, line by line.
CLIENT_CALLS is the number of calls of the load: 1,000 here, 10,000 in the campaign.
"""

import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time

import basics
import client_faults
import pytest
from conftest import BINARY, DEADLINE_S, ROOT, SANITIZER_REPORTS, wait_until

BUILD = pathlib.Path(BINARY).parent
LIBRARY = BUILD / "clients/c"
SOURCES = ROOT / "clients/c"
CALLS = int(os.environ.get("CLIENT_CALLS", "1000"))
LOAD_PODS, LOAD_THREADS = 50, 50
EIGHT_PODS = ",".join(f"voice-agent-{i}" for i in range(8))
EIGHT = '{"gold":{"type":"exclusive","target":8}}'
API_PODS = {"POD_SOURCE": "api", "STATIC_PODS": None}


class Driver:
    """A running driver. `ask` sends a line and returns the answer to it."""

    def __init__(self, url, log_path, env=None, command=None):
        self.log_path = log_path
        settings = {
            "SMART_ROUTER_BASE_URL": url,
            "SMART_ROUTER_API_KEY": "key",
            "ENABLE_VOICE_AGENT_POD_ISOLATION": "true",
            "SMART_ROUTER_PERCENTAGE": "100",
            "VOICE_AGENT_BASE_URL": "wss://voice.test",
            **{name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ},
            **(env or {}),
        }
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(
                command or [LIBRARY / "smartrouter-driver"], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=log, text=True,
            )

    def tell(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def read(self):
        watch = threading.Timer(DEADLINE_S, self.process.kill)  # a driver that hangs ends the test, too
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        assert line, f"the driver ended with {self.process.wait()}:\n{self.log()[-4000:]}"
        return line.strip()

    def ask(self, line):
        self.tell(line)
        return self.read()

    def log(self):
        return self.log_path.read_text(errors="replace")

    def end(self):
        """Ends as a program that is done; returns the exit code."""
        if self.process.poll() is None:
            self.process.stdin.close()
        try:
            code = self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        return code

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def start_driver(tmp_path):
    """start_driver(url, env=None, command=None) -> Driver; it must end without a report."""
    drivers = []

    def start(url, env=None, command=None):
        drivers.append(Driver(url, tmp_path / f"driver-{len(drivers)}", env, command))
        return drivers[-1]

    yield start
    for driver in drivers:
        if driver.process.returncode is None:
            assert driver.end() == 0, driver.log()[-4000:]
        assert not [report for report in SANITIZER_REPORTS if report in driver.log()], driver.log()[-8000:]


@pytest.fixture
def start_front():
    """start_front(router) -> FaultProxy, whose late answers come after the timeout of these tests."""
    fronts = []

    def start(router):
        fronts.append(client_faults.FaultProxy(router.port))
        fronts[-1].late_s = 0.6
        return fronts[-1]

    yield start
    for front in fronts:
        front.close()


def eight(start_router, env=None):
    """A router with eight pods for one call each."""
    return start_router({"API_KEY": "key", "STATIC_PODS": EIGHT_PODS, "TIER_CONFIG": EIGHT, **(env or {})})


def calls_of(router):
    return sorted(call["call_sid"] for call in router.get("/api/v1/calls?limit=1000").json()["calls"])


def test_a_call_from_allocation_to_release(start_router, start_driver):
    router = eight(start_router)
    driver = start_driver(router.url)
    outcome, reason, pod = driver.ask("allocate CA1 shop-7").split()
    assert (outcome, reason) == ("pod", "-") and pod in EIGHT_PODS.split(",")
    assert driver.ask("allocate CA1") == f"pod - {pod}"
    assert driver.ask("renew CA1") == "ok"
    assert driver.ask("begin CA2") == "ok"
    assert calls_of(router) == ["CA1", "CA2"]
    assert driver.ask("end CA2") == "ok"
    assert driver.ask(f"release CA1 {pod}") == "ok"
    assert driver.ask(f"release CA1 {pod}") == "ok", "404 is done"
    assert driver.ask("renew CA1") == "not_found"
    assert driver.ask("health") == driver.ask("status") == "ok"
    assert calls_of(router) == []


def test_a_wrong_key_gets_the_fallback(start_router, start_driver):
    driver = start_driver(eight(start_router).url, {"SMART_ROUTER_API_KEY": "wrong"})
    for i in range(7):
        assert driver.ask(f"allocate CA{i}") == "fallback refused -"
    assert driver.ask("breaker") == "closed"
    assert driver.ask("pending") == "0"


def test_no_pods_is_an_answer(start_router, start_driver):
    driver = start_driver(eight(start_router).url, {"SMART_ROUTER_ENABLE_FALLBACK": "false"})
    for i in range(8):
        assert driver.ask(f"allocate CA{i}").startswith("pod ")
    for i in range(8, 15):
        assert driver.ask(f"allocate CA{i}") == "busy no_pods -"
    assert driver.ask("breaker") == "closed"
    assert driver.ask("pending") == "0"


def life_of_the_breaker(driver, router, spoil, heal, requests):
    """`router` gives the router, `spoil` takes it away, `heal` brings it back, `requests` counts what has left the client."""
    assert driver.ask("allocate kept").startswith("pod ")
    spoil()
    for i in range(5):  # three failures, then two: the fifth opens it
        assert driver.ask(f"allocate away-{i}").startswith("fallback ")
    assert driver.ask("breaker") == "open"
    sent = requests()
    for i in range(5, 10):
        assert driver.ask(f"allocate away-{i}") == "fallback breaker_open -"
    assert driver.ask("release kept") == "pending"
    assert driver.ask("clock 20000") == "ok"
    assert driver.ask("status") == "breaker_open"
    assert requests() == sent, "no request leaves while it is open"

    # Half open, and still away: one failure opens it again.
    assert driver.ask("clock 10001") == "ok"
    wait_until(lambda: requests() > sent, "a request leaves while it is half open")
    wait_until(lambda: driver.ask("breaker") == "open", "its failure opens the breaker")
    heal()
    assert driver.ask("clock 30001") == "ok"
    for i in range(8):
        driver.ask(f"allocate probe-{i}")
    wait_until(lambda: driver.ask("breaker") == "closed", "three successes close it")

    # What the router carried out without an answer, and what could not be released, is free again.
    assert driver.ask("clock 60000") == "ok"
    assert driver.ask("wait") == "ok"
    for sid in calls_of(router()):
        assert sid.startswith("probe-")
        assert driver.ask(f"release {sid}") == "ok"


@pytest.mark.parametrize("fault", [500, 503, "late", "lost"])
def test_a_router_that_fails_opens_the_breaker_and_nothing_is_leaked(start_router, start_driver, start_front, fault):
    router = eight(start_router, {"API_KEY": None})
    front = start_front(router)
    driver = start_driver(front.url, {"SMART_ROUTER_TIMEOUT_MS": "200"})

    def set_fault(value):
        front.fault = value

    life_of_the_breaker(driver, lambda: router, lambda: set_fault(fault), lambda: set_fault(None), lambda: len(front.asked))
    wait_until(lambda: calls_of(router) == [], "all pods are free")


class Counter:
    """Listens where the router was, counts connections, and closes them."""

    def __init__(self, port):
        counter = self
        self.requests = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def handle(self):
                counter.requests += 1

        class Server(http.server.HTTPServer):
            allow_reuse_address = True

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", port), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def test_a_killed_router_opens_the_breaker_and_nothing_is_leaked(start_router, start_driver):
    port = basics.free_port()
    routers = [eight(start_router, {"HTTP_PORT": str(port)})]
    counters = []

    def spoil():
        routers[-1].kill()
        counters.append(Counter(port))

    def heal():
        counters[-1].close()
        routers.append(eight(lambda env: start_router(env, data_dir=routers[0].data_dir), {"HTTP_PORT": str(port)}))

    driver = start_driver(f"http://127.0.0.1:{port}", {"SMART_ROUTER_TIMEOUT_MS": "1000"})
    life_of_the_breaker(driver, lambda: routers[-1], spoil, heal, lambda: counters[-1].requests)
    wait_until(lambda: calls_of(routers[-1]) == [], "all pods are free")


def test_what_a_stopped_router_took_is_released_when_it_goes_on(start_router, start_driver):
    router = eight(start_router)
    driver = start_driver(router.url, {"SMART_ROUTER_TIMEOUT_MS": "300"})
    assert driver.ask("allocate before").startswith("pod ")
    router.proc.send_signal(signal.SIGSTOP)
    try:
        assert driver.ask("allocate during") == "fallback unavailable -"
        assert driver.ask("release before") == "pending"
        assert driver.ask("allocate later").startswith("fallback ")
        assert driver.ask("breaker") == "open"
    finally:
        router.proc.send_signal(signal.SIGCONT)
    assert driver.ask("clock 30001") == "ok"
    assert driver.ask("wait") == "ok"
    wait_until(lambda: calls_of(router) == [], "all pods are free")
    assert driver.ask("allocate after").startswith("pod ")


def test_a_client_that_ends_releases_what_is_pending(start_router, start_driver, start_front):
    router = eight(start_router, {"API_KEY": None})
    front = start_front(router)
    driver = start_driver(front.url)
    assert driver.ask("allocate CA1").startswith("pod ")
    front.fault = 500
    assert driver.ask("release CA1") == "pending"
    front.fault = None
    assert driver.end() == 0
    assert calls_of(router) == []


def test_an_agent_registers_keeps_its_calls_and_drains(start_router, start_driver):
    router = start_router({"API_KEY": "key", "HEARTBEAT_TTL": "1s", "TIER_CONFIG": EIGHT, **API_PODS})
    driver = start_driver(router.url, {"VOICE_AGENT_SHUTDOWN_TIMEOUT": "60"})
    assert driver.ask("agent agent-1 127.0.0.1:9") == "ok"
    assert driver.ask("allocate CA1") == "pod - agent-1"
    assert driver.ask("began agent-1 CA1") == "ok"
    assert driver.ask("allocate CA2") == "fallback no_pods -"

    # A router that has lost its pods gets the pod again from the agent.
    assert router.delete("/api/v1/pod/agent-1").status_code == 200
    wait_until(lambda: driver.log().count("agent-1 is registered") == 2, "it registers again")

    # The call ended with the pod, or was adopted and ends now. The program is told, and does not release it.
    router.post("/api/v1/release", {"call_sid": "CA1"})
    wait_until(lambda: driver.ask("calls agent-1") == "0", "the agent hears of the end")
    wait_until(lambda: "over CA1" in driver.log(), "the program hears of it")

    assert driver.ask("stop agent-1") == "ok"
    assert router.get("/api/v1/pod/agent-1").status_code == 404


def test_an_agent_waits_for_its_last_call(start_router, start_driver):
    router = start_router({"API_KEY": "key", "HEARTBEAT_TTL": "1s", "TIER_CONFIG": EIGHT, **API_PODS})
    driver = start_driver(router.url)
    caller = start_driver(router.url)
    assert driver.ask("agent agent-1 127.0.0.1:9") == "ok"
    assert caller.ask("allocate CA1") == "pod - agent-1"
    assert driver.ask("began agent-1 CA1") == "ok"
    assert caller.ask("renew CA1") == "ok"  # the end of a call that was never renewed is not kept: heartbeats would adopt it
    driver.tell("stop agent-1")
    wait_until(lambda: router.get("/api/v1/pod/agent-1").json()["is_draining"], "it drains")
    assert caller.ask("allocate CA2") == "fallback no_pods -"
    assert calls_of(router) == ["CA1"]
    assert caller.ask("release CA1") == "ok"
    assert driver.read() == "ok"
    assert router.get("/api/v1/pod/agent-1").status_code == 404


def test_pods_of_a_killed_process_are_free_again(start_router, start_driver, tell):
    """Agents and callers of one process: killed in between, the router ends its calls, and the next process finds free pods."""
    ttl_s = 5
    tiers = json.dumps({"gold": {"type": "exclusive", "target": LOAD_PODS}})
    router = start_router({"API_KEY": "key", "HEARTBEAT_TTL": f"{ttl_s}s", "CLEANUP_INTERVAL": "1s", "TIER_CONFIG": tiers, **API_PODS})
    patient = {"SMART_ROUTER_TIMEOUT_MS": "20000"}  # a busy machine is no router that is away
    driver = start_driver(router.url, patient)
    driver.tell(f"load {LOAD_PODS} {LOAD_THREADS} {CALLS}")
    assert driver.read() == "ready"
    for _ in range(CALLS // 200):
        assert driver.read() == "progress"
    driver.kill()
    killed = time.monotonic()
    left = router.get("/api/v1/status").json()["active_calls"]
    wait_until(lambda: router.get("/api/v1/status").json()["active_calls"] == 0, "the calls of the killed process end")
    ended_s = time.monotonic() - killed

    again = start_driver(router.url, patient)
    again.tell(f"load {LOAD_PODS} {LOAD_THREADS} {CALLS}")
    assert again.read() == "ready"
    pods = router.get("/api/v1/pods?limit=1000").json()["pods"]
    assert len(pods) == LOAD_PODS
    while (line := again.read()) == "progress":
        pass
    assert line == f"done {CALLS} pods {CALLS} others 0 pending 0"
    # A call may end while a heartbeat lists it: adopted again, it is released again.
    wait_until(lambda: calls_of(router) == [], "all calls are released")
    assert {pod["state"] for pod in router.get("/api/v1/pods?limit=1000").json()["pods"]} == {"available"}
    tell(f"libsmartrouter: {CALLS} calls by {LOAD_THREADS} threads; killed with {left} calls, which ended after "
         f"{ended_s:.1f} s (HEARTBEAT_TTL {ttl_s} s)")


def test_the_example_agent_serves_and_drains(start_router, tmp_path):
    router = start_router({"HEARTBEAT_TTL": "1s", "TIER_CONFIG": EIGHT, **API_PODS})
    log = tmp_path / "agent.log"
    env = {"SMART_ROUTER_BASE_URL": router.url, "POD_NAME": "echo-1", "POD_IP": "127.0.0.1", "PATH": os.environ["PATH"],
           **{name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}}
    with open(log, "wb") as output:
        agent = subprocess.Popen([LIBRARY / "smartrouter-agent"], env=env, stdin=subprocess.PIPE, stdout=output, stderr=output, text=True)
    try:
        wait_until(lambda: "ready" in log.read_text(), "the agent is ready")
        assert router.allocate("CA1")["pod_name"] == "echo-1"
        agent.stdin.write("open CA1\n")
        agent.stdin.flush()
        wait_until(lambda: "CA1 talks" in log.read_text(), "the call begins")
        # Its stream breaks and comes back: the session is still there.
        agent.stdin.write("close CA1 1006\nopen CA1 1\n")
        agent.stdin.flush()
        wait_until(lambda: "CA1 goes on" in log.read_text(), "the call goes on")
        agent.send_signal(signal.SIGTERM)
        wait_until(lambda: router.get("/api/v1/pod/echo-1").json()["is_draining"], "it drains")
        agent.stdin.write("close CA1 1000\n")
        agent.stdin.flush()
        assert agent.wait(DEADLINE_S) == 0, log.read_text()
        assert "CA1 closed: ok" in log.read_text() and "stopped: ok" in log.read_text()
        assert router.get("/api/v1/pod/echo-1").status_code == 404
    finally:
        agent.kill()
        agent.wait()
        agent.stdin.close()


# What is installed.


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What `make install` puts below PREFIX."""
    prefix = tmp_path_factory.mktemp("prefix")
    subprocess.run(["scripts/install-client", BUILD, "", prefix], cwd=ROOT, check=True)
    return prefix


def sanitize_flags():
    """A library with sanitizers needs them in the program, too."""
    needed = subprocess.run(["readelf", "-d", LIBRARY / "libsmartrouter.so"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return ["-fsanitize=address,undefined"] if "libasan" in needed else []


def pkg_config(prefix, *arguments):
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
    return subprocess.run(["pkg-config", *arguments], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.split()


def build_outside(source, program, *flags):
    subprocess.run(["gcc", "-Wall", "-Wextra", "-Werror", *sanitize_flags(), "-o", program, source, *flags], check=True, cwd=program.parent)


def test_only_the_interface_is_exported():
    listed = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", LIBRARY / "libsmartrouter.so"], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    exported = {line.split()[0] for line in listed.splitlines()}
    header = (SOURCES / "include/smartrouter.h").read_text()
    declared = set(re.findall(r"\b(smartrouter_\w+)\(", re.sub(r"/\*.*?\*/", "", header, flags=re.S))) - {"smartrouter_"}
    assert exported == {name for name in declared if not name.endswith("_fn")}
    assert len(exported) > 40


def test_the_library_carries_its_version(installed):
    header = (SOURCES / "include/smartrouter.h").read_text()
    version = re.search(r'#define SMARTROUTER_VERSION "(\d+)\.(\d+)\.(\d+)"', header)
    full = ".".join(version.groups())
    dynamic = subprocess.run(["readelf", "-d", installed / "lib/libsmartrouter.so"], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert f"[libsmartrouter.so.{version[1]}]" in dynamic
    assert (installed / "lib/libsmartrouter.so").resolve().name == f"libsmartrouter.so.{full}"
    assert pkg_config(installed, "--modversion", "smartrouter") == [full]


@pytest.mark.parametrize("form", ["shared", "static"])
def test_a_program_outside_the_tree_builds_with_pkg_config_alone(installed, start_router, tmp_path, form):
    """The program is the one of the README."""
    readme = (SOURCES / "README.md").read_text()
    (tmp_path / "call.c").write_text(re.search(r"<!-- program -->\n+```c\n(.*?)```", readme, re.S)[1])
    flags = pkg_config(installed, "--cflags", "--libs", "smartrouter")
    if form == "static":  # libcurl and the rest stay shared
        flags = [*pkg_config(installed, "--cflags", "smartrouter"), installed / "lib/libsmartrouter.a",
                 *pkg_config(installed, "--libs", "libcurl", "libcjson"), "-pthread", "-lm"]
    build_outside(tmp_path / "call.c", tmp_path / "call", *flags)
    env = {"LD_LIBRARY_PATH": str(installed / "lib"), "ENABLE_VOICE_AGENT_POD_ISOLATION": "true", "SMART_ROUTER_PERCENTAGE": "100",
           "SMART_ROUTER_BASE_URL": eight(start_router, {"API_KEY": None}).url, "VOICE_AGENT_BASE_URL": "wss://voice.test",
           **{name: os.environ[name] for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}}
    ran = subprocess.run([tmp_path / "call"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                         timeout=DEADLINE_S)
    assert ran.returncode == 0, ran.stdout
    assert re.search(r"^CA1 talks to voice-agent-\d at ws://", ran.stdout, re.M), ran.stdout


# Other judges of its memory and its threads.


def wait_in_line(driver):
    """Six calls want four pods, on a thread each: two wait. One is stopped, one gets a pod that is released."""
    calls = [f"W{i}" for i in range(6)]
    for call_sid in calls:
        driver.tell(f"queue {call_sid} 300000")
    served = [driver.read().split() for _ in range(4)]
    assert {words[1] for words in served} == {"pod"}
    stopped, granted = (call_sid for call_sid in calls if call_sid not in {words[0] for words in served})
    driver.tell(f"leave {stopped}")
    assert sorted(driver.read() for _ in range(2)) == [f"{stopped} fallback stopped -", "yes"]
    driver.tell(f"release {served[0][0]} {served[0][3]}")
    assert sorted(driver.read() for _ in range(2)) == [f"{granted} pod - {served[0][3]}", "ok"]
    assert driver.ask("joined") == "ok"
    for call_sid in {*calls} - {stopped, served[0][0]}:
        assert driver.ask(f"release {call_sid}") == "ok"


def drive_everything(driver, router):
    """A little of all: allocations, a kept call, agents, threads, a router that is away."""
    driver.tell("load 4 8 80")
    assert driver.read() == "ready"
    while (line := driver.read()) == "progress":
        pass
    assert line.startswith("done 80 ")
    assert driver.ask("begin CA1") == "ok"
    assert driver.ask("clock 31000") == "ok"
    assert driver.ask("end CA1") == "ok"
    wait_in_line(driver)
    assert driver.ask("began load-1 CA2") == driver.ask("closed load-1 CA2 1006") == driver.ask("began load-1 CA2") == "ok"
    assert driver.ask("failed load-1 CA2") == "ok"
    assert driver.ask("stop load-0") == "ok"
    assert driver.ask("wait") == "ok"
    wait_until(lambda: calls_of(router) == [], "all pods are free")


@pytest.fixture
def four_pods(start_router):
    tiers = '{"gold":{"type":"exclusive","target":4}}'
    return start_router({"API_KEY": "key", "TIER_CONFIG": tiers, "HOLD_MAX_WAIT": "5m", **API_PODS})


def test_valgrind_finds_nothing(four_pods, start_driver, tmp_path):
    """Or AddressSanitizer, if the library is built with it: both in one program do not work."""
    report = tmp_path / "valgrind.log"
    command = ["valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect,possible",
               f"--log-file={report}", LIBRARY / "smartrouter-driver"]
    if sanitize_flags():
        command = command[-1:]
        report.touch()
    elif not shutil.which("valgrind"):
        basics.skip("there is no valgrind")
    driver = start_driver(four_pods.url, {"SMART_ROUTER_TIMEOUT_MS": "20000"}, command)
    drive_everything(driver, four_pods)
    assert driver.end() == 0, report.read_text()[-8000:]
    assert report.read_text() == ""


def test_thread_sanitizer_finds_nothing(four_pods, start_driver, tmp_path):
    program = tmp_path / "driver-tsan"
    built = subprocess.run(
        ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-fsanitize=thread", f"-I{SOURCES}/include", "-o", program,
         *sorted((SOURCES / "src").glob("*.c")), SOURCES / "test/driver.c", "-lcurl", "-lcjson", "-lpthread", "-lm"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )
    if built.returncode != 0 and "tsan" in built.stdout:
        basics.skip("there is no ThreadSanitizer")
    assert built.returncode == 0, built.stdout
    env = {"TSAN_OPTIONS": "halt_on_error=0:exitcode=66", "SMART_ROUTER_TIMEOUT_MS": "20000"}
    driver = start_driver(four_pods.url, env, [program])
    drive_everything(driver, four_pods)
    assert driver.end() == 0, driver.log()[-8000:]
    assert "ThreadSanitizer" not in driver.log(), driver.log()[:8000]
