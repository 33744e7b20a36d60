"""Calls of providers that wait for a pod, and what a provider is told that asks how a call goes on after its stream."""

import concurrent.futures
import contextlib
import html
import json
import re
import socket
import urllib.parse
import xml.etree.ElementTree as ElementTree

import pytest
import streams
import webhooks
from conftest import DEADLINE_S, wait_until

BASE = "https://voice.example.com/pbx"
TOKENS = {"twilio": "twilio-token-0123456789", "plivo": "plivo-token-0123456789", "exotel": "exotel-token-0123456789"}
SID_FIELD = {"twilio": "CallSid", "plivo": "CallUUID", "exotel": "CallSid"}
IN_PROGRESS = {"twilio": {"CallStatus": "in-progress"}, "plivo": {"CallStatus": "in-progress", "Event": "Redirect"}, "exotel": {}}
OVER = {"twilio": {"CallStatus": "completed"}, "plivo": {"Event": "Hangup", "CallStatus": "completed"}, "exotel": {"Status": "completed"}}
KEEPS = {"PUBLIC_BASE_URL": BASE, "REDIS_TIMEOUT": "500ms", "GATEWAY_SECRET": "gateway-secret-0123456789", **{f"{name.upper()}_{'TOKEN' if name == 'exotel' else 'AUTH_TOKEN'}": token for name, token in TOKENS.items()}}
ONE_POD = {"TIER_CONFIG": '{"gold":1}', "STATIC_PODS": "voice-agent-0"}
ENDS_WITH_ITS_STREAM = ("RESCUE", "PUBLIC_BASE_URL", "GATEWAY_SECRET", "WS_URL_TEMPLATE")
BUSY_TEXT = "All agents are busy"
HANGUP = "<Response><Hangup/></Response>"
NONCE = "12345"


@pytest.fixture
def start(start_router, store):
    """start(env) -> a router to which all providers send their calls, signed."""
    return lambda env=None: start_router({**KEEPS, **store, "BUSY_MESSAGE": BUSY_TEXT, **(env or {})})


@pytest.fixture(scope="module")
def judge():
    judge = webhooks.Judge()
    yield judge
    judge.close()


def signed(provider, target, params):
    """The headers and the path of a webhook as its provider sends it."""
    url = BASE + target
    if provider == "twilio":
        return {"X-Twilio-Signature": webhooks.sign_twilio(TOKENS[provider], url, params)}, target
    if provider == "plivo":
        return {"X-Plivo-Signature-V3": webhooks.sign_plivo(TOKENS[provider], url, NONCE, params), "X-Plivo-Signature-V3-Nonce": NONCE}, target
    return {}, target + ("&" if "?" in target else "?") + f"token={TOKENS[provider]}"


def send(router, provider, target, call_sid, **more):
    params = {SID_FIELD[provider]: call_sid, **(more or IN_PROGRESS[provider])}
    headers, path = signed(provider, target, params)
    return router.post(path, data=params, headers=headers)


def allocate(router, provider, call_sid, query=""):
    answer = send(router, provider, f"/api/v1/{provider}/allocate{query}", call_sid)
    assert answer.status_code == 200, answer.text
    return answer


def stream_of(answer):
    """The URL of the stream that the answer tells the provider to open; None: there is none."""
    if answer.headers["content-type"].startswith("application/json"):
        return answer.json().get("url")
    stream = ElementTree.fromstring(answer.content).find(".//Stream")
    return None if stream is None else stream.get("url") or stream.text


def after_of(answer):
    """What the provider asks next, as path and query; None: nothing."""
    root = ElementTree.fromstring(answer.content)
    connect, redirect = root.find("Connect"), root.find("Redirect")
    url = connect.get("action") if connect is not None else redirect.text if redirect is not None else None
    assert url is None or url.startswith(BASE)
    return url and url[len(BASE) :]


def pod_of(answer):
    return re.search(r"/ws/pod/([a-z0-9-]+)/", stream_of(answer))[1]


def resume(router, provider, call_sid, answer=None, **more):
    target = after_of(answer) if answer is not None and provider != "exotel" else f"/api/v1/{provider}/after"
    return send(router, provider, target, call_sid, **more)


def is_hangup(answer):
    return answer.status_code == 200 and HANGUP in answer.text


def is_busy(answer):
    return answer.status_code == 200 and BUSY_TEXT in answer.text and "<Hangup/>" in answer.text


def resumes(router, provider, result):
    name = f'smart_router_resumes_total{{provider="{provider}",result="{result}"}}'
    return next(float(line.split()[-1]) for line in router.get("/metrics").text.splitlines() if line.startswith(name))


def calls(router):
    return {call["call_sid"]: call["pod_name"] for call in router.get("/api/v1/calls").json()["calls"]}


def waiting(router):
    return [call["call_sid"] for call in router.get("/api/v1/waiting").json()["waiting"]]


# A stream has ended.


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_a_call_that_lives_gets_its_pod_again(start, provider):
    router = start()
    first = allocate(router, provider, "CA1", "?merchant_id=a%2Bb&template=caf%C3%A9%20bar&flow=v1")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(after_of(first)).query)
    assert query == {"merchant_id": ["a+b"], "template": ["café bar"], "flow": ["v1"], "pod": [pod_of(first)]}
    again = resume(router, provider, "CA1", first)
    assert again.status_code == 200
    assert pod_of(again) == pod_of(first) and after_of(again) == after_of(first)
    assert stream_of(again).split("/")[-1] == stream_of(first).split("/")[-1], "the template and the flow are the same"
    assert resumes(router, provider, "resumed") == 1
    assert calls(router) == {"CA1": pod_of(first)}


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_a_call_that_has_ended_is_hung_up(start, provider):
    router = start()
    first = allocate(router, provider, "CA1")
    router.post("/api/v1/renew", {"call_sid": "CA1"})
    router.post("/api/v1/release", {"call_sid": "CA1", "pod_name": pod_of(first)})
    assert is_hangup(resume(router, provider, "CA1", first))
    assert resumes(router, provider, "ended") == 1
    assert calls(router) == {}


@pytest.mark.parametrize("provider", ["twilio", "plivo", "exotel"])
def test_a_status_that_ends_the_call_ends_it(start, provider):
    router = start()
    first = allocate(router, provider, "CA1")
    ended = resume(router, provider, "CA1", first, **OVER[provider])
    assert ended.status_code == 200 and (provider == "exotel" or is_hangup(ended))
    assert calls(router) == {}
    # The provider said so itself: a webhook that somebody has kept gets no pod, also when the end is not known any more.
    kept = resume(router, provider, "CA1", first)
    assert kept.status_code == 200 and (provider == "exotel" or is_hangup(kept))
    assert send(router, provider, f"/api/v1/{provider}/allocate", "CA1").status_code == 403
    assert calls(router) == {}


def test_a_call_that_lives_is_not_refused_because_of_an_end_that_was_reported(start):
    """The store could not release it when its status callback came; or the callback was about an earlier call of that name."""
    router = start()
    send(router, "twilio", "/api/v1/twilio/status", "CA1", **OVER["twilio"])
    pod = router.allocate("CA1", provider="twilio")["pod_name"]
    assert pod_of(send(router, "twilio", f"/api/v1/twilio/after?pod={pod}", "CA1")) == pod


def test_a_call_that_nobody_knows_any_more_gets_its_old_pod_if_that_is_free(start):
    router = start({"STATIC_PODS": ",".join(f"voice-agent-{i}" for i in range(8)), "TIER_CONFIG": '{"gold":8}'})
    for old in ("voice-agent-5", "voice-agent-3"):
        answer = send(router, "twilio", f"/api/v1/twilio/after?pod={old}", f"CA-{old}")
        assert pod_of(answer) == old
    assert pod_of(send(router, "twilio", "/api/v1/twilio/after?pod=voice-agent-5", "CA3")) != "voice-agent-5"
    assert stream_of(send(router, "twilio", "/api/v1/twilio/after?pod=gone-1", "CA4"))
    assert resumes(router, "twilio", "allocated") == 4


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_a_call_is_not_resumed_in_circles(start, provider):
    router = start()
    first = allocate(router, provider, "CA1")
    answers = [resume(router, provider, "CA1", first) for _ in range(5)]
    assert [stream_of(answer) is not None for answer in answers] == [True] * 3 + [False] * 2
    assert is_busy(answers[3]) and resumes(router, provider, "too_often") == 2
    assert "CA1" in calls(router), "it was not ended"


def test_two_requests_at_once_have_one_answer(start):
    router = start()
    first = allocate(router, "twilio", "CA1")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda _: resume(router, "twilio", "CA1", first), range(2)))
    assert {pod_of(answer) for answer in answers} == {pod_of(first)}
    assert len(calls(router)) == 1


def test_a_provider_that_goes_away_before_it_is_answered_leaves_the_call_as_it_was(start):
    router = start()
    first = allocate(router, "twilio", "CA1")
    router.post("/api/v1/renew", {"call_sid": "CA1"})
    target, body = after_of(first), urllib.parse.urlencode({"CallSid": "CA1"})
    headers, _ = signed("twilio", target, {"CallSid": "CA1"})
    head = f"POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nX-Twilio-Signature: {headers['X-Twilio-Signature']}\r\n\r\n"
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", router.port), timeout=DEADLINE_S) as conn:
            conn.sendall((head + body).encode())
    wait_until(lambda: 'status="client_gone"' in router.get("/metrics").text, "the metric is there")
    assert calls(router) == {"CA1": pod_of(first)}


# Waiting.


@pytest.mark.parametrize("provider", ["twilio", "plivo", "exotel"])
def test_a_call_without_a_pod_is_held_at_the_gateway(start, provider):
    router = start({**ONE_POD, "HOLD_MAX_WAIT": "2m"})
    router.allocate("CA1")
    held = allocate(router, provider, "CA2", "?merchant_id=acme&template=survey")
    assert re.fullmatch(rf"wss://voice.example.com/pbx/ws/hold/[A-Za-z0-9_-]+/agent/voice/breeze-buddy/{provider}/callback/survey/v2", stream_of(held))
    assert router.get("/api/v1/call/CA2").json() | {"state": "waiting", "provider": provider, "merchant_id": "acme", "held_by": ""} == router.get("/api/v1/call/CA2").json()
    if provider == "exotel":
        assert resume(router, provider, "CA2").status_code == 302
    else:
        assert "pod=" not in after_of(held)
        assert "/ws/hold/" in stream_of(resume(router, provider, "CA2", held)), "it keeps its place"
    assert waiting(router) == ["CA2"]

    router.release("CA1")
    again = resume(router, provider, "CA2", held)
    if provider == "exotel":
        assert again.status_code == 302
        again = allocate(router, provider, "CA2")
    assert pod_of(again) == "voice-agent-0"


@pytest.mark.parametrize("fallback", ["", "wss://elsewhere.example.com/x"])
def test_who_has_waited_for_too_long_hears_the_busy_message_or_goes_elsewhere(start, fallback):
    router = start({**ONE_POD, "HOLD_MAX_WAIT": "1s", "FALLBACK_WS_URL": fallback})
    router.allocate("CA1")
    held = allocate(router, "twilio", "CA2")
    assert "/ws/hold/" in stream_of(held)
    wait_until(lambda: waiting(router) == [], "its wait is over")
    for answer in (resume(router, "twilio", "CA2", held), resume(router, "twilio", "CA2", held), allocate(router, "twilio", "CA2")):
        assert stream_of(answer) == fallback if fallback else is_busy(answer)
        assert not fallback or after_of(answer) is None, "the end of that stream is the end of the call"
    assert resumes(router, "twilio", "timed_out") == 2
    assert resume(router, "exotel", "CA3").status_code == 302
    assert waiting(router) == ["CA3"]


def test_a_full_line_is_no_line(start):
    router = start({**ONE_POD, "HOLD_MAX_WAIT": "2m", "HOLD_MAX_CALLS": "1"})
    router.allocate("CA1")
    assert "/ws/hold/" in stream_of(allocate(router, "twilio", "CA2"))
    assert is_busy(allocate(router, "twilio", "CA3"))
    assert send(router, "exotel", "/api/v1/exotel/allocate", "CA4").status_code == 503
    assert is_busy(send(router, "twilio", "/api/v1/twilio/after?pod=voice-agent-0", "CA5"))


def test_a_caller_who_hangs_up_leaves_the_line(start):
    router = start({**ONE_POD, "HOLD_MAX_WAIT": "2m"})
    router.allocate("CA1")
    for provider in TOKENS:
        allocate(router, provider, "CA2")
        assert waiting(router) == ["CA2"]
        assert send(router, provider, f"/api/v1/{provider}/status", "CA2", **OVER[provider]).status_code == 200
        assert waiting(router) == []


# The whole way of a caller.


def open_stream(router, answer):
    path = urllib.parse.urlsplit(stream_of(answer)).path.removeprefix(urllib.parse.urlsplit(BASE).path)
    stream = streams.Stream(router.port, path)
    assert stream.status == 101, stream.body()
    return stream


def events_until(peer, name):
    """The events of the messages that come, up to the one of that name."""
    seen = []
    while name not in seen:
        _, opcode, payload = peer.receive()
        if opcode == streams.TEXT:
            seen.append(json.loads(payload)["event"])
    return seen


def say(peer, event, **members):
    peer.send(streams.TEXT, json.dumps({"event": event, **members}).encode())


@pytest.mark.parametrize("code", [1000, 1011])
def test_a_caller_waits_speaks_and_is_hung_up_or_goes_on(start, code):
    agent = streams.Agent(is_manual=True)
    router = start({**ONE_POD, "STATIC_PODS": f"voice-agent-0=127.0.0.1:{agent.port}", "HOLD_MAX_WAIT": "2m", "GATEWAY_RELEASE_GRACE": "1s"})
    router.allocate("CA1")
    answer = allocate(router, "twilio", "CA2")
    with open_stream(router, answer) as stream:
        say(stream, "connected", protocol="Call", version="1.0.0")
        say(stream, "start", streamSid="MZ1", start={"streamSid": "MZ1", "callSid": "CA2", "mediaFormat": {"encoding": "audio/x-mulaw", "sampleRate": 8000, "channels": 1}})
        assert events_until(stream, "media"), "the caller hears music"
        router.release("CA1")
        peer = agent.accept()
        assert events_until(peer, "start") == ["connected", "start"], "as if the agent had been there from the beginning"
        say(peer, "media", streamSid="MZ1", media={"payload": "AAAA"})
        assert "media" in events_until(stream, "media")
        # The agent ends the call, or breaks. Nobody can take a call that broke: there is one pod, and it is put aside or taken again.
        peer.send(streams.CLOSE, code.to_bytes(2, "big"))
        if code == 1000:
            with contextlib.suppress(streams.Closed):
                while stream.receive()[1] != streams.CLOSE:
                    pass
            assert is_hangup(resume(router, "twilio", "CA2", answer)), "its end is recorded before the provider can ask"
            assert calls(router) == {}
        else:
            assert stream_of(resume(router, "twilio", "CA2", answer)), "nobody has ended it"
    agent.close()


# Where something is missing, all is as it was.


@pytest.mark.parametrize("missing", ENDS_WITH_ITS_STREAM)
def test_the_answers_are_bare_where_something_is_missing(start_router, missing):
    without = {"RESCUE": "false", "WS_URL_TEMPLATE": "{base}/agents/{pod}/{provider}"}.get(missing)
    env = {**KEEPS, **ONE_POD, "HOLD_MAX_WAIT": "2m", "VOICE_AGENT_BASE_URL": "wss://voice.example.com/pbx", "BUSY_MESSAGE": BUSY_TEXT, missing: without}
    router = start_router({**env, **{name: None for name in KEEPS if name.endswith("TOKEN")}})
    answers = {provider: router.post(f"/api/v1/{provider}/allocate", data={SID_FIELD[provider]: "CA1"}) for provider in ("twilio",)}
    stream = html.escape(stream_of(answers["twilio"]))
    assert answers["twilio"].text == f'<?xml version="1.0" encoding="UTF-8"?><Response><Connect><Stream url="{stream}"/></Connect></Response>'
    assert is_busy(router.post("/api/v1/twilio/allocate", data={"CallSid": "CA2"})), "nobody waits"
    assert router.post("/api/v1/exotel/allocate", data={"CallSid": "CA2"}).status_code == 503
    assert is_hangup(router.post("/api/v1/twilio/after", data={"CallSid": "CA1"})), "the call ends with its stream"
    router.release("CA1")
    plivo = router.post("/api/v1/plivo/allocate", data={"CallUUID": "CA3"})
    assert plivo.text == (
        '<?xml version="1.0" encoding="UTF-8"?><Response><Stream bidirectional="true" keepCallAlive="true" '
        f'contentType="audio/x-mulaw;rate=8000">{html.escape(stream_of(plivo))}</Stream></Response>'
    )
    assert [line["names"] for line in router.log_lines() if line["msg"].startswith("calls of providers do not wait")] == [missing]
    assert router.post("/api/v1/allocate", {"call_sid": "CA4", "wait": True}).status_code == 202, "clients of the API can wait"


def test_what_is_missing_is_said_by_check_config_too(run_router):
    done = run_router({"HOLD_MAX_WAIT": "2m"}, args=["check-config"])
    assert "warning: HOLD_MAX_WAIT: calls of providers do not wait. Missing or wrong: GATEWAY_SECRET PUBLIC_BASE_URL. " in done.output
    done = run_router({"HOLD_MAX_WAIT": "2m", **KEEPS}, args=["check-config"])
    assert "HOLD_MAX_WAIT: calls" not in done.output


def test_what_is_missing_for_resuming_is_said_to_those_whose_providers_are_set(start_router):
    router = start_router({"TWILIO_AUTH_TOKEN": TOKENS["twilio"], "PUBLIC_BASE_URL": BASE})
    lines = [line for line in router.log_lines() if "none resumes" in line["msg"]]
    assert [line["names"] for line in lines] == ["GATEWAY_SECRET"]
    assert not [line for line in start_router().log_lines() if "none resumes" in line["msg"] or "do not wait" in line["msg"]]


# The store, or the router, is away.


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_while_redis_is_away_the_provider_asks_again_three_times(start_router, redis_server, provider):
    router = start_router({**KEEPS, "REDIS_URL": redis_server.url, "BUSY_MESSAGE": BUSY_TEXT})
    first = allocate(router, provider, "CA1", "?merchant_id=acme")
    with redis_server.paused():
        answer = resume(router, provider, "CA1", first)
        tries = []
        while after_of(answer):
            assert stream_of(answer) is None
            assert [child.tag for child in ElementTree.fromstring(answer.content)] == ["Pause" if provider == "twilio" else "Wait", "Redirect"]
            tries.append(after_of(answer))
            answer = resume(router, provider, "CA1", answer)
        assert tries == [after_of(first) + f"&try={i}" for i in (1, 2, 3)]
        assert is_busy(answer)
    wait_until(lambda: router.get("/ready").status_code == 200, "Redis is back")
    again = wait_until(lambda: (lambda got: got if stream_of(got) else None)(send(router, provider, tries[0], "CA1")), "the call resumes")
    assert pod_of(again) == pod_of(first)


def test_while_redis_is_away_exotel_is_sent_back_once(start_router, redis_server):
    router = start_router({**KEEPS, "REDIS_URL": redis_server.url})
    allocate(router, "exotel", "CA1")
    with redis_server.paused():
        assert resume(router, "exotel", "CA1").status_code == 302
        assert resume(router, "exotel", "CA1").status_code == 200


def test_a_router_that_is_started_again_resumes_its_calls(start_router, tmp_path):
    env = {**KEEPS, "LOG_FSYNC": "always"}
    router = start_router(env, data_dir=tmp_path / "kept")
    first = allocate(router, "twilio", "CA1")
    router.kill()
    router = start_router(env, data_dir=tmp_path / "kept")
    assert pod_of(resume(router, "twilio", "CA1", first)) == pod_of(first)


# Exotel.


def test_exotel_is_led_by_the_status(start):
    router = start(ONE_POD)
    allocate(router, "exotel", "CA1")
    answer = resume(router, "exotel", "CA1")
    assert (answer.status_code, answer.json()) == (302, {"success": True})
    assert "location" not in answer.headers
    assert resume(router, "exotel", "CA2").status_code == 200, "no pod is free"
    router.post("/api/v1/renew", {"call_sid": "CA1"})
    assert router.post("/api/v1/release", {"call_sid": "CA1"}).json()["is_kept"], "its stream is on its way back"
    pod = router.get("/api/v1/call/CA1").json()["pod_name"]
    assert router.post("/api/v1/release", {"call_sid": "CA1", "pod_name": pod}).status_code == 200
    assert resume(router, "exotel", "CA1").status_code == 200, "it has ended"
    headers, path = signed("exotel", "/api/v1/exotel/after", {})
    got = router.get(path + "&CallSid=CA3&flow_id=1&Direction=incoming&Stream%5BStatus%5D=completed&Stream%5BDisconnectedBy%5D=bot")
    assert got.status_code == 302, "as its applet asks"
    assert router.post("/api/v1/exotel/after", {"CallSid": "CA3"}, headers={"Authorization": "Basic " + "ZTpleG90ZWwtdG9rZW4tMDEyMzQ1Njc4OQ=="}).status_code == 302


# Attacks.


def test_what_is_forged_changes_nothing(start):
    router = start(ONE_POD)
    first = allocate(router, "twilio", "CA1", "?merchant_id=acme")
    target = after_of(first)
    before = calls(router)
    good, _ = signed("twilio", target, {"CallSid": "CA1"})
    for path, params, headers in [
        (target, {"CallSid": "CA1"}, {}),
        (target, {"CallSid": "CA2"}, good),
        (target, {"CallSid": "CA1", "CallStatus": "completed"}, good),
        (target.replace("acme", "other"), {"CallSid": "CA1"}, good),
        (target + "&try=1", {"CallSid": "CA1"}, good),
        (target.replace("voice-agent", "voice-agens"), {"CallSid": "CA1"}, good),
        (target.replace("twilio", "plivo"), {"CallUUID": "CA1"}, good),
        (target.replace("twilio", "exotel"), {"CallSid": "CA1"}, good),
    ]:
        assert router.post(path, data=params, headers=headers).status_code == 403, (path, params)
    assert router.request("HEAD", target + "&CallSid=CA1").status_code == 405
    assert router.get(target + "&CallSid=CA1").status_code == 403
    assert router.put(target, {}).status_code == 405
    assert calls(router) == before
    assert resumes(router, "twilio", "resumed") == 0


@pytest.mark.parametrize("other", ["plivo", "exotel"])
def test_another_provider_cannot_ask(start, other):
    router = start({**ONE_POD, "HOLD_MAX_WAIT": "2m"})
    allocate(router, "twilio", "CA1")
    allocate(router, "twilio", "CA2")
    for call_sid in ("CA1", "CA2"):
        assert send(router, other, f"/api/v1/{other}/after", call_sid).status_code == 403
        assert send(router, other, f"/api/v1/{other}/after", call_sid, **OVER[other]).status_code == 403
    assert list(calls(router)) == ["CA1"] and waiting(router) == ["CA2"]


def test_odd_requests_are_answered_and_change_nothing(start):
    router = start()
    for query in ("pod=..", "pod=A", "pod=" + "x" * 64, "try=4", "try=-1", "try=x", "template=" + "x" * 129, "template=..", "flow=%00", "merchant_id=%2F", "x" * 3000 + "=1"):
        answer = send(router, "twilio", f"/api/v1/twilio/after?{query}", "CA1")
        assert is_busy(answer) or (answer.status_code == 200 and query.startswith("x")) or answer.status_code == 403, query
    assert send(router, "twilio", "/api/v1/twilio/after?template=" + "x" * 9000, "CA1").status_code == 431
    assert is_busy(send(router, "twilio", "/api/v1/twilio/after", "a b"))
    assert is_busy(send(router, "twilio", "/api/v1/twilio/after", ""))
    assert list(calls(router)) == ["CA1"], "that of the long name, which means nothing"


def test_the_rate_limit_counts_these_requests_too(start_router):
    router = start_router({**KEEPS, "RATE_LIMIT": "2/m"})
    first = allocate(router, "twilio", "CA1")
    assert stream_of(resume(router, "twilio", "CA1", first))
    assert resume(router, "twilio", "CA1", first).status_code == 429


# The providers' own libraries.


def test_the_libraries_write_the_same_documents_and_sign_what_is_accepted(start_router, judge, redis_server):
    router = start_router({**KEEPS, **ONE_POD, "REDIS_URL": redis_server.url})

    def same(provider, what, answer, **question):
        expected = judge.ask("parse", xml=judge.ask(f"{provider} {what}", **question))
        assert judge.ask("parse", xml=answer.text) == expected

    for provider in ("twilio", "plivo"):
        first = allocate(router, provider, "CA1", "?merchant_id=a%2Bb%40c%3A&template=%C3%BC%26%20%22%3C&flow=v1")
        after = BASE + after_of(first)
        same(provider, "stream and after", first, url=stream_of(first), after=after)
        body = webhooks.form({SID_FIELD[provider]: "CA1", "From": "+14158675309", "CallStatus": "in-progress"})
        headers = {"Content-Type": webhooks.FORM}
        if provider == "twilio":
            headers["X-Twilio-Signature"] = judge.ask("twilio sign", token=TOKENS[provider], url=after, body=body)
        else:
            signature = judge.ask("plivo sign", token=TOKENS[provider], url=after, body=body, method="POST", nonce=NONCE)
            headers |= {"X-Plivo-Signature-V3": signature, "X-Plivo-Signature-V3-Nonce": NONCE}
        again = router.post(after_of(first), content=body, headers=headers)
        assert again.status_code == 200 and pod_of(again) == pod_of(first)
        with redis_server.paused():
            same(provider, "later", resume(router, provider, "CA1", first), after=after + "&try=1")
        wait_until(lambda: router.get("/ready").status_code == 200, "Redis is back")
        wait_until(lambda: router.post("/api/v1/release", {"call_sid": "CA1"}).status_code in (200, 404), "the call is released")
        router.put("/api/v1/merchants/nobody", {"fallback": ["none"]})
        ended = resume(router, provider, "CA1", first, **OVER[provider])
        same(provider, "hangup", ended)
