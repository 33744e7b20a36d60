"""What Twilio, Plivo and Exotel are answered, in GET and in POST, judged by an XML parser that is not ours."""

import urllib.parse
import xml.etree.ElementTree as ElementTree

import pytest

SID_FIELD = {"twilio": "CallSid", "plivo": "CallUUID", "exotel": "CallSid"}
PROVIDERS = list(SID_FIELD)
HOSTILE = [
    "<script>alert('x')</script>",
    "\"><Stream url='evil'/>",
    "&amp;&lt;]]>",
    "emoji 😀 नमस्ते",
    "%00%01%1b%ff%fe",
    "../../../etc/passwd",
    "a\\b{pod}%s",
]
BUSY = "All agents are currently busy. Please try again later."


def path_of(provider):
    return f"/api/v1/{provider}/allocate"


def stream_url(provider, answer):
    """The URL that the provider would connect the call to; None if it would hang up."""
    if provider == "exotel":
        return answer.json().get("url")
    assert answer.headers["content-type"] == "application/xml; charset=utf-8"
    root = ElementTree.fromstring(answer.content)
    assert root.tag == "Response"
    if provider == "twilio":
        stream = root.find("./Connect/Stream")
        return None if stream is None else stream.get("url")
    stream = root.find("./Stream")
    return None if stream is None else stream.text


def spoken(provider, answer):
    root = ElementTree.fromstring(answer.content)
    assert [child.tag for child in root] == [{"twilio": "Say", "plivo": "Speak"}[provider], "Hangup"]
    return root[0].text


def fill(router):
    for i in range(7):
        router.allocate(f"CA-fill-{i}")


def ask(router, provider, how, sid, query=None):
    field = {SID_FIELD[provider]: sid}
    if how == "GET":
        return router.get(path_of(provider), params={**field, **(query or {})})
    if how == "JSON":
        return router.post(path_of(provider), field, params=query)
    return router.post(path_of(provider), data=field, params=query)


WAYS = [(p, how) for p in PROVIDERS for how in ("GET", "POST")] + [("exotel", "JSON")]


@pytest.mark.parametrize("provider,how", WAYS)
def test_a_webhook_connects_the_call_to_its_pod(router, provider, how):
    answer = ask(router, provider, how, "CA1", {"merchant_id": "m1"})
    assert answer.status_code == 200
    call = router.get("/api/v1/call/CA1").json()
    assert (call["provider"], call["merchant_id"]) == (provider, "m1")
    template = "template" if provider == "exotel" else "order-confirmation"
    assert stream_url(provider, answer) == (
        f"ws://localhost:8080/ws/pod/{call['pod_name']}/agent/voice/breeze-buddy/{provider}/callback/{template}/v2"
    )


@pytest.mark.parametrize("provider,how", WAYS)
def test_a_webhook_asked_twice_gives_the_same_answer(router, provider, how):
    assert ask(router, provider, how, "CA1").content == ask(router, provider, how, "CA1").content
    assert router.get("/api/v1/calls").json()["total"] == 1


@pytest.mark.parametrize("provider,how", WAYS)
def test_flow_and_template_come_from_the_query(router, provider, how):
    url = stream_url(provider, ask(router, provider, how, "CA1", {"flow": "v1", "template": "survey"}))
    assert url.endswith(f"/{provider}/callback/survey")


def test_twilio_gets_exactly_this(router):
    answer = ask(router, "twilio", "POST", "CA1")
    url = stream_url("twilio", answer)
    assert answer.text.endswith(f'<Response><Connect><Stream url="{url}"/></Connect></Response>')


def test_plivo_gets_exactly_this(router):
    answer = ask(router, "plivo", "POST", "CA1")
    url = stream_url("plivo", answer)
    assert answer.text.endswith(
        '<Response><Stream bidirectional="true" keepCallAlive="true" '
        f'contentType="audio/x-mulaw;rate=8000">{url}</Stream></Response>'
    )


def test_exotel_takes_everything_from_its_json_body(router):
    router.put("/api/v1/merchants/m1", {"tier": "standard"})
    body = {"CallSid": "CA1", "merchant_id": "m1", "template": "survey", "flow": "v1", "From": "+49"}
    answer = router.post(path_of("exotel"), body)
    assert answer.json()["url"].endswith("/exotel/callback/survey")
    assert router.get("/api/v1/call/CA1").json()["source_pool"] == "pool:standard"


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_a_caller_cannot_choose_its_merchant_in_the_body(router, provider):
    body = {SID_FIELD[provider]: "CA1", "merchant_id": "m1", "reseller_id": "m1", "template": "survey", "flow": "v1"}
    url = stream_url(provider, router.post(path_of(provider), data=body))
    assert url.endswith(f"/{provider}/callback/order-confirmation/v2")
    assert router.get("/api/v1/call/CA1").json()["merchant_id"] == ""


def test_reseller_id_works_in_webhooks(router):
    router.put("/api/v1/merchants/r1", {"tier": "standard"})
    ask(router, "twilio", "POST", "CA1", {"reseller_id": "r1"})
    assert router.get("/api/v1/call/CA1").json()["source_pool"] == "pool:standard"


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_a_busy_caller_hears_so(router, provider):
    fill(router)
    for how in ("GET", "POST"):
        answer = ask(router, provider, how, "CA1")
        assert answer.status_code == 200
        assert spoken(provider, answer) == BUSY


def test_exotel_is_told_503_when_all_are_busy(router):
    fill(router)
    answer = ask(router, "exotel", "GET", "CA1")
    assert answer.status_code == 503
    assert answer.json() == {"success": False, "error": "no pods available", "code": "no_pods"}
    assert int(answer.headers["retry-after"]) >= 1


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_the_busy_message_may_hold_anything(start_router, provider):
    message = "Désolé <b>\"occupé\"</b> & 'fermé' 😀"
    router = start_router({"BUSY_MESSAGE": message})
    fill(router)
    assert spoken(provider, ask(router, provider, "POST", "CA1")) == message


@pytest.mark.parametrize("provider,how", WAYS)
def test_a_fallback_url_saves_a_call_without_a_pod(start_router, provider, how):
    router = start_router({"FALLBACK_WS_URL": "wss://fallback.example.com/a?b=1&c=2"})
    fill(router)
    answer = ask(router, provider, how, "CA1")
    assert answer.status_code == 200
    assert stream_url(provider, answer) == "wss://fallback.example.com/a?b=1&c=2"
    assert router.post("/api/v1/allocate", {"call_sid": "CA1"}).status_code == 503


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_hostile_values_give_a_well_formed_answer(router, provider, value):
    answer = ask(router, provider, "GET", "CA1", {"template": value})
    assert answer.status_code == 200
    url = stream_url(provider, answer)
    assert url.isascii()
    assert urllib.parse.unquote(url.split("/callback/")[1]) == value + "/v2"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("raw", ["%ff%fe", "%c3%28", "%ed%a0%80", "%f0%9f%98%80"])
def test_bytes_that_are_no_text_give_a_well_formed_answer(router, provider, raw):
    answer = router.get(f"{path_of(provider)}?{SID_FIELD[provider]}=CA1&template={raw}")
    assert answer.status_code == 200
    assert stream_url(provider, answer).lower().endswith(f"/callback/{raw}/v2")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    "query", ["template=a%00b", "flow=%01", "merchant_id=%3Cm%3E", "merchant_id=a%20b", "template=" + "x" * 129]
)
def test_values_that_cannot_be_are_refused_in_the_providers_language(router, provider, query):
    before = router.state()
    answer = router.get(f"{path_of(provider)}?{SID_FIELD[provider]}=CA1&{query}")
    if provider == "exotel":
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
    else:
        assert (answer.status_code, spoken(provider, answer)) == (200, BUSY)
    assert router.state() == before


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("sid", [None, "", "x" * 129, "a b", "<CA1>", "CA1\x01", "CA1\x00", "😀"])
def test_a_webhook_without_a_valid_call_is_refused(router, provider, sid):
    before = router.state()
    data = {} if sid is None else {SID_FIELD[provider]: sid}
    for answer in (router.post(path_of(provider), data=data), router.get(path_of(provider), params=data)):
        if provider != "exotel":
            assert (answer.status_code, spoken(provider, answer)) == (200, BUSY)
        else:
            assert answer.status_code == 400
            assert answer.json()["error"].startswith("CallSid ")
    assert router.state() == before


def test_exotel_refuses_json_that_names_no_call(router):
    for content in ('{"CallSid":7}', '{"CallSid":null}', '{"CallSid":', "[]", '{"callsid":"CA1"}'):
        answer = router.post(path_of("exotel"), content=content)
        assert answer.status_code == 400, content
        assert answer.json()["success"] is False
    assert router.get("/api/v1/calls").json()["total"] == 0


@pytest.mark.parametrize("provider", PROVIDERS)
def test_head_takes_no_pod(router, provider):
    answer = router.request("HEAD", path_of(provider), params={SID_FIELD[provider]: "CA1"})
    assert answer.status_code == 405
    assert router.get("/api/v1/calls").json()["total"] == 0


def test_a_form_with_too_many_fields_is_refused(router):
    answer = router.post(path_of("twilio"), data={f"f{i}": "1" for i in range(300)})
    assert (answer.status_code, spoken("twilio", answer)) == (200, BUSY)
