"""Bad input: each with its clear error, and nothing changed."""

import json
import socket

import pytest
from conftest import wait_until

SID_RULE = "call_sid may have only A-Z a-z 0-9 . _ : @ + = -, and at most 128 characters"

BAD_SIDS = [
    ({}, "call_sid is required"),
    ({"call_sid": ""}, "call_sid is required"),
    ({"call_sid": None}, "call_sid is required"),
    ({"call_sid": "x" * 129}, SID_RULE),
    ({"call_sid": "CA\x01"}, SID_RULE),
    ({"call_sid": "CA\n1"}, SID_RULE),
    ({"call_sid": "CA\x7f"}, SID_RULE),
    ({"call_sid": "CA 1"}, SID_RULE),
    ({"call_sid": "CA/1"}, SID_RULE),
    ({"call_sid": "CÄ1"}, SID_RULE),
    ({"call_sid": 7}, "call_sid must be a string"),
    ({"call_sid": ["CA1"]}, "call_sid must be a string"),
    ({"call_sid": True}, "call_sid must be a string"),
]
BAD_BODIES = [
    (b"", "body is empty, and not a JSON object"),
    (b"call_sid=CA1", "body is not valid JSON"),
    (b'{"call_sid":"CA1"', "body is not valid JSON"),
    (b'{"call_sid":"CA1"} x', "body is not valid JSON"),
    (b'{"call_sid":"CA1\\u0000x"}', "body is not valid JSON"),
    (b'{"call_sid":"CA1"}\0', "body is not valid JSON"),
    (b"[" * 5000, "body is not valid JSON"),
    (b'[{"call_sid":"CA1"}]', "body is not a JSON object"),
    (b'"CA1"', "body is not a JSON object"),
    (b"null", "body is not a JSON object"),
]
BAD_FIELDS = [
    ({"merchant_id": "a b"}, "merchant_id may have only"),
    ({"merchant_id": "m" * 129}, "merchant_id may have only"),
    ({"merchant_id": 7}, "merchant_id must be a string"),
    ({"reseller_id": "<r>"}, "reseller_id may have only"),
    ({"provider": "tw/ilio"}, "provider may have only"),
    ({"provider": "p" * 33}, "provider may have only"),
    ({"provider": {}}, "provider must be a string"),
    ({"flow": "v\x01"}, "flow may have no control characters"),
    ({"flow": "v" * 129}, "flow may have at most 128 bytes"),
    ({"template": "t" * 129}, "template may have at most 128 bytes"),
    ({"template": 1}, "template must be a string"),
]


@pytest.fixture
def unchanged(router):
    """A router with some state, which must be the same after the test."""
    router.allocate("CA-before")
    router.put("/api/v1/merchants/before", {"tier": "gold"})
    router.post("/api/v1/drain", {"pod_name": "voice-agent-4"})
    before = router.state()
    yield router
    assert router.state() == before


def assert_error(answer, status, error, code):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    body = answer.json()
    assert body["success"] is False
    assert body["code"] == code
    assert error in body["error"], body["error"]


@pytest.mark.parametrize("path", ["/api/v1/allocate", "/api/v1/release"])
def test_a_bad_call_sid_is_named(unchanged, path):
    for body, error in BAD_SIDS:
        assert_error(unchanged.post(path, body), 400, error, "bad_request")


@pytest.mark.parametrize(
    "path", ["allocate", "release", "renew", "drain", "undrain", "pods", "pod/voice-agent-0/heartbeat"]
)
def test_a_body_that_is_no_json_object_is_refused(unchanged, path):
    for content, error in BAD_BODIES:
        assert_error(unchanged.post(f"/api/v1/{path}", content=content), 400, error, "bad_request")


def test_other_bad_fields_of_an_allocation_are_named(unchanged):
    for fields, error in BAD_FIELDS:
        answer = unchanged.post("/api/v1/allocate", {"call_sid": "CA1", **fields})
        assert_error(answer, 400, error, "bad_request")


def test_a_128_character_call_sid_is_fine(router):
    for sid in ("x" * 128, "Aa0._:@+=-"):
        router.allocate(sid)
        router.release(sid)


def test_a_body_of_65_kilobytes_is_too_large(unchanged):
    for size in (65 * 1024, 64 * 1024 + 1):
        body = json.dumps({"call_sid": "CA1", "pad": ""})
        body = body[:-2] + "x" * (size - len(body)) + body[-2:]
        assert len(body) == size
        answer = unchanged.raw(
            b"POST /api/v1/allocate HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % size + body.encode()
        )
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b'"code":"too_large"' in answer


def test_a_body_of_64_kilobytes_is_fine(router):
    body = json.dumps({"call_sid": "CA1", "pad": ""})
    body = body[:-2] + "x" * (64 * 1024 - len(body)) + body[-2:]
    assert router.post("/api/v1/allocate", content=body).status_code == 200


def test_a_body_that_breaks_off_changes_nothing(unchanged):
    head = b"POST /api/v1/allocate HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"
    answer = unchanged.raw(head + b'{"call_sid":"CA1"}', half_close=True)
    assert b" 200 " not in answer


def test_a_wrong_method_is_told_the_right_ones(unchanged):
    answer = unchanged.get("/api/v1/allocate")
    assert_error(answer, 405, "", "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    answer = unchanged.request("PATCH", "/api/v1/pod/voice-agent-0")
    assert_error(answer, 405, "", "method_not_allowed")
    assert {method.strip() for method in answer.headers["allow"].split(",")} >= {"GET", "DELETE"}
    assert_error(unchanged.delete("/api/v1/tiers"), 405, "", "method_not_allowed")


def test_an_unknown_path_is_not_found(unchanged):
    for path in ("/nothing", "/api/v1", "/api/v1/nothing", "/api/v1/pod", "/api/v1/pod/a/b", "/api/v2/allocate"):
        assert_error(unchanged.get(path), 404, "", "not_found")


def test_a_header_of_9_kilobytes_is_too_large(unchanged):
    answer = unchanged.get("/health", headers={"x-large": "x" * 9 * 1024})
    assert_error(answer, 431, "", "header_too_large")


def test_an_unknown_pod_is_not_found(unchanged):
    assert_error(unchanged.post("/api/v1/drain", {"pod_name": "nobody"}), 404, "pod not found", "not_found")
    assert_error(unchanged.post("/api/v1/undrain", {"pod_name": "nobody"}), 404, "pod not found", "not_found")
    assert_error(unchanged.get("/api/v1/pod/nobody"), 404, "pod not found", "not_found")
    assert_error(unchanged.delete("/api/v1/pod/nobody"), 404, "pod not found", "not_found")
    beat = unchanged.post("/api/v1/pod/nobody/heartbeat", {"call_sids": []})
    assert_error(beat, 404, "pod not found", "not_found")


def test_an_unknown_call_is_not_found(unchanged):
    answer = unchanged.get("/api/v1/call/nobody")
    assert_error(answer, 404, "call not found", "not_found")
    assert "refusal" not in answer.json()
    assert_error(unchanged.post("/api/v1/release", {"call_sid": "nobody"}), 404, "call not found", "not_found")


@pytest.mark.parametrize("name", ["Voice-Agent", "a_b", "-a", "a-", "a" * 64, "a.b", "é", "a b", "metadata"])
def test_a_name_that_can_be_no_pod_is_refused(unchanged, name):
    rule = "pod_name must be a DNS label"
    assert_error(unchanged.post("/api/v1/drain", {"pod_name": name}), 400, rule, "bad_request")
    assert_error(unchanged.post("/api/v1/pods", {"pod_name": name}), 400, rule, "bad_request")
    assert_error(unchanged.get(f"/api/v1/pod/{name}"), 400, rule, "bad_request")


@pytest.mark.parametrize("ttl", [-1, 604801, 1.5, 1e300, "60", True, [], {}])
def test_a_bad_drain_time_is_refused(unchanged, ttl):
    answer = unchanged.post("/api/v1/drain", {"pod_name": "voice-agent-0", "ttl_seconds": ttl})
    assert_error(answer, 400, "ttl_seconds must be a whole number from 0 to 604800", "bad_request")


def test_bad_renewals_are_refused(unchanged):
    for body, error in [
        ({}, "call_sid is required"),
        ({"call_sid": "CA1", "call_sids": ["CA1"]}, "not both"),
        ({"call_sids": "CA1"}, "call_sids must be an array of strings"),
        ({"call_sids": ["CA1", 7]}, "call_sids must be an array of strings"),
        ({"call_sids": ["CA 1"]}, "call_sids: a call_sid may have only"),
        ({"call_sids": [""]}, "call_sids: a call_sid may have only"),
        ({"call_sids": ["x"] * 1001}, "call_sids may have at most 1000 entries"),
    ]:
        assert_error(unchanged.post("/api/v1/renew", body), 400, error, "bad_request")


def test_bad_heartbeats_are_refused(unchanged):
    for body, error in [
        ({}, "call_sids is required"),
        ({"call_sids": {}}, "call_sids must be an array of strings"),
        ({"call_sids": [None]}, "call_sids must be an array of strings"),
        ({"call_sids": ["x"] * 1001}, "call_sids may have at most 1000 entries"),
    ]:
        answer = unchanged.post("/api/v1/pod/voice-agent-0/heartbeat", body)
        assert_error(answer, 400, error, "bad_request")


def test_bad_registrations_are_refused(unchanged):
    for fields, error in [
        ({"address": "a b"}, "address must be"),
        ({"address": "a" * 256}, "address must be"),
        ({"address": 7}, "address must be a string"),
        ({"address": ""}, "address is required"),
        ({"address": None}, "address is required"),
        ({"incarnation": "a b"}, "incarnation must have"),
        ({"incarnation": ""}, "incarnation must have"),
        ({"tier": "a b"}, "tier must be"),
        ({"tier": "nothing"}, "tier is not configured"),
    ]:
        answer = unchanged.post("/api/v1/pods", {"pod_name": "agent-1", "address": "a:1", **fields})
        assert_error(answer, 400, error, "bad_request")


@pytest.mark.parametrize(
    "query,error",
    [
        ("state=lost", "state must be available, busy, draining or suspended"),
        ("limit=0", "limit must be a whole number from 1 to 1000"),
        ("limit=1001", "limit must be a whole number from 1 to 1000"),
        ("limit=x", "limit must be a whole number"),
        ("limit=", "limit must be a whole number"),
        ("limit=99999999999999999999", "limit must be a whole number"),
        ("cursor=%01", "cursor may have no control characters"),
        ("tier=a%20b", "tier must be"),
        ("tier=gold%00", "tier has a NUL in it"),
    ],
)
def test_bad_filters_are_refused(unchanged, query, error):
    assert_error(unchanged.get(f"/api/v1/pods?{query}"), 400, error, "bad_request")


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x"])
@pytest.mark.parametrize("what", ["calls", "merchants"])
def test_bad_pages_are_refused(unchanged, what, query):
    error = "limit must be a whole number from 1 to 1000"
    assert_error(unchanged.get(f"/api/v1/{what}?{query}"), 400, error, "bad_request")


BAD_MERCHANTS = [b'{"teir":"gold"}', b'{"priority":10}', b'{"tier":"gold","tier":"gold"}', b"", b"x", b"[]", b'"gold"', b'{"tier":7}', b'{"pool":[]}', b'{"fallback":"gold"}',
                 b'{"fallback":[7]}', b'{"tier":"gold"', b'{"tier":"\xff"}', b'{"tier":"a b"}',
                 b'{"x":"' + b"x" * 8192 + b'"}', b'{"tier":"gold"}\0']  # fmt: skip


def test_bad_merchant_configurations_are_refused(unchanged):
    for content in BAD_MERCHANTS:
        for merchant in ("before", "new"):
            answer = unchanged.request("PUT", f"/api/v1/merchants/{merchant}", content=content)
            assert_error(answer, 400, "", "bad_request")
    assert_error(unchanged.put("/api/v1/merchants/a%20b", {}), 400, "merchant_id may have only", "bad_request")


BAD_TIERS = {
    "not JSON": "{",
    "an array": "[]",
    "a string": '"gold"',
    "unknown type": '{"gold":{"type":"golden","target":1}}',
    "negative target": '{"gold":{"target":-1}}',
    "negative integer": '{"gold":-1}',
    "fraction": '{"gold":1.5}',
    "target no number": '{"gold":{"target":"1"}}',
    "empty chain": '{"tiers":{"gold":{"target":1}},"default_chain":[]}',
    "unknown tier in the chain": '{"tiers":{"gold":{"target":1}},"default_chain":["silver"]}',
    "bad max_concurrent": '{"basic":{"type":"shared","target":1,"max_concurrent":-1}}',
    "unknown member": '{"gold":{"targt":2}}',
    "unknown member of the envelope": '{"tiers":{"gold":1},"chain":["gold"]}',
    "a pool in both spellings": '{"tiers":{"gold":1,"m":1,"merchant:m":1},"default_chain":["gold"]}',
    "bad name": '{"a b":1}',
    "tier no object": '{"gold":[]}',
    "tiers no object": '{"tiers":[]}',
}


@pytest.mark.parametrize("text", BAD_TIERS.values(), ids=BAD_TIERS.keys())
def test_a_bad_tier_configuration_is_refused_while_running(unchanged, text):
    assert_error(unchanged.request("PUT", "/api/v1/tiers", content=text), 400, "", "bad_request")
    (line,) = wait_until(lambda: unchanged.log_lines("tiers refused: the configuration before stays"), "it is logged")
    assert line["level"] == "warn" and line["error"]
    assert "\nsmart_router_tier_config_errors_total 1\n" in unchanged.get("/metrics").text


def test_a_member_that_is_unknown_is_named(unchanged):
    answer = unchanged.put("/api/v1/tiers", {"gold": {"targt": 2}})
    assert_error(answer, 400, 'unknown member "targt" in tier "gold"; did you mean "target"?', "bad_request")


@pytest.mark.parametrize("text", ["{}", " {\n} "])
def test_no_tiers_are_no_configuration_while_running(unchanged, text):
    answer = unchanged.request("PUT", "/api/v1/tiers", content=text)
    assert_error(answer, 400, "no tiers are given", "bad_request")


STOPPING = {name: text for name, text in BAD_TIERS.items() if "unknown member" not in name}


@pytest.mark.parametrize("text", STOPPING.values(), ids=STOPPING.keys())
def test_a_bad_tier_configuration_stops_the_start(run_router, tmp_path, text):
    done = run_router({"TIER_CONFIG": text})
    assert done.returncode == 2, done.output
    assert "TIER_CONFIG" in done.output


def test_a_port_in_use_stops_the_start(run_router):
    for variable in ("HTTP_PORT", "METRICS_PORT"):
        with socket.create_server(("0.0.0.0", 0)) as taken:
            port = taken.getsockname()[1]
            done = run_router({variable: str(port)})
        assert done.returncode not in (0, -6, -11), done.output
        assert str(port) in done.output
        assert "in use" in done.output


def test_an_unwritable_data_dir_stops_the_start(run_router, tmp_path):
    (tmp_path / "file").write_text("not a directory")
    done = run_router(data_dir=tmp_path / "file" / "data")
    assert done.returncode not in (0, -6, -11), done.output
    assert str(tmp_path / "file" / "data") in done.output


def test_a_data_dir_in_use_stops_the_start(router, run_router):
    done = run_router(data_dir=router.data_dir)
    assert done.returncode not in (0, -6, -11), done.output
    assert str(router.data_dir) in done.output
    router.allocate("CA1")


@pytest.mark.parametrize(
    "template,error",
    [("{base}/{nothing}", "{nothing}"), ("{base}/{pod", "{"), ("{base}/{ticket}", "{ticket}"), ("{base}/}", "}")],
)
def test_a_bad_url_template_stops_the_start(run_router, template, error):
    done = run_router({"WS_URL_TEMPLATE": template})
    assert done.returncode == 2, done.output
    assert "WS_URL_TEMPLATE" in done.output
    assert error in done.output


@pytest.mark.parametrize(
    "variable,value",
    [
        ("HTTP_PORT", "http"),
        ("HTTP_PORT", "65536"),
        ("LEASE_TTL", "15"),
        ("LEASE_TTL", "-1s"),
        ("LOG_LEVEL", "loud"),
        ("LOG_FSYNC", "sometimes"),
        ("STATIC_PODS", "Not_A_Pod"),
        ("POD_SOURCE", "heaven"),
    ],
)
def test_a_bad_setting_is_named_with_its_value(run_router, variable, value):
    done = run_router({variable: value})
    assert done.returncode == 2, done.output
    assert variable in done.output
    assert value in done.output


@pytest.mark.parametrize("text", ['{"tier":"gold","x":01}', '{"tier":"gold","x":1.}', '{"tier":"gold","x":"\t"}', '{"tier":"gold",\x02"x":1}', '\ufeff{"tier":"gold"}'])
def test_lax_json_is_refused_and_spoils_no_answer(router, text):
    before = router.get("/api/v1/merchants").json()
    answer = router.request("PUT", "/api/v1/merchants/lax", content=text.encode())
    assert answer.status_code == 400
    assert router.get("/api/v1/merchants").json() == before
