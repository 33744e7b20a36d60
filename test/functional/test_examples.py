"""The example agents, plain and with the client: each serves ten calls of the real router, survives its crash, and drains on SIGTERM."""

import collections
import http.server
import importlib.util
import json
import os
import signal
import struct
import subprocess
import threading

import basics
import pytest
import streams
from conftest import DEADLINE_S, ROOT, wait_until

TIERS = '{"basic":{"type":"shared","target":1,"max_concurrent":10}}'
CALLS = [f"CA{number}" for number in range(10)]
NEEDS = {
    "examples/agent.py": ["websockets"],
    "examples/fastapi_agent.py": ["fastapi", "uvicorn", "websockets"],
    "clients/python/examples/websockets_agent.py": ["websockets"],
    "clients/python/examples/fastapi_agent.py": ["fastapi", "uvicorn", "websockets"],
    "clients/python/examples/pipeline_agent.py": ["websockets"],
}


class Example:
    """A running example."""

    def __init__(self, name, url, folder, says="ready", keep_s=1, pod="agent-1"):
        self.port = basics.free_port()
        self.log = folder / f"{pod}.log"
        env = {"PATH": os.environ["PATH"], "ROUTER_URL": url, "POD_NAME": pod, "PORT": str(self.port)}
        env |= {"KEEP_SECONDS": str(keep_s), "API_KEY": "key", "PYTHONNOUSERSITE": "1"}
        # The same for those that use the client.
        env |= {"SMART_ROUTER_BASE_URL": url, "SMART_ROUTER_API_KEY": "key", "POD_IP": "127.0.0.1"}
        env |= {"PYTHONPATH": str(ROOT / "clients/python/src"), "SMART_ROUTER_CB_RECOVERY_TIMEOUT": "1"}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(["/usr/bin/python3", ROOT / name], env=env, stdout=log, stderr=log)
        wait_until(lambda: self.has_said(says), f"the agent says: {says}")

    def has_said(self, says):
        assert self.process.poll() is None, self.log.read_text()
        return says in self.log.read_text()

    def stop(self):
        self.process.kill()
        self.process.wait()


def need(example):
    missing = [name for name in NEEDS[example] if not importlib.util.find_spec(name)]
    if missing:
        basics.skip(f"{example} needs Debian's " + ", ".join(f"python3-{name}" for name in missing))


@pytest.fixture(params=list(NEEDS))
def start_example(request, tmp_path, start_router):
    """start_example(**settings) -> the router, the agent, and a function that starts the router again"""
    need(request.param)
    agents = []

    def start(**settings):
        env = {"HTTP_PORT": basics.free_port(), "STATIC_PODS": None, "POD_SOURCE": "api", "TIER_CONFIG": TIERS}
        # Every release is the agent's: the gateway and the heartbeats would take longer than the test.
        env |= {"HEARTBEAT_TTL": "3s", "GATEWAY_RELEASE_GRACE": "1h", "GATEWAY_SECRET": "0" * 32}
        env |= {"API_KEY": "key", **settings}
        router = start_router(env, tmp_path / "data")
        keep_s = 1 if "stays_away" in request.node.name else 5  # nobody comes back there
        agents.append(Example(request.param, router.url, tmp_path, keep_s=keep_s))
        return router, agents[0], lambda: start_router(env, tmp_path / "data")

    yield start
    for agent in agents:
        agent.stop()


@pytest.fixture
def example(start_example):
    return start_example()


def path_of(answer):
    url = answer["ws_url"]
    return url[url.index("/", url.index("://") + 3) :]


def hang_up(stream):
    stream.send(streams.CLOSE, struct.pack("!H", 1000))
    assert stream.receive() == (True, streams.CLOSE, struct.pack("!H", 1000))
    stream.close()


def calls_of(router):
    return sorted(router.get("/api/v1/pod/agent-1").json()["calls"])


def test_it_serves_ten_calls_survives_a_crash_of_the_router_and_drains(example):
    router, agent, start_again = example
    assert agent.process.poll() is None
    paths = {sid: path_of(router.allocate(sid)) for sid in CALLS}
    open_streams = {sid: streams.Stream(router.port, path) for sid, path in paths.items()}
    assert all(stream.status == 101 and stream.echoes(sid.encode()) for sid, stream in open_streams.items())
    assert calls_of(router) == CALLS
    # Whoever hangs up is released by the agent, with its name.
    for sid in CALLS[:5]:
        hang_up(open_streams.pop(sid))
    wait_until(lambda: calls_of(router) == CALLS[5:], "the agent has released its calls")
    # The router is killed in mid-call and comes back.
    router.kill()
    assert all(stream.is_closed_by_other() for stream in open_streams.values())
    router = start_again()
    assert calls_of(router) == CALLS[5:]
    open_streams = {sid: streams.Stream(router.port, paths[sid]) for sid in CALLS[5:9]}
    assert all(stream.status == 101 and stream.echoes() for stream in open_streams.values())
    # CA9 does not come back: the agent gives it up.
    wait_until(lambda: calls_of(router) == CALLS[5:9], "the agent has given up the call that did not come back")
    # SIGTERM: no new call, but those that are there go on.
    agent.process.send_signal(signal.SIGTERM)
    wait_until(lambda: router.get("/api/v1/pod/agent-1").json()["is_draining"], "the agent drains")
    assert router.post("/api/v1/allocate", {"call_sid": "CA10"}).status_code == 503
    assert all(stream.echoes() for stream in open_streams.values())
    assert agent.process.poll() is None
    for stream in open_streams.values():
        hang_up(stream)
    assert agent.process.wait(DEADLINE_S) == 0, agent.log.read_text()
    assert router.get("/api/v1/pod/agent-1").status_code == 404
    assert router.get("/api/v1/status").json()["active_calls"] == 0
    assert "Traceback" not in agent.log.read_text(), agent.log.read_text()


def test_it_registers_again_at_a_router_that_has_forgotten_it(example):
    router, agent, _ = example
    path = path_of(router.allocate("CA1"))
    with streams.Stream(router.port, path) as stream:
        assert stream.echoes()
        assert router.delete("/api/v1/pod/agent-1").status_code == 200
        wait_until(lambda: router.get("/api/v1/pod/agent-1").status_code == 200, "the agent has registered again")
        wait_until(lambda: router.get("/api/v1/call/CA1").status_code == 200, "the call is adopted")
        assert stream.echoes(), "the call went on all the time"
    assert agent.process.poll() is None


def test_it_ends_although_the_router_stays_away_with_a_call(example):
    router, agent, _ = example
    with streams.Stream(router.port, path_of(router.allocate("CA1"))) as stream:
        assert stream.echoes()
        router.kill()
        assert stream.is_closed_by_other()
    agent.process.send_signal(signal.SIGINT)  # Ctrl-C is the same as SIGTERM
    assert agent.process.wait(DEADLINE_S) == 0, agent.log.read_text()


def test_it_tells_the_router_soon_that_it_keeps_a_call_whose_stream_broke(start_example):
    router, agent, _ = start_example(HEARTBEAT_TTL="1h")  # the next regular heartbeat comes long after the test

    def renewed_by():
        return router.get("/api/v1/call/CA1").json().get("renewed_by")

    stream = streams.Stream(router.port, path_of(router.allocate("CA1")))
    assert stream.echoes() and renewed_by() == "gateway"
    stream.close()  # without a close frame
    wait_until(lambda: renewed_by() == "pod", "the agent has listed the call")
    assert agent.process.poll() is None


class CutOff(http.server.BaseHTTPRequestHandler):
    """A router that is killed in the middle of its answers: the first few of each path are cut off."""

    asked = collections.Counter()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked[self.path] += 1
        self.send_response(200 if self.asked[self.path] != 2 else 500)
        body = json.dumps({"heartbeat_interval_seconds": 1, "ended": [], "conflicts": []}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if self.asked[self.path] > 2 else body[:5])
        self.close_connection = True

    def do_DELETE(self):
        self.do_GET()

    def do_GET(self):
        self.send_response(401)
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.mark.parametrize("name", list(NEEDS))
def test_answers_that_are_cut_off_or_refused_do_not_end_it_and_sigterm_does(name, tmp_path):
    need(name)
    CutOff.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), CutOff)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    agent = Example(name, f"http://127.0.0.1:{server.server_port}", tmp_path)
    try:
        wait_until(lambda: CutOff.asked["/api/v1/pod/agent-1/heartbeat"] > 3, "it goes on")
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(DEADLINE_S) == 0, agent.log.read_text()
        assert "Traceback" not in agent.log.read_text(), agent.log.read_text()
    finally:
        agent.stop()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("name", list(NEEDS))
def test_sigterm_ends_it_before_it_has_found_a_router(name, tmp_path):
    need(name)
    agent = Example(name, f"http://127.0.0.1:{basics.free_port()}", tmp_path, says="not registered")
    agent.process.send_signal(signal.SIGTERM)
    agent.process.send_signal(signal.SIGTERM)
    try:
        assert agent.process.wait(DEADLINE_S) == 0, agent.log.read_text()
    finally:
        agent.stop()
