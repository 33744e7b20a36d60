"""What the gateway keeps out: paths that were not signed, too many streams of one call, addresses that lead inside, answers of
whatever stands at them, and headers in which strangers claim to be somebody."""

import contextlib
import socket
import threading
import time

import pytest
from conftest import wait_until
from streams import Agent, Closed, Stream

SECRET = "the-first-secret-is-long-enough"
LONG = "1h"
REST = "/agent/voice/breeze-buddy/twilio/callback/order-confirmation/v2"


def metric(router, name, **labels):
    """The value of one series; 0 while nothing was counted."""
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    name = f"smart_router_gateway_{name}" + (f"{{{inside}}}" if labels else "")
    return sum(float(line.split()[1]) for line in router.get("/metrics").text.splitlines() if line.split()[0] == name)


def refusals(router, reason):
    return metric(router, "refusals_total", reason=reason)


def log_of(router, msg, **fields):
    """The lines of one event that have these fields. Lines are written at the end of a turn of the loop, behind the answer:
    another request is answered in a later turn."""
    router.client.get("/health")
    return [line for line in router.log_lines(msg) if all(line.get(key) == value for key, value in fields.items())]


@contextlib.contextmanager
def listener():
    """Accepts whatever the kernel accepts, and says nothing."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(16)
        sock.settimeout(60)
        yield sock


API = {"POD_SOURCE": "api", "STATIC_PODS": ""}


@pytest.fixture
def router(start_router):
    return start_router(API)


def register(router, address, pod="box", **kwargs):
    return router.post("/api/v1/pods", {"pod_name": pod, "address": address}, **kwargs)


def path_of(router, call_sid):
    url = router.allocate(call_sid)["ws_url"]
    return url[url.index("/", url.index("://") + 3) :]


# ----- One ticket, one path -----


def test_a_ticket_opens_the_path_that_it_was_made_for_and_no_other(start_world):
    world = start_world(env={"GATEWAY_SECRET": SECRET, "GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1")
    assert path.endswith(REST)
    for rest in ("/admin/shutdown", "", "/", REST + "/", REST + "x", REST[:-1], REST.replace("/v2", "/%762"), "/." + REST, REST.upper()):
        assert world.refusal(path.removesuffix(REST) + rest) == 403, rest
    assert world.agents[pod].heads == []
    with world.open(path + "?added=by-the-provider") as stream:  # queries are not signed: providers drop and add them
        assert stream.echoes()


def test_a_path_is_signed_as_it_stands_in_the_url(start_world):
    world = start_world(env={"GATEWAY_SECRET": SECRET, "WS_URL_TEMPLATE": "{base}/ws/pod/{pod}/{template}/{call_sid}?m={merchant}"})
    pod, path = world.place("CA:1@x", template="a b/c%2F", merchant_id="m1")
    assert path.endswith("/a%20b%2Fc%252F/CA%3A1%40x?m=m1")
    with world.open(path) as stream:
        assert stream.echoes()
    assert world.agents[pod].heads[-1].path == "/a%20b%2Fc%252F/CA%3A1%40x?m=m1"
    assert world.refusal(path.replace("%2F", "/")) == 403


def test_a_template_that_ends_with_its_ticket_asks_the_pod_for_its_root(start_world):
    world = start_world(env={"GATEWAY_SECRET": SECRET, "WS_URL_TEMPLATE": "{base}/ws/pod/{pod}/{ticket}"})
    pod, path = world.place("CA1")
    with world.open(path) as stream:
        assert stream.echoes()
    assert world.agents[pod].heads[-1].path == "/"
    assert world.refusal(path + "/admin") == 403


def test_tickets_are_in_no_line_of_the_log_whatever_is_wrong_with_the_request(start_world):
    world = start_world(env={"GATEWAY_SECRET": SECRET, "LOG_LEVEL": "debug"})
    _, path = world.place("CA1")
    ticket = path.split("/")[4]
    assert world.refusal(path + "/more") == 403
    assert world.refusal(path, upgrade=False) == 426
    assert world.refusal(path, headers=[("Content-Length", "1")], early=b"x") == 400
    for method in ("POST", "DELETE", "OPTIONS"):
        assert world.router.request(method, path).status_code in (404, 405)
    assert world.router.get(path.replace("/ws/pod/", "/ws/pot/")).status_code == 404
    assert ticket[:40] not in world.router.log()


# ----- So many streams of one call -----


@pytest.mark.parametrize("secret", ["", SECRET])
def test_a_call_has_two_streams_at_once_and_no_third(start_world, secret):
    world = start_world(env={"GATEWAY_SECRET": secret, "GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1")
    _, other = world.place("CA2")
    with world.open(path) as first:
        with world.open(path) as second:
            for _ in range(5):
                with world.connect(path) as third:
                    assert third.status == 429
                    assert b"too many connections" in third.body()
            assert first.echoes() and second.echoes()
            with world.open(other) as stream:  # somebody else's room is their own
                assert stream.echoes()
            assert len(world.agents[pod].heads) == 2
            assert refusals(world.router, "call_full") == 5
            assert len(log_of(world.router, "connection refused", reason="call_full", call_sid="CA1", status=429)) == 5
        wait_until(lambda: metric(world.router, "connections") == 1, "one is closed")
        with world.open(path) as again:
            assert again.echoes() and first.echoes()


def test_streams_that_are_being_opened_count(start_router):
    with listener() as silent:
        env = {"STATIC_PODS": f"box=127.0.0.1:{silent.getsockname()[1]}", "GATEWAY_STREAMS_PER_CALL": "3"}
        router = start_router({**env, "GATEWAY_SECRET": SECRET, "GATEWAY_CONNECT_TIMEOUT": "10s"})
        path = path_of(router, "CA1")
        waiting = []

        def wait_for_an_answer():
            with contextlib.suppress(Closed, OSError):
                waiting.append(Stream(router.port, path))

        threads = [threading.Thread(target=wait_for_an_answer, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        accepted = [silent.accept()[0] for _ in threads]
        with Stream(router.port, path) as one_more:
            assert one_more.status == 429
        assert waiting == []
        for sock in accepted:
            sock.close()


def test_a_stream_whose_client_is_silent_makes_room_and_one_that_speaks_does_not(start_world):
    """A provider that comes back while both of its old connections hang: nobody has noticed that they are dead."""
    world = start_world(env={"GATEWAY_SECRET": SECRET, "GATEWAY_RELEASE_GRACE": LONG})
    _, path = world.place("CA1")
    with world.open(path) as silent, world.open(path) as speaking:

        def opens():
            assert speaking.echoes()
            with world.connect(path) as third:
                assert third.status in (101, 429)
                return third.status == 101 and third.echoes()

        wait_until(opens, "the silent one makes room")
        with pytest.raises(Closed):
            silent.receive()
        assert speaking.echoes()
        assert len(log_of(world.router, "connection closed", reason="replaced", call_sid="CA1")) == 1
        assert refusals(world.router, "call_full") > 0
    assert world.call("CA1")


def test_without_tickets_nobody_is_pushed_out(start_world):
    """Anybody who knows the pod's name could be the third: the silent caller stays."""
    world = start_world(env={"GATEWAY_RELEASE_GRACE": LONG})
    _, path = world.place("CA1")
    with world.open(path) as silent, world.open(path) as other:
        time.sleep(6)  # longer than GATEWAY_SILENCE_MS
        assert world.refusal(path) == 429
        assert silent.echoes() and other.echoes()


def test_a_silent_stream_stays_until_the_pod_has_agreed_to_the_new_one(start_world):
    world = start_world(env={"GATEWAY_SECRET": SECRET, "GATEWAY_RELEASE_GRACE": LONG})
    pod, path = world.place("CA1")
    with world.open(path) as one, world.open(path) as other:
        time.sleep(6)  # longer than GATEWAY_SILENCE_MS
        world.agents[pod].refusal = b"HTTP/1.1 500 no\r\nContent-Length: 0\r\n\r\n"
        assert world.refusal(path) == 502
        assert one.echoes() and other.echoes()


def test_a_client_that_did_not_wait_does_not_stand_in_its_own_way(start_router):
    """It connects, gives up before the pod has answered, and comes again: each time the pod is asked."""
    with listener() as silent:
        env = {"STATIC_PODS": f"box=127.0.0.1:{silent.getsockname()[1]}", "GATEWAY_SECRET": SECRET, "GATEWAY_CONNECT_TIMEOUT": "10s"}
        router = start_router(env)
        path = path_of(router, "CA1")
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n"
        asked = []
        for _ in range(6):
            with socket.create_connection(("127.0.0.1", router.port), timeout=60) as client:
                client.sendall(head.encode())
                asked.append(silent.accept()[0])
        for sock in asked:
            sock.close()


# ----- Where a pod may be -----

INSIDE = [
    ("169.254.169.254:80", "link-local"),
    ("169.254.0.1", "link-local"),
    ("[fe80::1]:80", "link-local"),
    ("[fe80::1%lo]:80", "link-local"),
    ("[::ffff:169.254.169.254]:80", "link-local"),
    ("[::169.254.169.254]:80", "link-local"),
    ("[64:ff9b::a9fe:a9fe]:80", "link-local"),
    ("0.0.0.0:80", "unspecified"),
    ("0.1.2.3", "unspecified"),
    ("[::]:80", "unspecified"),
    ("[::ffff:0.0.0.0]:80", "unspecified"),
    ("224.0.0.1:80", "multicast"),
    ("239.255.255.255:80", "multicast"),
    ("[ff02::1]:80", "multicast"),
    ("[64:ff9b::224.0.0.1]:80", "multicast"),
    ("255.255.255.255:80", "broadcast"),
]
LOOPBACK = ["127.0.0.1:80", "127.9.9.9", "[::1]:80", "[::ffff:127.0.0.1]:80", "[64:ff9b::7f00:1]:80", "localhost:80", "LocalHost.", "a.localhost"]


def assert_refused(answer, address, word):
    assert answer.status_code == 400, (address, answer.text)
    assert address in answer.json()["error"] and word in answer.json()["error"], answer.text


def test_a_pod_cannot_register_an_address_that_leads_inside(router):
    for address, word in INSIDE:
        assert_refused(register(router, address), address, word)
    assert router.get("/api/v1/pods").json()["total"] == 0
    for address in ("10.0.0.7:8000", "[fd00::7]:8000", "192.0.2.7", "not-yet.example.com:8000", "[64:ff9b::10.0.0.7]:80"):
        assert register(router, address).status_code == 200, address


@pytest.mark.parametrize("trusted", ["", "127.0.0.0/8,10.0.0.0/8"])
def test_loopback_is_for_those_who_come_from_there_themselves(start_router, trusted):
    """A stranger behind a proxy on this machine is a stranger, whatever the stranger or the proxy says."""
    router = start_router({**API, "TRUSTED_PROXIES": trusted})
    for header in ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Via", "X-Forwarded-Proto", "True-Client-IP", "X_Real_IP"):
        for value in ("203.0.113.9", "127.0.0.1", "127.0.0.1, 10.0.0.5"):
            assert_refused(register(router, LOOPBACK[0], headers={header: value}), LOOPBACK[0], "loopback")
    for address in LOOPBACK:
        assert_refused(register(router, address, headers={"Via": "1.1 proxy"}), address, "loopback")
        assert register(router, address).status_code == 200, address


def test_the_allowed_blocks_are_the_only_ones_and_may_name_what_is_refused_otherwise(start_router):
    router = start_router({**API, "POD_ADDRESS_ALLOW": "10.1.0.0/16, fd00::/8, 169.254.7.0/24, 127.0.0.1"})
    for address in ("10.1.2.3:80", "[fd00::1]:80", "169.254.7.9", "127.0.0.1:80", "some.name:80"):
        assert register(router, address, headers={"Via": "1.1 x"}).status_code == 200, address
    for address in ("10.2.0.1:80", "192.0.2.1", "169.254.169.254", "127.0.0.2:80", "[::1]:80", "[fe80::1]:80"):
        assert_refused(register(router, address), address, "POD_ADDRESS_ALLOW")


def test_a_block_of_everything_does_not_name_what_leads_inside(start_router):
    router = start_router({**API, "POD_ADDRESS_ALLOW": "0.0.0.0/0,::/0"})
    for address in ("169.254.169.254:80", "[fe80::1]:80", "0.0.0.0:1", "[ff02::1]:80"):
        assert register(router, address).status_code == 400, address
    assert register(router, "127.0.0.1:80").status_code == 200
    assert register(router, "127.0.0.1:80", headers={"Via": "1.1 x"}).status_code == 400


@pytest.mark.parametrize("store", ["embedded", "redis"])
def test_a_name_is_looked_at_again_each_time_it_was_resolved(request, start_router, store):
    """Names that the resolver reads without asking anybody: they stand for those of an attacker's name server."""
    env = {**API, "GATEWAY_CONNECT_TIMEOUT": "5s"}
    if store == "redis":
        env.update(REDIS_URL=request.getfixturevalue("redis_server").url, LEADER_ELECTION_ENABLED="false")
    router = start_router(env)
    hosts = ("127.1", "0x7f000001", "2130706433", "0", "169.254.43518")
    with listener() as inside:
        for number, host in enumerate(hosts, 1):
            assert register(router, f"{host}:{inside.getsockname()[1]}", f"box-{number}").status_code == 200
            with Stream(router.port, path_of(router, f"CA{number}")) as stream:
                assert stream.status == 503, host
                assert b"cannot be reached" in stream.body()
            assert metric(router, "connect_failures_total", reason="forbidden") == number
            assert log_of(router, "a pod cannot be reached: its address is not allowed", pod=f"box-{number}")
            assert router.delete(f"/api/v1/pod/box-{number}").status_code == 200
        inside.settimeout(0.2)
        with pytest.raises(TimeoutError):
            inside.accept()


def test_an_address_that_got_into_the_store_in_another_way_is_refused_when_it_is_used(redis_server, start_router):
    """As a router of an older version would have written it, or one with another POD_ADDRESS_ALLOW."""
    router = start_router({**API, "REDIS_URL": redis_server.url, "LEADER_ELECTION_ENABLED": "false"})
    assert register(router, "10.9.9.9:80").status_code == 200
    path = path_of(router, "CA1")
    client = redis_server.client()
    record = client.hget("voice:pods", "box")
    client.hset("voice:pods", "box", record.replace("10.9.9.9", "169.254.169.254"))
    with Stream(router.port, path) as stream:
        assert stream.status == 503
    assert metric(router, "connect_failures_total", reason="forbidden") == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_who_registers_from_loopback_is_reached_there(router, host):
    agent = Agent()
    try:
        assert register(router, f"{host}:{agent.port}").status_code == 200
        with Stream(router.port, path_of(router, "CA1")) as stream:
            assert stream.status == 101 and stream.echoes()
    finally:
        agent.close()


def test_the_operators_own_pods_are_where_the_operator_says(start_router):
    agent = Agent()
    try:
        router = start_router({"STATIC_PODS": f"box=127.1:{agent.port}", "POD_ADDRESS_ALLOW": "10.0.0.0/8"})
        with Stream(router.port, path_of(router, "CA1")) as stream:
            assert stream.status == 101 and stream.echoes()
    finally:
        agent.close()


# ----- What stands there -----

ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nX-Inside: yes\r\n\r\nthe password",
    b"HTTP/1.1 302 Found\r\nLocation: http://inside/the password\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 401 the password\r\nTransfer-Encoding: chunked\r\n\r\nc\r\nthe password\r\n0\r\n\r\n",
    b"HTTP/1.0 500 No\r\nSet-Cookie: a=the password\r\n\r\nthe password",
    b"-ERR the password\r\n\r\n",
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_a_pod_says_instead_of_yes_stays_between_it_and_the_router(start_world, answer):
    world = start_world(agents=1)
    pod, path = world.place("CA1")
    world.agents[pod].refusal = answer
    with world.connect(path) as stream:
        assert stream.head.first == "HTTP/1.1 502 Bad Gateway"
        body = stream.body()
        assert b"the pod did not accept the connection" in body
        for said in (stream.head.data.lower(), body.lower()):
            assert not any(word in said for word in (b"password", b"inside", b"location", b"cookie", b"-err"))
    assert world.call("CA1")["pod_name"] == pod


def test_the_log_has_what_the_pod_said_and_not_too_much_of_it(start_world):
    world = start_world(agents=1)
    pod, path = world.place("CA1")
    world.agents[pod].refusal = b"HTTP/1.1 403 No such " + b"y" * 4000 + b"\r\n\r\n"
    assert world.refusal(path) == 502
    (line,) = log_of(world.router, "connection refused", reason="refused_by_pod")
    assert line["pod_answer"].startswith("403 No such yyy") and len(line["pod_answer"]) < 80
    assert refusals(world.router, "refused_by_pod") == 1


# ----- Who the client is -----

CLAIMS = (
    "X-Real-IP,Forwarded,X-Forwarded-Port,X-Forwarded-Server,X-Forwarded-Prefix,X-Forwarded-Client-Cert,True-Client-IP,CF-Connecting-IP,"
    "X-Client-IP,X-Cluster-Client-IP,X-Original-Forwarded-For,X-Original-URL,X-Envoy-External-Address,Fastly-Client-IP,X_Real_IP,x-forwarded_for"
).split(",")
OURS = ["X-Call-Sid", "X-Merchant-Id", "X-Call-Resumed", "x_call_sid", "X_Merchant-Id"]


@pytest.mark.parametrize("is_trusted", [True, False])
def test_a_stranger_cannot_tell_the_pod_who_the_client_is(start_world, is_trusted):
    world = start_world(agents=1, env={"TRUSTED_PROXIES": "127.0.0.1" if is_trusted else "203.0.113.0/24"})
    pod, path = world.place("CA1")
    headers = [(name, "10.0.0.1") for name in CLAIMS + OURS] + [("X-Custom", "stays"), ("X-Forwarded-For", "203.0.113.9")]
    with world.open(path, headers=headers) as stream:
        assert stream.echoes()
    head = world.agents[pod].heads[-1]
    assert head.get("x-custom") == "stays"
    assert head.get("x-forwarded-for") == ("203.0.113.9, 127.0.0.1" if is_trusted else "127.0.0.1")
    assert (head.get("x-call-sid"), head.get("x-request-id") is None) == ("CA1", False)
    for name in OURS[1:]:
        assert head.get(name) is None, name
    for name in CLAIMS:
        assert head.get(name) == ("10.0.0.1" if is_trusted and "_" not in name else None), name


TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize("has_redis", [False, True], ids=["embedded", "redis"])
def test_the_pod_learns_the_call_its_merchant_and_the_trace(start_world, redis_server, has_redis):
    world = start_world(agents=1, env={"REDIS_URL": redis_server.url} if has_redis else None)
    pod, path = world.place("CA1", merchant_id="shop:1")
    told = [("traceparent", TRACE), ("tracestate", "a=1"), ("X-Request-Id", "r-1"), ("X-Merchant-Id", "other")]
    with world.open(path, headers=told) as stream:
        assert stream.echoes()
    head = world.agents[pod].heads[-1]
    names = ("x-call-sid", "x-merchant-id", "x-request-id", "traceparent", "tracestate")
    assert [head.get(name) for name in names] == ["CA1", "shop:1", "r-1", TRACE, "a=1"]
    with world.open(path, headers=[("traceparent", TRACE), ("traceparent", TRACE), ("tracestate", "a=1")]) as stream:
        assert stream.echoes()
    head = world.agents[pod].heads[-1]
    assert head.get("traceparent") is None and head.get("tracestate") is None
    assert len(head.get("x-request-id")) > 8 and head.get("x-request-id") != "r-1", "made"
