"""`make demo`, shortened: what it shows through a pipe and on a terminal, its figures, and its recording."""

import os
import pty
import re
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import basics
from conftest import BINARY, DEADLINE_S, ROOT, SANITIZER_REPORTS, wait_until

COMMAND = ["/usr/bin/python3", ROOT / "scripts/demo"]
ENV = {**os.environ, "BUILD_DIR": str(BINARY.parent), "DEMO_SECONDS": "3", "HTTP_PORT": "", "DEMO_SLOW": ""}
# What happens, in this order.
STORY = [
    "All 5 agents are busy with 7 calls",
    "one-more is refused with 503: no pods available",
    "gold: 1 busy",
    r"And one more caller",
    r"CA\d+ waits, at place 1 of the line, and hears a soft tone: no agent is free",
    r"CA\d+ hangs up",
    r"CA\d+ gets voice-agent-\d .* s in line",
    r"(voice-agent-\d) is killed \(kill -9\) in the middle of (CA\d+)",
    r"CA\d+ goes on with voice-agent-\d, \d+ ms after the last word before; its stream never broke",
    r"voice-agent-\d is drained: it keeps CA\d+",
    r"voice-agent-\d has no call any more",
    r"The router is killed \(kill -9\), with 4 calls",
    "The router is started again",
    r"all 4 calls have their agents again",
]


def test_the_demo_loses_no_call_and_leaks_no_pod(tmp_path):
    """Through a pipe: a line per event, no escape codes."""
    film = tmp_path / "demo.svg"
    done = subprocess.run(
        [*COMMAND, "--record", film], env=ENV, capture_output=True, text=True, timeout=5 * DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\x1b" not in done.stdout and not any(report in done.stderr for report in SANITIZER_REPORTS)
    at = 0
    for event in STORY:
        found = re.compile(event).search(done.stdout, at)
        assert found, (event, done.stdout)
        at = found.end()
    placed, completed, lost = map(int, re.search(r"(\d+) placed, (\d+) completed, (\d+) lost", done.stdout).groups())
    assert placed == completed > 7 and lost == 0
    sent, echoed, cut, lost = map(int, re.search(r"(\d+) sent, (\d+) echoed, (\d+) cut.*, (\d+) lost", done.stdout).groups())
    assert sent == echoed + cut and echoed > 100 and lost == 0
    assert re.search(r"0 lost; [1-9]\d* waited\nframes", done.stdout)  # on a busy machine more than the one of the story
    assert "kept       1 rescued from an agent that died, 4 resumed after the router had died" in done.stdout
    assert done.stdout.endswith("leaked     0 calls, 0 pods that are not free\ndemo       all fine\n")
    screens = ElementTree.parse(film).getroot().findall("{http://www.w3.org/2000/svg}g")
    assert len(screens) > 5 and "all fine" in "".join(screens[-1].itertext())


def test_on_a_terminal_it_draws_in_place_and_ctrl_c_ends_everything():
    ours, theirs = pty.openpty()
    env = {**ENV, "DEMO_SECONDS": "60", "TERM": "xterm", "LINES": "12", "COLUMNS": "60"}
    process = subprocess.Popen(COMMAND, env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""

    def read():
        nonlocal shown
        try:
            shown += os.read(ours, 65536)
        except OSError:
            return True  # the other end is closed
        return False

    while shown.count(b"voice-agent-4") < 3 and not read():
        pass
    ups = {int(lines) for lines in re.findall(rb"\x1b\[(\d+)A", shown)}
    assert ups and max(ups) < 12, "the cursor goes up to draw again, on a screen that has not scrolled"
    columns = [len(line) for line in re.split(rb"\r*\n", re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", shown))]
    assert max(columns) < 60, "no line wraps"
    children = basics.children_of(process.pid)
    process.send_signal(signal.SIGINT)
    end = time.monotonic() + DEADLINE_S
    while not read() and time.monotonic() < end:
        pass
    os.close(ours)
    assert process.wait(DEADLINE_S) == 1 and b"stopped" in shown
    assert sorted(children.values()) == ["agent-sim"] * 5 + ["smart-router"]
    wait_until(lambda: not any(map(basics.is_alive, children)), "every process has ended")
