"""The simulators of tools/, as tests use them."""

import base64
import collections
import json
import signal
import subprocess

import httpx
import pytest
import websockets
from conftest import BINARY, DEADLINE_S, SANITIZER_REPORTS

TOOLS = BINARY.parent / "tools"
PAYLOAD = base64.b64encode(bytes(range(160))).decode()

STARTS = {
    "twilio": {"event": "start", "streamSid": "S1", "start": {"streamSid": "S1", "callSid": "CA1"}},
    "plivo": {"event": "start", "start": {"callId": "CA1", "streamId": "S1"}},
    "exotel": {"event": "start", "stream_sid": "S1", "start": {"stream_sid": "S1", "call_sid": "CA1"}},
}


class Agents:
    """A running agent-sim on free ports."""

    def __init__(self, arguments, log_path):
        self.log_path = log_path
        with open(log_path, "wb") as log:
            self.proc = subprocess.Popen(
                [TOOLS / "agent-sim", "--base-port", "0", "--control-port", "0", *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.addresses = {}
        for line in self.proc.stdout:
            words = line.split()
            if words[0] == "agent":
                self.addresses[words[1]] = words[2]
            elif words[0] == "control":
                self.control = f"http://{words[1]}"
            elif words[0] == "ready":
                return
        pytest.fail(f"agent-sim did not start: {log_path.read_text()}")

    @property
    def ws_url(self):
        return f"ws://{self.addresses['voice-agent-0']}/stream"

    def show(self):
        return httpx.get(self.control + "/", timeout=DEADLINE_S, trust_env=False).json()

    def tell(self, mode, name="all"):
        answer = httpx.post(f"{self.control}/agent/{name}/{mode}", timeout=DEADLINE_S, trust_env=False)
        return answer.status_code

    def stop(self):
        if self.proc.poll() is None:
            self.proc.send_signal(signal.SIGTERM)
        self.proc.stdout.read()
        return self.proc.wait(DEADLINE_S)


def provide(*arguments):
    """Runs provider-sim; returns its exit status and its summary."""
    command = [TOOLS / "provider-sim", "--json", "--quiet", "--gap", "0", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert not any(report in done.stderr for report in SANITIZER_REPORTS), done.stderr
    return done.returncode, json.loads(done.stdout)


def connect(url):
    return websockets.connect(url, max_size=None, compression=None, close_timeout=DEADLINE_S)


class Provider:
    """A provider-sim that works meanwhile."""

    def __init__(self, router, path, *arguments):
        self.process = subprocess.Popen(
            [TOOLS / "provider-sim", "--json", "--quiet", "--router", router.url, "--journal", path, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # fmt: skip

    def result(self, timeout):
        try:
            output, errors = self.process.communicate(timeout=timeout)
        finally:
            self.process.kill()
        assert not any(report in errors for report in SANITIZER_REPORTS), errors
        return json.loads(output)


def journal(path):
    """Its lines, but for one that is just being written."""
    return [json.loads(line) for line in path.read_text().rpartition("\n")[0].splitlines()]


def sessions_of(path):
    """call -> its sessions at agents, as (start, end), in their order."""
    calls = collections.defaultdict(list)
    for line in journal(path):
        if line["event"] == "start":
            calls[line["call_sid"]].append([line["at_ns"], None])
        elif line["event"] == "end":
            calls[line["call_sid"]][-1][1] = line["at_ns"]
    return calls
