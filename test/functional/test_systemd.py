"""What the router tells its service manager (sd_notify), and the listening sockets that it takes from it."""

import contextlib
import pathlib
import signal
import socket
import threading

import conftest
import httpx
import pytest
from conftest import BINARY, DEADLINE_S, wait_until
from service_manager import ServiceManager
from streams import Agent, Stream
from tls import Certificate

WATCHDOG_S = 0.3
SILENCE_S = 4 * WATCHDOG_S  # after this systemd would have restarted it


@pytest.fixture
def make_manager(tmp_path, monkeypatch):
    """make_manager(is_abstract=False) -> a manager, as whose service start_router starts routers."""
    managers = []

    def make(**options):
        directory = tmp_path / f"manager-{len(managers)}"
        directory.mkdir()
        managers.append(ServiceManager(directory, [BINARY], **options))
        monkeypatch.setattr(conftest, "BINARY", managers[-1].command)
        return managers[-1]

    yield make
    for manager in managers:
        manager.close()


@pytest.fixture
def manager(make_manager):
    return make_manager()


def state_of(process):
    return pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize("is_abstract", [False, True], ids=["path", "abstract name"])
def test_ready_comes_when_the_router_serves(make_manager, start_router, is_abstract):
    manager = make_manager(is_abstract=is_abstract)
    port = manager.listen("http")
    start_router(manager.env(), wait=False)
    manager.wait_for("READY")
    ready = next(message for message in manager.messages if "READY" in message)
    assert ready == {"READY": "1", "STATUS": f"Serving on port {port}"}
    assert httpx.get(f"http://127.0.0.1:{port}/ready", trust_env=False).status_code == 200
    assert not manager.values("WATCHDOG"), "nobody has asked for pings"


def test_a_loop_that_hangs_sends_no_pings(manager, start_router):
    router = start_router(manager.env(WATCHDOG_S))
    manager.wait_for("WATCHDOG", 3)
    router.proc.send_signal(signal.SIGSTOP)
    wait_until(lambda: state_of(router.proc) == "T", "the router is stopped")
    manager.forget()
    never = threading.Event()
    never.wait(SILENCE_S)
    assert not manager.values("WATCHDOG")
    router.proc.send_signal(signal.SIGCONT)
    manager.wait_for("WATCHDOG", 3)


def test_pings_meant_for_another_process_are_not_sent(manager, start_router):
    router = start_router({**manager.env(WATCHDOG_S), "WATCHDOG_PID": "1"})
    assert router.stop() == 0
    assert manager.values("READY") and not manager.values("WATCHDOG")


def test_a_long_stop_asks_for_more_time_until_its_streams_have_ended(manager, start_router):
    with contextlib.closing(Agent()) as agent:
        router = start_router({
            **manager.env(WATCHDOG_S), "STATIC_PODS": f"voice-agent-0=127.0.0.1:{agent.port}", "GATEWAY_DRAIN_TIMEOUT": "1h",
        })
        path = "/ws" + router.allocate("CA1")["ws_url"].partition("/ws")[2]
        with Stream(router.port, path) as stream:
            assert stream.echoes()
            assert not manager.values("STOPPING") and not manager.values("EXTEND_TIMEOUT_USEC")
            router.proc.send_signal(signal.SIGTERM)
            assert manager.wait_for("EXTEND_TIMEOUT_USEC", 4)[0] == "30000000"
            status = wait_until(
                lambda: [text for text in manager.values("STATUS") if "streams" in text], "the status names the streams"
            )
            assert status[0].startswith("Stopping: 1 open streams, cut after 3")
            assert manager.values("STOPPING") == ["1"]
            manager.forget()
            manager.wait_for("WATCHDOG")
            assert stream.echoes()
        router.is_stopped = True
        assert router.proc.wait(DEADLINE_S) == 0


@pytest.mark.parametrize("name", ["relative/path", "/" + 200 * "x"])
def test_a_bad_notify_socket_is_warned_of_and_the_router_serves(start_router, name):
    router = start_router({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "1000000"})
    assert any(line["msg"].startswith("NOTIFY_SOCKET") and line["level"] == "warn" for line in router.log_lines())


def test_a_notify_socket_without_a_reader_is_warned_of(start_router, tmp_path):
    router = start_router({"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    assert [line for line in router.log_lines() if line["msg"].startswith("NOTIFY_SOCKET takes no message")]


def test_each_listener_takes_the_socket_with_its_name(manager, start_router, tmp_path):
    certificate = Certificate(tmp_path / "certificate")
    ports = {name: manager.listen(name) for name in ("metrics", "https", "http")}
    router = start_router(certificate.env)
    assert {"http": router.port, "https": router.tls_port, "metrics": router.metrics_port} == ports
    assert {line["address"] for line in router.log_lines("listening")} == {"inherited"}
    assert httpx.get(f"{router.metrics_url}/metrics", trust_env=False).status_code == 200
    with httpx.Client(verify=False, trust_env=False) as client:
        assert client.get(f"https://127.0.0.1:{router.tls_port}/health").status_code == 200
    assert router.allocate("CA1")["success"]


def test_a_socket_that_is_alone_is_http_whatever_its_name(manager, start_router):
    port = manager.listen("smart-router.socket")
    router = start_router()
    assert router.port == port and router.metrics_port != port


def test_sockets_for_another_process_are_not_taken(start_router):
    router = start_router({"LISTEN_PID": "1", "LISTEN_FDS": "1"})
    assert {line["address"] for line in router.log_lines("listening")} == {"all"}


def test_a_client_that_connects_during_a_restart_is_answered_by_the_next_router(manager, start_router, tmp_path):
    port = manager.listen("http")
    first = start_router(data_dir=tmp_path / "data")
    pod = first.allocate("CA1")["pod_name"]
    assert first.stop() == 0
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as early:
        early.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        second = start_router(data_dir=tmp_path / "data")
        assert early.recv(4096).startswith(b"HTTP/1.1 200 ")
    assert second.allocate("CA1")["pod_name"] == pod


def not_listening():
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


BAD_SOCKETS = {
    "an unknown name": ([("http", None), ("grpc", None)], '"grpc" is none of http, https, metrics'),
    "a name twice": ([("http", None), ("http", None)], "two sockets with the name http"),
    "four sockets": (4 * [("http", None)], "there are 4 sockets"),
    "TLS without a certificate": ([("http", None), ("https", None)], "there is no certificate"),
    "a socket that does not listen": ([("http", not_listening)], "descriptor 3 (http) does not listen"),
    "a datagram socket": ([("http", lambda: socket.socket(type=socket.SOCK_DGRAM))], "is no TCP socket"),
    "a socket of another family": ([("http", lambda: socket.socketpair()[0])], "is no TCP socket"),
}


@pytest.mark.parametrize("case", BAD_SOCKETS)
def test_sockets_of_no_use_stop_the_start(manager, start_router, case):
    sockets, message = BAD_SOCKETS[case]
    for name, make in sockets:
        manager.give(name, make()) if make else manager.listen(name)
    router = start_router(manager.env(), wait=False)
    router.is_stopped = True
    assert router.proc.wait(DEADLINE_S) == 1
    assert message in " ".join(line.get("error", "") + line["msg"] for line in router.log_lines() if line["level"] == "error")
    assert not manager.values("READY")
