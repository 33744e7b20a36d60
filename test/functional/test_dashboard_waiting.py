"""The line on the dashboard, in a real Chromium. The answers of a router with a line are put in the place of the real
ones; test_waiting_seen.py has a real line."""

import json

import pytest
import test_dashboard
from test_dashboard import KEYS, READER, is_live, open_page

chromium, page, router = test_dashboard.chromium, test_dashboard.page, test_dashboard.router  # fixtures

# fetch() of the page gets what the test has set: window.line = [calls] or undefined, where no call can wait.
A_LINE = """
window.line = [];
const ask = window.fetch;
const json = (body) => new Response(JSON.stringify(body), {headers: {"Content-Type": "application/json"}});
window.fetch = async (url, options) => {
  const path = String(url).replace(/.*api.v1./, "");
  const line = window.line;
  if (path.startsWith("waiting?"))
    return json({waiting: line.slice(0, 1000), total: line.length, next_cursor: ""});
  const answer = await ask(url, options);
  if (path !== "status" || line === undefined) return answer;
  const body = await answer.json();
  body.waiting = line.length;
  body.tiers.gold.waiting = line.filter((call) => call.pools[0] === "pool:gold").length;
  return json(body);
};
"""


def waiting_call(number, **more):
    return {"call_sid": f"CA{number}", "merchant_id": "acme", "provider": "twilio", "priority": 0, "position": number, "waited_seconds": 90 - number,
            "until": "2026-02-08T10:00:00Z", "pools": ["pool:gold", "pool:basic"], "rescued": False, **more}  # fmt: skip


def set_line(page, calls):
    page.run("window.line = JSON.parse(arguments[0])", json.dumps(calls))


def lines(page):
    return page.run("return [...document.querySelectorAll('#waiting-rows tr')].map((row) => [...row.children].map((cell) => cell.innerText))")


def test_where_no_call_can_wait_nothing_is_shown_and_nothing_is_asked_for(page, router):
    open_page(page, router)
    page.wait_text("#verdict-title", "All is well")
    assert not page.find("#waiting-section").is_displayed()
    assert "waiting" not in page.text("body").lower()
    assert not page.run("return performance.getEntriesByType('resource').some((one) => one.name.includes('v1/waiting'))")


def test_those_who_wait_are_listed_and_counted_in_their_pool(page, router):
    for i in range(7):
        router.allocate(f"CB{i}")
    open_page(page, router, script=A_LINE)
    page.wait_text("#waiting-note", "Nobody waits.")
    page.wait_text("#verdict-problems", "No pod is free: the next call must wait.")
    set_line(page, [waiting_call(1, rescued=True, waited_seconds=4000), waiting_call(2, merchant_id=""), waiting_call(3, pools=["merchant:9shines"])])
    router.release("CB0")  # any event: then the state is asked for
    page.wait(lambda: len(lines(page)) == 3, "the line is shown")
    page.wait_text("#waiting-note", "3 calls")
    first, second, third = lines(page)
    assert first[0] == "1" and first[1].split() == ["CA1", "rescued"] and first[3:] == ["acme", "gold, basic", "Release"]
    assert second[3] == "–" and third[4] == "merchant:9shines" and "min" in first[2]
    page.wait_text("[data-pool=gold] .figure", "2 waiting")
    assert "waiting" not in page.text("[data-pool=basic]")
    page.wait_text("#verdict-problems", "3 calls wait for a pod, the longest for 1 min 2")  # the rescued one does not count
    page.wait_text("#verdict-facts", "3 waiting")
    set_line(page, [])
    router.release("CB1")
    page.wait(lambda: lines(page) == [], "nobody waits any more")
    page.wait(lambda: "wait for a pod" not in page.text("#verdict-problems"), "and that is no problem")


def test_a_long_line_is_shown_from_its_beginning(page, router):
    open_page(page, router, script=A_LINE)
    set_line(page, [waiting_call(i + 1) for i in range(1234)])
    router.allocate("CB1")
    page.wait_text("#waiting-note", "The first 200 of 1,234 calls are shown. This page knows 1,000 of them.")
    assert page.count("#waiting-rows tr") == 200 and lines(page)[0][1] == "CA1"


def test_events_of_the_line_change_it_at_once(page, start_on, redis_server):
    router = start_on(redis_server, {"API_KEYS": KEYS})
    open_page(page, router, script=A_LINE)

    def tell(event, **more):
        text = json.dumps({"event": event, "id": f"x:{tell.number}", "time": "2026-02-08T10:00:00Z", "replica": "x", **more}, separators=(",", ":"))
        tell.number += 1
        page.wait(lambda: redis_server.client().publish("voice:events", text), "the router listens")

    tell.number = 1
    set_line(page, [waiting_call(1)])
    tell("call_waiting", call_sid="CA1", merchant_id="acme")
    page.wait(lambda: len(lines(page)) == 1 and lines(page)[0][0] == "1", "it is there, with its place")
    page.wait_text("#events", "CA1 waits for a pod for acme")
    set_line(page, [])
    tell("allocated", call_sid="CA1", pod_name="voice-agent-0", source_pool="pool:gold")
    page.wait(lambda: lines(page) == [], "it is gone")
    page.wait_text("#events", "CA1 got voice-agent-0 of gold")
    for reason, sentence in (("timed_out", "CA2 got no pod: its time was over"), ("abandoned", "CA2 waits no more: its caller has gone")):
        tell("wait_ended", call_sid="CA2", reason=reason)
        page.wait_text("#events", sentence)


def test_a_rescued_call_leaves_the_list_of_calls_for_the_line(page, start_on, redis_server):
    router = start_on(redis_server, {"API_KEYS": KEYS})
    router.allocate("CA1")
    open_page(page, router, script=A_LINE)
    page.wait_text("#call-rows", "CA1")
    set_line(page, [waiting_call(1, rescued=True)])
    text = json.dumps({"event": "call_waiting", "id": "x:1", "time": "2026-02-08T10:00:00Z", "call_sid": "CA1", "from_pod": "voice-agent-0"}, separators=(",", ":"))
    page.wait(lambda: redis_server.client().publish("voice:events", text), "the router listens")
    page.wait_text("#waiting-rows", "rescued")
    page.wait(lambda: page.count("tr[data-call]") == 0, "it has no pod")


def test_a_reader_may_look_at_the_line_alone(page, router):
    page.open(router.url, key=READER, script=A_LINE)
    is_live(page)
    set_line(page, [waiting_call(1)])
    router.allocate("CB1")
    page.wait_text("#waiting-rows", "CA1")
    assert page.count("#waiting-rows button[aria-label^=Release]") == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_the_line_keeps_nobody_out_on_a_phone_or_a_desk(page, router, scheme, width):
    open_page(page, router, width=width, height=844, scheme=scheme, script=A_LINE)
    set_line(page, [waiting_call(1, rescued=True), waiting_call(2, call_sid="CA" + "9" * 100, merchant_id="a-merchant-with-a-rather-long-name" * 3)])
    router.allocate("CB1")
    page.wait_text("#waiting-rows", "rescued")
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert page.barriers() == []
    # With the keyboard: the name of the call opens its story.
    page.run("document.querySelector('#waiting-rows th button').focus()")
    page.driver.switch_to.active_element.send_keys("\ue007")  # enter
    page.wait_text("#lookup-result", "CA1")
    page.allowed = ["/story"]  # 404: it is not really there
    page.click("tr[data-waiting=CA1] button[aria-label='Release CA1']")
    page.wait_text("dialog", "The call leaves the line and gets no pod.")
    assert page.barriers() == []
    page.click_button("Cancel", "dialog")
