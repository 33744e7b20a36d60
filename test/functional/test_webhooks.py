"""Who may send webhooks, what status callbacks do, and what is said about those that are refused."""

import base64
import xml.etree.ElementTree as ElementTree

import pytest
import webhooks
from conftest import wait_until

PROVIDERS = ("twilio", "plivo", "exotel")
SID_FIELD = {"twilio": "CallSid", "plivo": "CallUUID", "exotel": "CallSid"}
BASE = "https://voice.example.com/pbx"
TOKENS = {
    "TWILIO_AUTH_TOKEN": "twilio-token-0123456789",
    "PLIVO_AUTH_TOKEN": "plivo-token-0123456789",
    "EXOTEL_TOKEN": "exotel-token-0123456789",
}
OVER = {
    "twilio": [{"CallStatus": status} for status in ("completed", "busy", "failed", "no-answer", "canceled")],
    "plivo": [
        {"Event": "Hangup", "CallStatus": "completed", "HangupCause": "NORMAL_CLEARING"},
        {"Event": "Hangup"},
        {"HangupCause": "ORIGINATOR_CANCEL", "CallStatus": "no-answer"},
        *({"CallStatus": status} for status in ("completed", "busy", "failed", "timeout", "no-answer")),
    ],
    "exotel": [
        {"EventType": "terminal", "Status": "completed"},
        {"EventType": "terminal"},
        *({"Status": status} for status in ("completed", "failed", "busy", "no-answer")),
    ],
}
NOT_OVER = {
    "twilio": [
        {},
        *({"CallStatus": status} for status in ("queued", "ringing", "in-progress", "", "completely")),
        {"StreamEvent": "stream-stopped", "StreamSid": "MZ1"},
        {"StreamEvent": "stream-stopped", "CallStatus": "completed"},
    ],
    "plivo": [
        {},
        {"Event": "StartApp", "CallStatus": "ringing"},
        {"CallStatus": "in-progress", "HangupCause": ""},
        {"Event": "StopStream", "StreamID": "s", "CallStatus": "completed"},
        {"Event": "DroppedStream"},
    ],
    "exotel": [{}, {"EventType": "answered", "Status": "in-progress"}, {"EventType": "answered", "Status": "completed"}, {"Status": "in-progress"}],
}


def path_of(provider, what="status"):
    return f"/api/v1/{provider}/{what}"


def post(router, provider, params, what="status", **kwargs):
    return router.post(path_of(provider, what), data=params, **kwargs)


def calls(router):
    return {call["call_sid"] for call in router.get("/api/v1/calls").json()["calls"]}


def metric(router, name, **labels):
    """The value of that series; None if there is none."""
    for line in router.get("/metrics").text.splitlines():
        if line.startswith(name + "{") and all(f'{key}="{value}"' in line for key, value in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    return None


def assert_accepted(provider, answer):
    assert answer.status_code == 200
    if provider == "exotel":
        assert answer.json() == {"success": True}
    else:
        assert answer.headers["content-type"] == "application/xml; charset=utf-8"
        root = ElementTree.fromstring(answer.content)
        assert root.tag == "Response" and len(root) == 0


# Status callbacks.


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_that_is_over_is_released(router, provider):
    for number, params in enumerate(OVER[provider]):
        for how in ("POST", "GET"):
            sid = f"CA-{number}-{how}"
            router.allocate(sid, provider=provider)
            params = {**params, SID_FIELD[provider]: sid, "Duration": "7"}
            if how == "POST":
                answer = post(router, provider, params)
            else:
                answer = router.get(path_of(provider), params=params)
            assert_accepted(provider, answer)
            assert calls(router) == set(), params
    lines = router.log_lines("call released")
    assert len(lines) == 2 * len(OVER[provider]) and {line["reason"] for line in lines} == {"status callback"}
    assert metric(router, "smart_router_releases_total", pool="pool:gold", status="success") == len(lines)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_that_goes_on_keeps_its_pod(router, provider):
    router.allocate("CA1", provider=provider)
    for params in NOT_OVER[provider]:
        assert_accepted(provider, post(router, provider, {**params, SID_FIELD[provider]: "CA1"}))
        assert calls(router) == {"CA1"}, params


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_callback_may_be_repeated_and_its_call_unknown(router, provider):
    router.allocate("CA1", provider=provider)
    router.allocate("CA2", provider=provider)
    for _ in range(3):
        assert_accepted(provider, post(router, provider, {**OVER[provider][0], SID_FIELD[provider]: "CA1"}))
    assert calls(router) == {"CA2"}
    assert metric(router, "smart_router_releases_total", pool="none", status="not_found") == 2


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("sid", [None, "", "a b", "CA1\x00", "x" * 129])
def test_a_callback_that_names_no_call_is_taken_and_logged(router, provider, sid):
    router.allocate("CA1", provider=provider)
    params = dict(OVER[provider][0]) if sid is None else {**OVER[provider][0], SID_FIELD[provider]: sid}
    assert_accepted(provider, post(router, provider, params))
    assert calls(router) == {"CA1"}
    (line,) = router.log_lines("status callback ignored")
    assert line["provider"] == provider and SID_FIELD[provider] in line["error"]


def test_exotel_may_report_as_json(router):
    router.allocate("CA1", provider="exotel")
    answer = router.post(path_of("exotel"), {"CallSid": "CA1", "EventType": "terminal", "Status": "completed"})
    assert_accepted("exotel", answer)
    assert calls(router) == set()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_who_only_looks_ends_no_call(router, provider):
    router.allocate("CA1", provider=provider)
    answer = router.request("HEAD", path_of(provider), params={**OVER[provider][0], SID_FIELD[provider]: "CA1"})
    assert answer.status_code == 405 and calls(router) == {"CA1"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_with_the_store_away_a_callback_is_taken_and_a_call_gets_the_fallback(start_on, redis_server, provider):
    router = start_on(redis_server, {"FALLBACK_WS_URL": "wss://elsewhere.example/x"})
    router.allocate("CA1", provider=provider)
    redis_server.stop()
    wait_until(lambda: router.get("/ready").status_code == 503, "the router has noticed")
    assert_accepted(provider, post(router, provider, {**OVER[provider][0], SID_FIELD[provider]: "CA1"}))
    message = "call not released: the store cannot answer; its lease ends it"
    (line,) = wait_until(lambda: router.log_lines(message), "it is in the log, which may come after the answer")
    assert (line["call_sid"], line["reason"], line["level"]) == ("CA1", "status callback", "warn")
    assert metric(router, "smart_router_releases_total", pool="none", status="storage_error") == 1
    answer = post(router, provider, {SID_FIELD[provider]: "CA2"}, "allocate")
    assert answer.status_code == 200 and "wss://elsewhere.example/x" in answer.text


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_with_the_store_away_and_no_fallback_the_caller_is_told(start_on, redis_server, provider):
    router = start_on(redis_server, {"BUSY_MESSAGE": "<Nobody> & \"no one\""})
    redis_server.stop()
    wait_until(lambda: router.get("/ready").status_code == 503, "the router has noticed")
    answer = post(router, provider, {SID_FIELD[provider]: "CA2"}, "allocate")
    root = ElementTree.fromstring(answer.content)
    assert (answer.status_code, root[0].text, root[1].tag) == (200, "<Nobody> & \"no one\"", "Hangup")


# Tokens.


def good_headers(provider, params, what):
    url = BASE + path_of(provider, what)
    if provider == "twilio":
        return {"X-Twilio-Signature": webhooks.sign_twilio(TOKENS["TWILIO_AUTH_TOKEN"], url, params)}
    if provider == "plivo":
        signature = webhooks.sign_plivo(TOKENS["PLIVO_AUTH_TOKEN"], url, "77", params)
        return {"X-Plivo-Signature-V3": signature, "X-Plivo-Signature-V3-Nonce": "77"}
    return {"Authorization": "Basic " + base64.b64encode(f"u:{TOKENS['EXOTEL_TOKEN']}".encode()).decode()}


def bad_headers(provider):
    if provider == "twilio":
        return [({}, "unsigned"), ({"X-Twilio-Signature": ""}, "unsigned"), ({"X-Twilio-Signature": "x"}, "wrong")]
    if provider == "plivo":
        return [
            ({}, "unsigned"),
            ({"X-Plivo-Signature-V3": "x"}, "unsigned"),
            ({"X-Plivo-Signature-V3-Nonce": "77"}, "unsigned"),
            ({"X-Plivo-Signature-V3": "x", "X-Plivo-Signature-V3-Nonce": "77"}, "wrong"),
            ({"X-Plivo-Signature-V3": "x", "X-Plivo-Signature-V3-Nonce": "7" * 300}, "unverifiable"),
        ]
    wrong = [b"u:exotel-token-012345678", b"u:exotel-token-01234567890", b"exotel-token-0123456789", b"exotel-token-0123456789:"]
    texts = [f"Basic {base64.b64encode(text).decode()}" for text in wrong]
    texts += ["Basic", "Basic !", f"Bearer {TOKENS['EXOTEL_TOKEN']}", TOKENS["EXOTEL_TOKEN"]]
    return [({}, "unsigned"), *(({"Authorization": text}, "wrong") for text in texts)]


@pytest.fixture
def guarded(start_router):
    return start_router({**TOKENS, "PUBLIC_BASE_URL": BASE + "/", "LOG_LEVEL": "debug"})


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_webhook_of_the_provider_itself_is_believed(guarded, provider):
    params = {SID_FIELD[provider]: "CA1", "From": "+4930", "Name": "Jürgen & Söhne"}
    for _ in range(2):  # sent again, it gets the same answer
        answer = post(guarded, provider, params, "allocate", headers=good_headers(provider, params, "allocate"))
        assert answer.status_code == 200 and "/ws/pod/" in answer.text
        assert calls(guarded) == {"CA1"}
    params = {SID_FIELD[provider]: "CA1", **OVER[provider][0]}
    for _ in range(2):
        assert_accepted(provider, post(guarded, provider, params, headers=good_headers(provider, params, "status")))
        assert calls(guarded) == set()
    assert metric(guarded, "smart_router_webhooks_refused_total", provider=provider, reason="unsigned") == 0


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("what", ["allocate", "status"])
def test_a_forged_webhook_changes_nothing_and_is_counted(guarded, provider, what):
    guarded.allocate("CA1")
    before = guarded.state()
    counts = {"unsigned": 0, "wrong": 0, "unverifiable": 0}
    for sid in ("CA1", "CA2"):
        params = {SID_FIELD[provider]: sid, **OVER[provider][0]}
        for headers, reason in bad_headers(provider):
            for answer in (
                post(guarded, provider, params, what, headers=headers),
                guarded.get(path_of(provider, what), params=params, headers=headers),
            ):
                assert answer.status_code == 403, headers
                assert (answer.json()["success"], answer.json()["code"]) == (False, "forbidden")
                counts[reason] += 1
    assert guarded.state() == before
    for reason, count in counts.items():
        assert metric(guarded, "smart_router_webhooks_refused_total", provider=provider, reason=reason) == count, reason
    lines = guarded.log_lines("webhook refused")
    left_out = metric(guarded, "smart_router_log_lines_left_out_total", kind="webhook")
    assert lines and len(lines) + left_out == sum(counts.values())
    assert {line["url"] for line in lines} == {BASE + path_of(provider, what)}
    assert {line["provider"] for line in lines} == {provider}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_webhook_that_is_sent_again_after_its_call_takes_no_pod(guarded, provider):
    kept = {SID_FIELD[provider]: "CA1", "From": "+4930"}
    over = {SID_FIELD[provider]: "CA1", **OVER[provider][0]}
    assert post(guarded, provider, kept, "allocate", headers=good_headers(provider, kept, "allocate")).status_code == 200
    guarded.release("CA1")  # by its agent; the provider's word comes later, and counts all the same
    assert post(guarded, provider, over, headers=good_headers(provider, over, "status")).status_code == 200
    before = guarded.state()
    answer = post(guarded, provider, kept, "allocate", headers=good_headers(provider, kept, "allocate"))
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert guarded.state() == before
    assert metric(guarded, "smart_router_webhooks_refused_total", provider=provider, reason="replayed") == 1
    other = {SID_FIELD[provider]: "CA2"}
    answer = post(guarded, provider, other, "allocate", headers=good_headers(provider, other, "allocate"))
    assert answer.status_code == 200 and calls(guarded) == {"CA2"}


def test_the_other_provider_s_token_is_no_good(guarded):
    params = {"CallSid": "CA1"}
    signature = webhooks.sign_twilio(TOKENS["PLIVO_AUTH_TOKEN"], BASE + path_of("twilio", "allocate"), params)
    answer = post(guarded, "twilio", params, "allocate", headers={"X-Twilio-Signature": signature})
    assert answer.status_code == 403
    assert guarded.get(path_of("exotel", "allocate"), params={"CallSid": "CA1", "token": TOKENS["TWILIO_AUTH_TOKEN"]}).status_code == 403


def test_a_body_that_nobody_signed_is_refused_with_a_get(guarded):
    target = path_of("twilio", "allocate") + "?CallSid=CA1"
    headers = {"X-Twilio-Signature": webhooks.sign_twilio(TOKENS["TWILIO_AUTH_TOKEN"], BASE + target)}
    answer = guarded.request("GET", target, headers=headers, content="CallSid=CA-other")
    assert answer.status_code == 403 and calls(guarded) == set()
    assert guarded.get(target, headers=headers).status_code == 200 and calls(guarded) == {"CA1"}


def test_a_host_cannot_move_the_border_of_the_path(start_router):
    router = start_router({"TWILIO_AUTH_TOKEN": TOKENS["TWILIO_AUTH_TOKEN"]})
    path = path_of("twilio", "allocate")
    wire = webhooks.Wire(router)
    for host, status in (
        ("v.example", 200),
        ("[2001:db8::1]:8080", 200),
        ("v.example/other?next=", 403),
        ("v.example#", 403),
        ("user@v.example", 403),
    ):
        signature = webhooks.sign_twilio(TOKENS["TWILIO_AUTH_TOKEN"], f"http://{host}{path}", {"CallSid": "CA1"})
        headers = {"X-Twilio-Signature": signature, "Content-Type": webhooks.FORM}
        assert wire.send("POST", path, headers, "CallSid=CA1", host)[0] == status, host
    wire.close()


def test_exotel_s_token_may_be_in_the_url_and_is_not_logged(guarded):
    token = TOKENS["EXOTEL_TOKEN"]
    url = path_of("exotel", "allocate")
    assert guarded.get(url, params={"CallSid": "CA1", "token": token}).status_code == 200
    assert guarded.post(url, {"CallSid": "CA2"}, params={"token": token}).status_code == 200
    assert guarded.get(url, params={"CallSid": "bad sid", "token": token}).status_code == 400
    for wrong in (token[:-1], token + "x", token.upper(), "", "%00" + token):
        assert guarded.get(url, params={"CallSid": "CA3", "token": wrong}).status_code == 403, wrong
    assert guarded.get(f"{url}?CallSid=CA3&token={token}%00x").status_code == 403
    assert guarded.post(url, {"CallSid": "CA3", "token": token}).status_code == 403  # not where a body could be
    assert calls(guarded) == {"CA1", "CA2"}
    assert token not in guarded.log() and token[:-1] not in guarded.log()


def test_exotel_s_token_may_be_user_and_password(start_router):
    router = start_router({"EXOTEL_TOKEN": "user:password-0123456789,other-token-0123456789"})
    for pair, status in (
        ("user:password-0123456789", 200),
        ("x:other-token-0123456789", 200),
        (":other-token-0123456789", 200),
        ("user:password", 403),
        ("other:password-0123456789", 403),
        ("x:user:password-0123456789", 200),
    ):
        headers = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
        assert router.get(path_of("exotel", "allocate"), params={"CallSid": "CA1"}, headers=headers).status_code == status, pair


def test_any_of_several_tokens_may_have_signed(start_router):
    router = start_router({"TWILIO_AUTH_TOKEN": "old-token-0123456789,new-token-0123456789", "PUBLIC_BASE_URL": BASE})
    for token, status in (("old-token-0123456789", 200), ("new-token-0123456789", 200), ("old-token", 403)):
        signature = webhooks.sign_twilio(token, BASE + path_of("twilio", "allocate"), {"CallSid": "CA1"})
        headers = {"X-Twilio-Signature": signature}
        assert post(router, "twilio", {"CallSid": "CA1"}, "allocate", headers=headers).status_code == status


def test_a_provider_without_a_token_is_not_checked(start_router):
    router = start_router({"TWILIO_AUTH_TOKEN": TOKENS["TWILIO_AUTH_TOKEN"]})
    assert post(router, "plivo", {"CallUUID": "CA1"}, "allocate").status_code == 200
    assert post(router, "exotel", {"CallSid": "CA2"}, "allocate").status_code == 200
    assert post(router, "twilio", {"CallSid": "CA3"}, "allocate").status_code == 403
    assert calls(router) == {"CA1", "CA2"}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_who_only_looks_takes_no_pod_with_a_token_either(guarded, provider):
    params = {SID_FIELD[provider]: "CA1"}
    headers = good_headers(provider, params, "allocate")
    assert guarded.request("HEAD", path_of(provider, "allocate"), params=params, headers=headers).status_code == 405
    assert calls(guarded) == set()


def test_bad_tokens_and_urls_stop_the_start_and_are_not_shown(run_router):
    for env in (
        {"TWILIO_AUTH_TOKEN": "bad token-is-secret"},
        {"PLIVO_AUTH_TOKEN": "a,,token-is-secret"},
        {"EXOTEL_TOKEN": "tökén-is-secret"},
    ):
        done = run_router(env)
        assert done.returncode != 0 and next(iter(env)) in done.output and "is-secret" not in done.output
    for url in ("voice.example.com", "https://voice.example.com/?a=b", "https://voice.example.com#a"):
        done = run_router({"PUBLIC_BASE_URL": url})
        assert done.returncode != 0 and "PUBLIC_BASE_URL" in done.output, url
