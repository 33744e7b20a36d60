"""nginx with the configuration that is shipped in deploy/nginx: where it sends what, and whom it refuses.

What streams look like through it is in test_gateway.py, calls through it in test_gateway_calls.py.
"""

import json
import re
import socket

import httpx
import pytest
import streams
from conftest import wait_until
from streams import BEHIND_A_BALANCER, HOST

REST = "/agent/voice/breeze-buddy/twilio/callback/order-confirmation/v2"  # what the default WS_URL_TEMPLATE asks a pod for
SHIPPED = {"is_any_path": False, "operators": ()}
UPGRADE = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"


@pytest.fixture
def world(start_world):
    return start_world("nginx-dns", agents=2, nginx={"is_any_path": False})


@pytest.fixture(params=("nginx", "nginx-dns"))
def shipped(start_world, request):
    """Streams through the router, as it ships, or to the pods; the pods have calls, so that the router would carry any."""
    world = start_world(request.param, agents=2, nginx=SHIPPED)
    for call in ("CA1", "CA2"):
        world.place(call)
    return world


def assert_no_pod_was_asked(world):
    assert [head.first for agent in world.agents.values() for head in agent.heads] == []


def ask(world, method, path, host=HOST, **kwargs):
    return httpx.request(
        method, f"http://127.0.0.1:{world.port}{path}", headers={"Host": host}, timeout=60, trust_env=False, **kwargs
    )


def raw(port, text, is_hasty=False):
    """What comes back until the server closes; or only what comes first, where it would wait for a body."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(text.encode())
        received = b""
        while chunk := sock.recv(65536):
            received += chunk
            if is_hasty:
                break
        return received


def status_of(port, text):
    """Of the first answer; None if there is none. The request says nothing more, so that the answer is the last thing that comes."""
    answer = raw(port, text)
    return int(answer.split(b" ")[1]) if answer else None


def request_of(method, path, *headers):
    return f"{method} {path} HTTP/1.1\r\nHost: {HOST}\r\n" + "".join(f"{header}\r\n" for header in headers) + "\r\n"


def test_a_stream_goes_to_the_pod_that_its_path_names(world):
    for pod, agent in world.agents.items():
        with world.open(f"/ws/pod/{pod}{REST}") as stream:
            assert stream.echoes()
        assert [head.path for head in agent.heads] == [REST]
    asked = {name.partition(".")[0] for name in world.names.questions}
    assert asked == set(world.agents)


def test_the_address_of_a_pod_is_forgotten_soon(world):
    """A pod that was restarted has another address; DNS said that the old one is good for an hour."""
    name = "voice-agent-0.voice-agent.default.svc.cluster.local"
    with world.open(f"/ws/pod/voice-agent-0{REST}?before") as stream:
        assert stream.echoes()
    world.names.addresses[name] = world.agents["voice-agent-1"].address

    def arrives_at_the_new_one():
        with world.open(f"/ws/pod/voice-agent-0{REST}?after") as stream:
            assert stream.echoes()
        return any(head.path.endswith("?after") for head in world.agents["voice-agent-1"].heads)

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
    with world.connect(f"/ws/pod/voice-agent-77{REST}") as stream:
        assert stream.status == 404
        assert json.loads(stream.body())["success"] is False


@pytest.mark.parametrize(
    "pod", ("evil.example.com", "localhost:6379", "127.0.0.1", "a_b", "-a", "a-", "A", "a" * 64, "%2e%2e", "a%2eb", "@a", "")
)
def test_what_is_no_label_never_becomes_an_address(world, pod):
    assert world.refusal(f"/ws/pod/{pod}{REST}") in (404, 426)
    assert world.names.questions == []


def test_an_odd_path_reaches_no_other_pod_than_it_names(world):
    other = f"/ws/pod/voice-agent-1{REST}"
    for path in (f"/ws/pod/voice-agent-0/../../..{other}", f"/x/..{other}", f"/{other}"):
        with world.connect(path):
            pass
    assert world.agents["voice-agent-1"].heads == []


@pytest.mark.parametrize("host", ("other.example.com", "127.0.0.1", "voice.example.com.evil.org", "localhost"))
def test_unknown_hosts_get_no_answer(world, host):
    for path in (f"/ws/pod/voice-agent-0{REST}", "/api/v1/status", "/health", "/"):
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


def test_only_operators_may_use_the_api(start_world):
    """As it ships nobody is an operator, not even who connects from the same machine: that may be a load balancer."""
    world = start_world("nginx", agents=2, nginx=SHIPPED)
    for path in ("/api/v1/status", "/api/v1/pods", "/metrics", "/", "/api/v1/twilio/../status", "/api/v1/events"):
        assert status_of(world.port, request_of("GET", path, "Connection: close")) == 403, path
    for path in ("/health", "/ready", "/api/v1/twilio/allocate?CallSid=CA1", "/api/v1/exotel/allocate?CallSid=CA2"):
        assert status_of(world.port, request_of("GET", path, "Connection: close")) == 200, path
    with world.open(f"/ws/pod/{world.call('CA1')['pod_name']}{REST}") as stream:
        assert stream.echoes()


# ----- What a stranger may ask for -----


def test_a_pod_is_asked_with_get_only(shipped):
    for method in ("POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "PROPFIND", "get"):
        for path in ("/ws/pod/voice-agent-0/admin/shutdown", f"/ws/pod/voice-agent-0{REST}"):
            for upgrade in ((), (UPGRADE.strip(),)):
                request = request_of(method, path, *upgrade, "Content-Length: 0", "Connection: close")
                assert status_of(shipped.port, request) in (400, 405), (method, path)
    assert_no_pod_was_asked(shipped)


def test_a_pod_is_asked_for_websockets_only(shipped):
    path = f"/ws/pod/voice-agent-0{REST}"
    for upgrade in ((), ("Upgrade: h2c",), ("Upgrade: websocket, h2c",), ("Upgrade: xwebsocket",)):
        assert status_of(shipped.port, request_of("GET", path, *upgrade, "Connection: close")) == 426, upgrade
    for body in ("Content-Length: 5", "Transfer-Encoding: chunked"):
        request = request_of("GET", path, "Upgrade: websocket", "Connection: close", body)
        assert status_of(shipped.port, request + "0\r\n\r\n") == 400, body
    assert_no_pod_was_asked(shipped)


def test_a_pod_is_asked_for_the_paths_of_the_template_only(shipped):
    begin, end = "/agent/voice/breeze-buddy", "/callback/order-confirmation"
    odd = ("..", ".", "%2e%2e", ".%2E", "..%2f..%2fadmin", "%2fadmin", "a%5cb", "a%00b", "a%0d%0ab", "a%", "a%zz", "", "a#b", "a/b", "a\\b")
    paths = ["", "/", "/admin/shutdown", f"{REST}/admin", f"{REST}/", f"{REST}%2fadmin", f"/x{REST}", f"/{REST}", REST.upper()]
    paths += [f"{REST}/..", f"{REST}/../../../../../../../admin/shutdown", REST.replace("/v2", "/v3"), f"{REST}#/x", f"{begin}//..{end}"]
    paths += [f"{begin}/{name}{end}" for name in odd] + [f"{begin}/twilio/callback/{name}" for name in odd]
    paths += [f"{begin}/twilio/callback/{name}/v2" for name in odd]
    for path in paths:
        status = status_of(shipped.port, request_of("GET", f"/ws/pod/voice-agent-0{path}", UPGRADE.strip(), "Connection: close"))
        assert status in (400, 403, 404), path
    assert_no_pod_was_asked(shipped)


def test_a_detour_leads_to_no_pod(shipped):
    """Where nginx finds its way by the path without "..", the router gets it with them."""
    up = "/.." * 9
    for detour in (f"{up}/health", f"{up}/api/v1/twilio/allocate", "/../../../ready", f"{up}/ws/pod/voice-agent-1/admin", f"{up}/x"):
        for path in (f"/ws/pod/voice-agent-0{REST}{detour}", f"/ws/pod/voice-agent-0{detour}", f"//ws/pod/voice-agent-0{REST}"):
            assert status_of(shipped.port, request_of("GET", path, UPGRADE.strip(), "Connection: close")) in (400, 403, 404, 426), path
    assert_no_pod_was_asked(shipped)


def test_a_detour_leads_to_no_pod_for_operators_either(world):
    world.place("CA1")
    world.place("CA2")
    for path in ("/ws/pod/voice-agent-0/../../../health", "/ws/pod/voice-agent-0/../../../api/v1/status"):
        assert status_of(world.port, request_of("GET", path, UPGRADE.strip(), "Connection: close")) == 426, path
    assert_no_pod_was_asked(world)


def test_the_longest_paths_are_read_as_well(shipped):
    for part in ("/a", "%41", "a", "%41/", "..", "//"):
        for begin in ("/ws/pod/voice-agent-0", f"/ws/pod/voice-agent-0/{'A' * 80}", "/x"):
            path = begin + "/" + part * (8000 // len(part))
            assert status_of(shipped.port, request_of("GET", path, UPGRADE.strip(), "Connection: close")) in (400, 403, 404)
    assert_no_pod_was_asked(shipped)
    shipped.nginx.close()
    assert shipped.nginx.error_log.read_text() == ""


def test_what_the_template_makes_of_names_reaches_the_pod(shipped):
    for number, rest in enumerate((REST, REST.removesuffix("/v2"), f"{REST}?a=/../b", REST.replace("order-", "my%20%C3%A4order."))):
        with shipped.open(f"/ws/pod/voice-agent-0{rest}") as stream:
            assert stream.echoes()
        assert shipped.agents["voice-agent-0"].heads[number].path == rest


def test_as_it_ships_the_router_checks_tickets(start_world):
    world = start_world("nginx", agents=1, env={"GATEWAY_SECRET": "the secret of the tests"}, nginx=SHIPPED)
    pod, path = world.place("CA1")
    ticket = path.split("/")[4]
    with world.open(path) as stream:
        assert stream.echoes()
    assert [head.path for head in world.agents[pod].heads] == [REST]
    assert world.refusal(f"/ws/pod/{pod}{REST}") == 403
    assert world.refusal(path.replace(ticket, ticket[:-4] + "AAAA")) == 403
    assert world.refusal(f"/ws/pod/{pod}/{ticket}/admin/shutdown") == 404
    assert len(world.agents[pod].heads) == 1


TICKET = "A" * 80  # none that the router has made


def test_the_stream_of_a_caller_who_waits_goes_to_the_router(shipped):
    """Also where streams go to the pods: only the router can hold a caller."""
    close = (UPGRADE.strip(), "Connection: close")
    answer = raw(shipped.port, request_of("GET", f"/ws/hold/{TICKET}{REST}", *close)).lower()
    assert b"x-request-id:" in answer and b" 101 " not in answer.split(b"\r\n")[0], "the router has refused it"
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert status_of(shipped.port, request_of(method, f"/ws/hold/{TICKET}{REST}", *close, "Content-Length: 0")) == 405
    assert status_of(shipped.port, request_of("GET", f"/ws/hold/{TICKET}{REST}", "Connection: close")) == 426
    odd = ("", "/", "/admin", REST + "/..", f"/..{REST}", f"/x{REST}", REST.replace("/v2", "%2fv2"), f"{REST}/../../../../../../../health")
    for path in [f"/ws/hold/{TICKET}{rest}" for rest in odd] + [f"/ws/hold{REST}", f"/ws/hold/short{REST}", f"/ws/hold/{TICKET}"]:
        answer = raw(shipped.port, request_of("GET", path, *close))
        assert b"x-request-id:" not in answer.lower() and int(answer.split(b" ")[1]) in (400, 403, 404, 426), path
    shipped.nginx.close()
    access = shipped.nginx.access_log.read_text()
    assert f'"GET /ws/hold/[ticket]{REST} HTTP/1.1"' in access and TICKET not in access
    assert_no_pod_was_asked(shipped)


def test_what_a_provider_asks_when_a_stream_has_ended_reaches_the_router(shipped):
    for provider in ("twilio", "plivo", "exotel"):
        for method in ("GET", "POST"):
            request = request_of(method, f"/api/v1/{provider}/after?pod=a&CallSid=CA9", "Content-Length: 0", "Connection: close")
            assert b"x-request-id:" in raw(shipped.port, request).lower(), (provider, method)


def test_webhooks_have_two_methods(shipped):
    for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND"):
        for path in ("/api/v1/twilio/allocate?CallSid=CA9", "/api/v1/plivo/status", "/api/v1/exotel/allocate/"):
            request = request_of(method, path, "Content-Length: 0", "Connection: close")
            assert status_of(shipped.port, request) == 403, (method, path)


def test_only_the_very_path_of_a_webhook_is_for_everybody(shipped):
    paths = ("/x/../api/v1/twilio/allocate", "/api/v1/status/../twilio/allocate", "/api/v1/%74wilio/allocate")
    paths += ("/api//v1/twilio/allocate", "/api/v1/twilio/allocate/../../status", "/api/v1/twilio/allocate/x")
    for path in (*paths, "/api/v1/twilio/allocate%3fx"):
        assert status_of(shipped.port, request_of("GET", path, "Connection: close")) == 403, path


# ----- Who asks -----


def test_behind_a_balancer_only_operators_are_operators(start_world):
    """127.0.0.1 is the load balancer. It appends the address that it sees to what the client said."""
    nginx = {"is_any_path": False, "operators": ("198.51.100.0/28",), "more": BEHIND_A_BALANCER}
    world = start_world("nginx", agents=1, nginx=nginx)
    ask_for = lambda said: status_of(world.port, request_of("GET", "/api/v1/status", *said, "Connection: close"))
    assert ask_for(["X-Forwarded-For: 198.51.100.3"]) == 200, "the operator"
    assert ask_for([]) == 403, "the balancer itself"
    assert ask_for(["X-Forwarded-For: 203.0.113.9"]) == 403, "a stranger"
    assert ask_for(["X-Forwarded-For: 198.51.100.3, 203.0.113.9"]) == 403, "a stranger who says that it is an operator"
    assert ask_for(["X-Forwarded-For: 198.51.100.3", "X-Forwarded-For: 203.0.113.9"]) == 403, "the same in two headers"
    assert ask_for(["X-Real-IP: 198.51.100.3", "Forwarded: for=198.51.100.3"]) == 403, "other headers say nothing"


def test_who_is_no_balancer_is_not_believed(start_world):
    world = start_world("nginx", agents=1, nginx={"is_any_path": False, "operators": ("198.51.100.0/28",)})
    for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP"):
        assert status_of(world.port, request_of("GET", "/api/v1/status", f"{header}: 198.51.100.3", "Connection: close")) == 403


@pytest.mark.parametrize("front", ("nginx", "nginx-dns"))
def test_what_a_client_says_of_its_address_goes_no_further(start_world, front):
    world = start_world(front, agents=1, env={"TRUSTED_PROXIES": "127.0.0.1"}, nginx=SHIPPED)
    pod, path = world.place("CA1")
    said = [("X-Forwarded-For", "198.51.100.3"), ("X-Real-IP", "198.51.100.3"), ("Forwarded", "for=198.51.100.3")]
    with world.open(path, headers=said) as stream:
        assert stream.echoes()
    assert b"198.51.100.3" not in world.agents[pod].heads[-1].data


# ----- What is written down -----


@pytest.mark.parametrize("front", ("nginx", "nginx-dns"))
def test_the_logs_have_no_ticket_and_no_token(start_world, front):
    """Whatever succeeds or fails. nginx's own error log repeats whole requests, which is why it is off for them."""
    env = {"EXOTEL_TOKEN": "the-token-of-exotel", "GATEWAY_SECRET": "the secret of the tests", "GATEWAY_RELEASE_GRACE": "60s"}
    more = {"error.log crit;": "error.log error;"}  # some of what fails is critical, on machines with other networks
    world = start_world(front, agents=2, env=env, nginx={"is_any_path": front == "nginx-dns", "more": more})
    pod, path = world.place("CA" + "0123456789abcdef" * 2)
    ticket = path.split("/")[4]
    assert len(ticket) > 70

    def everything():
        """All that can be sent with a ticket or a token, in a form that nobody has thought of, too."""
        secret = f"/api/v1/exotel/allocate?CallSid=CA2&token={env['EXOTEL_TOKEN']}"
        close = ("Connection: close", f"Referer: https://{HOST}{path}", f"Referer: https://{HOST}{secret}")
        escaped = path.replace(ticket[0], f"%{ord(ticket[0]):02x}")
        odd = ("/prefix" + path, path.replace("/ws/", "/%77s/"), path.replace("/pod/", "/pod//"), escaped, path.replace("/", "%2f")[3:])
        odd += ("/" + path, f"{path}/../x", f"/ws/pod/{ticket}/x", f"/ws/{ticket}", f"/{ticket}", f"/ws/pod/{pod}/x/{ticket}/y", f"*{path}")
        for sent in (path, f"{path}?{ticket}", f"{path}#{ticket}", secret, f"{secret}&x=" + "y" * 9000, f"http://{HOST}{path}", *odd):
            for method in ("GET", "POST"):
                raw(world.port, request_of(method, sent, *close))
                raw(world.port, request_of(method, sent, "Content-Length: 900000", *close), is_hasty=True)
            raw(world.port, request_of("GET", sent, *close).replace(HOST, "other.example.com"))
            raw(world.port, request_of("GET", sent, "bad header\x01", "Content-Length: x", *close))
            raw(world.port, request_of("GET", sent, *close).replace("HTTP/1.1", "HTTP/9.9"))
            raw(world.port, f"GET {sent}\r\n\r\n")

    with world.open(path) as stream:
        assert stream.echoes()
        everything()
    with world.open(path) as stream:
        assert stream.echoes()
        world.agents[pod].open_peers[-1].sock.shutdown(socket.SHUT_RDWR)  # in the middle of a stream
        assert stream.is_closed_by_other()
    for agent in world.agents.values():
        agent.refusal = b"this is not HTTP\r\n\r\n"
    world.connect(path).close()
    for agent in world.agents.values():
        agent.stop()
    world.connect(path).close()
    world.router.kill()
    everything()
    world.connect(path).close()
    world.nginx.close()
    access, errors = world.nginx.access_log.read_text(), world.nginx.error_log.read_text()
    assert re.search(rf'"GET /ws/pod/{pod}/\[ticket\]{REST} HTTP/1.1" 502 .* upstream="127.0.0.\d:\d+', access), "the failure is shown"
    assert '"GET /api/v1/exotel/allocate HTTP/1.1" 200' in access
    for text in (access, errors):
        assert ticket[:20] not in text and ticket[-20:] not in text
        assert env["EXOTEL_TOKEN"] not in text
    assert errors == ""


def test_the_settings_stand_at_the_top_and_nowhere_else():
    """What an operator has to adapt is all before the mark; nothing after it names a place, a time or a host."""
    _, mark, rest = streams.SHIPPED.read_text().partition("# ----- End of the settings")
    assert mark
    for word in ("cluster.local", "example.com", "listen ", "timeout", "resolver", "server smart", ":80"):
        assert word not in rest, word
