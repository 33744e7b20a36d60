"""The router as a process: its command line, its settings, its signals, and how it ends."""

import http.client
import resource
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from basics import free_port
from conftest import BINARY, DEADLINE_S, ROOT, clean_environment, wait_until

HALF_A_REQUEST = b'POST /api/v1/allocate HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n{"call_s'
THE_OTHER_HALF = b'id":"CA1"}'


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)


def read_all(conn):
    received = b""
    while chunk := conn.recv(65536):
        received += chunk
    return received


def accepts(port):
    try:
        connect(port).close()
        return True
    except ConnectionRefusedError:
        return False


def begin_stop(router, number=signal.SIGTERM):
    router.client.close()
    router.is_stopped = True
    router.proc.send_signal(number)
    wait_until(lambda: router.log_lines("stopping"), "the router has seen the signal")


@pytest.mark.parametrize("arg", ["version", "--version", "-V"])
def test_the_version_is_printed(run_router, arg):
    done = run_router(args=[arg])
    assert done.returncode == 0
    assert done.stdout.startswith(b"smart-router ")
    assert done.stderr == b""


@pytest.mark.parametrize("arg", ["help", "--help", "-h"])
def test_help_goes_to_standard_output(run_router, arg):
    done = run_router(args=[arg])
    assert done.returncode == 0
    assert b"check-config" in done.stdout


@pytest.mark.parametrize("args", [["sreve"], ["--port"], ["check-config", "--json"], ["version", "2"], ["serve", "8080"]])
def test_unknown_arguments_are_named_with_the_usage(run_router, args):
    done = run_router(args=args)
    assert done.returncode == 2
    assert done.stdout == b""
    assert args[-1] in done.stderr.decode()
    assert b"usage:" in done.stderr


def test_output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "wb") as full:
        assert subprocess.run([BINARY, "version"], stdout=full, check=False).returncode == 1
        assert subprocess.run([BINARY, "check-config"], env={}, stdout=full, check=False).returncode == 1


def test_check_config_prints_what_is_in_force(run_router):
    done = run_router({"LEASE_TTL": "20m", "LOG_LEVEL": ""}, args=["check-config"])
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0, done.output
    assert "LEASE_TTL=20m  # environment" in lines
    assert "LOG_LEVEL=info  # default" in lines
    assert "POD_SOURCE=static  # default" in lines


def test_all_bad_settings_are_reported_at_once(run_router):
    env = {"HTTP_PORT": "x", "LOG_FORMAT": "xml", "TIER_CONFIG": '{"gold":-1}', "STATIC_PODS": "UP,b", "API_KEY": "s3cret,"}
    for args in ([], ["check-config"]):
        done = run_router(env, args=args)
        lines = done.stderr.decode().splitlines()
        assert done.returncode == 2
        assert done.stdout == b""
        assert sorted(line.split(":")[0].split()[0] for line in lines) == sorted(env)
        assert "s3cret" not in done.output


def test_the_documentation_is_that_of_the_table(run_router):
    done = run_router(args=["check-config", "--markdown"])
    assert done.stdout.decode() == (ROOT / "docs" / "CONFIG.md").read_text()


def test_the_start_is_told_in_the_log(start_router):
    router = start_router({"REDIS_POOL_SIZE": "7"})
    assert router.log_lines("smart-router starts")[0]["version"]
    assert router.log_lines("store opened")[0]["data_dir"] == str(router.data_dir)
    assert "API_KEY is not set" in router.log()
    assert "anybody can send webhooks" in router.log()
    assert router.log_lines("settings that have no effect in this version")[0]["names"] == "REDIS_POOL_SIZE"
    assert "GATEWAY_SECRET is not set" in router.log()


def test_connections_that_cannot_fit_are_warned_about(tmp_path):
    env = {"HTTP_PORT": "0", "METRICS_PORT": "0", "DATA_DIR": str(tmp_path / "data"), "MAX_CONNECTIONS": "300", "SHUTDOWN_DELAY": "0"}
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))
    with subprocess.Popen([BINARY], env=env, preexec_fn=limit, stderr=subprocess.PIPE, text=True) as proc:
        lines = []
        for line in proc.stderr:
            lines.append(line)
            if "listening" in line:
                break
        proc.terminate()
        proc.stderr.read()
    warning = next(line for line in lines if "MAX_CONNECTIONS" in line)
    assert '"open_files_limit":256' in warning  # the soft limit was raised
    assert proc.returncode == 0


def test_a_second_start_finds_what_the_first_one_knew(start_router, tmp_path):
    first = start_router(data_dir=tmp_path / "data")
    pod = first.allocate("CA1")["pod_name"]
    assert first.stop() == 0
    second = start_router(data_dir=tmp_path / "data")
    assert second.log_lines("store opened")[0]["replayed_records"] > 0
    again = second.allocate("CA1")
    assert again["was_existing"] and again["pod_name"] == pod


def test_static_pods_that_are_no_longer_named_are_gone(start_router, tmp_path):
    first = start_router({"STATIC_PODS": "a,b,c"}, data_dir=tmp_path / "data")
    assert first.stop() == 0
    second = start_router({"STATIC_PODS": "b,d"}, data_dir=tmp_path / "data")
    names = lambda router: {pod["pod_name"] for pod in router.get("/api/v1/pods").json()["pods"]}
    wait_until(lambda: names(second) == {"b", "d"}, "only the named pods are there")


@pytest.mark.parametrize("source", [None, "api"])
def test_no_static_pods_at_all_must_be_meant(start_router, tmp_path, source):
    first = start_router({"STATIC_PODS": "a,b"}, data_dir=tmp_path / "data")
    first.allocate("CA1")
    assert first.stop() == 0
    env = {"STATIC_PODS": None, "POD_SOURCE": source}
    second = start_router(env, data_dir=tmp_path / "data")
    first_sync = "smart_router_sync_duration_seconds_count 1"
    wait_until(lambda: first_sync in second.get("/metrics").text.splitlines(), "the first sync")
    assert second.get("/api/v1/pods").json()["total"] == 2
    assert second.get("/api/v1/call/CA1").status_code == 200
    assert second.stop() == 0
    third = start_router({**env, "RECONCILE_INTERVAL": "50ms"}, data_dir=tmp_path / "data")
    wait_until(lambda: third.get("/api/v1/pods").json()["total"] == 0, "the second sync")
    synced = wait_until(lambda: third.log_lines("pods synced"), "it is logged")
    assert [(line["source"], line["removed"]) for line in synced] == [("static", 2)]


def test_expired_calls_are_ended_and_logged(start_router):
    router = start_router({"CALL_MAX_DURATION": "200ms", "CLEANUP_INTERVAL": "50ms"})
    pod = router.allocate("CA1", merchant_id="acme")["pod_name"]
    ended = wait_until(lambda: router.log_lines("call ended"), "the call is ended")[0]
    assert (ended["call_sid"], ended["pod"], ended["merchant"]) == ("CA1", pod, "acme")
    assert ended["pool"] and ended["reason"]
    assert router.get("/api/v1/status").json()["active_calls"] == 0
    metrics = router.get("/metrics").text.splitlines()
    assert "smart_router_zombies_recovered_total 1" in metrics


def test_a_call_that_never_connects_is_ended(start_router):
    router = start_router({"CONNECT_TIMEOUT": "200ms", "CLEANUP_INTERVAL": "50ms"})
    router.allocate("CA1")
    wait_until(lambda: router.get("/api/v1/call/CA1").status_code == 404, "the call is ended")


def test_sighup_does_not_hurt(router):
    router.proc.send_signal(signal.SIGHUP)
    wait_until(lambda: router.log_lines("reloaded"), "the signal is seen")
    router.allocate("CA1")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_finishes_what_is_in_flight(start_router, number):
    router = start_router()
    with connect(router.port) as idle, connect(router.port) as half:
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in idle.recv(65536)
        half.sendall(HALF_A_REQUEST)
        router.get("/health")
        begin_stop(router, number)
        assert idle.recv(1) == b""  # idle ones are closed at once
        wait_until(lambda: not accepts(router.port), "nobody new is accepted")
        with connect(router.metrics_port) as probe:
            probe.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert b" 503 " in read_all(probe).split(b"\r\n")[0]
        half.sendall(THE_OTHER_HALF)
        answer = read_all(half)
        assert b"HTTP/1.1 200 " in answer
        assert b'"pod_name"' in answer
    assert router.proc.wait(DEADLINE_S) == 0
    assert router.log_lines("stopped")


def test_a_stop_lets_busy_clients_go_before_it_closes_their_connections(start_router):
    router = start_router({"SHUTDOWN_DELAY": "1s"})
    answers = []

    def ask():
        """Asks on one connection until the router says that this was the last answer."""
        connection = http.client.HTTPConnection("127.0.0.1", router.port, timeout=20)
        while True:
            connection.request("GET", "/health")
            answer = connection.getresponse()
            answers.append(answer.status)
            answer.read()
            if answer.getheader("Connection") == "close":
                return "told"

    with ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(ask) for _ in range(8)]
        wait_until(lambda: len(answers) > 100, "the clients are busy")
        assert router.stop() == 0
        assert [client.result() for client in clients] == ["told"] * 8
    assert set(answers) == {200}


def test_a_stop_does_not_wait_longer_than_its_timeout(start_router):
    router = start_router({"HTTP_SHUTDOWN_TIMEOUT": "300ms", "HTTP_READ_TIMEOUT": "1h"})
    with connect(router.port) as half:
        half.sendall(HALF_A_REQUEST)
        router.get("/health")
        begin_stop(router)
        assert router.proc.wait(DEADLINE_S) == 0
    assert router.log_lines("connections cut at the shutdown timeout")


def test_sigterm_answers_everybody_until_the_delay_is_over(start_router):
    router = start_router({"SHUTDOWN_DELAY": "1h", "HTTP_SHUTDOWN_TIMEOUT": "1s"})
    with connect(router.port) as silent:
        begin_stop(router)
        for port in (router.port, router.metrics_port):
            with connect(port) as probe:
                probe.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert b" 503 " in read_all(probe).split(b"\r\n")[0]
        with connect(router.port) as half:
            half.sendall(HALF_A_REQUEST)
            time.sleep(0.1)
            half.sendall(THE_OTHER_HALF)
            answer = read_all(half)
            assert b"HTTP/1.1 200 " in answer and b"\r\nConnection: close\r\n" in answer
        silent.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 200 " in read_all(silent)
    router.proc.send_signal(signal.SIGTERM)
    assert router.proc.wait(DEADLINE_S) == 0


def test_a_second_signal_ends_the_delay_and_a_third_everything(start_router):
    router = start_router({"SHUTDOWN_DELAY": "1h", "HTTP_SHUTDOWN_TIMEOUT": "1h", "HTTP_READ_TIMEOUT": "1h"})
    with connect(router.port) as half:
        half.sendall(HALF_A_REQUEST)
        router.get("/health")
        begin_stop(router)
        assert accepts(router.port)
        router.proc.send_signal(signal.SIGTERM)
        wait_until(lambda: not accepts(router.port), "nobody new is accepted")
        assert router.log_lines("second signal: what is open is cut after HTTP_SHUTDOWN_TIMEOUT")
        time.sleep(0.05)
        assert router.proc.poll() is None
        router.proc.send_signal(signal.SIGINT)
        assert router.proc.wait(DEADLINE_S) == 1
    assert router.log_lines("third signal: exiting at once")


def test_sigint_knows_no_delay(start_router):
    router = start_router({"SHUTDOWN_DELAY": "1h"})
    begin_stop(router, signal.SIGINT)
    assert router.proc.wait(DEADLINE_S) == 0


def test_a_request_that_has_arrived_when_the_delay_ends_is_answered(start_router):
    """The process sleeps while new clients connect and old ones ask, and finds all of it together with the end of the delay."""
    router = start_router({"SHUTDOWN_DELAY": "300ms"})
    ask = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
    kept = [connect(router.port) for _ in range(20)]
    for conn in kept:
        conn.sendall(ask)
        assert b" 200 " in conn.recv(65536)
    begin_stop(router)
    router.proc.send_signal(signal.SIGSTOP)
    fresh = [connect(router.port) for _ in range(20)]
    for conn in kept + fresh:
        conn.sendall(ask)
    late = connect(router.port)  # its request is still on the way
    time.sleep(0.5)
    router.proc.send_signal(signal.SIGCONT)
    for conn in kept + fresh:
        assert b" 200 " in read_all(conn)
        conn.close()
    late.sendall(ask)
    assert b" 200 " in read_all(late)
    late.close()
    assert router.proc.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("closed", ["2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_starts_and_stops_with_standard_descriptors_closed(tmp_path, closed):
    port = free_port()  # nothing it says can be read
    env = clean_environment({"HTTP_PORT": str(port)}, tmp_path / "data")
    process = subprocess.Popen(["sh", "-c", f'exec "{BINARY}" {closed}'], env=env, stdout=subprocess.DEVNULL)
    wait_until(lambda: process.poll() is not None or accepts(port), "the router listens")
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
