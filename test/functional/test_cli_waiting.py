"""The line on the command line: `waiting`, and what `status`, `call`, `release` and `events` say of calls that wait.

A scripted router gives the answers of docs/API.md; test_waiting_seen.py has the real one.
"""

import datetime
import json
import re

import cli_runs
import pytest
from test_commands import scripted

ESCAPE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def in_seconds(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def waiting_call(number, **more):
    return {
        "call_sid": f"CA{number}", "merchant_id": "acme", "provider": "twilio", "priority": 0, "position": number, "waited_seconds": 125 - number,
        "until": in_seconds(90), "pools": ["pool:gold", "pool:basic"], "rescued": False, **more,
    }  # fmt: skip


TIER = {"type": "exclusive", "target": 1, "assigned": 1, "available": 0, "busy": 1, "draining": 0, "suspended": 0, "calls": 1, "free": 0,
        "capacity": 1, "is_configured": True}  # fmt: skip


def status(**more):
    head = {"identity": "r", "version": "1", "leader": "r", "is_leader": True, "store": "embedded", "uptime_seconds": 5, "pods": 1}
    tier = {**TIER, **({"waiting": more["waiting"]} if more else {})}
    return {**head, "active_calls": 1, "status": "up", "tiers": {"gold": tier}, **more}


@pytest.fixture
def cli(tmp_path):
    return lambda *args, **kwargs: cli_runs.run(tmp_path, *args, **kwargs)


def answering(answers):
    """A router that has these answers: {path: body}; all else is 404."""

    def answer(method, path):
        body = answers.get(path)
        return (404, b'{"success":false,"error":"not found"}') if body is None else (200, json.dumps(body).encode())

    return scripted(answer)


def test_the_line_is_listed_page_by_page_in_its_order(cli):
    first = {"waiting": [waiting_call(1, rescued=True, merchant_id=""), waiting_call(2, priority=3)], "total": 3, "next_cursor": "n2"}
    last = {"waiting": [waiting_call(3, until=None, pools=[])], "total": 3, "next_cursor": ""}
    with answering({"/api/v1/waiting?limit=1000": first, "/api/v1/waiting?limit=1000&cursor=n2": last}) as url:
        code, out, err = cli("waiting", url=url)
        assert (code, err) == (0, "")
        head, *rows = (re.split(r"  +", line.strip()) for line in out.splitlines())
        assert head == ["POSITION", "CALL", "WAITED", "LEFT", "MERCHANT", "PRIORITY", "PROVIDER", "RESCUED", "POOLS"]
        for row, left in zip(rows, (r"1m(30|29|2\d)s", r"1m(30|29|2\d)s", "-")):
            assert re.fullmatch(left, row.pop(3)), out
        assert rows == [
            ["1", "CA1", "2m04s", "-", "0", "twilio", "yes", "pool:gold pool:basic"],
            ["2", "CA2", "2m03s", "acme", "3", "twilio", "no", "pool:gold pool:basic"],
            ["3", "CA3", "2m02s", "acme", "0", "twilio", "no", "-"],
        ]
        pages = [json.loads(line) for line in cli("waiting", "--json", url=url)[1].splitlines()]
        assert pages == [first, last]


def test_a_line_in_which_nobody_stands_is_a_head_alone(cli):
    with answering({"/api/v1/waiting?limit=1000": {"waiting": [], "total": 0, "next_cursor": ""}}) as url:
        code, out, err = cli("waiting", url=url)
    assert (code, err) == (0, "") and out.startswith("POSITION  CALL") and out.count("\n") == 1


@pytest.mark.parametrize("columns", [60, 80])
def test_the_line_fits_the_terminal(tmp_path, columns):
    page = {"waiting": [waiting_call(7, call_sid="C" * 128, merchant_id="m" * 128, pools=[f"merchant:{'p' * 60}"] * 9)], "next_cursor": ""}
    with answering({"/api/v1/waiting?limit=1000": page}) as url:
        terminal = cli_runs.InTerminal(tmp_path, "waiting", columns=columns, url=url)
        text = terminal.read()
        assert terminal.end() == 0
    lines = [ESCAPE.sub("", line).rstrip() for line in text.split("\r\n")]
    assert max(map(len, lines)) <= columns and "1m58s" in text, lines


def test_a_router_without_a_line_says_that_it_does_not_know_it(cli):
    with answering({}) as url:
        code, out, err = cli("waiting", url=url)
    assert (code, out) == (1, "") and "404" in err


def test_the_state_names_those_who_wait_where_calls_can_wait(cli):
    with answering({"/api/v1/status": status(waiting=12)}) as url:
        code, out, _ = cli("status", url=url)
        assert code == 0 and "waiting         12\n" in out
        head, gold = (line.split() for line in out.splitlines()[-2:])
        assert head[-1] == "WAITING" and gold[-1] == "12"
    with answering({"/api/v1/status": status()}) as url:
        assert "waiting" not in cli("status", url=url)[1].lower()


def test_a_call_that_waits_is_shown_with_its_place(cli):
    call = {**waiting_call(4, merchant_id=""), "state": "waiting", "estimated_wait_seconds": 70}
    rescued = {**waiting_call(1, rescued=True), "state": "waiting"}
    with answering({"/api/v1/call/CA4": call, "/api/v1/call/CA1": rescued}) as url:
        code, out, err = cli("call", "CA4", url=url)
        assert (code, err) == (0, "")
        found = dict(re.split(r"  +", line, maxsplit=1) for line in out.splitlines())
        assert re.fullmatch(r"2m01s, at most 1m\d\ds more", found.pop("waited"))
        assert found == {"call": "CA4", "state": "waiting for a pod", "position": "4", "its turn": "in about 1m10s", "merchant": "-",
                         "priority": "0", "provider": "twilio", "pools": "pool:gold pool:basic"}  # fmt: skip
        out = cli("call", "CA1", url=url)[1]
        assert "state           waiting, because its pod broke\n" in out and "its turn" not in out


def test_a_call_that_waited_and_is_released_had_no_pod(cli):
    answer = {"success": True, "pod_name": "", "released_to_pool": "", "was_draining": False}
    with answering({"/api/v1/release": answer}) as url:
        assert cli("release", "CA1", url=url) == (0, "CA1: released; it was waiting for a pod\n", "")


def test_a_call_that_has_moved_is_released_with_the_name_of_its_pod_alone(cli):
    """A release without it may be that of an agent which the call has left."""
    answer = {"success": True, "pod_name": "agent-1", "released_to_pool": "", "was_draining": False, "is_kept": True}
    with answering({"/api/v1/release": answer}) as url:
        code, out, _ = cli("release", "CA1", url=url)
        assert code == 1 and out.startswith("CA1: not released: ") and out.endswith("smart-router release CA1 --pod agent-1\n")
        assert cli("release", "CA1", "--json", url=url)[0] == 1


def test_events_of_the_line_have_the_colour_of_their_news(tmp_path):
    events = [{"event": "call_waiting", "call_sid": "CA1"}]
    events += [{"event": "wait_ended", "call_sid": "CA1", "reason": reason} for reason in ("abandoned", "timed_out")]
    text = "".join(f"event: {one['event']}\ndata: {json.dumps(one)}\n\n" for one in events).encode()
    with scripted(lambda method, path: (200, text, "text/event-stream")) as url:
        terminal = cli_runs.InTerminal(tmp_path, "events", columns=200, url=url)
        shown = terminal.read("timed_out")
        terminal.proc.send_signal(2)
        assert terminal.end() == 0
    colours = re.findall(r"\x1b\[(\d+)m(call_waiting|wait_ended)", shown)
    assert colours == [("33", "call_waiting"), ("33", "wait_ended"), ("31", "wait_ended")], shown
