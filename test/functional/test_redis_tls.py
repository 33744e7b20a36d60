"""Redis over TLS, with real servers: whom the router trusts, whom it does not, and what it says then.

A single server, sentinels and a cluster; connections that break, servers that never finish the handshake, and load.
"""

import contextlib
import functools
import signal
import socket
import threading

import load
import pytest
import redis_servers
import tls
from conftest import wait_until
from test_events import Watcher
from test_redis_cluster import ENV as CLUSTER_ENV
from test_redis_cluster import Cluster
from test_redis_sentinel import Group

QUICK = {"REDIS_TIMEOUT": "1s"}
CLIENTS = 16


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return tls.Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def good(authority):
    return authority.issue("good")


def env_of(server, authority, host="localhost", **more):
    return {"REDIS_URL": f"rediss://{host}:{server.port}", "REDIS_TLS_CA_FILE": authority.cert, **more}


def refused(router, text):
    """The line that says why there is no connection. /ready says the same."""
    lines = lambda: [line for line in router.log_lines() if text in line.get("reason", "")]
    (line, *_) = wait_until(lines, f"it says that {text}")
    assert line["level"] == "error" and line["msg"].startswith("redis is not reachable: calls are refused")
    assert not router.log_lines("redis is connected")
    return line["reason"]


def test_a_server_whose_certificate_is_good_serves_calls_and_events(start_redis, start_on, authority, good):
    server = start_redis(tls=good, requirepass="a-secret-of-redis")
    url = {"REDIS_URL": f"rediss://:a-secret-of-redis@localhost:{server.port}/3"}
    routers = [start_on(server, {**env_of(server, authority), **url}) for _ in range(2)]
    watcher = Watcher(routers[1])
    wait_until(lambda: server.client(password="a-secret-of-redis").pubsub_numsub("voice:events")[0][1] > 0, "it listens")
    pod = routers[0].allocate("CA1")["pod_name"]
    wait_until(lambda: any("CA1" in str(event) for event in watcher.events), "the other router tells of it")
    assert routers[1].get("/api/v1/call/CA1").json()["pod_name"] == pod
    routers[1].release("CA1")
    assert server.client(password="a-secret-of-redis", db=3).hlen("voice:pods") == 5


def test_a_name_in_the_certificate_and_an_address_are_both_checked(start_redis, start_on, authority):
    named = start_redis(tls=authority.issue("named", "DNS:redis.example"))
    router = start_on(named, {**env_of(named, authority), **QUICK}, wait=False)
    reason = refused(router, f"certificate of localhost:{named.port} is not for this host")
    assert "set REDIS_TLS_SERVER_NAME" in reason
    address = start_on(named, {**env_of(named, authority, host="127.0.0.1"), **QUICK}, wait=False)
    refused(address, f"certificate of 127.0.0.1:{named.port} is not for this host")
    assert start_on(named, env_of(named, authority, REDIS_TLS_SERVER_NAME="redis.example")).allocate("CA1")


def test_by_address(start_redis, start_on, authority, good):
    server = start_redis(tls=good)
    assert start_on(server, env_of(server, authority, host="127.0.0.1")).allocate("CA1")


def test_a_list_of_servers_is_tried_until_one_is_a_master(start_redis, start_on, authority, good):
    dead, server = start_redis(tls=good), start_redis(tls=good)
    replica = start_redis(tls=good, replicaof=f"127.0.0.1 {server.port}")
    dead.kill()
    url = {"REDIS_URL": f"rediss://localhost:{dead.port},localhost:{replica.port},localhost:{server.port}"}
    router = start_on(server, {**env_of(server, authority), **url})
    assert router.allocate("CA1") and server.client().exists("voice:call:CA1")


def test_whoever_signed_it_must_be_trusted(start_redis, start_on, authority, good, tmp_path):
    server = start_redis(tls=good)
    stranger = tls.Authority(tmp_path / "stranger")
    router = start_on(server, {**env_of(server, stranger), **QUICK}, wait=False)
    assert "set REDIS_TLS_CA_FILE" in refused(router, f"certificate of localhost:{server.port} is not trusted: ")
    # The system's store does not have it, either.
    router = start_on(server, {**env_of(server, authority), "REDIS_TLS_CA_FILE": None, **QUICK}, wait=False)
    refused(router, f"certificate of localhost:{server.port} is not trusted: ")


@pytest.mark.parametrize(
    ("dates", "says"),
    [({"end": "20210101000000Z"}, "expired"), ({"start": "20980101000000Z"}, "not yet valid")],
    ids=["expired", "early"],
)
def test_a_certificate_must_be_valid_now(start_redis, start_on, authority, dates, says):
    server = start_redis(tls=authority.issue(says.replace(" ", "-"), **dates))
    router = start_on(server, {**env_of(server, authority), **QUICK}, wait=False)
    assert says in refused(router, f"certificate of localhost:{server.port} is not valid now: ")


def test_a_server_that_demands_a_client_certificate(start_redis, start_on, authority, good, tmp_path):
    server = start_redis(tls=good, tls_auth_clients="yes")
    router = start_on(server, {**env_of(server, authority), **QUICK}, wait=False)
    lines = lambda: [line for line in router.log_lines() if "demands a client certificate" in line.get("reason", "")]
    reason = wait_until(lines, "it says what is demanded")[0]["reason"]
    assert reason.startswith(f"localhost:{server.port} ") and "set REDIS_TLS_CERT_FILE and REDIS_TLS_KEY_FILE" in reason

    mine = authority.issue("router")
    own = {"REDIS_TLS_CERT_FILE": mine.cert, "REDIS_TLS_KEY_FILE": mine.key}
    assert start_on(server, env_of(server, authority, **own)).allocate("CA1")

    other = tls.Authority(tmp_path / "other").issue("router")
    own = {"REDIS_TLS_CERT_FILE": other.cert, "REDIS_TLS_KEY_FILE": other.key}
    router = start_on(server, env_of(server, authority, **own, **QUICK), wait=False)
    text = "does not accept the certificate in REDIS_TLS_CERT_FILE"
    wait_until(lambda: text in router.log(), "it says that its own certificate is not accepted")


@contextlib.contextmanager
def listener(behave):
    """A server on a free port; behave(connection) for each that connects, one after the other."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as connection:
                        behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def until_closed(connection):
    while connection.recv(65536):
        pass


def hello_then_silence(connection):
    """The first bytes of a record, and never the rest."""
    connection.recv(65536)
    connection.sendall(b"\x16\x03\x03\x10\x00\x02")
    until_closed(connection)


@pytest.mark.parametrize(
    ("behave", "says"),
    [
        (until_closed, "no TLS handshake within 1000 ms; does this port speak TLS?"),
        (hello_then_silence, "no TLS handshake within 1000 ms"),
        (lambda connection: connection.recv(10), "closed the connection during the TLS handshake"),
        (lambda connection: connection.sendall(b"-ERR what is that?\r\n" * 10), "does not speak TLS on this port"),
    ],
    ids=["silent", "stops in the middle", "closes", "clear text"],
)
def test_a_server_that_does_not_finish_the_handshake(start_router, authority, behave, says):
    with listener(behave) as server:
        port = server.getsockname()[1]
        env = {"REDIS_URL": f"rediss://localhost:{port}", "REDIS_TLS_CA_FILE": authority.cert, **QUICK}
        router = start_router(env, wait=False)
        reason = refused(router, says)
        assert f"localhost:{port}" in reason or f"127.0.0.1:{port}" in reason
        assert router.stop() == 0


def test_a_port_with_tls_and_a_url_without_it(start_redis, start_router, good):
    server = start_redis(tls=good)
    router = start_router({"REDIS_URL": f"redis://localhost:{server.port}", **QUICK}, wait=False)
    assert f"localhost:{server.port}" in refused(router, "does this port speak TLS? Then use rediss://")


def test_what_is_in_flight_fails_in_time_and_a_lost_connection_comes_back(start_redis, start_on, authority, good):
    server = start_redis(tls=good, appendonly="yes")
    router = start_on(server, {**env_of(server, authority), **QUICK})
    pod = router.allocate("CA1")["pod_name"]
    with server.paused():
        answer = router.post("/api/v1/allocate", {"call_sid": "CA2"})
        assert answer.status_code == 503
    wait_until(lambda: router.get("/ready").status_code == 200, "it is back")
    # The late script has changed nothing, or is undone.
    wait_until(lambda: router.get("/api/v1/call/CA2").status_code == 404, "the late allocation holds nothing")
    server.kill()
    wait_until(lambda: router.get("/ready").status_code == 503, "it is away")
    assert router.post("/api/v1/allocate", {"call_sid": "CA3"}).status_code == 503
    server.start()
    wait_until(lambda: router.get("/ready").status_code == 200, "it is back again")
    assert router.allocate("CA1")["pod_name"] == pod


def test_sighup_reads_the_files_again(start_redis, start_on, authority, good, tmp_path):
    server = start_redis(tls=good, appendonly="yes")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(authority.cert.read_bytes())
    router = start_on(server, {**env_of(server, authority), "REDIS_TLS_CA_FILE": trusted, **QUICK})
    successor = tls.Authority(tmp_path / "successor")
    server.kill()
    server.tls = successor.issue("good")
    server.start()
    wait_until(lambda: "is not trusted" in router.log(), "the new one is not trusted")
    trusted.write_text("no certificate at all\n")
    router.proc.send_signal(signal.SIGHUP)
    refusal = "reload of the certificates for Redis refused: new connections to Redis use the old ones"
    (line,) = wait_until(lambda: router.log_lines(refusal), "the reload is refused")
    assert line["variable"] == "REDIS_TLS_CA_FILE"
    trusted.write_bytes(authority.cert.read_bytes() + successor.cert.read_bytes())
    router.proc.send_signal(signal.SIGHUP)
    wait_until(lambda: router.get("/ready").status_code == 200, "both are trusted")


@pytest.mark.parametrize(
    ("env", "variable", "says"),
    [
        ({"REDIS_TLS_CA_FILE": "/no/such/file"}, "REDIS_TLS_CA_FILE", "cannot be read"),
        ({"REDIS_TLS_CA_FILE": "{key}"}, "REDIS_TLS_CA_FILE", "holds no certificate in PEM form"),
        ({"REDIS_TLS_CERT_FILE": "{cert}"}, "REDIS_TLS_KEY_FILE", "must be set where"),
        ({"REDIS_TLS_KEY_FILE": "{key}"}, "REDIS_TLS_CERT_FILE", "must be set where"),
        ({"REDIS_TLS_CERT_FILE": "{cert}", "REDIS_TLS_KEY_FILE": "{other}"}, "REDIS_TLS_KEY_FILE", "is not the key"),
        ({"REDIS_URL": "rediss://h,redis://h"}, "REDIS_URL", "different schemes"),
    ],
)
def test_files_that_cannot_be_used_stop_the_start(run_router, authority, good, env, variable, says):
    files = {"cert": good.cert, "key": good.key, "other": authority.key}
    env = {name: value.format(**files) for name, value in env.items()}
    done = run_router({"REDIS_URL": "rediss://localhost:1", **env})
    assert done.returncode == 2 and variable in done.output and says in done.output


def test_without_rediss_the_files_are_warned_about(start_on, redis_server, authority):
    router = start_on(redis_server, {"REDIS_TLS_CA_FILE": authority.cert})
    assert [line for line in router.log_lines() if line["msg"].startswith("REDIS_TLS_… settings have no effect")]


def test_sentinels_speak_tls_too_and_a_failover_is_followed(start_redis, start_router, authority, good):
    group = Group(functools.partial(start_redis, tls=good))
    env = {**redis_servers.QUICK, **group.env, "REDIS_URL": "rediss://unused", "REDIS_TLS_CA_FILE": authority.cert}
    router = start_router(env)
    router.allocate("CA1")
    assert group.primary.client().wait(2, 10000) == 2
    clear = start_router({**env, "REDIS_SENTINEL_TLS": "false", **QUICK}, wait=False)
    wait_until(lambda: "sentinel" in clear.log() and clear.log_lines("redis is connected") == [], "clear text is refused")
    group.primary.kill()
    wait_until(group.promoted, "a replica is promoted")
    wait_until(lambda: router.get("/ready").status_code == 200, "the router has followed")
    wait_until(lambda: router.get("/api/v1/call/CA1").status_code == 200, "and finds the call")


def test_a_cluster_is_followed_to_the_owner_of_the_slot(start_redis, start_router, authority, good):
    cluster = Cluster(functools.partial(start_redis, tls=good))
    env = {**redis_servers.QUICK, **CLUSTER_ENV, "REDIS_TLS_CA_FILE": authority.cert}
    router = start_router({**env, "REDIS_URL": cluster.other_master.url})
    router.allocate("CA1")
    cluster.replicate()
    cluster.owner.kill()
    cluster.wait_promoted()
    wait_until(lambda: router.get("/ready").status_code == 200, "the router has followed")
    wait_until(lambda: router.get("/api/v1/call/CA1").status_code == 200, "and finds the call")


def test_under_load_every_answer_is_right_and_large_ones_arrive_whole(start_redis, start_on, authority, good):
    server = start_redis(tls=good)
    names = [f"agent-{i}" for i in range(800)]
    env = {"STATIC_PODS": ",".join(names), "TIER_CONFIG": '{"gold": 800}'}
    router = start_on(server, env_of(server, authority, **env))
    history = load.History()
    work = load.Load(history)
    callers = load.Callers(history, [router.url])
    callers.start(work, CLIENTS)
    for _ in range(20):
        page = router.get("/api/v1/pods?limit=800").json()
        assert sorted(pod["pod_name"] for pod in page["pods"]) == sorted(names)
    work.stop()
    callers.finish()
    assert load.violations(history, lambda pod: 1) == []
