"""`smart-router top` on a real terminal: tmux shows it, presses its keys, and tells what is on the screen."""

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile

import basics
import pytest
from basics import children_of, free_port
from conftest import BINARY, DEADLINE_S, ROOT, SANITIZER_REPORTS, clean_environment
from test_commands import scripted

ADMIN = "an-admin-key-of-some-length"
READER = "a-key-for-reading-alone"
KEYS = f"ops admin {ADMIN}\nscreen read {READER}\n"
PODS, CALLS, EVENTS, WAITING = "2", "3", "4", "5"


def wait_until(condition, what):
    """Each look is a process of tmux's, so there are not too many of them."""
    return basics.wait_until(condition, what, DEADLINE_S, pause=0.05)


class Terminal:
    """A shell in a terminal of its own, in which top runs."""

    def __init__(self, width=80, height=24, env=None):
        if not shutil.which("tmux"):
            basics.skip("tmux is not installed (Debian: tmux)")
        self.dir = tempfile.mkdtemp(prefix="top-")  # the path of a socket must be short
        self.errors = os.path.join(self.dir, "errors")
        self.runs = 0
        env = clean_environment({"HTTP_PORT": None, "METRICS_PORT": None, **(env or {})}, self.dir)
        env.setdefault("ASAN_OPTIONS", "abort_on_error=0")
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "sh", env=env)
        self.shell("echo ready=$((1 + 1))")
        self.sees("ready=2")

    def _tmux(self, *args, env=None):
        done = subprocess.run(["tmux", "-S", f"{self.dir}/socket", *args], env=env, capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def close(self):
        with contextlib.suppress(AssertionError):
            self._tmux("kill-server")
        shutil.rmtree(self.dir)

    def about(self, what):
        return self._tmux("display-message", "-p", f"#{{{what}}}").strip()

    def text(self, colours=False):
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def rows(self):
        """The first word of each row of the table, after a look at the whole screen."""
        return [line.split(" ")[0] for line in self.text().split("\n")[4:-3] if line.strip()]

    def line(self, number):
        return (self.text().split("\n") + [""] * 50)[number]

    def keys(self, *keys):
        """Characters, and tmux's names of other keys."""
        for key in keys:
            self._tmux("send-keys", key)

    def confirm(self, key):
        """A key that asks a question, and yes, once the question is there."""
        self.keys(key)
        self.sees("(y/n)")
        self.keys("y")

    def shell(self, command):
        self._tmux("send-keys", "-l", command)
        self._tmux("send-keys", "Enter")

    def resize(self, width, height):
        self._tmux("resize-window", "-x", str(width), "-y", str(height))

    def sees(self, *texts):
        """Waits for a screen that has all these texts, and returns it."""
        screen = ""

        def look():
            nonlocal screen
            screen = self.text()
            return all(text in screen for text in texts)

        try:
            wait_until(look, texts)
        except BaseException:
            print(screen)
            raise
        return screen

    def misses(self, text):
        wait_until(lambda: text not in self.text(), f"no {text!r} on the screen")
        return self.text()

    # ---- top ----

    def start(self, url, *args):
        """Starts top, and returns once it has the screen."""
        self.before = self._modes()
        self.runs += 1  # the screen may still show how the one before ended
        words = [str(BINARY), "top", "--url", url, *(str(arg) for arg in args)]
        self.shell(f"clear; {shlex.join(words)} 2>{self.errors}; echo exit{self.runs}=$?")
        wait_until(lambda: self.about("alternate_on") == "1" or self._exit_status(), "top has the screen")
        return self

    def _modes(self):
        path = os.path.join(self.dir, "modes")
        self.shell(f"stty -a >{path}.new; mv {path}.new {path}")
        wait_until(lambda: os.path.exists(path), "stty has answered")
        with open(path, encoding="utf-8") as file:
            modes = file.read().partition("\n")[2]  # the first line has the size
        os.unlink(path)
        return modes

    def processes(self):
        """(the process that guards the terminal, the one that draws)."""
        def find():
            for parent in children_of(int(self.about("pane_pid"))):
                for child in children_of(parent):
                    return parent, child
            return None

        return wait_until(find, "both processes of top are there")

    def _exit_status(self):
        """Not the command that prints it, which stands on the screen before."""
        return re.search(rf"exit{self.runs}=(\d+)", self.text())

    def ended(self):
        """Waits for the end of top; the terminal is as it was. Returns (exit status, standard error)."""
        status = int(wait_until(self._exit_status, "top has ended").group(1))
        wait_until(lambda: self.about("alternate_on") == "0", "the screen is the shell's again")
        assert self.about("cursor_flag") == "1" and self.about("keypad_cursor_flag") == "0"
        assert self._modes() == self.before
        with open(self.errors, encoding="utf-8", errors="replace") as file:
            errors = file.read()
        assert not any(report in errors for report in SANITIZER_REPORTS), errors
        return status, errors

    def quit(self):
        self.keys("q")
        assert self.ended() == (0, "")


@pytest.fixture
def terminal():
    """terminal(...) -> Terminal"""
    opened = []

    def start(*args, **kwargs):
        opened.append(Terminal(*args, **kwargs))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def pod_of(router, name):
    return router.get(f"/api/v1/pod/{name}").json()


def test_views__show_pools_pods_calls_and_events(router, terminal):
    router.allocate("CA1", merchant_id="acme", provider="twilio")
    top = terminal().start(router.url)
    screen = top.sees("answered", "basic", "gold", "standard", "1 active call")
    assert router.url in screen and "embedded" in screen and "leader: this one" in screen and "5 pods" in screen
    gold = next(line for line in screen.splitlines() if line.startswith("gold"))
    assert "1/1]" in gold and "|" in gold and gold.split()[-6:] == ["0", "0", "1", "0", "0", "1"]

    top.keys(PODS)
    screen = top.sees("voice-agent-0", "voice-agent-4")
    busy = router.allocate("CA1")["pod_name"]
    assert re.search(rf"^{busy} +gold +busy +1 ", screen, re.M)
    assert len(re.findall(r"^voice-agent-\d .*available", screen, re.M)) == 4

    top.keys("Tab")
    screen = top.sees("CA1")
    assert re.search(rf"^CA1 +{busy} +pool:gold +acme +twilio +allocated +\d+s$", screen, re.M)

    top.keys(EVENTS)
    top.sees("listening")
    router.allocate("CA2", merchant_id="other")
    screen = top.sees("CA2")
    assert re.search(r"^\d\d:\d\d:\d\d allocated +CA2 +voice-agent-\d +pool:", screen, re.M)
    assert re.search(r"^allocated CA2 voice-agent-\d pool:\S+ merchant other$", screen, re.M)  # selected, in full

    top.keys("?")
    top.sees("turn the order round", "Any key goes back")
    top.keys("x", "1")
    top.sees("CALLS OF ITS CAPACITY", "2 active calls")
    top.quit()


def test_documented_screens__are_those_of_top(router, terminal):
    with open(ROOT / "docs/TOP.md", encoding="utf-8") as file:
        document = file.read()
    top = terminal().start(router.url)
    for number, titles in (("1", "POOL  "), ("2", "TIER"), ("3", "POD    "), ("4", "DETAIL"), ("5", "PRIO")):
        top.keys(number)
        top.sees(titles)
        assert top.line(3) in document
    top.quit()


def test_sort_and_filter__choose_and_order_the_rows(start_router, terminal):
    names = [f"agent-{i}" for i in range(1, 13)]
    router = start_router({"STATIC_PODS": ",".join(names), "TIER_CONFIG": '{"gold":12}'})
    top = terminal().start(router.url)
    top.keys(PODS)
    top.sees("sort STATE", "agent-12")
    top.keys("s", "s", "s", "s")
    top.sees("sort POD")
    assert top.rows() == names
    top.keys("S")
    top.sees("sort POD reversed")
    assert top.rows() == names[::-1]

    top.keys("/", "A", "g", "e", "n", "t", "-", "1")
    top.sees("filter: Agent-1_", "4 of 12")
    assert top.rows() == ["agent-12", "agent-11", "agent-10", "agent-1"]
    top.keys("x")
    top.sees("No row has the text of the filter", "0 of 12")
    top.keys("BSpace", "Enter", "q")  # q is a command again
    assert top.ended() == (0, "")


def test_cursor__moves_and_stays_with_its_row(start_router, terminal):
    names = [f"agent-{i:03}" for i in range(100)]
    router = start_router({"STATIC_PODS": ",".join(names), "TIER_CONFIG": '{"gold":100}'})
    top = terminal().start(router.url)
    top.keys(PODS, "s", "s", "s", "s")
    top.sees("sort POD", "agent-000")

    def selected():
        return top.line(22).strip()

    for keys, pod in (
        (["Down", "Down"], "agent-002"),
        (["Up"], "agent-001"),
        (["NPage"], "agent-019"),
        (["PPage"], "agent-001"),
        (["End"], "agent-099"),
        (["Home"], "agent-000"),
        (["j", "j", "j", "k"], "agent-002"),
    ):
        top.keys(*keys)
        wait_until(lambda pod=pod: selected() == pod, f"{pod} is selected")
    top.keys("S")  # it is on another page now, and still selected
    top.sees("reversed")
    wait_until(lambda: selected() == "agent-002", "the cursor followed its row")
    assert re.search(r"^agent-002", top.text(), re.M)
    top.quit()


def test_drain__is_carried_out_after_yes_alone(router, terminal):
    top = terminal().start(router.url)
    top.keys(PODS, "s", "s", "s", "s")
    top.sees("sort POD", "voice-agent-4")  # a cursor cannot move through rows that are not there yet
    top.keys("Down", "Down", "Down")
    wait_until(lambda: top.line(22).strip() == "voice-agent-3", "the pod is selected")
    top.keys("d")
    top.sees("Drain voice-agent-3? It gets no new call. (y/n)")
    top.keys("n")
    top.sees("nothing was changed")
    assert pod_of(router, "voice-agent-3")["state"] == "available"

    top.keys("d")
    top.sees("(y/n)")
    top.keys("y")
    top.sees("voice-agent-3 is draining, 0 calls left, until 20")
    assert pod_of(router, "voice-agent-3")["state"] == "draining"
    wait_until(lambda: re.search(r"^voice-agent-3 .* draining .* \d\d:\d\d:\d\dZ$", top.text(), re.M), "the row says so")

    top.keys("u")
    top.sees("Undrain voice-agent-3? It gets calls again. (y/n)")
    top.keys("y")
    top.sees("voice-agent-3 is not draining any more")
    assert pod_of(router, "voice-agent-3")["state"] == "available"
    wait_until(lambda: re.search(r"^voice-agent-3 .* available ", top.text(), re.M), "the row says so")

    top.keys("1", "d")
    top.sees("select a pod first")
    top.quit()


def test_release__ends_the_selected_call(router, terminal):
    router.allocate("CA1")
    pod = router.allocate("CA2")["pod_name"]
    top = terminal().start(router.url)
    top.keys(CALLS, "/", "C", "A", "2", "Enter")
    top.sees("1 of 2")
    top.keys("r")
    top.sees(f"Release CA2? The call ends on {pod}. (y/n)")
    top.keys("Escape")
    top.sees("nothing was changed")
    assert router.get("/api/v1/call/CA2").status_code == 200
    top.confirm("r")
    top.sees(f"CA2 is released, {pod} is back in pool:")
    assert router.get("/api/v1/call/CA2").status_code == 404
    assert router.get("/api/v1/call/CA1").status_code == 200
    top.sees("0 of 1")
    top.quit()


def test_release__of_a_call_that_has_gone_says_so(router, terminal):
    router.allocate("CA1")
    top = terminal().start(router.url)
    top.keys(CALLS)
    top.sees("CA1")
    top.keys("r")
    top.sees("(y/n)")
    router.release("CA1")  # between the question and the answer
    top.keys("y")
    top.sees("CA1 is not released: 404 call not found")
    top.quit()


def test_restart__of_the_router_is_survived(start_router, terminal):
    port = free_port()
    router = start_router({"HTTP_PORT": port})
    router.allocate("CA1")
    top = terminal().start(router.url)
    top.keys(PODS)
    top.sees("answered", "voice-agent-4", "busy")
    assert "\x1b[2m" not in top.text(colours=True).split("\n")[6]
    data_dir = router.data_dir
    assert router.stop() == 0

    screen = top.sees("no answer since", "trying again", "voice-agent-4", "busy")
    assert re.search(r"no answer since \d\d:\d\d:\d\dZ, trying again", screen)
    wait_until(lambda: "\x1b[2m" in top.text(colours=True).split("\n")[6], "the old rows are grey")
    top.confirm("d")  # keys work, and nothing is promised
    top.sees("voice-agent-0: nothing was sent: Failed to connect")
    top.keys(EVENTS)
    top.sees("listening")

    again = start_router({"HTTP_PORT": port}, data_dir=data_dir)
    top.sees("answered")
    again.allocate("CA2")
    screen = top.sees("CA2")  # the stream is open again
    assert screen.count("listening") == 2
    top.keys(PODS)
    wait_until(lambda: len(re.findall(r"^voice-agent-\d .* busy", top.text(), re.M)) == 2, "the pods are those of now")
    assert "\x1b[2m" not in top.text(colours=True).split("\n")[6]
    top.quit()


def test_router_that_hangs__does_not_hang_top(router, terminal):
    top = terminal().start(router.url)
    top.keys(PODS)
    top.sees("voice-agent-0")
    router.proc.send_signal(signal.SIGSTOP)
    try:
        top.keys("?")
        top.sees("Any key goes back")
        top.keys("x")
        top.sees("no answer since", "voice-agent-0")
    finally:
        router.proc.send_signal(signal.SIGCONT)
    top.sees("answered")
    top.quit()


def test_store_that_is_away__is_said_and_the_rows_stay(start_redis, start_on, terminal):
    server = start_redis()
    router = start_on(server)
    top = terminal().start(router.url)
    top.keys(PODS)
    top.sees("voice-agent-0", "redis")
    server.stop()
    top.sees("DOWN: no store", "not up to date: 503", "voice-agent-0")
    top.quit()


def test_resize__is_followed(start_router, terminal):
    router = start_router({"STATIC_PODS": ",".join(f"agent-{i:03}" for i in range(100)), "TIER_CONFIG": '{"gold":100}'})
    top = terminal().start(router.url)
    top.keys(PODS)
    top.sees("agent-017")
    assert "agent-018" not in top.text()
    top.resize(140, 50)
    top.sees("agent-043", "q quit")
    wait_until(lambda: top.line(3).rstrip().endswith("DRAINING UNTIL") and len(top.line(3).rstrip()) == 140, "wide")
    top.resize(60, 20)
    top.sees("60x20 is too small:", "top needs 80x24")
    top.keys("d", "y")  # nobody could see the question
    top.resize(80, 24)
    top.sees("agent-017", "q quit")
    assert top.line(23).startswith("tab 1-5 views") and "draining" not in top.text()
    top.resize(79, 24)
    top.sees("79x24 is too small:")
    top.quit()


def test_ten_thousand_pods__and_every_key_is_answered(start_router, terminal, tell):
    names = [f"p{i:05}" for i in range(10000)]
    tiers = json.dumps({"gold": {"type": "exclusive", "target": 10000}})
    router = start_router({"STATIC_PODS": ",".join(names), "TIER_CONFIG": tiers})
    router.allocate("CA1")
    top = terminal().start(router.url)
    top.sees("10000 pods", "1/10000]")
    top.keys(PODS, "?")  # while the pages arrive
    top.sees("Any key goes back")
    top.keys("x", "s", "s", "s", "s")
    top.sees("sort POD", "p00000", "10000")
    wait_until(lambda: top.line(2).split()[-1] == "10000", "all pods are there")
    top.keys("End")
    wait_until(lambda: top.line(22).strip() == "p09999", "the last row")
    for i in range(1, 21):
        top.keys("Up")
        wait_until(lambda i=i: top.line(22).strip() == f"p{9999 - i:05}", "a row up")
    top.keys("/", "7", "7", "7")
    top.sees("filter: 777_", " of 10000")
    assert top.rows()[:2] == ["p00777", "p01777"]
    top.keys("Escape", "Home", "S")
    wait_until(lambda: top.line(22).strip() == "p09999", "turned round")
    top.confirm("d")
    top.sees("p09999 is draining")
    wait_until(lambda: re.search(r"^p09999 .* draining ", top.text(), re.M), "the list is loaded anew")
    _, child = top.processes()
    with open(f"/proc/{child}/status", encoding="utf-8") as file:
        memory = re.search(r"VmRSS:\s+(.*)", file.read()).group(1)
    tell(f"top with 10,000 pods: {memory}")
    top.quit()


def test_wrong_key__is_told_and_ends_top(start_router, terminal, tmp_path):
    router = start_router({"API_KEYS": KEYS})
    wrong = tmp_path / "wrong"
    wrong.write_text("not-the-key-of-anybody\n")
    top = terminal().start(router.url, "--api-key-file", wrong)
    status, errors = top.ended()
    assert status == 1 and "401" in errors and router.url in errors, errors

    top.start(router.url)  # no key at all
    status, errors = top.ended()
    assert status == 1 and "401" in errors


def test_key_for_reading__sees_everything_and_changes_nothing(start_router, terminal, tmp_path):
    router = start_router({"API_KEYS": KEYS})
    key = tmp_path / "key"
    key.write_text(READER + "\n")
    top = terminal().start(router.url, "--api-key-file", key)
    top.keys(PODS)
    top.sees("voice-agent-0", "answered")
    top.confirm("d")
    top.sees("is not drained: 403")
    assert all(not pod["is_draining"] for pod in router.get("/api/v1/pods").json()["pods"])
    top.quit()


def test_no_router__is_waited_for(start_router, terminal):
    port = free_port()
    top = terminal().start(f"http://127.0.0.1:{port}")
    top.sees("no answer since", "trying again", "connect to server")
    top.keys(PODS)
    top.sees("No answer yet.")
    start_router({"HTTP_PORT": port})
    top.sees("answered", "voice-agent-0")
    top.quit()

    top.start(f"http://127.0.0.1:{free_port()}")
    top.sees("no answer since")
    top.keys("q")
    status, errors = top.ended()
    assert status == 3 and "no answer from http://127.0.0.1:" in errors and "Failed to connect" in errors


def test_something_else__is_not_taken_for_a_router(terminal):
    with scripted(lambda method, path: (200, b"<html>It works!</html>")) as url:
        top = terminal().start(url)
        top.sees("this is not the answer of a smart-router")
        top.keys("q")
        assert top.ended()[0] == 3


def test_control_characters_of_names__never_reach_the_terminal(terminal):
    evil = "\x1b]2;evil\x07\x1b[2Jpod\x9b31m\r\n"
    status = {"status": "up", "version": "1", "store": "embedded", "identity": evil, "leader": evil, "pods": 1,
              "active_calls": 1, "tiers": {evil: {"type": "shared", "calls": 1, "capacity": 2}}}
    pod = {"pod_name": evil, "tier": evil, "state": "available", "calls": [evil]}
    call = {"call_sid": evil, "pod_name": evil, "source_pool": evil, "merchant_id": evil, "state": evil}
    waiter = {"call_sid": evil, "merchant_id": evil, "provider": evil, "pools": [evil], "position": 1}
    asked = []

    def answer(method, path):
        asked.append((method, path))
        if path == "/api/v1/status":
            return 200, json.dumps(status).encode()
        if path.startswith("/api/v1/pods"):
            return 200, json.dumps({"pods": [pod], "next_cursor": ""}).encode()
        if path.startswith("/api/v1/calls"):
            return 200, json.dumps({"calls": [call], "next_cursor": ""}).encode()
        if path.startswith("/api/v1/waiting"):
            return 200, json.dumps({"waiting": [waiter], "next_cursor": ""}).encode()
        if path == "/api/v1/events":
            event = {"event": "allocated", "call_sid": evil, "pod_name": evil, "reason": evil}
            return 200, f"event: allocated\ndata: {json.dumps(event)}\n\n".encode()
        return 404, json.dumps({"success": False, "error": evil}).encode()

    with scripted(answer) as url:
        top = terminal(width=200).start(url)
        title = top.about("pane_title")
        top.sees("?]2;evil??[2Jpod?31m??", "1/2]")
        for view in (PODS, CALLS, EVENTS, WAITING):
            top.keys(view)
            screen = top.sees("answered", "?]2;evil?")
            assert screen.startswith(url)  # nothing was cleared, nothing has moved
            assert len(screen.splitlines()) == 24
        top.keys(PODS)
        top.sees("HEARTBEAT", "available")
        top.confirm("d")
        top.sees("is not drained: 404 ?]2;evil?")
        assert ("POST", "/api/v1/drain") in asked
        assert top.about("pane_title") == title != "evil"
        top.quit()


def test_colours__only_without_no_color(router, terminal):
    green = re.compile(r"\x1b\[(\d+;)*32[;m]")
    top = terminal().start(router.url)
    top.sees("answered", "up ")
    assert green.search(top.text(colours=True))
    top.quit()
    top = terminal(env={"NO_COLOR": "1"}).start(router.url)
    top.sees("answered", "up ")
    assert not re.search(r"\x1b\[(\d+;)*3[0-7][;m]", top.text(colours=True))
    top.quit()


def test_no_terminal__is_refused_with_a_reason(run_router):
    done = run_router(args=("top", "--url", "http://127.0.0.1:1"))
    assert done.returncode == 2 and "top needs a terminal" in done.output
    done = run_router(args=("top", "voice-agent-0"))
    assert done.returncode == 2 and "unexpected argument" in done.output
    done = run_router(args=("top", "--url", "localhost"))
    assert done.returncode == 2 and "not a URL" in done.output


def test_terminal_that_cannot_show_it__is_refused_with_a_reason(router, terminal):
    one = terminal()
    for kind, reason in (("no-such-terminal", "does not know this type of terminal (TERM): no-such-terminal"),
                         ("dumb", "cannot show a full screen: dumb")):
        one.shell(f"clear; TERM={kind} {shlex.quote(str(BINARY))} top --url {router.url} 2>{one.errors}; echo exit=$?")
        one.sees("exit=2")
        with open(one.errors, encoding="utf-8") as file:
            assert reason in file.read()
        one.shell("clear")
        one.misses("exit=")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_signals__end_it_like_q(router, terminal, number):
    top = terminal().start(router.url)
    top.sees("answered")
    os.kill(top.processes()[0], number)
    assert top.ended() == (0, "")


def test_ctrl_c__ends_it_like_q(router, terminal):
    top = terminal().start(router.url)
    top.sees("answered")
    top.keys("C-c")
    assert top.ended() == (0, "")


@pytest.mark.parametrize("number, word", [(signal.SIGABRT, "Aborted"), (signal.SIGKILL, "Killed")])
def test_crash__gives_the_terminal_back(router, terminal, number, word):
    """SIGABRT is how an assertion ends a process."""
    top = terminal().start(router.url)
    top.sees("answered")
    os.kill(top.processes()[1], number)
    status, errors = top.ended()
    assert status == 1 and f"top has ended: {word}" in errors


def test_killed_guard__takes_the_screen_with_it(router, terminal):
    top = terminal().start(router.url)
    top.sees("answered")
    guard, child = top.processes()
    os.kill(guard, signal.SIGKILL)
    wait_until(lambda: not basics.is_alive(child), "the other process has ended")
    assert top.about("alternate_on") == "0" and top.about("cursor_flag") == "1"
    assert top._modes() == top.before


def test_suspended__and_brought_back(router, terminal):
    top = terminal()
    top.shell("set -m")
    top.start(router.url)
    top.sees("answered")
    top.keys("C-z")
    wait_until(lambda: top.about("alternate_on") == "0", "the shell has the terminal")
    top.shell("clear; fg")
    top.sees("answered", "standard")
    top.keys("q")
    wait_until(lambda: top.about("alternate_on") == "0", "the shell has the terminal again")
    assert top._modes() == top.before
