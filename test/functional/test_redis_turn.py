"""Allocations and releases that arrive together go to Redis together; each has an answer of its own."""

import json
import signal
import socket
import urllib.parse

import redis_servers

CALLS = 40


def all_at_once(router, path, bodies):
    """Sends every request while the router does not look. The answers, as (status, JSON), in the same order."""
    address = urllib.parse.urlsplit(router.url)
    connections = []
    for _ in bodies:
        connection = socket.create_connection((address.hostname, address.port), 10)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")  # it is accepted once this is answered
        answer_of(connection)
        connections.append(connection)
    router.proc.send_signal(signal.SIGSTOP)
    for connection, body in zip(connections, bodies):
        text = json.dumps(body)
        connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
    router.proc.send_signal(signal.SIGCONT)
    answers = [answer_of(connection) for connection in connections]
    for connection in connections:
        connection.close()
    return answers


def answer_of(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), json.loads(body)


def start(redis_server, start_on):
    env = {**redis_servers.QUIET, "TIER_CONFIG": f'{{"gold": {CALLS}}}',
           "STATIC_PODS": ",".join(f"pod-{i}" for i in range(CALLS))}
    router = start_on(redis_server, env)
    router.allocate("CA-first")  # loads the scripts
    router.release("CA-first")
    return router, redis_server.client()


def scripts_run(client):
    return client.info("commandstats")["cmdstat_evalsha"]["calls"]


def test_calls_that_arrive_together_share_a_script(redis_server, start_on):
    router, client = start(redis_server, start_on)
    bodies = [{"call_sid": f"CA{i}"} for i in range(CALLS)]
    for path in ("/api/v1/allocate", "/api/v1/release"):
        client.config_resetstat()
        answers = all_at_once(router, path, bodies)
        assert [status for status, _ in answers] == [200] * CALLS
        assert len({answer["pod_name"] for _, answer in answers}) == CALLS
        assert scripts_run(client) < CALLS / 2
    assert router.get("/api/v1/status").json()["active_calls"] == 0


def test_one_call_asked_for_many_times_at_once_gets_one_pod(redis_server, start_on):
    router, client = start(redis_server, start_on)
    answers = all_at_once(router, "/api/v1/allocate", [{"call_sid": "CA1"}] * CALLS)
    assert {answer["pod_name"] for _, answer in answers} == {client.hget("voice:call:CA1", "pod_name")}
    assert sorted(answer["was_existing"] for _, answer in answers) == [False] + [True] * (CALLS - 1)
    answers = all_at_once(router, "/api/v1/release", [{"call_sid": "CA1"}] * CALLS)
    assert sorted(status for status, _ in answers) == [200] + [404] * (CALLS - 1)
    assert client.scard("voice:pool:gold:available") == CALLS


def test_an_error_of_one_call_is_not_that_of_another(redis_server, start_on):
    router, client = start(redis_server, start_on)
    bodies = [{"call_sid": f"CA{i}"} for i in range(CALLS)]
    client.set("voice:call:CA7", "made by hand")
    for path in ("/api/v1/allocate", "/api/v1/release"):
        answers = all_at_once(router, path, bodies)
        assert [status for status, _ in answers] == [503 if i == 7 else 200 for i in range(CALLS)]
    assert client.get("voice:call:CA7") == "made by hand"
    assert any("WRONGTYPE" in line["text"] for line in router.log_lines("redis reports an error"))
    assert router.get("/ready").status_code == 200


def test_each_merchant_keeps_its_own_chain_in_a_shared_script(redis_server, start_on):
    env = {**redis_servers.QUIET, "TIER_CONFIG": '{"gold": 10, "standard": 10, "basic": 10}',
           "STATIC_PODS": ",".join(f"pod-{i}" for i in range(30))}
    router = start_on(redis_server, env)
    for tier in ("gold", "standard", "basic"):
        router.put(f"/api/v1/merchants/{tier}-merchant", {"fallback": [tier]})
    bodies = [{"call_sid": f"CA-{tier}-{i}", "merchant_id": f"{tier}-merchant"}
              for i in range(10) for tier in ("gold", "standard", "basic")]
    answers = all_at_once(router, "/api/v1/allocate", bodies)
    for body, (status, answer) in zip(bodies, answers):
        assert status == 200
        assert answer["source_pool"] == "pool:" + body["merchant_id"].removesuffix("-merchant")
