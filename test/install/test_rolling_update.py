"""A rolling update with the times of the Kubernetes manifests: no allocation fails and no stream is cut.

Three routers on one Redis are replaced by three new ones, as a Deployment with maxSurge 1 and maxUnavailable 0 does it: a new
one is ready, an old one gets SIGTERM, and so on; nothing waits for the streams of the old ones. The times of probe and stop are
those of the shipped Deployment. Calls last seconds here, so that the test does: the grace period of hours is not used up.

The way in is a front that behaves like a Service: it looks at /ready of each router, acts on it with a delay, and never
moves a connection. Clients choose a router from it for each connection, with and without keep-alive. Streams and
webhooks of the simulated provider go through nginx, whose list of routers is changed by the same front. Neither tries again.
"""

import collections
import http.client
import json
import os
import random
import signal
import subprocess
import threading
import time

import basics
import pytest
import test_stopping
import yaml
from conftest import BINARY, DEADLINE_S, ROOT, wait_until

CLIENTS = 64
STREAMS = 200
TALK_S = 12
REST_S = 0.2  # of a client between two calls, on average
PROPAGATION_S = 1  # from a changed readiness to the last node that knows
PODS = 400
NGINX_CONF = """
daemon off; pid {directory}/nginx.pid; worker_processes 1; error_log {directory}/error.log; {user}
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
    map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
    upstream routers {{ {servers} }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://routers; proxy_http_version 1.1; proxy_next_upstream off; proxy_read_timeout 1h;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;
        }}
    }}
}}
"""


def shipped_deployment():
    """The Deployment of the router in deploy/, as it is applied."""
    for path in sorted(ROOT.glob("deploy/**/*.yaml")):
        try:
            documents = list(yaml.safe_load_all(path.read_text()))
        except yaml.YAMLError:
            continue  # the template of a chart
        for document in documents:
            if isinstance(document, dict) and document.get("kind") == "Deployment":
                container = document["spec"]["template"]["spec"]["containers"][0]
                if container["name"] == "smart-router" and "readinessProbe" in container:
                    return document["spec"]
    pytest.fail("deploy/ has no Deployment of the router")


def seconds(text):
    """Of a duration as the settings write it."""
    units = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
    for unit in ("ms", "s", "m", "h"):
        if text.endswith(unit) and text[: -len(unit)].replace(".", "").isdigit():
            return float(text[: -len(unit)]) * units[unit]
    return float(text)


def default_of(setting):
    table = (ROOT / "docs/CONFIG.md").read_text()
    entry = table[table.index(f"**`{setting}`**") :]
    return entry[entry.index("default `") + len("default `") :].split("`")[0]


class Times:
    """What the Deployment says about a stop."""

    def __init__(self):
        spec = shipped_deployment()
        pod = spec["template"]["spec"]
        container = pod["containers"][0]
        env = {entry["name"]: entry.get("value") for entry in container.get("env", ())}
        self.rolling = spec["strategy"]["rollingUpdate"]
        self.probe_s = container["readinessProbe"].get("periodSeconds", 10)
        # Kubernetes takes a pod out when it is deleted, before any probe fails. A front that has only probes is slower, by as
        # many of them as the Deployment says.
        self.failures = container["readinessProbe"].get("failureThreshold", 1)
        self.delay_s = seconds(env.get("SHUTDOWN_DELAY") or default_of("SHUTDOWN_DELAY"))
        self.drain_s = seconds(env.get("GATEWAY_DRAIN_TIMEOUT") or env.get("CALL_MAX_DURATION") or default_of("CALL_MAX_DURATION"))
        self.rest_s = seconds(env.get("HTTP_SHUTDOWN_TIMEOUT") or default_of("HTTP_SHUTDOWN_TIMEOUT"))
        self.grace_s = pod["terminationGracePeriodSeconds"]


class Front:
    """Which routers are ready, by probes, and an nginx that sends each new connection to one of them."""

    def __init__(self, directory, times):
        self.directory = directory
        self.probe_s = times.probe_s
        self.failures_max = times.failures
        self.failures = collections.Counter()  # in a row, by port
        self.port = basics.free_port()
        self.ports = []
        self.ready = []
        self.nginx = None
        self.is_over = threading.Event()
        directory.mkdir()
        self.thread = threading.Thread(target=self.probe, daemon=True)
        self.thread.start()

    def probe(self):
        while not self.is_over.wait(self.probe_s):
            ready = [port for port in list(self.ports) if self.is_up(port)]
            if ready != self.ready:
                self.is_over.wait(PROPAGATION_S)
                self.ready = ready
                self.tell_nginx()

    def is_up(self, port):
        if test_stopping.Balancer.is_ready(port):
            self.failures[port] = 0
            return True
        self.failures[port] += 1
        return port in self.ready and self.failures[port] < self.failures_max

    def tell_nginx(self):
        servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in self.ready)
        user = "user root;" if os.getuid() == 0 else ""
        text = NGINX_CONF.format(directory=self.directory, port=self.port, servers=servers, user=user)
        (self.directory / "nginx.conf").write_text(text)
        if self.nginx:
            self.nginx.send_signal(signal.SIGHUP)
        elif len(self.ready) == 3:
            command = ["/usr/sbin/nginx", "-p", self.directory, "-e", self.directory / "error.log", "-c", self.directory / "nginx.conf"]
            self.nginx = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def pick(self):
        return random.choice(self.ready)

    def close(self):
        self.is_over.set()
        self.thread.join()
        if self.nginx:
            self.nginx.terminate()
            self.nginx.wait(DEADLINE_S)


class Caller(test_stopping.Client):
    """Allocates, stays for a moment, releases."""

    def run(self):
        while not self.is_over.wait(random.uniform(0, 2 * REST_S)):
            self.ask("/api/v1/allocate")
            time.sleep(random.uniform(0, REST_S))
            self.ask("/api/v1/release")
        self.drop()


@pytest.fixture
def agents():
    """agent-sim: the addresses of its agents."""
    process = subprocess.Popen([BINARY.parent / "tools/agent-sim", "--agents", "8", "--base-port", "0"], stdout=subprocess.PIPE, text=True)
    addresses = []
    for line in process.stdout:
        if line.startswith("agent "):
            addresses.append(line.split()[2])
        elif line.startswith("ready"):
            break
    yield addresses
    process.terminate()
    process.wait(DEADLINE_S)


@pytest.fixture
def front(tmp_path):
    started = Front(tmp_path / "front", Times())
    yield started
    started.close()


def streams_of(router):
    """Open streams of a router; also of one that stops."""
    connection = http.client.HTTPConnection("127.0.0.1", router.metrics_port, timeout=DEADLINE_S)
    connection.request("GET", "/metrics")
    page = connection.getresponse().read().decode()
    connection.close()
    return int(next(line.split()[1] for line in page.splitlines() if line.startswith("smart_router_gateway_connections ")))


def test_the_deployment_gives_a_router_the_time_that_it_needs():
    times = Times()
    assert times.rolling == {"maxSurge": 1, "maxUnavailable": 0}
    assert times.grace_s >= times.delay_s + times.drain_s + times.rest_s
    assert times.delay_s > times.probe_s * times.failures + PROPAGATION_S


def test_no_allocation_fails_and_no_stream_is_cut_while_all_routers_are_replaced(redis_server, start_on, agents, front, tell):
    times = Times()
    env = {
        "STATIC_PODS": ",".join(f"agent-{i}={agents[i % len(agents)]}" for i in range(PODS)),
        "TIER_CONFIG": json.dumps({"standard": {"type": "exclusive", "target": PODS}}),
        "GATEWAY_SECRET": "the-first-secret-is-long-enough",
        "VOICE_AGENT_BASE_URL": f"ws://127.0.0.1:{front.port}",
        "SHUTDOWN_DELAY": f"{int(times.delay_s * 1000)}ms",
        "GATEWAY_DRAIN_TIMEOUT": f"{DEADLINE_S}s",
    }

    def add():
        router = start_on(redis_server, env)
        front.ports.append(router.port)
        return router

    old = [add() for _ in range(3)]
    wait_until(lambda: len(front.ready) == 3 and front.nginx, "the front knows three routers")
    wait_until(lambda: test_stopping.accepts(front.port), "nginx listens")
    counts = collections.Counter()
    clients = [Caller(f"client-{i}", front, counts, keeps=i % 2 == 0) for i in range(CLIENTS)]
    for client in clients:
        client.start()
    command = [BINARY.parent / "tools/provider-sim", "--router", f"http://127.0.0.1:{front.port}", "--concurrent", STREAMS, "--rate", 50]
    command += ["--duration", 1000, "--seconds", TALK_S, "--gap", 0, "--timeout", DEADLINE_S, "--json", "--quiet"]
    provider = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    try:
        wait_until(lambda: sum(map(streams_of, old)) >= STREAMS - 5, "200 streams are open")
        new, open_at_stop = [], []
        for router in old:
            new.append(add())
            wait_until(lambda: new[-1].port in front.ready, "the front knows the new one")
            open_at_stop.append(streams_of(router))
            test_stopping.begin_stop(router)
        ended = [router.proc.wait(DEADLINE_S) for router in old]  # the streams of the old ones end by themselves
        before = counts["answered"]
        wait_until(lambda: counts["answered"] > before + 2 * CLIENTS, "the clients are served by the new ones")
        provider.send_signal(signal.SIGINT)
        summary = json.loads(provider.communicate(timeout=DEADLINE_S)[0])
    finally:
        provider.kill()
        provider.wait()
    for client in clients:
        client.is_over.set()
    for client in clients:
        client.join()
    mishaps = [mishap for client in clients for mishap in client.mishaps]
    tell(
        f"rolling update of 3 routers (probe {times.probe_s} s, {times.failures} failures, delay {times.delay_s:g} s): {CLIENTS} clients, {counts['answered']} requests, "
        f"{counts['lost']} lost, {counts['refused']} refused, {counts['bad']} not 200; {STREAMS} streams at once, of them "
        f"{'+'.join(map(str, open_at_stop))} on routers that got SIGTERM; {summary['calls']} calls placed, {summary['failed']} failed, "
        f"{summary['busy']} busy; {summary['frames_sent']} frames, {summary['frames_lost']} lost"
    )
    assert (counts["lost"], counts["refused"], counts["bad"]) == (0, 0, 0), mishaps[:20]
    assert ended == [0, 0, 0]
    assert [router.log_lines("connections cut: the router stops") for router in old] == [[], [], []]
    assert summary["fine"] and summary["concurrent_max"] == STREAMS, summary
    assert summary["completed"] == summary["calls"] > STREAMS, summary
    wait_until(lambda: new[0].get("/api/v1/status").json()["active_calls"] == 0, "no call is left behind")
