"""The dashboard in a real Chromium: it shows what happens, changes what an admin may change, and asks nobody else.

DASHBOARD_PICTURES=docs /usr/bin/python3 -m pytest test/functional/test_dashboard.py -k pictures writes the pictures of
docs/DASHBOARD.md.
"""

import json
import os
import pathlib
import re

import browser as browsers
import httpx
import pytest
from conftest import DEADLINE_S, ROOT, wait_until

ADMIN = "the-secret-of-the-operator"
READER = "the-secret-of-the-viewer"
KEYS = f"ops admin {ADMIN}\nviewer read {READER}\ncaller call the-secret-of-the-caller\n"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HOSTILE = "CA<img-src=x-onerror=alert(1)>"


@pytest.fixture(scope="module")
def chromium():
    browsers.available()
    one = browsers.Browser()
    yield one
    one.close()


@pytest.fixture
def page(chromium, start_router):  # start_router: so that the page is left before the routers are stopped
    """The browser. Whatever a test does, the page logs no error and asks no other host."""
    chromium.allowed = []
    yield chromium
    problems = chromium.problems(chromium.allowed)
    hosts = set(chromium.hosts)
    chromium.driver.get("about:blank")
    assert problems == []
    assert len(hosts) == 1, hosts


@pytest.fixture
def router(start_router):
    return start_router({"API_KEYS": KEYS})


def is_live(page):
    page.wait(lambda: page.text("#live") == "live" and page.count(".pool") > 0, "the page is live")


def open_page(page, router, key=ADMIN, **how):
    page.open(router.url, key=key, **how)
    is_live(page)


def tiles(page):
    """{pod: its label}"""
    return dict(page.run(
        "return [...document.querySelectorAll('.pod:not([hidden])')].map((e) => [e.dataset.pod, e.getAttribute('aria-label')])"
    ))


# The files


def test_the_files_are_open_and_come_with_strict_headers(router):
    files = {path.name for path in (ROOT / "web").iterdir()}
    with httpx.Client(base_url=router.url, timeout=DEADLINE_S, trust_env=False) as anybody:
        page = anybody.get("/")
        assert page.status_code == 200 and page.headers["Content-Type"] == "text/html; charset=utf-8"
        assert page.text == (ROOT / "web" / "index.html").read_text()
        for name in files:
            answer = anybody.get(f"/ui/{name}")
            assert answer.content == (ROOT / "web" / name).read_bytes()
            assert answer.headers["Content-Security-Policy"] == POLICY
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Referrer-Policy"] == "no-referrer"
            known = anybody.get(f"/ui/{name}", headers={"If-None-Match": answer.headers["ETag"]})
            assert (known.status_code, known.content) == (304, b"")
            other = anybody.get(f"/ui/{name}", headers={"If-None-Match": '"another"'})
            assert other.status_code == 200
        assert len({anybody.get(f"/ui/{name}").headers["ETag"] for name in files}) == len(files)
        assert anybody.get("/ui/nothing.js").status_code == 404
        for bad in ("..%2f..%2fetc%2fpasswd", "%2e%2e", "A.js", "x" * 65):
            assert anybody.get(f"/ui/{bad}").status_code in (400, 404)
        assert anybody.get("/api/v1/whoami").status_code == 401


def test_the_files_name_no_other_host_and_no_file_that_is_missing():
    names = {path.name for path in (ROOT / "web").iterdir()}
    for path in (ROOT / "web").iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), path
        used = set(re.findall(r'from "\./([^"]+)"', text)) | set(re.findall(r'(?:src|href)="ui/([^"]+)"', text))
        assert used <= names, path
    html = (ROOT / "web" / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", html)


def test_whoami_knows_the_key(router, start_router):
    def ask(secret):
        return httpx.get(f"{router.url}/api/v1/whoami", headers={"Authorization": f"Bearer {secret}"}, trust_env=False).json()

    assert ask(ADMIN) == {"key": "ops", "role": "admin", "pods": None, "is_key_required": True}
    assert ask(READER)["role"] == "read"
    assert ask("the-secret-of-the-caller")["role"] == "call"
    bots = start_router({"API_KEYS": f"ops admin {ADMIN}\nbots agent=gold-* {READER}"})
    answer = bots.get("/api/v1/whoami", headers={"Authorization": f"Bearer {READER}"}).json()
    assert answer == {"key": "bots", "role": "agent", "pods": "gold-*", "is_key_required": True}
    free = start_router()
    assert free.get("/api/v1/whoami").json() == {"key": None, "role": "admin", "pods": None, "is_key_required": False}


def test_the_last_hour_of_the_pools_has_samples_and_refusals(router):
    for i in range(8):
        router.post("/api/v1/allocate", {"call_sid": f"CA{i}"})  # seven fit

    def sampled():
        answer = router.get("/api/v1/history/pools").json()
        return answer if answer["pools"].get("gold", {}).get("calls") else None

    history = wait_until(sampled, "the first sample is there")
    assert history["interval_seconds"] == 15 and history["pools_left_out"] == 0
    assert set(history["pools"]) == {"basic", "gold", "standard"}
    slots = len(history["refused"])
    assert sum(history["refused"]) == 1
    for pool in history["pools"].values():
        assert [len(pool[name]) for name in ("calls", "free", "capacity")] == [slots] * 3
    last = {name: pool["capacity"][0] for name, pool in history["pools"].items()}
    assert last == {"basic": 3, "gold": 1, "standard": 3}


# The page


def test_what_happens_elsewhere_is_shown_at_once_and_a_call_can_be_found_and_released(page, start_router):
    router = start_router()  # without keys
    page.open(router.url)
    is_live(page)
    assert page.count("dialog") == 0 and page.text("#role") == "no key needed"
    page.wait_text("#verdict-title", "All is well")
    page.wait(lambda: len(tiles(page)) == 5, "all pods are there")

    pod = router.allocate("CA1", merchant_id="acme", provider="twilio")["pod_name"]
    page.wait_text("#call-rows", "CA1")
    assert "acme" in page.text("#call-rows tr") and pod in page.text("#call-rows tr")
    assert re.search(r"\b\d+ s\b", page.text("#call-rows td.age"))
    page.wait_text("#events", "CA1 got")
    page.wait(lambda: "1 call" in tiles(page)[pod], "the pod has a call")
    page.wait_text("#verdict-facts", "1 call")
    page.wait_text("[data-pool=gold] .figure", "0 free of 1")
    assert page.count("[data-pool=gold] svg path") > 0

    page.fill("#lookup-sid", "CA1")
    page.click_button("Find")
    page.wait_text("#lookup-result", pod)
    page.click_button("Release …", "#lookup-result")
    page.click_button("Cancel", "dialog")
    assert router.get("/api/v1/call/CA1").status_code == 200
    page.click("tr[data-call=CA1] td button[aria-label='Release CA1']")
    page.wait_text("dialog", "Release CA1?")
    page.click_button("Release", "dialog")
    page.wait_text("#toasts", "CA1 is released")
    page.wait(lambda: page.count("tr[data-call]") == 0, "the call has gone")
    assert router.get("/api/v1/call/CA1").status_code == 404
    page.allowed = ["/call/CA1/story"]  # a router without stories


def test_a_refused_call_is_an_alarm_and_says_why(page, router):
    for i in range(7):
        router.allocate(f"CA{i}")
    open_page(page, router)
    page.wait_text("#verdict-problems", "No pod is free: the next call is refused.")
    assert router.post("/api/v1/allocate", {"call_sid": "CA-late", "merchant_id": "acme"}).status_code == 503
    page.wait_text("#verdict-problems", "1 call was refused in the last five minutes.")
    assert page.text("#verdict-title") == "Something is wrong"
    page.wait_text("#events", "CA-late got no pod for acme")
    page.fill("#lookup-sid", "CA-late")
    page.click_button("Find")
    page.wait_text("#lookup-result", "refused")
    page.wait_text("#lookup-result", "basic")
    page.fill("#lookup-sid", "CA-nobody")
    page.click_button("Find")
    page.wait_text("#lookup-result", "CA-nobody")
    page.wait(lambda: "refused" not in page.text("#lookup-result"), "the answer is about the other call")
    page.allowed = ["/story"]  # 404


def test_the_story_of_a_call_is_told(page, router):
    router.allocate("CA1", merchant_id="acme")
    router.release("CA1")
    story = router.get("/api/v1/call/CA1/story").json()
    assert story["story"]
    open_page(page, router)
    page.fill("#lookup-sid", "CA1")
    page.click_button("Find")
    page.wait_text("#lookup-result", story["summary"].split(": ", 1)[1])  # before it: how long ago
    shown = page.text("#lookup-result")
    assert all(one["sentence"] in shown for one in story["story"])


def test_a_pod_is_drained_and_undrained_by_clicks(page, router):
    open_page(page, router)
    page.click(".pod[data-pod=voice-agent-3]")
    page.wait_text("dialog", "Last heartbeat")
    page.click_button("Drain …", "dialog")
    page.wait_text("dialog", "Drain voice-agent-3?")
    page.run("document.querySelector('#drain-time').value = '0'")
    page.click_button("Drain", "dialog")
    page.wait(lambda: "draining" in tiles(page)["voice-agent-3"], "the pod is shown as draining")
    pod = router.get("/api/v1/pod/voice-agent-3").json()
    assert pod["is_draining"] and pod["draining_until"] is None
    assert [line["key"] for line in router.log_lines("pod drained")] == ["ops"]
    page.wait_text("#pod-states", "draining 1")
    page.click(".chip.draining")
    page.wait(lambda: list(tiles(page)) == ["voice-agent-3"], "only draining pods are shown")
    page.click(".pod[data-pod=voice-agent-3]")
    page.click_button("Undrain …", "dialog")
    page.click_button("Undrain", "dialog")
    page.wait_text("#pod-note", "No pod is like that.")
    assert not router.get("/api/v1/pod/voice-agent-3").json()["is_draining"]


def test_tiers_are_edited_with_the_checks_of_the_router_and_undone(page, router):
    before = router.get("/api/v1/tiers").json()
    open_page(page, router)
    page.click("#nav-configuration")
    page.wait(lambda: json.loads(page.find("#config-tiers").get_attribute("value") or "null") == before, "the tiers are shown")

    page.fill("#config-tiers", '{\n  "gold": 2,\n  oops\n}')
    page.click_button("Review the change", "#tiers-editor")
    page.wait_text("#config-tiers-error", "line 3, column 3")
    assert "^" in page.text("#config-tiers-error pre")
    assert page.run("const a = document.querySelector('#config-tiers'); return document.activeElement === a && a.value[a.selectionStart]") == "o"
    page.fill("#config-tiers", '{"gold": {"targt": 2}}')
    page.click_button("Review the change", "#tiers-editor")
    page.wait_text("#config-tiers-error", 'did you mean "target"?')
    assert page.find("#config-tiers").get_attribute("aria-invalid") == "true"
    assert router.get("/api/v1/tiers").json() == before

    change = json.loads(json.dumps(before))
    change["tiers"]["gold"]["target"] = 2
    page.fill("#config-tiers", json.dumps(change, indent=2))
    page.click_button("Review the change", "#tiers-editor")
    page.wait_text("#tiers-editor .review .went", '"target": 1')
    assert '"target": 2' in page.text("#tiers-editor .review .came")
    assert router.get("/api/v1/tiers").json() == before, "a review changes nothing"
    page.click_button("Save as version 2", "#tiers-editor")
    page.wait_text("#tiers-editor .versions", "Version 2")
    assert router.get("/api/v1/tiers").json()["tiers"]["gold"]["target"] == 2
    assert "by ops" in page.text("#tiers-editor .versions")

    page.click_button("Undo the last change", "#tiers-editor")
    page.wait_text("#tiers-editor .versions", "Version 3")
    assert router.get("/api/v1/tiers").json() == before
    page.wait(lambda: json.loads(page.find("#config-tiers").get_attribute("value")) == before, "the old tiers are shown")
    page.click("[aria-label='Go back to version 2']")
    page.wait_text("#tiers-editor .versions", "Version 4")
    assert router.get("/api/v1/tiers").json()["tiers"]["gold"]["target"] == 2
    page.allowed = ["/tiers?dry_run=true"]


def test_merchants_are_edited_with_warnings_removed_and_brought_back(page, router):
    router.put("/api/v1/merchants/acme", {"tier": "gold"})
    open_page(page, router)
    page.click("#nav-configuration")
    page.click_button("acme", "#merchant-list")
    page.wait(lambda: "gold" in (page.find("#config-merchant").get_attribute("value") or ""), "its configuration is shown")
    page.fill("#config-merchant", '{"tier": "platinum"}')
    page.click_button("Review the change", "#merchant-editor")
    page.wait_text("#merchant-editor .warnings", "platinum")
    page.click_button("Save as version 2", "#merchant-editor")
    page.wait_text("#merchant-editor .versions", "Version 2")
    assert router.get("/api/v1/merchants/acme").json() == {"tier": "platinum"}
    page.click_button("Remove …", "#merchant-editor")
    page.click_button("Remove", "dialog")
    page.wait_text("#merchant-note", "0 merchants")
    assert router.get("/api/v1/merchants/acme").status_code == 404
    page.wait_text("#merchant-editor .versions", "Version 3")
    page.click_button("Undo the last change", "#merchant-editor")
    page.wait_text("#merchant-list", "acme")
    assert router.get("/api/v1/merchants/acme").json() == {"tier": "platinum"}
    page.fill("#merchant-id", "new@shop")
    page.click_button("Open", "#merchant-open")
    page.wait_text("#merchant-editor", "new@shop")
    page.allowed = ["/merchants/acme", "/merchants/new@shop", "/merchants/new%40shop", "/merchants/new%40shop/history"]


def test_a_key_is_asked_for_and_stays_in_the_tab_and_a_reader_changes_nothing(page, router):
    router.allocate("CA1")
    page.open(router.url)
    page.wait_text("dialog", "This router needs a key")
    assert "CA1" not in page.text("body")
    for wrong, answer in (("nonsense", "does not know this key"), ("the-secret-of-the-caller", "has the role call")):
        page.fill("#key-input", wrong)
        page.click_button("Open the dashboard")
        page.wait_text("dialog .error", answer)
    page.fill("#key-input", READER)
    page.click_button("Open the dashboard")
    is_live(page)
    assert page.text("#role") == "key viewer · read only"
    assert page.run("return Object.keys(localStorage).length") == 0 and READER not in page.driver.current_url
    page.wait_text("#call-rows", "CA1")
    assert page.count("#call-rows td button[aria-label^=Release]") == 0
    page.click(".pod[data-pod=voice-agent-0]")
    page.wait_text("dialog", "Last heartbeat")
    assert "Drain" not in page.text("dialog .buttons")
    page.click_button("Close", "dialog")
    page.click("#nav-configuration")
    page.wait_text("#tiers-editor", "Read only")
    assert page.find("#config-tiers").get_attribute("readonly") and page.count("#tiers-editor .versions button") == 0
    # The router refuses what the page does not offer.
    refused = page.driver.execute_async_script(
        "const done = arguments[0]; import('/ui/api.js').then(({api}) => api.drain('voice-agent-0', 0)).then(done, (e) => done(e.status))"
    )
    assert refused == 403
    page.driver.refresh()
    is_live(page)
    page.click_button("Change key")
    page.wait_text("dialog", "This router needs a key")
    assert page.run("return sessionStorage.length") == 0
    page.allowed = ["/whoami", "/drain"]


def test_a_lost_router_is_noticed_and_the_page_goes_on_with_the_next_one(page, start_router, tmp_path):
    first = start_router({"API_KEYS": KEYS})
    open_page(page, first)
    first.allocate("CA1")
    page.wait_text("#call-rows", "CA1")
    first.stop()
    page.wait_text("#verdict-problems", "No answer from the router")
    assert page.text("#live") == "not live" and page.text("#verdict-title") == "Something is wrong"
    second = start_router({"API_KEYS": KEYS, "HTTP_PORT": first.port}, data_dir=first.data_dir)
    is_live(page)
    second.release("CA1")
    page.wait(lambda: page.count("tr[data-call]") == 0, "the call has gone")
    page.note_logs()
    page.messages = [one for one in page.messages if one["source"] != "network"]  # refused connections


def test_names_are_never_markup(page, redis_server, start_on):
    """What anybody can write into Redis is shown as it is."""
    router = start_on(redis_server, {"API_KEYS": KEYS})
    open_page(page, router)
    data = {"event": "refused", "id": "x:1", "time": "2026-02-08T10:00:00Z", "call_sid": HOSTILE, "merchant_id": "<script>alert(1)</script>"}
    text = json.dumps(data, separators=(",", ":"))
    wait_until(lambda: redis_server.client().publish("voice:events", text), "the router listens")
    page.wait_text("#events", HOSTILE)
    assert "<script>alert(1)</script>" in page.text("#events")
    assert page.count("main img, main script") == 0


def test_two_thousand_pods_are_a_grid_with_few_elements(page, start_router):
    pods = ",".join(f"voice-agent-{i}" for i in range(2000))
    router = start_router({"API_KEYS": KEYS, "STATIC_PODS": pods})
    open_page(page, router)
    page.wait_text("#pod-states", "available 2,000")
    assert 50 < page.count(".pod:not([hidden])") < 800
    cells = page.count(".pod")
    page.run("const s = document.querySelector('#pod-scroll'); s.scrollTop = s.scrollHeight")
    page.wait(lambda: "voice-agent-1999" in tiles(page), "the last pod can be seen")
    assert page.count(".pod") < cells * 1.5
    router.post("/api/v1/drain", {"pod_name": "voice-agent-1234"})
    page.wait_text("#pod-states", "draining 1")
    page.fill("#pod-name", "agent-1234")
    page.wait(lambda: list(tiles(page)) == ["voice-agent-1234"], "one pod is left")
    page.fill("#pod-name", "")
    page.wait(lambda: len(tiles(page)) > 50, "all pods are back")
    # With the keyboard: what drains comes first, then by name; End goes to the last one.
    page.run("document.querySelector('#pod-scroll').scrollTop = 0")
    page.wait(lambda: "voice-agent-1234" in tiles(page), "the first pod can be seen")
    page.run("document.querySelector(\".pod[data-pod='voice-agent-1234']\").focus()")
    keys = page.driver.switch_to.active_element
    keys.send_keys("\ue014")  # right
    assert page.driver.switch_to.active_element.get_attribute("data-pod") == "voice-agent-0"
    page.driver.switch_to.active_element.send_keys("\ue010")  # end
    page.wait(lambda: page.driver.switch_to.active_element.get_attribute("data-pod") == "voice-agent-1999", "the last one has the focus")
    page.driver.switch_to.active_element.send_keys("\ue007")  # enter
    page.wait_text("dialog h2", "voice-agent-1999")


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_nothing_keeps_anybody_out_on_a_phone_or_a_desk(page, router, scheme, width):
    for i in range(3):
        router.allocate(f"CA{i}", merchant_id="a-merchant-with-a-rather-long-name")
    router.post("/api/v1/drain", {"pod_name": "voice-agent-4"})
    router.post("/api/v1/allocate", {"call_sid": "CA" + "9" * 100})
    open_page(page, router, width=width, height=844, scheme=scheme)
    page.wait_text("#call-rows", "CA2")
    assert page.run("return document.documentElement.scrollWidth") <= width
    back = page.run("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", back)[:3])) > 384) == (scheme == "light")
    assert page.barriers() == []
    page.click(".pod[data-pod=voice-agent-4]")
    page.wait_text("dialog", "Undrain")
    assert page.barriers() == []
    page.click_button("Close", "dialog")
    page.click("#nav-configuration")
    page.wait_text("#tiers-editor .versions", "Version 1")
    page.fill("#config-tiers", '{"gold":1}')
    page.click_button("Review the change", "#tiers-editor")
    page.wait_text("#tiers-editor .review", "Save as version 2")
    assert page.run("return document.documentElement.scrollWidth") <= width
    assert page.barriers() == []
    page.click("#theme-button")  # system, light, dark
    page.click("#theme-button")
    assert page.text("#theme-button") == "Theme: dark" and page.run("return document.documentElement.dataset.theme") == "dark"


# Pictures

# An hour of samples: a picture needs more than the seconds that this router has seen.
AN_HOUR = """
const ask = window.fetch;
window.fetch = async (url, options) => {
  const answer = await ask(url, options);
  if (!String(url).endsWith("history/pools")) return answer;
  const body = await answer.json();
  for (const [name, pool] of Object.entries(body.pools)) {
    const capacity = Math.max(...pool.capacity, 1);
    const wave = (i) => 0.55 + 0.3 * Math.sin(i / 31 + name.length) + 0.1 * Math.sin(i / 7 + capacity);
    pool.capacity = Array.from({length: 240}, (_, i) => (i < 90 ? Math.max(1, Math.round(capacity * 0.85)) : capacity));
    pool.free = pool.capacity.map((most, i) => Math.max(0, Math.min(most, Math.round(most * wave(i)))));
    pool.calls = pool.capacity.map((most, i) => most - pool.free[i]);
  }
  body.refused = Array(240).fill(0);
  return new Response(JSON.stringify(body), {headers: {"Content-Type": "application/json"}});
};
"""
PICTURES = ("dashboard-light.png", "dashboard-dark.png", "dashboard-phone.png", "dashboard-configuration.png")
TIERS = {
    "tiers": {
        "gold": {"target": 20},
        "standard": {"target": 60},
        "basic": {"type": "shared", "target": 20, "max_concurrent": 4},
        "9shines": {"target": 10},
    },
    "default_chain": ["gold", "standard", "basic"],
}
MERCHANTS = ("acme", "9shines", "northwind", "globex", "initech", "umbrella")


def busy_router(start_router):
    router = start_router({
        "API_KEYS": KEYS,
        "POD_NAME": "smart-router-0",
        "TIER_CONFIG": json.dumps(TIERS),
        "STATIC_PODS": ",".join(f"voice-agent-{i}" for i in range(110)),
    })
    router.put("/api/v1/merchants/9shines", {"pool": "9shines"})
    router.put("/api/v1/merchants/acme", {"tier": "standard"})
    wait_until(lambda: router.get("/api/v1/status").json()["tiers"]["merchant:9shines"]["assigned"] == 10, "the pools are full")
    for i in range(46):
        router.allocate(f"CA{7919 * (i + 1) % 9973:04d}e{i:02d}", merchant_id=MERCHANTS[i % 6], provider=("twilio", "plivo", "exotel")[i % 3])
    router.post("/api/v1/drain", {"pod_name": "voice-agent-17"})
    return router


def make_the_pictures_of_the_docs(page, start_router):
    folder = pathlib.Path(os.environ["DASHBOARD_PICTURES"])
    page.allowed = ["/story"]
    router = busy_router(start_router)
    wait_until(lambda: router.get("/api/v1/history/pools").json()["pools"], "the history has its pools")
    for name, how in (("light", {}), ("dark", {"scheme": "dark"}), ("phone", {"width": 390, "height": 844})):
        open_page(page, router, script=AN_HOUR, **how)
        page.wait_text("#call-note", "46 calls")
        sid = page.text("#call-rows tr th")
        for i in range(6):
            router.allocate(f"CAevent{i}", merchant_id=MERCHANTS[i])
            router.release(f"CAevent{i}")
        page.fill("#lookup-sid", sid)
        page.click_button("Find")
        page.wait_text("#lookup-result", sid)
        page.run("document.activeElement.blur(); window.scrollTo(0, 0)")
        page.wait_text("#events", "CAevent5 was released")
        page.wait_text("#call-note", "46 calls")
        page.picture(folder / f"dashboard-{name}.png")
    open_page(page, router)
    page.click("#nav-configuration")
    page.wait_text("#tiers-editor .versions", "Version 1")
    change = {**TIERS, "tiers": {**TIERS["tiers"], "standard": {"target": 80}, "9shines": {"target": 5}}}
    router.put("/api/v1/tiers", change)
    page.click_button("Reload", "#tiers-editor")
    page.wait_text("#tiers-editor .versions", "Version 2")
    stored = router.get("/api/v1/tiers").json()
    del stored["tiers"]["9shines"]
    page.fill("#config-tiers", json.dumps(stored, indent=2))
    page.click_button("Review the change", "#tiers-editor")
    page.wait_text("#tiers-editor .review", "Save as version 3")
    page.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.picture(folder / "dashboard-configuration.png")


if "DASHBOARD_PICTURES" in os.environ:  # a folder: see docs/HACKING.md
    test_the_pictures_of_the_docs_are_made = make_the_pictures_of_the_docs


def test_the_pictures_of_the_docs_are_there_and_small():
    text = (ROOT / "docs" / "DASHBOARD.md").read_text() + (ROOT / "README.md").read_text()
    for name in PICTURES:
        data = (ROOT / "docs" / name).read_bytes()
        assert data.startswith(b"\x89PNG") and len(data) < 250_000, name
        assert name in text
