"""nginx with the configuration that is shipped in deploy/nginx: where it sends what, and whom it refuses.

What streams look like through it is in test_gateway.py, calls through it in test_gateway_calls.py.
"""

import json
import socket

import httpx
import pytest
import streams
from conftest import wait_until
from streams import HOST, Nginx, Stream


@pytest.fixture
def world(start_world):
    return start_world("nginx-dns", agents=2)


def ask(world, method, path, host=HOST, **kwargs):
    return httpx.request(
        method, f"http://127.0.0.1:{world.port}{path}", headers={"Host": host}, timeout=60, trust_env=False, **kwargs
    )


def raw(port, text):
    """What comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(text.encode())
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
        return received


def test_a_stream_goes_to_the_pod_that_its_path_names(world):
    for pod, agent in world.agents.items():
        with world.open(f"/ws/pod/{pod}/some/where") as stream:
            assert stream.echoes()
        assert [head.path for head in agent.heads] == ["/some/where"]
    asked = {name.partition(".")[0] for name in world.names.questions}
    assert asked == set(world.agents)


def test_the_address_of_a_pod_is_forgotten_soon(world):
    """A pod that was restarted has another address; DNS said that the old one is good for an hour."""
    name = "voice-agent-0.voice-agent.default.svc.cluster.local"
    with world.open("/ws/pod/voice-agent-0/before") as stream:
        assert stream.echoes()
    world.names.addresses[name] = world.agents["voice-agent-1"].address

    def arrives_at_the_new_one():
        with world.open("/ws/pod/voice-agent-0/after") as stream:
            assert stream.echoes()
        return any(head.path == "/after" for head in world.agents["voice-agent-1"].heads)

    wait_until(arrives_at_the_new_one, "the new address is used")


def test_a_stream_whose_pod_has_no_name_in_dns_goes_through_the_router(world):
    pod, path = world.place("CA1")
    world.names.addresses.clear()
    with world.open(path) as stream:
        assert stream.echoes()
    assert world.agents[pod].heads[-1].path == path.removeprefix(f"/ws/pod/{pod}")


def test_a_stream_whose_pod_does_not_listen_goes_through_the_router_to_another(world):
    pod, path = world.place("CA1")
    other = next(name for name in world.agents if name != pod)
    world.agents[pod].stop()
    with world.open(path) as stream:
        assert stream.echoes()
        assert world.call("CA1")["pod_name"] == other
    assert world.agents[other].heads[-1].path == path.removeprefix(f"/ws/pod/{pod}")


def test_a_name_that_nobody_knows_is_refused_by_the_router(world):
    with world.connect("/ws/pod/voice-agent-77/x") as stream:
        assert stream.status == 404
        assert json.loads(stream.body())["success"] is False


@pytest.mark.parametrize(
    "pod", ("evil.example.com", "localhost:6379", "127.0.0.1", "a_b", "-a", "a-", "A", "a" * 64, "%2e%2e", "a%2eb", "@a", "")
)
def test_what_is_no_label_never_becomes_an_address(world, pod):
    assert world.refusal(f"/ws/pod/{pod}/x") == 404
    assert world.names.questions == []


def test_an_odd_path_reaches_no_other_pod_than_it_names(world):
    other = "/ws/pod/voice-agent-1/x"
    for path in (f"/ws/pod/voice-agent-0/../../..{other}", f"/x/..{other}", f"/{other}"):
        with world.connect(path):
            pass
    assert world.agents["voice-agent-1"].heads == []


@pytest.mark.parametrize("host", ("other.example.com", "127.0.0.1", "voice.example.com.evil.org", "localhost"))
def test_unknown_hosts_get_no_answer(world, host):
    for path in ("/ws/pod/voice-agent-0/x", "/api/v1/status", "/health", "/"):
        assert raw(world.port, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n") == b""
    assert world.agents["voice-agent-0"].heads == []


def test_a_request_without_a_host_gets_no_answer(world):
    assert raw(world.port, "GET /health HTTP/1.0\r\n\r\n") == b""


def test_webhooks_api_and_health_reach_the_router(world):
    twiml = ask(world, "POST", "/api/v1/twilio/allocate?merchant_id=acme", data={"CallSid": "CA1"})
    assert twiml.status_code == 200 and "<Stream url=" in twiml.text
    assert world.call("CA1")["merchant_id"] == "acme"
    callback = ask(world, "POST", "/api/v1/twilio/status", data={"CallSid": "CA1", "CallStatus": "completed"})
    assert callback.headers["X-Request-Id"], "the answer is not the router's"
    assert ask(world, "POST", "/api/v1/allocate", json={"call_sid": "CA2"}).json()["success"] is True
    assert ask(world, "POST", "/api/v1/release", json={"call_sid": "CA2"}).json()["success"] is True
    assert ask(world, "GET", "/health").json() == {"status": "ok"}
    assert ask(world, "GET", "/ready").status_code == 200
    assert ask(world, "GET", "/api/v1/call/none").status_code == 404


def test_events_arrive_while_they_happen(world):
    url = f"http://127.0.0.1:{world.port}/api/v1/events"
    with httpx.stream("GET", url, headers={"Host": HOST}, timeout=60, trust_env=False) as events:
        assert events.status_code == 200
        world.place("CA-seen")
        for line in events.iter_lines():
            if "CA-seen" in line:
                break
        else:
            pytest.fail("the stream of events ended")


def test_only_operators_may_use_the_api(start_world, tmp_path):
    world = start_world("nginx-dns", agents=1)
    strict = Nginx(tmp_path / "strict", world.router.port, more={"    127.0.0.0/8 1;\n": ""})
    try:
        for path in ("/api/v1/status", "/api/v1/pods", "/metrics", "/", "/api/v1/twilio/../status", "/api/v1/events"):
            answer = raw(strict.port, f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 403 "), path
        for path in ("/health", "/ready", "/api/v1/twilio/allocate?CallSid=CA1", "/api/v1/exotel/allocate?CallSid=CA1"):
            answer = raw(strict.port, f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 "), path
        pod = world.call("CA1")["pod_name"]
        with Stream(strict.port, f"/ws/pod/{pod}/x") as stream:
            assert stream.status == 101
            assert stream.echoes()
    finally:
        strict.close()


def test_the_settings_stand_at_the_top_and_nowhere_else():
    """What an operator has to adapt is all before the mark; nothing after it names a place, a time or a host."""
    _, mark, rest = streams.SHIPPED.read_text().partition("# ----- End of the settings")
    assert mark
    for word in ("cluster.local", "example.com", "listen ", "timeout", "resolver", "server smart", ":80"):
        assert word not in rest, word
