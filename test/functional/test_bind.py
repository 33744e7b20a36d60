"""HTTP_BIND, METRICS_BIND and TLS_BIND: at which address each port listens."""

import json
import os
import pathlib
import socket
import subprocess

import basics
import pytest
import tls
from conftest import BINARY, DEADLINE_S, wait_until

HEALTH = b"GET /health HTTP/1.0\r\n\r\n"
ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_HERE = "192.0.2.1"  # of a block that no machine has


def is_open(address, port):
    try:
        with socket.create_connection((address, port), timeout=DEADLINE_S):
            return True
    except ConnectionRefusedError:
        return False


def addresses(router):
    return {line["name"]: line["address"] for line in router.log_lines("listening")}


def has_ipv6():
    """Whether ::1 is there. Where it is not, its part of a test is left out."""
    path = pathlib.Path("/proc/net/if_inet6")
    return path.exists() and "00000000000000000000000000000001 " in path.read_text()


def test_unset_all_addresses_are_listened_at(start_router, tmp_path):
    router = start_router(tls.Certificate(tmp_path / "certificate").env)
    assert addresses(router) == {"http": "all", "https": "all", "metrics": "all"}
    for address in ("127.0.0.1", "127.0.0.2") + (("::1",) if has_ipv6() else ()):
        assert [is_open(address, port) for port in (router.port, router.tls_port, router.metrics_port)] == [True] * 3


@pytest.fixture
def run_local(tmp_path):
    """run_local(**env) -> what `make run` starts, once it listens: its addresses and its ports, by name."""
    started = []

    def run(**env):
        log = tmp_path / "log"
        clean = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        clean |= {"BUILD_DIR": str(BINARY.parent), "DATA_DIR": str(tmp_path / "data"), "LOG_FORMAT": "json", "METRICS_PORT": "0"}
        clean |= {"HTTP_PORT": str(basics.free_port()), **env}
        with open(log, "wb") as file:
            started.append(subprocess.Popen([ROOT / "scripts/run-local"], env=clean, stdin=subprocess.DEVNULL, stdout=file, stderr=file))

        def listening():
            lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
            return [line for line in lines if line["msg"] == "listening"]

        wait_until(lambda: len(listening()) == 2 or started[-1].poll() is not None, "it listens")
        assert started[-1].poll() is None, log.read_text()
        return {line["name"]: (line["address"], line["port"]) for line in listening()}

    yield run
    for process in started:
        process.terminate()
        process.wait(DEADLINE_S)


def test_make_run_is_for_this_machine_alone(run_local):
    """It has no key."""
    found = run_local()
    assert sorted(found) == ["http", "metrics"]
    for address, port in found.values():
        assert address == "127.0.0.1"
        assert is_open("127.0.0.1", port) and not is_open("127.0.0.2", port)


def test_make_run_listens_where_it_is_told_to(run_local):
    assert {address for address, _ in run_local(HTTP_BIND="").values()} == {"all"}


def test_one_address_for_all(start_router, tmp_path):
    router = start_router({**tls.Certificate(tmp_path / "certificate").env, "HTTP_BIND": "127.0.0.1"})
    assert addresses(router) == {"http": "127.0.0.1", "https": "127.0.0.1", "metrics": "127.0.0.1"}
    ports = (router.port, router.tls_port, router.metrics_port)
    assert [is_open("127.0.0.1", port) for port in ports] == [True] * 3
    assert [is_open("127.0.0.2", port) for port in ports] == [False] * 3


def test_each_its_own_address(start_router, tmp_path):
    env = {"HTTP_BIND": "127.0.0.1", "TLS_BIND": "127.0.0.2", "METRICS_BIND": "127.0.0.3"}
    router = start_router({**tls.Certificate(tmp_path / "certificate").env, **env})
    assert addresses(router) == {"http": "127.0.0.1", "https": "127.0.0.2", "metrics": "127.0.0.3"}
    ports = (router.port, router.tls_port, router.metrics_port)
    for number in range(3):
        # Another test may have the same port at another address for a while.
        wait_until(lambda number=number: [is_open(f"127.0.0.{number + 1}", port) for port in ports] == [i == number for i in range(3)], "each has its own")


def test_an_address_may_be_one_of_ipv6(start_router, tmp_path):
    if not has_ipv6():
        return
    env = {"METRICS_BIND": "::1", "TLS_BIND": "::1"}
    router = start_router({**tls.Certificate(tmp_path / "certificate").env, **env})
    assert addresses(router) == {"http": "all", "https": "::1", "metrics": "::1"}
    for port in (router.tls_port, router.metrics_port):
        assert (is_open("::1", port), is_open("127.0.0.1", port)) == (True, False)
    with socket.create_connection(("::1", router.metrics_port), timeout=DEADLINE_S) as sock:
        sock.sendall(HEALTH)
        assert sock.recv(65536).startswith(b"HTTP/1.1 ")


@pytest.mark.parametrize("variable", ["HTTP_BIND", "METRICS_BIND", "TLS_BIND"])
@pytest.mark.parametrize("value", ["localhost", "127.0.0.1:8080", "127.0.0.0/8", "1.2.3", "[::1]", "fe80::1%lo", "*", "127.1"])
def test_what_is_no_address_is_refused_by_name(run_router, variable, value):
    done = run_router({variable: value}, args=["check-config"])
    assert done.returncode != 0
    assert variable in done.output
    assert "is not an IP address such as 127.0.0.1 or ::1" in done.output


@pytest.mark.parametrize("variable", ["HTTP_BIND", "METRICS_BIND", "TLS_BIND"])
def test_an_address_that_this_machine_does_not_have_stops_the_start(run_router, tmp_path, variable):
    done = run_router({**tls.Certificate(tmp_path / "certificate").env, variable: NOT_HERE})
    assert done.returncode == 1
    assert f"this machine does not have the address {NOT_HERE}: set {variable} to one that it has" in done.output


def test_the_variable_that_was_followed_is_named(run_router):
    """METRICS_BIND is unset: what is wrong is HTTP_BIND, which the API itself could not use either."""
    done = run_router({"HTTP_BIND": NOT_HERE})
    assert "set HTTP_BIND to one that it has" in done.output
