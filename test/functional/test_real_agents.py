"""Agents on real servers behind the gateway: how their servers end a stream, and what becomes of the call.

docs/AGENTS.md has the table of the codes; it is compared here with what the gateway has seen. AGENTS_PYTHON is the Python that
runs the agents, and so the versions of the servers: Debian's by default; scripts/agent-servers has the newest ones.
"""

import os
import re
import signal
import struct
import subprocess
import sys

import basics
import client_faults
import pytest
import streams
from conftest import DEADLINE_S, ROOT, wait_until
from dialects import DIALECTS
from streams import BINARY, CLOSE, PING, PONG, TEXT, Closed

AGENT = ROOT / "test/functional/real_agent.py"
PYTHON = os.environ.get("AGENTS_PYTHON", sys.executable)
SERVERS = ["websockets", "uvicorn-websockets", "uvicorn-wsproto", "fastapi", "hypercorn", "aiohttp"]
# Those that only newer versions have are there if they are.
SERVERS += subprocess.run([PYTHON, AGENT, "more"], capture_output=True, text=True, check=False).stdout.split()
# What the agent does or gets, and the column of the table that says what the gateway sees then.
WAYS = {
    "return": "the handler returns",
    "raise": "an exception",
    "SIGTERM": "SIGTERM",
    "SIGINT": "SIGTERM",
    "SIGKILL": "SIGKILL",
}
CODES = {"close": 1000, "close 4000": 4000, "close 1011": 1011}  # these have no column: they are the same everywhere
STAYS_OPEN, NO_FRAME = "stays open", 1006
PROVIDER = DIALECTS["twilio"]
TIERS = '{"gold":{"type":"exclusive","target":2}}'
ENV = {"STATIC_PODS": None, "POD_SOURCE": "api", "TIER_CONFIG": TIERS, "GATEWAY_SECRET": "0" * 32, "GATEWAY_RELEASE_GRACE": "1h"}


def table():
    """{row: {column: cell}} of the table in the document."""
    text = (ROOT / "docs/AGENTS.md").read_text()
    lines = re.search(r"^\| server \|.*\n(?:\|.*\n)+", text, re.MULTILINE).group().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    columns = cells[0][1:]
    return {label: dict(zip(columns, row[1:])) for row in cells[2:] for label in row[0].split("; ")}


def ends_call(code):
    """SPEC §9, Ends."""
    return code in (1000, 1005) or 3000 <= code <= 4999


def payload_of(code):
    return struct.pack("!H", code) if code else b""


class RealAgent:
    """A running real_agent.py."""

    def __init__(self, server, folder, *release, proxy=False):
        self.server, self.name = server, "real"
        self.log = folder / "real.log"
        port = basics.free_port()
        self.proxy = client_faults.CutProxy(port) if proxy else None
        self.address = self.proxy.address if proxy else f"127.0.0.1:{port}"
        env = {"PATH": os.environ["PATH"], "PYTHONNOUSERSITE": "1", "NO_PROXY": "127.0.0.1"}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([PYTHON, AGENT, server, self.name, str(port), *release], env=env, stdout=log, stderr=log)
        try:
            wait_until(lambda: self.listens(port), "the agent listens")
        except BaseException:
            self.stop()
            raise

    def listens(self, port):
        if self.process.poll() == 3:
            basics.skip(f"{self.server}: {self.said().strip()}")
        assert self.process.poll() is None, self.said()
        try:
            streams.socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            return False
        return True

    def said(self, words=""):
        text = self.log.read_text()
        return re.search(f"^{words}$", text, re.MULTILINE) if words else text

    @property
    def row(self):
        """As the table names it."""
        return self.said("serves (.*)")[1]

    def stop(self):
        if self.proxy:
            self.proxy.close()
        self.process.kill()
        self.process.wait()


class World:
    """A router with a real agent that has a call, a caller, and a second pod whose frames are the test's."""

    def __init__(self, router, agent, with_other=True):
        self.router, self.agent = router, agent
        self.register("real", agent.address)
        url = router.allocate("CA1", provider=PROVIDER.name)["ws_url"]
        self.other = streams.Agent(is_manual=True)
        if with_other:
            self.add_other()
        self.caller = streams.Stream(router.port, url[url.index("/", url.index("://") + 3) :])
        assert self.caller.status == 101
        self.first = PROVIDER.first_messages("CA1", "MZCA1")
        for text in self.first:
            self.say(text)
        self.expect_real()

    def register(self, name, address):
        answer = self.router.post("/api/v1/pods", {"pod_name": name, "address": address, "incarnation": "1"})
        assert answer.status_code == 200, answer.text

    def add_other(self):
        self.register("other", f"127.0.0.1:{self.other.port}")

    def say(self, text):
        self.caller.send(TEXT, text.encode())

    def hear(self):
        """The next frame that is none of the router's music."""
        while True:
            frame = self.caller.receive()
            if frame[1] != TEXT:
                return frame
            kind, what = PROVIDER.heard(frame[2].decode())
            if kind == "mark" and what.startswith("sr-"):
                self.say(PROVIDER.mark_back("MZCA1", what))
            elif kind not in ("audio", "clear"):
                return frame

    def expect_real(self):
        """The real agent answers each message: so it has got all that were sent."""
        self.say(PROVIDER.media("MZCA1", b"\xff" * 160, 1))
        for _ in range(len(self.first) + 1):
            fin, opcode, text = self.hear()
            assert (fin, opcode, PROVIDER.heard(text.decode())) == (True, TEXT, ("mark", "real"))

    def end_it(self, way):
        if way.startswith("SIG"):
            self.agent.process.send_signal(getattr(signal, way))
        else:
            self.say(f"do {way}")

    def codes(self):
        """{code: how often} of the pods' streams, as the gateway counts them."""
        lines = re.findall(r'^smart_router_gateway_close_codes_total\{side="pod",code="(\w+)"\} (\d+)', self.router.get("/metrics").text, re.MULTILINE)
        assert lines
        return {code: int(count) for code, count in lines if count != "0"}

    def call(self):
        answer = self.router.get("/api/v1/call/CA1")
        assert answer.status_code in (200, 404), answer.text
        return answer.json() if answer.status_code == 200 else None

    def pod_of_call(self):
        return (self.call() or {}).get("pod_name")

    def expect_rescued(self, result="moved"):
        """The other pod has the call, from its first messages on, and the caller and it hear each other."""
        pod = self.other.accept()
        assert pod.head.get("x-call-sid") == "CA1" and pod.head.get("x-call-resumed") == "1"
        for text in self.first:
            assert pod.receive() == (True, TEXT, text.encode())
        self.expect_carried(pod)
        assert f'smart_router_gateway_rescues_total{{result="{result}"}} 1' in self.router.get("/metrics").text
        return pod

    def expect_carried(self, pod):
        self.say("are you there?")
        assert pod.receive() == (True, TEXT, b"are you there?")
        pod.send(BINARY, b"here I am")
        assert self.hear() == (True, BINARY, b"here I am")
        assert self.pod_of_call() == "other"

    def expect_ended(self, code=None):
        _, opcode, payload = self.hear()
        assert opcode == CLOSE and (code is None or payload[:2] == payload_of(code))
        self.caller.send(CLOSE, payload[:2])
        with pytest.raises(Closed):
            self.caller.receive()
        self.expect_over()

    def expect_over(self):
        wait_until(lambda: self.call() is None, "the call has ended")
        assert self.other.peers.empty() and self.router.get("/api/v1/status").json()["active_calls"] == 0
        assert 'smart_router_gateway_rescues_total{result="moved"} 0' in self.router.get("/metrics").text

    def release(self, **fields):
        return self.router.post("/api/v1/release", {"call_sid": "CA1", **fields})

    def has_released(self, answer):
        """Waits for the agent's release; `answer` is what it must have got."""
        wait_until(lambda: self.agent.said("released .*"), lambda: f"the agent has released its call; it said: {self.agent.said()}")
        assert self.agent.said(f"released {answer}"), self.agent.said()

    def hang_up(self):
        self.caller.send(CLOSE, payload_of(1000))
        wait_until(lambda: self.call() is None, "the call has ended")

    def close(self):
        self.caller.close()
        self.other.close()


@pytest.fixture
def world_of(start_router, tmp_path):
    """world_of(server, release="", proxy=False, env=None, with_other=True) -> World"""
    closing = []

    def start(server, release="", proxy=False, env=None, with_other=True):
        router = start_router({**ENV, **(env or {})})
        agent = RealAgent(server, tmp_path, *([router.url, release] if release else []), proxy=proxy)
        closing.append(agent.stop)
        world = World(router, agent, with_other)
        closing.append(world.close)
        return world

    yield start
    for close in reversed(closing):
        close()


def expected(world, way, tell):
    """What the table says; None: it does not know these versions."""
    if way in CODES:
        return CODES[way]
    row = table().get(world.agent.row)
    if not row:
        tell(f"docs/AGENTS.md has no row of {world.agent.row}")
        return None
    cell = row[WAYS[way]]
    return cell if cell == STAYS_OPEN else NO_FRAME if cell == "-" else int(cell)


def seen_by(world):
    """The code of the one stream of a pod that has ended."""
    codes = wait_until(world.codes, "the gateway has seen the end of the stream")
    assert len(codes) == 1 and set(codes.values()) == {1}, codes
    code = next(iter(codes))
    return 4000 if code == "4xxx" else int(code)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("way", [*WAYS, *CODES])
def test_the_code_of_a_server_is_in_the_table_and_decides_whether_the_call_goes_on(world_of, tell, server, way):
    world = world_of(server)
    says = expected(world, way, tell)
    world.end_it(way)
    if says == STAYS_OPEN:
        wait_until(lambda: world.agent.said("over"), "its handler has returned")
        world.caller.send(PING, b"still open?")
        assert world.hear() == (True, PONG, b"still open?")
        assert world.codes() == {} and world.pod_of_call() == "real"
        world.hang_up()
        return
    seen = seen_by(world)
    if ends_call(seen):
        world.expect_ended(seen)
    else:
        world.expect_rescued()
        world.hang_up()
    if says is None:
        tell(f"{world.agent.row}: {way}: {seen}")
    else:
        assert seen == says, world.agent.row
    if way.startswith("SIG"):
        world.agent.process.wait(DEADLINE_S)  # its stream does not keep it


# Agents that release their call in `finally`, at every end of their socket.

KEPT = {"named": "404", "plain": "200 kept"}  # what the agent is told about a call that is not its own any more
EITHER = "(404|200 ended)"  # the gateway may have ended the call already
# The others, in Debian's versions, do not tell a handler of the end of a connection without a close frame.
NOTICE = [server for server in SERVERS if server not in ("uvicorn-wsproto", "hypercorn")]


def expect_kept_until_its_pod_releases_it(world, pod):
    for _ in range(3):
        assert world.release().json()["is_kept"] and world.release(pod_name="real").status_code == 404
    world.expect_carried(pod)
    assert world.release(pod_name="other").status_code == 200
    wait_until(lambda: world.call() is None, "the call has ended")


@pytest.mark.parametrize("release", KEPT)
@pytest.mark.parametrize("server", NOTICE)
def test_a_release_in_finally_does_not_end_a_call_whose_stream_was_cut(world_of, server, release):
    world = world_of(server, release, proxy=True)
    world.agent.process.send_signal(signal.SIGSTOP)  # a release before the router has seen the cut would end the call
    world.agent.proxy.cut()
    pod = world.expect_rescued()
    world.agent.process.send_signal(signal.SIGCONT)
    world.has_released(KEPT[release])
    expect_kept_until_its_pod_releases_it(world, pod)


@pytest.mark.parametrize("release", KEPT)
@pytest.mark.parametrize("server", ["websockets", "uvicorn-wsproto"])
def test_a_release_in_finally_does_not_end_a_call_whose_agent_is_stopped(world_of, store, server, release):
    world = world_of(server, release, env=store)
    world.end_it("SIGTERM")
    pod = world.expect_rescued()
    world.has_released(KEPT[release])
    expect_kept_until_its_pod_releases_it(world, pod)


@pytest.mark.parametrize("release", KEPT)
def test_a_release_in_finally_does_not_end_a_rescued_call_that_waits_for_a_pod(world_of, store, release):
    world = world_of("websockets", release, env={**store, "HOLD_MAX_WAIT": "2m"}, with_other=False)
    world.end_it("SIGTERM")
    world.has_released(KEPT[release])
    assert world.pod_of_call() != "other"
    world.add_other()
    pod = world.expect_rescued("waited")
    expect_kept_until_its_pod_releases_it(world, pod)


@pytest.mark.parametrize("release", KEPT)
@pytest.mark.parametrize("way", ["return", "close", "close 4000"])
def test_a_call_that_its_agent_has_ended_is_released_all_the_same(world_of, store, way, release):
    world = world_of("websockets", release, env=store)
    world.end_it(way)
    world.expect_ended()
    world.has_released(EITHER)
    assert world.router.allocate("CA2")["pod_name"] in ("real", "other")
    assert world.router.allocate("CA3")["pod_name"] in ("real", "other"), "both pods are free"


@pytest.mark.parametrize("release", KEPT)
def test_a_call_that_its_provider_has_ended_is_released_all_the_same(world_of, store, release):
    world = world_of("websockets", release, env=store)
    world.say(PROVIDER.stop("CA1", "MZCA1"))
    world.caller.send(CLOSE, payload_of(1000))
    world.caller.rest()
    world.caller.close()
    world.has_released(EITHER)
    world.expect_over()


@pytest.mark.parametrize("release", KEPT)
def test_a_release_before_the_socket_has_ended_ends_the_call(world_of, store, release):
    """That of `finally` in a handler that raises: its server closes the stream afterwards. docs/AGENTS.md warns of it."""
    world = world_of("websockets", release, env=store)
    world.end_it("raise")
    world.has_released("200 ended")
    world.expect_ended()


def test_a_release_without_a_pod_does_not_end_a_call_whose_router_is_restarted(world_of, start_router):
    """The agent is told 1012, and releases; its caller comes back to the next router."""
    env = {"PUBLIC_BASE_URL": "https://voice.example.com", "SHUTDOWN_DELAY": "3s"}
    world = world_of("websockets", "plain", env=env)
    world.router.proc.send_signal(signal.SIGTERM)
    world.has_released("200 kept")
    assert world.router.stop() == 0
    following = start_router({**ENV, **env}, data_dir=world.router.data_dir)
    release = {"call_sid": "CA1"}
    assert following.post("/api/v1/release", release).json()["is_kept"], "also if it reaches the next one"
    answer = following.post("/api/v1/twilio/after?pod=real", data={"CallSid": "CA1", "CallStatus": "in-progress"})
    assert "/ws/pod/real/" in answer.text, answer.text
    assert following.post("/api/v1/release", release).json()["is_kept"], "its stream is not there yet"
    assert not following.post("/api/v1/release", {**release, "pod_name": "real"}).json().get("is_kept")
