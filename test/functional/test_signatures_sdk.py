"""Webhooks signed by the libraries of Twilio and Plivo are believed, and none of their bytes may change.

The judge is the library: where it believes a parameter that was changed (%2B and %2b are the same byte), so must
the router, and nowhere else.
"""

import xml.etree.ElementTree as ElementTree

import pytest
import webhooks
from webhooks import FORM

TWILIO_TOKEN = "0123456789abcdef0123456789abcdef"
PLIVO_TOKEN = "MAXXXXXXXXXXXXXXXXXXplivo-auth-token"
TOKENS = {"TWILIO_AUTH_TOKEN": TWILIO_TOKEN, "PLIVO_AUTH_TOKEN": PLIVO_TOKEN, "EXOTEL_TOKEN": "exotel-0123456789abcdef"}
NONCE = "05429567804466091622"
BASE = "https://voice.example.com"
SID = "CA00000000000000000000000000000001"
FLIPS = (0x01, 0x20)

TWILIO_FORM = (
    f"CallSid={SID}&AccountSid=AC01&From=%2B14158675309&To=%2B18005551212&CallStatus=ringing"
    "&ApiVersion=2010-04-01&Direction=inbound&CallerName=&ForwardedFrom="
)
TWILIO_BODIES = {
    "ordinary": TWILIO_FORM,
    "repeated": f"CallSid={SID}&Digits=5678&Digits=1234&Digits=1234&A=2&A=1",
    "unicode": f"CallSid={SID}&CallerName=J%C3%BCrgen+%F0%9F%98%80&City=%E0%A4%A8&Z=%26%3D%2B%25",
    "spaces": f"CallSid={SID}&a=1+2&b=1%202&c=%2B",
    "empty values": f"CallSid={SID}&a=&b&c=",
    "order": f"b=1&B=2&_=3&CallSid={SID}&a=4&a-b=5&ab=6&a=0",
}
TARGETS = {
    "plain": "/api/v1/{provider}/allocate",
    "query": "/api/v1/{provider}/allocate?merchant_id=m-1&template=caf%C3%A9+bar&flow=v1",
    "slash": "/api/v1/{provider}/allocate/",
    "bare question mark": "/api/v1/{provider}/allocate?",
    "odd query": "/api/v1/{provider}/allocate?&x&y=&z=a=b&%6D=1&x=2&x=1",
}
BASES = [BASE, "https://voice.example.com:8443", "http://voice.example.com", "https://voice.example.com/pre/fix"]


@pytest.fixture(scope="module")
def judge():
    judge = webhooks.Judge()
    yield judge
    judge.close()


@pytest.fixture
def start_wire(start_router):
    """start_wire(env) -> a connection to a router that knows all tokens."""
    wires = []

    def start(env=None):
        wires.append(webhooks.Wire(start_router({**TOKENS, "PUBLIC_BASE_URL": BASE, **(env or {})})))
        return wires[-1]

    yield start
    for wire in wires:
        wire.close()


def calls(wire):
    return wire.router.get("/api/v1/calls").json()["total"]


def release(wire):
    assert wire.router.post("/api/v1/release", {"call_sid": SID}).status_code == 200


def believed(wire, answer):
    """Was the call allocated? It is released again."""
    status, body = answer
    assert status in (200, 403), (status, body)
    assert calls(wire) == (1 if status == 200 else 0)
    if status == 200:
        assert b"Stream" in body
        release(wire)
    else:
        assert b'"code":"forbidden"' in body, body
    return status == 200


def twilio_headers(signature):
    return {"Content-Type": FORM, "X-Twilio-Signature": signature}


def plivo_headers(signature, nonce=NONCE):
    return {"Content-Type": FORM, "X-Plivo-Signature-V3": signature, "X-Plivo-Signature-V3-Nonce": nonce}


# What the libraries sign is believed.


@pytest.mark.parametrize("base", BASES)
def test_what_twilio_signs_is_believed(judge, start_wire, base):
    wire = start_wire({"PUBLIC_BASE_URL": base})
    for target in TARGETS.values():
        target = target.format(provider="twilio")
        for name, body in TWILIO_BODIES.items():
            signature = judge.ask("twilio sign", token=TWILIO_TOKEN, url=base + target, body=body)
            assert believed(wire, wire.send("POST", target, twilio_headers(signature), body)), (target, name)
        target += ("&" if "?" in target else "?") + f"CallSid={SID}&From=%2B1"
        signature = judge.ask("twilio sign", token=TWILIO_TOKEN, url=base + target)
        assert believed(wire, wire.send("GET", target, twilio_headers(signature))), target


def test_twilio_may_sign_with_the_port_or_without(judge, start_wire):
    target = "/api/v1/twilio/allocate"
    for configured, signed, is_fine in (
        ("https://v.example", "https://v.example", True),
        ("https://v.example", "https://v.example:443", True),
        ("https://v.example:443", "https://v.example", True),
        ("https://v.example:8443", "https://v.example", True),
        ("https://v.example:8443", "https://v.example:8443", True),
        ("https://v.example:8443", "https://v.example:443", False),
        ("http://v.example", "http://v.example:80", True),
        ("https://v.example", "http://v.example", False),
    ):
        wire = start_wire({"PUBLIC_BASE_URL": configured})
        signature = judge.ask("twilio sign", token=TWILIO_TOKEN, url=signed + target, body=TWILIO_FORM)
        assert is_fine == judge.ask(
            "twilio valid", token=TWILIO_TOKEN, url=configured + target, body=TWILIO_FORM, signature=signature
        )
        assert believed(wire, wire.send("POST", target, twilio_headers(signature), TWILIO_FORM)) == is_fine, signed
        wire.router.stop()


def test_twilio_may_sign_the_hash_of_the_body(judge, start_wire):
    wire = start_wire()
    body = '{"CallSid": "ignored"}'
    signed = judge.ask("twilio sign body", token=TWILIO_TOKEN, url=f"{BASE}/api/v1/twilio/allocate?CallSid={SID}", body=body)
    target = signed["url"].removeprefix(BASE)
    headers = {"Content-Type": "application/json", "X-Twilio-Signature": signed["signature"]}
    assert believed(wire, wire.send("POST", target, headers, body))
    for i in range(len(body)):
        changed = flip(body, i, 0x01)
        assert not believed(wire, wire.send("POST", target, headers, changed)), i
    assert not believed(wire, wire.send("POST", target, headers))


@pytest.mark.parametrize("base", BASES)
def test_what_plivo_signs_is_believed(judge, start_wire, base):
    wire = start_wire({"PUBLIC_BASE_URL": base})
    for target in TARGETS.values():
        target = target.format(provider="plivo")
        for name, body in TWILIO_BODIES.items():
            body = body.replace("CallSid", "CallUUID")
            question = {"token": PLIVO_TOKEN, "url": base + target, "body": body, "nonce": NONCE, "method": "POST"}
            signature = judge.ask("plivo sign", **question)
            assert judge.ask("plivo valid", signature=signature, **question)
            assert believed(wire, wire.send("POST", target, plivo_headers(signature), body)), (target, name)
        target += ("&" if "?" in target else "?") + f"CallUUID={SID}&From=%2B1&From=0"
        question = {"token": PLIVO_TOKEN, "url": base + target, "nonce": NONCE, "method": "GET"}
        signature = judge.ask("plivo sign", **question)
        assert believed(wire, wire.send("GET", target, plivo_headers(signature))), target
        listed = f"{'A' * 43}=,{signature},{'B' * 43}="
        assert judge.ask("plivo valid", signature=listed, **question)
        assert believed(wire, wire.send("GET", target, plivo_headers(listed))), target


def test_without_a_base_url_the_request_itself_says_what_was_signed(judge, start_wire):
    wire = start_wire({"PUBLIC_BASE_URL": None})
    target = "/api/v1/twilio/allocate"
    for host in ("voice.example.com", "voice.example.com:8080", "[::1]:8080"):
        signature = judge.ask("twilio sign", token=TWILIO_TOKEN, url=f"http://{host}{target}", body=TWILIO_FORM)
        assert believed(wire, wire.send("POST", target, twilio_headers(signature), TWILIO_FORM, host=host))
        assert not believed(wire, wire.send("POST", target, twilio_headers(signature), TWILIO_FORM, host="x" + host))


@pytest.mark.parametrize("is_trusted", [True, False])
def test_forwarded_headers_count_from_a_trusted_proxy_only(judge, start_wire, is_trusted):
    wire = start_wire({"PUBLIC_BASE_URL": None, "TRUSTED_PROXIES": "127.0.0.1" if is_trusted else "192.0.2.1"})
    target = "/api/v1/twilio/allocate"
    forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "voice.example.com"}
    public = judge.ask("twilio sign", token=TWILIO_TOKEN, url=f"{BASE}{target}", body=TWILIO_FORM)
    inside = judge.ask("twilio sign", token=TWILIO_TOKEN, url=f"http://router.local{target}", body=TWILIO_FORM)
    for signature, is_fine in ((public, is_trusted), (inside, not is_trusted)):
        headers = {**twilio_headers(signature), **forwarded}
        assert believed(wire, wire.send("POST", target, headers, TWILIO_FORM, host="router.local")) == is_fine


# No byte may change.


def flip(text, i, bits):
    data = bytearray(webhooks.as_bytes(text))
    data[i] ^= bits
    return bytes(data)


def changes(text):
    """Every byte changed, without those that would end a line of the header."""
    for i in range(len(text)):
        for bits in FLIPS:
            changed = flip(text, i, bits)
            if changed[i] not in b"\r\n":
                yield changed.decode("latin-1")


def walk(wire, judge, send, questions):
    """Sends what each question is about; the router believes exactly what the library believes."""
    verdicts = [answer.get("ok", False) for answer in judge.ask_all(questions)]
    accepted = 0
    for question, verdict in zip(questions, verdicts):
        status, body = send(question)
        assert (status == 200) == verdict, (question, status, body, verdict)
        if status == 200:
            accepted += 1
            assert calls(wire) == 1
            release(wire)
    assert calls(wire) == 0
    return accepted


def is_sendable(target):
    """Would a server see this target at all, under a path that has a route?"""
    path = target.split("?", 1)[0]
    return "#" not in target and " " not in target and all(0x20 < ord(c) < 0x7F for c in target) and path.endswith("allocate")


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_no_byte_of_what_twilio_signed_may_change(judge, start_wire, method):
    wire = start_wire()
    target = "/api/v1/twilio/allocate?merchant_id=m-1&template=caf%C3%A9" + (f"&CallSid={SID}" if method == "GET" else "")
    body = TWILIO_FORM if method == "POST" else ""
    signature = judge.ask("twilio sign", token=TWILIO_TOKEN, url=BASE + target, body=body)
    right = {"ask": "twilio valid", "token": TWILIO_TOKEN, "url": BASE + target, "body": body, "signature": signature}

    def send(question):
        headers = twilio_headers(question["signature"])
        return wire.send(method, question["url"].removeprefix(BASE), headers, question["body"])

    assert walk(wire, judge, send, [right]) == 1
    # In the URL the library forgives another spelling of an escape (%C3, %c3). Twilio spells it one way; so do we.
    refused = [send({**right, "url": BASE + changed})[0] for changed in changes(target)]
    assert set(refused) <= {400, 401, 403, 404} and refused.count(403) > 40 and calls(wire) == 0
    questions = [{**right, "body": changed} for changed in changes(body)]
    questions += [{**right, "signature": changed} for changed in changes(signature)]
    # In a parameter both spellings are the same byte, and nothing else is.
    assert walk(wire, judge, send, questions) == body.count("%2B")


def test_no_byte_of_what_plivo_signed_may_change(judge, start_wire):
    wire = start_wire()
    for method in ("POST", "GET"):
        sid = f"CallUUID={SID}&From=14158675309"
        target = "/api/v1/plivo/allocate?merchant_id=m-1&flow=v2" + (f"&{sid}" if method == "GET" else "")
        body = sid + "&Event=StartApp&To=2" if method == "POST" else ""
        right = {"token": PLIVO_TOKEN, "url": BASE + target, "body": body, "nonce": NONCE, "method": method}
        right = {"ask": "plivo valid", "signature": judge.ask("plivo sign", **right), **right}

        def send(question):
            headers = plivo_headers(question["signature"], question["nonce"])
            return wire.send(question["method"], question["url"].removeprefix(BASE), headers, question["body"])

        assert walk(wire, judge, send, [right]) == 1
        questions = [{**right, "url": BASE + changed} for changed in changes(target) if is_sendable(changed)]
        questions += [{**right, "body": changed} for changed in changes(body)]
        questions += [{**right, "signature": changed} for changed in changes(right["signature"])]
        questions += [{**right, "nonce": changed} for changed in changes(NONCE)]
        assert len(questions) > 150
        assert walk(wire, judge, send, questions) == 0


def test_no_byte_of_a_token_may_differ(judge, start_wire):
    wire = start_wire()
    for token in changes(TWILIO_TOKEN):
        signature = judge.ask("twilio sign", token=token, url=f"{BASE}/api/v1/twilio/allocate", body=TWILIO_FORM)
        assert wire.send("POST", "/api/v1/twilio/allocate", twilio_headers(signature), TWILIO_FORM)[0] == 403
    body = TWILIO_FORM.replace("CallSid", "CallUUID")
    for token in changes(PLIVO_TOKEN):
        question = {"token": token, "url": f"{BASE}/api/v1/plivo/allocate", "body": body, "nonce": NONCE}
        signature = judge.ask("plivo sign", method="POST", **question)
        assert wire.send("POST", "/api/v1/plivo/allocate", plivo_headers(signature), body)[0] == 403
    assert calls(wire) == 0


def test_no_byte_of_the_host_may_differ(judge, start_wire):
    wire = start_wire({"PUBLIC_BASE_URL": None})
    host = "voice.example.com"
    target = "/api/v1/twilio/allocate"
    signature = judge.ask("twilio sign", token=TWILIO_TOKEN, url=f"http://{host}{target}", body=TWILIO_FORM)
    for changed in changes(host):
        assert wire.send("POST", target, twilio_headers(signature), TWILIO_FORM, host=changed)[0] in (400, 403), changed
    assert calls(wire) == 0


# What the router answers is what the libraries would write.

TEXTS = ["plain", "<Say>&amp;</Say>", "\"quotes' & ]]> <!-- x -->", "ümlaut नमस्ते 😀", "a > b < c", "</Response>"]


def same_document(judge, ours, theirs):
    ElementTree.fromstring(ours)
    return judge.ask("parse", xml=ours.decode()) == judge.ask("parse", xml=theirs)


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
@pytest.mark.parametrize("text", TEXTS)
def test_the_busy_message_reads_as_the_library_writes_it(judge, start_router, provider, text):
    router = start_router({"BUSY_MESSAGE": text, "STATIC_PODS": None, "POD_SOURCE": "api"})
    answer = router.post(f"/api/v1/{provider}/allocate", data={"CallSid": SID, "CallUUID": SID})
    assert answer.status_code == 200
    assert same_document(judge, answer.content, judge.ask(f"{provider} busy", text=text))


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_the_stream_reads_as_the_library_writes_it(judge, start_router, provider):
    router = start_router({"VOICE_AGENT_BASE_URL": "wss://voice.example.com"})
    for i, value in enumerate([*TEXTS, "a/b?c#d", "%zz", "{pod}", "x" * 128]):
        sid = f"CA{i}"
        answer = router.post(
            f"/api/v1/{provider}/allocate",
            data={"CallSid": sid, "CallUUID": sid},
            params={"template": value, "flow": value},
        )
        assert answer.status_code == 200
        root = ElementTree.fromstring(answer.content)
        url = root.find("./Connect/Stream").get("url") if provider == "twilio" else root.find("./Stream").text
        assert url.startswith("wss://voice.example.com/ws/pod/")
        assert same_document(judge, answer.content, judge.ask(f"{provider} stream", url=url))
        router.release(sid)


@pytest.mark.parametrize("provider", ["twilio", "plivo"])
def test_the_fallback_url_reads_as_the_library_writes_it(judge, start_router, provider):
    url = "wss://elsewhere.example/a?b=1&c=<2>'\""
    router = start_router({"FALLBACK_WS_URL": url.replace("<2>'\"", "2'"), "STATIC_PODS": None, "POD_SOURCE": "api"})
    answer = router.post(f"/api/v1/{provider}/allocate", data={"CallSid": SID, "CallUUID": SID})
    assert same_document(judge, answer.content, judge.ask(f"{provider} stream", url=url.replace("<2>'\"", "2'")))
