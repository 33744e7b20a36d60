"""A real line, seen by operators: on the command line, in top, on the dashboard, by autoscalers and in the metrics."""

import json
import re

import cli_runs
import pytest
import redis_servers
import test_dashboard
import test_top
from conftest import wait_until
from test_autoscale import desired
from test_dashboard import is_live
from test_metrics import scrape, value
from test_top import WAITING

chromium, page, terminal = test_dashboard.chromium, test_dashboard.page, test_top.terminal  # fixtures
TIERS = {"tiers": {"gold": {"target": 1, "buffer": 1}, "basic": {"type": "shared", "max_concurrent": 2, "target": 1}}, "default_chain": ["gold", "basic"]}
ENV = {"TIER_CONFIG": json.dumps(TIERS), "STATIC_PODS": "agent-0,agent-1", "HOLD_MAX_WAIT": "10m"}
FULL = ("CA1", "CA2", "CA3")  # what the two pods take


@pytest.fixture(params=["embedded"])
def start_any(request, start_router, start_redis):
    env = dict(ENV)
    if request.param == "redis":
        redis_servers.need()
        env.update({"REDIS_URL": start_redis().url, **redis_servers.QUICK})
    return lambda more=None: start_router({**env, **(more or {})})


@pytest.fixture
def cli(tmp_path):
    return lambda router, *args: cli_runs.run(tmp_path, *args, url=router.url)


def ask(router, sid, **more):
    return router.post("/api/v1/allocate", {"call_sid": sid, "wait": True, **more})


def fill(router):
    for sid in FULL:
        assert ask(router, sid).status_code == 200


def test_the_command_line_follows_a_call_through_the_line(start_any, cli):
    router = start_any()
    fill(router)
    assert cli(router, "waiting")[1].count("\n") == 1
    assert ask(router, "CA4", merchant_id="acme", provider="twilio").status_code == 202
    router.put("/api/v1/merchants/vip", {"tier": "gold", "priority": 9})
    assert ask(router, "CA5", merchant_id="vip").status_code == 202
    code, out, err = cli(router, "waiting")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[0:2] for row in rows] == [["1", "CA5"], ["2", "CA4"]] and rows[0][5] == "9"
    assert rows[1][4:] == ["acme", "0", "twilio", "no", "pool:gold", "pool:basic"]
    code, out, _ = cli(router, "status")
    assert code == 0 and "waiting         2\n" in out
    gold = next(line.split() for line in out.splitlines() if line.startswith("gold"))
    assert gold[-1] == "2"
    assert "position        2\n" in cli(router, "call", "CA4")[1]
    code, out, _ = cli(router, "why", "CA4")
    assert code == 0 and "waits" in out and "pool:gold" in out and "acme" in out
    assert cli(router, "release", "CA5")[1] == "CA5: released; it was waiting for a pod\n"
    router.release("CA1")
    assert ask(router, "CA4").json()["pod_name"]
    code, out, _ = cli(router, "call", "CA4")
    assert code == 0 and "state           allocated\n" in out
    assert cli(router, "waiting")[1].count("\n") == 1


def test_more_pods_are_wanted_while_calls_wait(start_any, cli):
    router = start_any()
    fill(router)
    assert (desired(router, "gold"), desired(router, "basic")) == (2, 1)
    for number in range(4, 10):
        assert ask(router, f"CA{number}").status_code == 202
    router.put("/api/v1/merchants/acme", {"tier": "basic"})
    for number in range(3):
        assert ask(router, f"CB{number}", merchant_id="acme").status_code == 202
    # (1 call + 6 that wait + 1 of the buffer) and (2 calls + 3 that wait) / 2
    assert (desired(router, "gold"), desired(router, "basic"), desired(router, "all")) == (8, 3, 11)
    assert router.get("/api/v1/autoscale/gold").json() == {"desired_pods": 8, "calls": 1, "waiting": 6, "buffer": 1, "per_pod": 1}
    assert cli(router, "autoscale", "gold")[1].splitlines()[1].split() == ["gold", "8", "1", "6", "1", "1"]
    samples, _ = scrape(router.metrics_url)
    assert value(samples, "smart_router_waiting_calls", tier="gold") == 6 and value(samples, "smart_router_waiting_calls", tier="basic") == 3
    for number in range(4, 10):
        router.release(f"CA{number}")
    assert (desired(router, "gold"), desired(router, "basic")) == (2, 3)


def test_top_shows_the_line_and_releases_from_it(start_any, terminal):
    router = start_any()
    fill(router)
    for sid in ("CA4", "CA5"):
        assert ask(router, sid, merchant_id="acme").status_code == 202
    top = terminal().start(router.url)
    screen = top.sees("3 active calls  2 waiting")
    gold = next(line for line in screen.splitlines() if line.startswith("gold"))
    assert gold.split()[-6] == "2"
    top.keys(WAITING)
    screen = top.sees("CA4", "CA5")
    assert re.search(r"^ +1 CA4 +acme +gold basic +- +0 waiting +\d+s$", screen, re.M), screen
    top.sees("CA4 waits until", "for gold basic")
    top.keys("r")
    top.sees("Release CA4? It ends, also if it has got a pod meanwhile. (y/n)")
    top.keys("y")
    top.sees("CA4 is released: it waited for a pod")
    screen = top.sees("    1 CA5")
    assert router.get("/api/v1/waiting").json()["total"] == 1
    top.keys("4")
    top.sees("wait_ended", "abandoned")
    router.release("CA5")
    top.keys(WAITING)
    top.sees("Nobody waits.")
    top.quit()


def test_the_dashboard_shows_the_line_as_it_changes(page, start_any):
    router = start_any()
    fill(router)
    page.open(router.url)
    is_live(page)
    page.wait_text("#waiting-note", "Nobody waits.")
    assert ask(router, "CA4", merchant_id="acme").status_code == 202
    page.wait_text("#waiting-rows", "CA4")
    page.wait_text("#events", "CA4 waits for a pod for acme")
    page.wait(lambda: re.search(r"^1\t?\s*CA4", page.text("#waiting-rows tr")), "it has its place")
    page.wait_text("[data-pool=gold] .figure", "1 waiting")
    page.wait_text("#verdict-problems", "1 call waits for a pod")
    page.fill("#lookup-sid", "CA4")
    page.click_button("Find")
    page.wait_text("#lookup-result", "waiting")
    router.release("CA1")
    assert ask(router, "CA4").status_code == 200
    page.wait_text("#call-rows", "CA4")
    page.wait_text("#waiting-note", "Nobody waits.")
    assert ask(router, "CA5").status_code == 202
    page.click("tr[data-waiting=CA5] button[aria-label='Release CA5']")
    page.click_button("Release", "dialog")
    page.wait_text("#toasts", "CA5 waits no more.")
    page.wait_text("#waiting-note", "Nobody waits.")
    wait_until(lambda: router.get("/api/v1/waiting").json()["total"] == 0, "it has left the line")
