"""The story of a call: every way in which a call can end and its sentence, on both stores; how long it is remembered.

test/conformance/cases_story.c has what the stores remember. Here are the sentences, several routers, and bad input.
"""

import datetime
import re
import urllib.parse

import pytest
from conftest import wait_until
from streams import Agent, Stream

POD = "voice-agent-0"
SECRET = "the-first-secret-is-long-enough"
ONE_POD = {"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": POD}
SWEEPS = {"CLEANUP_INTERVAL": "50ms"}
BY_API = "A client of the API asked for it"
GOT = f"It got the pod {POD} of pool:gold. {BY_API}."


@pytest.fixture(params=["embedded", "redis"])
def start_any(request, start_router):
    """start_any(env=None) -> Router: on one directory, or on one Redis, which a restart finds again."""
    if request.param == "embedded":
        directory = request.getfixturevalue("tmp_path") / "data"
        return lambda env=None: start_router(env, data_dir=directory)
    server = request.getfixturevalue("redis_server")
    start_on = request.getfixturevalue("start_on")
    return lambda env=None: start_on(server, env)


def story_of(router, call_sid="CA1"):
    answer = router.get(f"/api/v1/call/{call_sid}/story")
    assert answer.status_code == 200, answer.text
    story = answer.json()
    assert list(story) == ["call_sid", "state", "summary", "story"] and story["call_sid"] == call_sid
    assert all(list(event) == ["time", "event", "sentence"] for event in story["story"])
    times = [event["time"] for event in story["story"]]
    assert times == sorted(times)
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", time) for time in times)
    assert all(re.fullmatch(r"[A-Z].*\.", event["sentence"]) for event in story["story"])
    return story


def state_of(router, call_sid="CA1"):
    """None: its router has not told the store yet that it has ended."""
    return router.get(f"/api/v1/call/{call_sid}/story").json().get("state")


def events_of(router, call_sid="CA1"):
    return [event["event"] for event in story_of(router, call_sid)["story"]]


def sentences_of(router, call_sid="CA1"):
    return [event["sentence"] for event in story_of(router, call_sid)["story"]]


def check_end(router, event, sentence, call_sid="CA1"):
    """The call has ended in this way: its last event, its sentence, and the summary say so."""
    story = story_of(router, call_sid)
    assert (story["state"], story["story"][-1]["event"], story["story"][-1]["sentence"]) == ("ended", event, sentence)
    clause = sentence[0].lower() + sentence[1:]
    assert re.fullmatch(rf"{call_sid} ended (less than a second|\d+ seconds?) ago: {re.escape(clause)}", story["summary"])


# Live calls.


def test_a_live_call_tells_who_asked_and_who_renewed_it(start_any):
    router = start_any(ONE_POD)
    router.allocate("CA1", merchant_id="acme")
    story = story_of(router)
    assert story["state"] == "allocated"
    assert re.fullmatch(
        rf"CA1 has had a pod for .*, now {POD} of pool:gold: nobody has renewed it yet\.", story["summary"]
    )
    assert story["story"][0]["event"] == "allocated"
    assert sentences_of(router) == [f"It got the pod {POD} of pool:gold. {BY_API}, for the merchant acme."]
    assert router.post("/api/v1/renew", {"call_sid": "CA1"}).status_code == 200
    assert story_of(router)["story"][-1] | {"time": ""} == {
        "time": "",
        "event": "renewed",
        "sentence": "A client of the API renewed it for the last time.",
    }
    assert re.search(r": it was last renewed .* ago\.$", story_of(router)["summary"])
    assert router.post(f"/api/v1/pod/{POD}/heartbeat", {"call_sids": ["CA1"]}).status_code == 200
    story = story_of(router)
    assert (story["state"], story["story"][-1]["sentence"]) == (
        "active",
        "A heartbeat of its pod renewed it for the last time.",
    )
    assert events_of(router) == ["allocated", "renewed"]


def test_a_provider_asks_and_its_router_carries_the_stream(start_any):
    agent = Agent()
    router = start_any({"STATIC_PODS": f"{POD}=127.0.0.1:{agent.port}", "GATEWAY_SECRET": SECRET, "POD_NAME": "router-7"})
    answer = router.request("POST", "/api/v1/twilio/allocate", params={"merchant_id": "acme"}, data={"CallSid": "CA1"})
    path = urllib.parse.urlsplit(re.search(r'url="([^"]+)"', answer.text)[1]).path
    stream = Stream(router.port, path)
    assert stream.status == 101 and stream.echoes()
    wait_until(lambda: story_of(router)["state"] == "connected", "the call is connected")
    told = sentences_of(router)
    assert told[0].endswith(". Twilio asked for it, for the merchant acme.")
    assert told[1] == "The router that carried its stream renewed it for the last time."
    assert re.fullmatch(r"The router router-7_\S+ carries its stream\.", told[2]) and len(told) == 3
    assert re.search(r": the router router-7_\S+ carries its stream\.$", story_of(router)["summary"])
    stream.close()
    wait_until(lambda: state_of(router) == "ended", "the call has ended")
    check_end(router, "closed", "Its stream was closed, or its provider said that it is over.")
    agent.close()


def test_an_expired_call_says_what_comes_next(shifted_server, start_on):
    router = start_on(shifted_server, {**ONE_POD, "LEADER_ELECTION_ENABLED": "true", "CLEANUP_INTERVAL": "1h"})
    router.allocate("CA1")
    router.post("/api/v1/renew", {"call_sid": "CA1"})
    shifted_server.jump(1000)
    story = wait_until(lambda: story_of(router)["state"] == "expired" and story_of(router), "the lease has ended")
    assert story["story"][-1]["event"] == "expired"
    assert story["story"][-1]["sentence"].startswith("Its lease ended. The next sweep ends the call, unless")
    assert re.search(r": its lease ended .* ago, and the next sweep ends it\.$", story["summary"])


# Each way to end.


def test_released(start_any):
    router = start_any(ONE_POD)
    router.allocate("CA1")
    router.release("CA1")
    check_end(router, "released", "A client released it.")
    assert sentences_of(router) == [GOT, "A client released it."]
    assert router.get("/api/v1/call/CA1").status_code == 404
    assert "story" not in router.get("/api/v1/call/CA1").json()


def test_its_provider_says_that_it_is_over(start_any):
    router = start_any(ONE_POD)
    router.request("POST", "/api/v1/twilio/allocate", data={"CallSid": "CA1"})
    answer = router.request("POST", "/api/v1/twilio/status", data={"CallSid": "CA1", "CallStatus": "completed"})
    assert answer.status_code == 200, answer.text
    check_end(router, "closed", "Its stream was closed, or its provider said that it is over.")


def test_its_lease_expired(start_any):
    router = start_any({**ONE_POD, **SWEEPS, "CONNECT_TIMEOUT": "1s"})
    router.allocate("CA1")
    wait_until(lambda: story_of(router)["state"] == "ended", "its lease has ended")
    check_end(router, "lease_expired", f"Nobody renewed its lease on the pod {POD}.")


def test_its_pod_is_removed_or_restarts_or_leaves_it_out(start_any):
    router = start_any({"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": None, "POD_SOURCE": "api"})
    first = {"pod_name": POD, "address": "127.0.0.1:9000", "incarnation": "1"}
    assert router.post("/api/v1/pods", first).status_code == 200
    router.allocate("CA1")
    assert router.post("/api/v1/pods", {**first, "incarnation": "2"}).status_code == 200
    check_end(router, "pod_restarted", f"Its pod {POD} restarted.")
    router.allocate("CA2")
    assert router.delete(f"/api/v1/pod/{POD}").status_code == 200
    check_end(router, "pod_gone", f"Its pod {POD} was removed, or stopped sending heartbeats.", "CA2")


def test_the_heartbeats_of_its_pod_leave_it_out(shifted_server, start_on):
    router = start_on(shifted_server, {"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": None, "POD_SOURCE": "api"})
    router.post("/api/v1/pods", {"pod_name": POD, "address": "127.0.0.1:9000"})
    router.allocate("CA1")
    shifted_server.jump(40)  # a younger call may not have reached the pod
    for _ in range(2):
        assert router.post(f"/api/v1/pod/{POD}/heartbeat", {"call_sids": []}).status_code == 200
    story = story_of(router)
    assert (story["state"], story["story"][-1]["event"]) == ("ended", "left_out")
    assert story["story"][-1]["sentence"] == f"The heartbeats of its pod {POD} left it out."


def test_a_call_that_was_moved(start_any):
    """Its pod does not answer: the gateway moves the call to the other one."""
    agent = Agent()
    pods = f"{POD}=127.0.0.1:1,voice-agent-1=127.0.0.1:{agent.port}"
    router = start_any({"TIER_CONFIG": '{"gold":2}', "STATIC_PODS": pods, "GATEWAY_SECRET": SECRET})
    first = router.allocate("CA1")
    if first["pod_name"] != POD:  # any of the two: the one that answers is to be busy
        assert router.allocate("CA2")["pod_name"] == POD
        router.release("CA1")
        moved = "CA2"
        path = urllib.parse.urlsplit(router.allocate("CA2")["ws_url"]).path
    else:
        moved = "CA1"
        path = urllib.parse.urlsplit(first["ws_url"]).path
    stream = Stream(router.port, path)
    assert stream.status == 101 and stream.echoes()
    told = sentences_of(router, moved)
    assert told[0] == f"It got the pod {POD} of pool:gold. {BY_API}."
    assert f"It moved from the pod {POD}, which could not be reached, to the pod voice-agent-1 of pool:gold." in told
    assert events_of(router, moved).count("moved") == 1
    stream.close()
    wait_until(lambda: state_of(router, moved) == "ended", "the call has ended")
    events = events_of(router, moved)
    assert (events[0], events[-1], events.count("moved"), events.count("allocated")) == ("allocated", "closed", 1, 1)
    agent.close()


# Refusals.


def test_a_refused_call_names_the_pools_and_what_stood_in_the_way(start_any):
    router = start_any({"TIER_CONFIG": '{"gold":1,"silver":1}', "STATIC_PODS": f"{POD},voice-agent-1"})
    router.allocate("CA1")
    router.allocate("CA2")
    answer = router.request("POST", "/api/v1/twilio/allocate", params={"merchant_id": "acme"}, data={"CallSid": "CA3"})
    assert "busy" in answer.text
    story = story_of(router, "CA3")
    assert story["state"] == "refused"
    assert re.fullmatch(r"CA3 got no pod .* ago: gold: 1 busy; silver: 1 busy\.", story["summary"])
    assert [event["event"] for event in story["story"]] == ["refused"]
    assert story["story"][0]["sentence"] == (
        "Twilio asked for it, for the merchant acme, and no pod was free. "
        "The pools in the order in which they were tried: gold: 1 busy; silver: 1 busy."
    )
    router.release("CA1")
    router.allocate("CA3")
    assert events_of(router, "CA3") == ["refused", "allocated"]
    assert story_of(router, "CA3")["state"] == "allocated"
    router.release("CA3")
    assert events_of(router, "CA3") == ["refused", "allocated", "released"]
    assert story_of(router, "CA3")["state"] == "ended"


def test_a_call_that_ended_and_was_refused_later_is_refused(shifted_server, start_on):
    router = start_on(shifted_server, ONE_POD)
    router.allocate("CA1")
    router.release("CA1")
    shifted_server.jump(120)
    router.allocate("CA2")
    assert router.post("/api/v1/allocate", {"call_sid": "CA1"}).status_code == 503
    assert story_of(router)["state"] == "refused"
    assert events_of(router) == ["allocated", "released", "refused"]
    shifted_server.jump(120)
    assert re.fullmatch(r"CA1 got no pod 2 minutes ago: gold: 1 busy\.", story_of(router)["summary"])
    shifted_server.jump(600)  # the refusal is forgotten, the end is not
    assert story_of(router)["summary"] == "CA1 ended 14 minutes ago: a client released it."


# Several routers, and how long it is remembered.


def test_every_router_of_a_redis_tells_the_same_story(redis_server, start_on):
    a, b = (start_on(redis_server, ONE_POD) for _ in "ab")
    a.allocate("CA1", merchant_id="acme")
    b.post("/api/v1/renew", {"call_sid": "CA1"})
    a.release("CA1")
    wait_until(lambda: b.get("/api/v1/call/CA1/story").json().get("state") == "ended", "the other router knows it")
    assert story_of(a)["story"] == story_of(b)["story"]
    assert events_of(b) == ["allocated", "renewed", "released"]
    assert a.stop() == 0
    assert events_of(b) == ["allocated", "renewed", "released"]


def test_a_router_that_stops_leaves_the_ends_that_it_knows(redis_server, start_on):
    a, b = (start_on(redis_server, {"STATIC_PODS": ",".join(f"a-{i}" for i in range(20)), "TIER_CONFIG": '{"gold":20}'}) for _ in "ab")
    for i in range(20):
        a.allocate(f"CA{i}")
    for i in range(20):
        a.release(f"CA{i}")
    assert a.stop() == 0
    for i in range(20):
        assert story_of(b, f"CA{i}")["state"] == "ended"


def test_the_embedded_store_forgets_it_with_a_restart(start_router, tmp_path):
    router = start_router(ONE_POD, data_dir=tmp_path / "data")
    router.allocate("CA1")
    router.release("CA1")
    assert router.stop() == 0
    router = start_router(ONE_POD, data_dir=tmp_path / "data")
    assert router.get("/api/v1/call/CA1/story").status_code == 404


def test_an_hour_later_it_is_forgotten_also_in_redis(shifted_server, start_on):
    router = start_on(shifted_server, {**ONE_POD, **SWEEPS})
    router.allocate("CA1")
    router.release("CA1")
    shifted_server.jump(3500)
    router.allocate("CA2")
    router.release("CA2")
    assert story_of(router)["summary"] == "CA1 ended 58 minutes ago: a client released it."
    shifted_server.jump(120)
    answer = router.get("/api/v1/call/CA1/story")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "10,000 calls" in answer.json()["error"] and "one hour" in answer.json()["error"]
    assert story_of(router, "CA2")["state"] == "ended"
    client = shifted_server.client()
    wait_until(lambda: client.llen("voice:calls:ended") == 2, "a sweep has removed the old one")
    assert 86_000_000 < client.pttl("voice:calls:ended") <= 86_400_000
    shifted_server.jump(3600)
    wait_until(lambda: client.exists("voice:calls:ended") == 0, "nothing is left")


def test_a_release_cuts_a_list_that_is_too_long(redis_server, start_on):
    router = start_on(redis_server, ONE_POD)
    client = redis_server.client()
    now = int(datetime.datetime.now().timestamp())
    entry = f"released\n{now}\n0\n{POD}\npool:gold\n\n\n{now}\n"
    client.rpush("voice:calls:ended", *(text for i in range(11000) for text in (f"old-{i}", entry)))
    assert story_of(router, "old-1000")["state"] == "ended"
    assert router.get("/api/v1/call/old-999/story").status_code == 404  # the 10,001st
    router.allocate("CA1")
    router.release("CA1")
    wait_until(lambda: client.llen("voice:calls:ended") == 20000, "the list is cut")
    assert story_of(router)["state"] == "ended"
    assert router.get("/api/v1/call/old-1000/story").status_code == 404
    assert story_of(router, "old-1001")["state"] == "ended"


def test_a_user_that_may_not_cut_the_list_loses_stories_and_nothing_else(start_redis, start_on):
    """Every step that ends a call has work with the list: it is too long, and its first entries are too old."""
    server = start_redis()
    server.cli("ACL", "SETUSER", "router", "on", ">secret", "+@all", "-ltrim", "~*", "&*")
    client = server.client()
    fill = lambda: client.rpush("voice:calls:ended", *(text for i in range(11001) for text in (f"old-{i}", "released\n1\n0\np\npool:gold\n\n\n1\n")))
    env = {**SWEEPS, "REDIS_URL": f"unix://router:secret@{server.socket_path}", "LEASE_TTL": "1s", "CALL_MAX_DURATION": "1s"}
    router = start_on(server, env)
    fill()
    router.allocate("CA1")
    wait_until(lambda: router.get("/api/v1/call/CA1").status_code == 404, "a sweep has ended the call")
    wait_until(lambda: client.llen("voice:calls:ended") <= 2, "the list does not grow")
    router.post("/api/v1/pods", {"pod_name": "box", "address": "127.0.0.1:9000", "tier": "gold"})
    fill()
    assert router.delete("/api/v1/pod/box").status_code == 200
    assert router.log_lines("background task failed") == []


# Bad input, and data that others have made.


def test_a_name_that_can_be_no_call_is_refused(start_any):
    router = start_any(ONE_POD)
    router.allocate("CA1")
    for name in ("a%20b", "%00", "a%0Ab", "x" * 129, "%C3%A9", "a%2Fb", "'", "*"):
        answer = router.get(f"/api/v1/call/{name}/story")
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request"), name
    assert router.get("/api/v1/call//story").status_code in (400, 404)
    assert router.request("POST", "/api/v1/call/CA1/story").status_code == 405
    for name in ("released", "moved", "x" * 128):
        assert router.get(f"/api/v1/call/{name}/story").status_code == 404
    assert story_of(router)["state"] == "allocated"


def test_entries_that_were_made_by_hand_are_left_out(redis_server, start_on):
    router = start_on(redis_server, ONE_POD)
    client = redis_server.client()
    now = int(datetime.datetime.now().timestamp())
    bad = ["", "x", "released", f"eaten\n{now}\n0\np\nq\n\n\n1\n", "released\nx\n0\np", f"released\n{now}\n9999999\np", "CA1"]
    bad += [f"released\n{'9' * 19}\n0\np", "released\n-1\n0\np"]
    for text in bad:
        client.rpush("voice:calls:ended", "CA1", text)
        assert router.get("/api/v1/call/CA1/story").status_code == 404, text
    client.rpush("voice:calls:ended", "CA1")  # without a text
    assert router.get("/api/v1/call/CA1/story").status_code == 404
    client.delete("voice:calls:ended")
    client.rpush("voice:calls:ended", "CA1", f'released\n{now}\n0\n"<b>\x01\xff\npool:gold\n\n\nx\nclient x')
    assert story_of(router)["state"] == "ended"
    for wrong in ("string", "hash"):
        client.delete("voice:calls:ended")
        client.set("voice:calls:ended", "1") if wrong == "string" else client.hset("voice:calls:ended", "a", "b")
        assert router.get("/api/v1/call/CA1/story").status_code == 404
        router.allocate("CA1")
        router.release("CA1")  # a release does not depend on it
        assert router.get("/api/v1/call/CA1/story").status_code == 404
        assert client.type("voice:calls:ended") == wrong
