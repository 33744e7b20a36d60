"""The gateway with Debian's websockets on both sides: one call, from its URL to its release."""

import asyncio
import contextlib
import http
import random
import socket
import threading

import pytest
import websockets
from conftest import wait_until

SECRET = "correct-horse-battery-staple"


class Agent:
    """A voice agent that echoes; remembers what it was asked."""

    def __init__(self):
        self.requests = []
        self.server = None

    async def __aenter__(self):
        self.server = await websockets.serve(self.talk, "127.0.0.1", 0, process_request=self.look)
        return self

    async def __aexit__(self, *_):
        self.server.close()
        await self.server.wait_closed()

    @property
    def address(self):
        return "127.0.0.1:%d" % self.server.sockets[0].getsockname()[1]

    async def look(self, path, headers):
        self.requests.append((path, headers))
        if "refuse" in path:
            return http.HTTPStatus.IM_A_TEAPOT, [("X-Why", "tea")], b"short and stout"
        return None

    async def talk(self, socket_):
        async for message in socket_:
            await socket_.send(message)


def free_address():
    """An address where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return "127.0.0.1:%d" % sock.getsockname()[1]


def environment(pods, **more):
    tiers = '{"tiers":{"gold":{"type":"exclusive","target":9}},"default_chain":["gold"]}'
    env = {"STATIC_PODS": pods, "TIER_CONFIG": tiers, "GATEWAY_RELEASE_GRACE": "100ms"}
    env.update(more)
    return env


async def in_thread(function, *args):
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


async def connect(router, url, **more):
    path = url.split("/ws/pod/", 1)[1]
    return await websockets.connect(f"ws://127.0.0.1:{router.port}/ws/pod/{path}", open_timeout=60, **more)


@contextlib.asynccontextmanager
async def call_through(start_router, agents=1, before=(), **env):
    async with contextlib.AsyncExitStack() as stack:
        running = [await stack.enter_async_context(Agent()) for _ in range(agents)]
        pods = [f"agent-{i}={address}" for i, address in enumerate(list(before) + [a.address for a in running])]
        router = await in_thread(start_router, environment(",".join(pods), **env))
        yield router, running


async def echo(connection, message):
    await connection.send(message)
    assert await asyncio.wait_for(connection.recv(), 60) == message


async def gone(router, call_sid):
    await in_thread(
        wait_until, lambda: router.get(f"/api/v1/call/{call_sid}").status_code == 404, f"{call_sid} is released"
    )


@pytest.mark.parametrize("secret", ["", SECRET], ids=["open", "with tickets"])
def test_a_call_is_carried_to_its_pod_and_released_after_it_closed(start_router, secret):
    async def run():
        async with call_through(start_router, GATEWAY_SECRET=secret or None) as (router, (agent,)):
            url = router.allocate("CA1")["ws_url"]
            connection = await connect(router, url + "?x=1", extra_headers={"X-Custom": "yes", "X-Request-Id": "r-1"})
            await echo(connection, "hello")
            await echo(connection, b"\x00" * 200_000)
            path, headers = agent.requests[0]
            assert path == "/agent/voice/breeze-buddy/twilio/callback/order-confirmation/v2?x=1"
            assert headers["X-Forwarded-For"] == "127.0.0.1"
            assert headers["X-Forwarded-Proto"] == "http"
            assert headers["X-Forwarded-Host"] == f"127.0.0.1:{router.port}"
            assert headers["X-Request-Id"] == "r-1"
            assert headers["X-Custom"] == "yes"
            assert router.get("/api/v1/call/CA1").status_code == 200
            assert "smart_router_gateway_connections 1" in router.get("/metrics").text
            await connection.close()
            await gone(router, "CA1")
            metrics = router.get("/metrics").text
            assert "smart_router_gateway_connections 0" in metrics
            assert 'smart_router_releases_total{pool="pool:gold",status="success",tier="gold"} 1' in metrics

    asyncio.run(run())


def test_two_connections_of_a_call_count_as_one(start_router):
    async def run():
        async with call_through(start_router, GATEWAY_RELEASE_GRACE="0s") as (router, _):
            url = router.allocate("CA1")["ws_url"]
            first = await connect(router, url)
            second = await connect(router, url)
            await first.close()
            await in_thread(wait_until, lambda: router.log_lines("connection closed"), "the first has closed")
            await echo(second, "still there")
            assert router.get("/api/v1/call/CA1").status_code == 200
            await second.close()
            await gone(router, "CA1")

    asyncio.run(run())


def test_a_call_that_comes_back_in_time_keeps_its_pod(start_router):
    async def run():
        async with call_through(start_router, GATEWAY_RELEASE_GRACE="1h") as (router, _):
            url = router.allocate("CA1")["ws_url"]
            await (await connect(router, url)).close()
            await in_thread(wait_until, lambda: router.log_lines("connection closed"), "it has closed")
            again = await connect(router, url)
            await echo(again, "back")
            assert router.get("/api/v1/call/CA1").status_code == 200
            await again.close()

    asyncio.run(run())


def test_a_call_moves_when_its_pod_cannot_be_reached(start_router):
    async def run():
        dead = free_address()
        async with call_through(start_router, before=[dead], GATEWAY_SECRET=SECRET) as (router, (agent,)):
            router.post("/api/v1/drain", {"pod_name": "agent-1"})
            allocated = router.allocate("CA1")
            assert allocated["pod_name"] == "agent-0"
            router.post("/api/v1/undrain", {"pod_name": "agent-1"})
            connection = await connect(router, allocated["ws_url"])
            await echo(connection, "hello")
            assert router.get("/api/v1/call/CA1").json()["pod_name"] == "agent-1"
            assert router.get("/api/v1/pod/agent-0").json()["is_draining"]
            assert 'smart_router_gateway_moves_total{outcome="moved"} 1' in router.get("/metrics").text
            # The URL of the first pod still leads to the call.
            again = await connect(router, allocated["ws_url"])
            await echo(again, "hello again")
            await connection.close()
            await again.close()
            await gone(router, "CA1")

    asyncio.run(run())


def refusal_of(router, path, headers=None):
    wanted = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    return router.get(path, headers=wanted if headers is None else headers)


def test_what_is_refused_says_why(start_router):
    async def run():
        async with call_through(start_router) as (router, _):
            get = lambda path, **more: refusal_of(router, path, **more)
            assert get("/ws/pod/nobody/x").status_code == 404
            assert get("/ws/pod/agent-0/x").status_code == 409
            assert get("/ws/pod/agent-0/x", headers={}).status_code == 426
            router.post("/api/v1/drain", {"pod_name": "agent-0"})
            answer = get("/ws/pod/agent-0/x")
            assert answer.status_code == 503
            assert answer.json()["success"] is False
            router.post("/api/v1/undrain", {"pod_name": "agent-0"})
            router.allocate("CA1")
            answer = await in_thread(get, "/ws/pod/agent-0/refuse")
            assert answer.status_code == 502 and "X-Why" not in answer.headers
            assert answer.json()["error"] == "the pod did not accept the connection"
            assert 'smart_router_gateway_refusals_total{reason="unknown_pod"} 1' in router.get("/metrics").text

    asyncio.run(run())


def test_without_a_valid_ticket_nothing_is_opened(start_router):
    async def run():
        async with call_through(start_router, GATEWAY_SECRET=SECRET) as (router, (agent,)):
            path = "/ws/pod/" + router.allocate("CA1")["ws_url"].split("/ws/pod/", 1)[1]
            pod, ticket, rest = path[len("/ws/pod/") :].split("/", 2)
            changed = ticket[:20] + ("A" if ticket[20] != "A" else "B") + ticket[21:]
            for wrong in (f"{pod}/{rest}", f"{pod}/{changed}/{rest}", f"other-pod/{ticket}/{rest}", pod):
                assert refusal_of(router, f"/ws/pod/{wrong}").status_code == 403
            router.release("CA1")
            assert refusal_of(router, path).status_code == 409
            assert agent.requests == []

    asyncio.run(run())


def test_when_no_pod_can_be_reached_the_client_is_told(start_router):
    async def run():
        async with call_through(start_router, agents=0, before=[free_address()]) as (router, _):
            router.allocate("CA1")
            answer = await in_thread(refusal_of, router, "/ws/pod/agent-0/x")
            assert answer.status_code == 503
            assert "cannot be reached" in answer.json()["error"]

    asyncio.run(run())


def test_sigterm_lets_connections_finish(start_router):
    async def run():
        async with call_through(start_router) as (router, _):
            connection = await connect(router, router.allocate("CA1")["ws_url"])
            router.proc.terminate()
            await in_thread(wait_until, lambda: router.log_lines("stopping"), "the router is stopping")
            await echo(connection, "last words")
            await connection.close()
            assert await in_thread(router.proc.wait, 60) == 0

    asyncio.run(run())


def test_connections_that_do_not_finish_are_cut_on_sigterm(start_router):
    async def run():
        async with call_through(start_router, HTTP_SHUTDOWN_TIMEOUT="100ms") as (router, _):
            connection = await connect(router, router.allocate("CA1")["ws_url"])
            assert await in_thread(router.stop) == 0
            with pytest.raises(websockets.ConnectionClosed):
                await asyncio.wait_for(connection.recv(), 60)

    asyncio.run(run())


def test_a_call_that_comes_back_to_another_router_is_not_released(redis_server, start_router):
    async def run():
        async with Agent() as agent:
            env = environment(f"agent-0={agent.address}", REDIS_URL=redis_server.url, GATEWAY_SECRET=SECRET)
            env["GATEWAY_RELEASE_GRACE"] = "1s"
            left = await in_thread(start_router, env)
            right = await in_thread(start_router, env)
            url = left.allocate("CA1")["ws_url"]
            first = await connect(left, url)
            await echo(first, "left")
            first.transport.abort()  # a close frame would end the call
            second = await connect(right, url)
            await echo(second, "right")
            await in_thread(
                wait_until,
                lambda: left.log_lines("call not released: somebody else keeps it alive"),
                "the first router gives the call up",
            )
            assert left.get("/api/v1/call/CA1").status_code == 200
            await second.close()
            await gone(left, "CA1")

    asyncio.run(run())


def test_a_call_whose_close_the_store_did_not_hear_of_and_that_comes_back_elsewhere_is_not_released(redis_server, start_router):
    async def run():
        async with Agent() as agent:
            env = environment(f"agent-0={agent.address}", REDIS_URL=redis_server.url, GATEWAY_SECRET=SECRET)
            env.update(GATEWAY_RELEASE_GRACE="3s", REDIS_TIMEOUT="200ms")
            left = await in_thread(start_router, env)
            right = await in_thread(start_router, env)
            url = left.allocate("CA1")["ws_url"]
            unattended = left.get("/api/v1/call/CA1").json()["expires_at"]
            first = await connect(left, url)
            expiry = lambda: left.get("/api/v1/call/CA1").json()["expires_at"]
            await in_thread(wait_until, lambda: expiry() != unattended, "the first router has renewed the lease")
            with redis_server.paused():
                first.transport.abort()  # a close frame would end the call
                await in_thread(wait_until, lambda: left.get("/ready").status_code == 503, "the first router has noticed")
            await in_thread(wait_until, lambda: right.get("/ready").status_code == 200, "the store is back")
            second = await connect(right, url)
            await in_thread(
                wait_until,
                lambda: left.log_lines("call not released: somebody else keeps it alive") or left.log_lines("call released"),
                "the first router makes up its mind",
            )
            assert not left.log_lines("call released")
            await echo(second, "right")
            await second.close()
            await gone(left, "CA1")

    asyncio.run(run())


@pytest.mark.parametrize(
    "name, env",
    [
        ("GATEWAY_SECRET", {"GATEWAY_SECRET": "one,two,three"}),
        ("GATEWAY_SECRET", {"GATEWAY_SECRET": "one,"}),
        ("WS_URL_TEMPLATE", {"WS_URL_TEMPLATE": "{base}/ws/pod/{pod}/{ticket}"}),
        ("GATEWAY_MAX", {"GATEWAY_MAX": "0"}),
        ("GATEWAY_IDLE_TIMEOUT", {"GATEWAY_IDLE_TIMEOUT": "soon"}),
        ("GATEWAY_CONNECT_TIMEOUT", {"GATEWAY_CONNECT_TIMEOUT": "0s"}),
    ],
)
def test_bad_settings_are_refused_by_name(start_router, name, env):
    router = start_router(env, wait=False)
    assert router.proc.wait(60) != 0
    router.is_stopped = True
    assert name in router.log()
    assert "three" not in router.log()


def test_the_lease_is_renewed_when_a_connection_opens_and_while_it_is_open(start_router):
    async def run():
        async with call_through(start_router, LEASE_TTL="3s", CALL_MAX_DURATION="4h") as (router, _):
            url = router.allocate("CA1")["ws_url"]
            expiry = lambda: router.get("/api/v1/call/CA1").json()["expires_at"]
            unattended = expiry()
            connection = await connect(router, url)
            await in_thread(wait_until, lambda: expiry() != unattended, "the lease is that of an open connection")
            for _ in range(2):
                last = expiry()
                assert last < unattended
                await in_thread(wait_until, lambda last=last: expiry() > last, "the lease is renewed")
            await connection.close()

    asyncio.run(run())


def noise(size):
    return random.Random(7).randbytes(size)


def read_head(conn):
    head = b""
    while b"\r\n\r\n" not in head:
        head += conn.recv(1)
    return head


def small(sock):
    """So little room that the router has to wait in the middle of what it sends."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    return sock


def receive(conn, size):
    got = bytearray()
    steps = random.Random(8)
    while len(got) < size:
        chunk = conn.recv(steps.randint(1, 8192))
        if not chunk:
            break
        got += chunk
    return bytes(got)


def test_a_slow_reader_gets_every_byte_in_order_on_either_side(start_router):
    size = 8 * 1024 * 1024
    agreed = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    asked = (
        b"GET /ws/pod/agent-0/x HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with small(socket.socket()) as listener, small(socket.socket()) as client:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        router = start_router(environment("agent-0=127.0.0.1:%d" % listener.getsockname()[1]))
        router.allocate("CA1")
        client.settimeout(60)
        client.connect(("127.0.0.1", router.port))
        client.sendall(asked)
        pod, _ = listener.accept()
        with pod:
            pod.settimeout(60)
            read_head(pod)
            pod.sendall(agreed)
            assert read_head(client) == agreed
            for sender, reader in ((pod, client), (client, pod)):
                thread = threading.Thread(target=sender.sendall, args=(noise(size),))
                thread.start()
                assert receive(reader, size) == noise(size)
                thread.join()
            client.shutdown(socket.SHUT_WR)
            assert pod.recv(1) == b""
            pod.sendall(b"and one more thing")
            assert receive(client, 18) == b"and one more thing"
