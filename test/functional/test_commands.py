"""The commands that talk to a running router: `smart-router health` and `smart-router wait-drained POD`."""

import contextlib
import http.server
import json
import signal
import socket
import subprocess
import threading

import pytest
from basics import free_port
from conftest import BINARY, DEADLINE_S, SANITIZER_REPORTS, clean_environment, wait_until

KEY = "an-admin-key-of-some-length"
KEYS = f"ops admin {KEY}\nagents agent=voice-agent-* the-key-of-the-agents\nothers agent=other-* the-key-of-the-others\n"


@pytest.fixture
def command(tmp_path):
    """command(*args, url=None, env=None) -> a running process; it must end by itself, and clean."""
    started = []

    def start(*args, url=None, env=None):
        env = clean_environment({"SMART_ROUTER_URL": url, "HTTP_PORT": None, **(env or {})}, tmp_path)
        proc = subprocess.Popen([BINARY, *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        started.append(proc)
        return proc

    yield start
    for proc in started:
        proc.kill()
        proc.wait()
        proc.stdout.close()
        proc.stderr.close()


@pytest.fixture
def run(command):
    """run(*args, ...) -> (exit status, standard output, standard error)."""

    def finish(*args, **kwargs):
        return ended(command(*args, **kwargs))

    return finish


def ended(proc):
    out, err = proc.communicate(timeout=DEADLINE_S)
    assert not any(report in err for report in SANITIZER_REPORTS), err
    return proc.returncode, out, err


@contextlib.contextmanager
def scripted(answer):
    """A router that answers each request with answer(method, path) -> (status, body), or with its type; yields its URL."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def respond(self):
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, body, *kinds = answer(self.command, self.path)
            self.send_response(status)
            for kind in kinds:
                self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = respond

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_health_of_a_router_that_is_well(router, run):
    assert run("health", url=router.url) == (0, "ok\n", "")
    assert run("health", "--ready", url=router.url) == (0, "ready\n", "")
    assert run("health", "--url", router.url + "/", url="http://127.0.0.1:1") == (0, "ok\n", "")


def test_health_asks_where_the_settings_say_that_the_router_is(router, run):
    # What else is set is not looked at: a probe of a container must not fail for it.
    assert run("health", env={"HTTP_PORT": router.port, "POD_SOURCE": "nonsense"}) == (0, "ok\n", "")
    for bind in ("127.0.0.1", "0.0.0.0"):
        assert run("health", env={"HTTP_PORT": router.port, "HTTP_BIND": bind}) == (0, "ok\n", "")
    code, _, err = run("health", env={"HTTP_PORT": router.port, "HTTP_BIND": "::1"})
    assert code in (0, 3) and (code == 0 or f"http://[::1]:{router.port}" in err)


def test_health_asks_the_port_that_answers_until_the_exit(router, run):
    assert run("health", env={"HTTP_PORT": free_port(), "METRICS_PORT": router.metrics_port}) == (0, "ok\n", "")
    code, _, err = run("health", env={"HTTP_PORT": router.port, "METRICS_PORT": free_port(), "METRICS_BIND": "127.0.0.1"})
    assert code == 3 and "no answer" in err


def test_a_proxy_of_the_environment_is_not_asked(router, run):
    proxies = {"http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"}
    assert run("health", url=router.url, env=proxies) == (0, "ok\n", "")


def test_health_of_a_router_that_stops_or_has_a_fault(start_router, run):
    router = start_router({"SHUTDOWN_DELAY": "1h"})
    router.proc.send_signal(signal.SIGTERM)
    wait_until(lambda: router.log_lines("stopping"), "the router stops")
    code, out, err = run("health", "--ready", url=router.url)
    assert (code, out) == (1, "") and "/ready answers 503" in err
    assert run("health", url=router.url)[0] == 0


def test_health_without_an_answer(run):
    code, out, err = run("health", url=f"http://127.0.0.1:{free_port()}")
    assert (code, out) == (3, "") and "no answer from http://127.0.0.1:" in err
    with socket.create_server(("127.0.0.1", 0)) as silent:
        code, _, err = run("health", "--timeout", "100ms", url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert code == 3 and "no answer" in err


@pytest.mark.parametrize("args", [
    ["health", "now"], ["health", "--raedy"], ["health", "--url"], ["health", "--url", ""], ["health", "--timeout", "soon"],
    ["health", "--timeout", "0"], ["health", "--timeout", "99999999999999999999"], ["health", "--url", "localhost:8080"],
    ["health", "--url", "ftp://localhost"], ["health", "--url", "http://a b"], ["health", "--api-key-file", "/dev/null"],
    ["wait-drained"], ["wait-drained", ""], ["wait-drained", "a", "b"], ["wait-drained", "--ready", "a"],
    ["wait-drained", "a", "--api-key-file", "/does/not/exist"], ["wait-drained", "a", "--api-key-file", "/dev/null"],
])
def test_bad_arguments_are_a_usage_error(run, args):
    code, out, err = run(*args, url="http://127.0.0.1:1")
    assert (code, out) == (2, ""), err
    assert err


@pytest.mark.parametrize("env", [{"HTTP_PORT": "x"}, {"HTTP_PORT": "0"}], ids=str)
def test_settings_that_do_not_say_where_the_router_is_are_a_usage_error(run, env):
    code, _, err = run("health", env=env)
    assert code == 2 and "HTTP_PORT" in err
    assert run("health", url=f"http://127.0.0.1:{free_port()}", env=env)[0] == 3


def test_the_help_names_every_command_with_its_options(run):
    text = run("help")[1]
    assert "  health [--ready]\n" in text and "  wait-drained POD\n" in text
    assert run("help", "health")[1].startswith("usage: smart-router health [--ready] [--timeout SECONDS] [--url URL]\n")
    assert run("help", "wait-drained")[1].startswith(
        "usage: smart-router wait-drained POD [--timeout SECONDS] [--url URL] [--api-key-file FILE]\n")
    assert "--markdown" not in text
    assert max(map(len, text.splitlines())) <= 100
    code, out, err = run("wait-drained", "--help")
    assert (code, err) == (0, "") and "wait-drained POD" in out and "check-config" not in out


def test_a_pod_without_calls_is_drained_at_once(router, run):
    assert run("wait-drained", "voice-agent-0", url=router.url) == (0, "voice-agent-0: drained\n", "")
    assert router.get("/api/v1/pod/voice-agent-0").json()["is_draining"]


def test_it_waits_for_the_last_call(router, command):
    pod = router.allocate("CA1")["pod_name"]
    waiting = command("wait-drained", pod, url=router.url)
    wait_until(lambda: router.get(f"/api/v1/pod/{pod}").json()["is_draining"], "the pod is drained")
    assert waiting.poll() is None
    router.release("CA1")
    assert ended(waiting) == (0, f"{pod}: drained\n", "")


def test_time_over_is_told_with_the_calls_that_are_left(router, run):
    pod = router.allocate("CA1")["pod_name"]
    code, out, err = run("wait-drained", pod, "--timeout", "300ms", url=router.url)
    assert (code, out) == (1, "")
    assert f"{pod}: 1 call left\n" in err and "time is over" in err
    assert router.get("/api/v1/call/CA1").status_code == 200


def test_it_waits_for_a_router_that_is_away(start_router, command):
    port = free_port()
    waiting = command("wait-drained", "voice-agent-0", url=f"http://127.0.0.1:{port}")
    assert "trying again" in waiting.stderr.readline()
    start_router({"HTTP_PORT": port})
    assert ended(waiting)[:2] == (0, "voice-agent-0: drained\n")


def test_it_outlives_a_crash_of_the_router(start_router, command, tmp_path):
    env, data = {"HTTP_PORT": free_port()}, tmp_path / "data"
    router = start_router(env, data)
    pod = router.allocate("CA1")["pod_name"]
    waiting = command("wait-drained", pod, url=router.url)
    wait_until(lambda: router.get(f"/api/v1/pod/{pod}").json()["is_draining"], "the pod is drained")
    router.kill()
    assert "trying again" in waiting.stderr.readline()
    router = start_router(env, data)
    assert waiting.poll() is None
    router.release("CA1")
    assert ended(waiting)[:2] == (0, f"{pod}: drained\n")


def test_a_router_that_never_answers_is_unreachable(run):
    code, _, err = run("wait-drained", "a", "--timeout", "100ms", url=f"http://127.0.0.1:{free_port()}")
    assert code == 3 and "no answer" in err


def test_a_pod_that_was_never_known_is_refused(router, run):
    before = router.state()
    for pod in ("nobody", "../status", "UPPER", "a b"):
        code, out, err = run("wait-drained", pod, url=router.url)
        assert (code, out) == (1, "") and pod in err
    assert router.state() == before


def test_a_key_is_needed_where_the_router_has_keys(start_router, run, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(KEYS)
    keys.chmod(0o600)
    router = start_router({"API_KEYS_FILE": keys})
    files = {name: tmp_path / name for name in ("the-key-of-the-agents", "the-key-of-the-others", "a-wrong-key")}
    for text, path in files.items():
        path.write_text(text + "\n")
    assert run("health", url=router.url)[0] == 0  # needs none
    code, _, err = run("wait-drained", "voice-agent-0", url=router.url)
    assert code == 1 and "401" in err
    for name, status in (("a-wrong-key", "401"), ("the-key-of-the-others", "403")):
        code, _, err = run("wait-drained", "voice-agent-0", "--api-key-file", files[name], url=router.url)
        assert code == 1 and status in err and name not in err.replace(str(files[name]), "")
    assert not router.get("/api/v1/pod/voice-agent-0").json()["is_draining"]
    done = run("wait-drained", "voice-agent-0", "--api-key-file", files["the-key-of-the-agents"], url=router.url)
    assert done == (0, "voice-agent-0: drained\n", "")


def test_a_store_that_is_away_or_has_lost_the_pod_is_asked_again(run):
    """503 and 404 after a success are not the end: the next answers are."""
    seen = []
    drained = json.dumps({"success": True, "calls": []}).encode()
    answers = [(503, b'{"error":"no store"}'), (200, b"{}"), (502, b"<html>"), (404, b"{}"), (200, b"{}"), (200, drained)]

    def answer(method, path):
        seen.append((method, path.partition("?")[0]))
        return answers[len(seen) - 1]

    with scripted(answer) as url:
        code, out, err = run("wait-drained", "a", url=url)
    assert (code, out) == (0, "a: drained\n") and "503 no store" in err
    drain, wait = ("POST", "/api/v1/drain"), ("GET", "/api/v1/pod/a/drained")
    assert seen == [drain, drain, wait, drain, drain, wait]


def test_a_router_that_answers_nothing_of_use_is_not_unreachable(run):
    with scripted(lambda method, path: (503, b"")) as url:
        code, _, err = run("wait-drained", "a", "--timeout", "100ms", url=url)
    assert code == 1 and "status 503" in err
