"""common.py - what both measurements share: starting servers on their cores, asking them, loading them."""
import contextlib
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONNECTIONS = 64
SERVER_CORE, CLIENT_CORE = "0", "1"

# Exclusive pods carry one call each, so ten of them cannot serve 64 connections. Sizes are therefore compared on a
# shared tier, where ten pods have room for all; the exclusive tier is measured beside them.
SHARED = {"tiers": {"standard": {"type": "shared", "target": 10000, "max_concurrent": 1000}}}
EXCLUSIVE = {"tiers": {"standard": {"type": "exclusive", "target": 10000}}}


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def pinned(core, command):
    return ["taskset", "-c", core] + command if os.cpu_count() > 1 else command


def cpu_seconds(pid):
    """Of all threads. In nanoseconds where the kernel counts them, else in ticks."""
    used = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                used += int(file.read().split()[0]) / 1e9
        except FileNotFoundError:
            with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
            used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


def waited_seconds(pid):
    """How long its first thread was ready to run while others had the core; 0 where the kernel does not count it."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except FileNotFoundError:
        return 0


def memory_mb(pid, field):
    """VmRSS: resident now; VmHWM: the most there ever was."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has no {field}")


class Client:
    """One keep-alive connection for the preparations."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(self, method, path, body=None):
        text = None if body is None else json.dumps(body)
        self.connection.request(method, path, text)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def must(self, method, path, body=None):
        status, text = self.ask(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {text!r}")
        return text


class Router:
    def __init__(self, binary, directory, tiers, pods, core=SERVER_CORE, environment=()):
        self.binary = binary
        self.directory = directory
        self.core = core
        self.process = None
        self.port, self.metrics_port = free_ports(2)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HTTP_PORT": str(self.port),
            "SHUTDOWN_DELAY": "0",
            "METRICS_PORT": str(self.metrics_port),
            "DATA_DIR": os.path.join(directory, "data"),
            "POD_SOURCE": "api",
            "HEARTBEAT_TTL": "24h",
            "TIER_CONFIG": json.dumps(tiers),
            **dict(environment(self.port) if callable(environment) else environment),
        }
        self.log = os.path.join(directory, "log")
        os.makedirs(directory)
        self.start()
        client = Client(self.port)
        for number in range(pods):
            client.must("POST", "/api/v1/pods",
                        {"pod_name": f"voice-agent-{number}", "address": f"10.0.{number >> 8}.{number & 255}:8000"})

    @property
    def pid(self):
        return self.process.pid

    def start(self):
        """Returns the seconds from exec to the first 200 of /ready."""
        with open(self.log, "ab") as log:
            started = time.perf_counter()
            self.process = subprocess.Popen(pinned(self.core, [self.binary]), env=self.environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        while time.perf_counter() - started < 60:
            if self.process.poll() is not None:
                break
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
                connection.request("GET", "/ready")
                status = connection.getresponse().status
                connection.close()
                if status == 200:
                    return time.perf_counter() - started
            time.sleep(0.002)
        with open(self.log, "rb") as log:
            raise RuntimeError(f"the router does not get ready: {log.read()[-2000:]!r}")

    def stop(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(40)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def settle(self):
        """Releases what the load left behind, and forgets the log's text."""
        client = Client(self.port)
        while True:
            calls = json.loads(client.must("GET", "/api/v1/calls?limit=1000"))["calls"]
            for call in calls:
                client.ask("POST", "/api/v1/release", {"call_sid": call["call_sid"]})
            if not calls:
                break
        os.truncate(self.log, 0)


def load(server, port, seconds, prefix, pause_ms=None, scheme="http", connections=CONNECTIONS):
    """One slot: wrk against one server. Returns what wrk and /proc say. With a pause, clients rest between requests."""
    before = cpu_seconds(server.pid)
    client_before = os.times()
    run = subprocess.run(
        pinned(CLIENT_CORE, ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s",
                             os.path.join(ROOT, "bench", "pairs.lua"), f"{scheme}://127.0.0.1:{port}", "--", prefix,
                             str(2 * connections)]
               + ([str(pause_ms)] if pause_ms else [])),
        capture_output=True, text=True, timeout=seconds + 60, check=True)
    used = cpu_seconds(server.pid) - before
    client_after = os.times()
    client_used = (client_after.children_user + client_after.children_system
                   - client_before.children_user - client_before.children_system)
    found = json.loads(run.stdout.strip().splitlines()[-1])
    duration = found["duration_us"] / 1e6
    return {
        "requests": found["requests"],
        "requests_per_s": found["requests"] / duration,
        "p50_ms": found["p50_us"] / 1000,
        "p99_ms": found["p99_us"] / 1000,
        "max_ms": found["max_us"] / 1000,
        "cpu_us": used * 1e6 / found["requests"],
        "busy": used / duration,
        "client_busy": client_used / duration,
        "failed": found["failed"],
        "refused": found["refused"],
    }


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}
