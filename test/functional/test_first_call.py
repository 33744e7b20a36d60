"""`make run` as somebody new uses it: the lines that it prints work, and nothing is left when it ends."""

import json
import os
import re
import signal
import subprocess

import basics
import pytest
from conftest import BINARY, DEADLINE_S, ROOT, wait_until


class Run:
    def __init__(self, folder, **env):
        self.log = folder / "run.log"
        self.port = basics.free_port()
        clean = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        clean |= {"BUILD_DIR": str(BINARY.parent), "DATA_DIR": str(folder / "data"), "METRICS_PORT": "0"}
        clean |= {"HTTP_PORT": str(self.port), "SHUTDOWN_DELAY": "0", **env}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([ROOT / "scripts/run-local"], env=clean, stdout=log, stderr=log)
        wait_until(self.has_greeted, "the greeting is printed")
        self.children = {name: pid for pid, name in basics.children_of(self.process.pid).items()}

    def has_greeted(self):
        assert self.process.poll() is None, self.log.read_text()
        return "Ctrl-C" in self.log.read_text()

    def commands(self):
        return re.findall(r"^    (\S.*)$", self.log.read_text(), re.MULTILINE)

    def expect_end(self, *statuses):
        assert self.process.wait(DEADLINE_S) in statuses, self.log.read_text()
        wait_until(lambda: not any(map(basics.is_alive, self.children.values())), "every process has ended")

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(DEADLINE_S)


@pytest.fixture
def start_run(tmp_path):
    runs = []

    def start(**env):
        runs.append(Run(tmp_path, **env))
        return runs[-1]

    yield start
    for run in runs:
        run.stop()


def shell(command):
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def pods_of(run):
    return json.loads(shell(f"curl -sf http://localhost:{run.port}/api/v1/pods"))["pods"]


def test_the_three_lines_that_it_prints_work_and_ctrl_c_ends_everything(start_run):
    run = start_run()
    assert sorted(run.children) == ["agent-sim", "smart-router"]
    allocate, talk, release = run.commands()
    assert str(run.port) in allocate
    given = json.loads(shell(allocate))
    assert given["success"] and not given["was_existing"]
    assert shell(talk) == given["ws_url"] + "\nsent      Hello, agent\nreceived  Hello, agent\n"
    assert json.loads(shell(release)) == {
        "success": True,
        "pod_name": given["pod_name"],
        "released_to_pool": given["source_pool"],
        "was_draining": False,
    }
    run.process.send_signal(signal.SIGINT)
    run.expect_end(0)


@pytest.mark.parametrize("name", ["agent-sim", "smart-router"])
def test_when_one_process_dies_so_do_the_others(start_run, name):
    run = start_run()
    os.kill(run.children[name], signal.SIGKILL)
    run.expect_end(1 if name == "agent-sim" else -signal.SIGKILL, 256 - signal.SIGKILL)


def test_nothing_outlives_it_even_if_it_is_killed(start_run):
    run = start_run()
    run.process.kill()
    run.expect_end(-signal.SIGKILL)


def test_with_pods_of_ones_own_no_agents_are_started(start_run):
    run = start_run(POD_SOURCE="api")
    assert list(run.children) == ["smart-router"]
    assert len(run.commands()) == 1


def test_simulated_agents_of_an_earlier_run_get_no_calls_when_agents_register_themselves(start_run):
    run = start_run()
    assert len(pods_of(run)) == 5
    run.process.send_signal(signal.SIGINT)
    run.expect_end(0)
    run = start_run(POD_SOURCE="api")
    # It takes a second or two. The default of RECONCILE_INTERVAL would be a minute.
    basics.wait_until(lambda: pods_of(run) == [], "the pods of the earlier run are removed", DEADLINE_S / 2)
    assert "register themselves" in run.log.read_text()


def test_it_does_not_greet_for_another_server_on_its_port(tmp_path, start_run):
    run = start_run()
    env = {"PATH": os.environ["PATH"], "BUILD_DIR": str(BINARY.parent), "DATA_DIR": str(tmp_path / "other")}
    env |= {"HTTP_PORT": str(run.port), "METRICS_PORT": "0"}
    second = subprocess.run([ROOT / "scripts/run-local"], env=env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert second.returncode not in (0, None) and "Ctrl-C" not in second.stdout
    assert "Address already in use" in second.stdout + second.stderr
    assert shell(run.commands()[0])


@pytest.mark.parametrize(
    "arguments",
    [[], ["--call", "CA1"], ["ws://127.0.0.1:1/"], ["--router", "nowhere", "--call", "CA1", "x"], ["wss://127.0.0.1:1/", "x"], ["ws://127.0.0.1:1/", "x"]],
)
def test_talk_says_what_is_wrong(arguments):
    done = subprocess.run([BINARY.parent / "tools/talk", *arguments], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode in (1, 2) and done.stderr
